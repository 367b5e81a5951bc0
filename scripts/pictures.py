"""Pictures of the page of `ane check --html`: the README's, and with --all narrow, wide, dark and printed ones to look at.

    python3 scripts/pictures.py --ane target/release/ane             # writes docs/images/check.png
    python3 scripts/pictures.py --ane target/release/ane --all DIR MODEL...

Needs playwright and a Chromium (`ANE_CHROMIUM` names another one); says so and ends well where there is none.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIGITS = ROOT / "examples/digits/digits.mlpackage"
CHIPS = "m1,m4,a12"
# Name, width, height, dark, whole page.
VIEWS = [("wide", 1400, 1000, False, True), ("narrow", 480, 1000, False, True), ("dark", 1400, 1000, True, False)]


def browser(playwright):
    names = [os.environ.get("ANE_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"]
    path = next((shutil.which(name) for name in names if name and shutil.which(name)), None)
    if path is None:
        sys.exit(print("no Chromium: no pictures"))
    return playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])


def page_of(ane, model, folder):
    page = pathlib.Path(folder) / "page.html"
    ran = subprocess.run([ane, "check", model, "-t", CHIPS, "--html", page], capture_output=True, text=True)
    if ran.returncode > 1:
        sys.exit(ran.stderr)
    return page.as_uri()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ane", default=str(ROOT / "target/release/ane"))
    parser.add_argument("--all", metavar="DIR")
    parser.add_argument("models", nargs="*")
    given = parser.parse_args()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return print("no playwright: no pictures")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        chromium = browser(playwright)

        def picture(model, target, width, height, dark, whole, pdf=None):
            scheme = "dark" if dark else "light"
            page = chromium.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            faults = []
            page.on("pageerror", lambda fault: faults.append(str(fault)))
            page.goto(page_of(given.ane, model, folder))
            page.wait_for_selector("body[data-ready]")
            page.screenshot(path=target, full_page=whole)
            if pdf:
                page.pdf(path=pdf)
            page.close()
            if faults:
                sys.exit(f"{model}: {faults}")

        if given.all is None:
            picture(DIGITS, ROOT / "docs/images/check.png", 1200, 1160, False, False)
        for model in given.models if given.all else []:
            name = pathlib.Path(model).resolve()
            stem = name.stem if name.stem != "model" else name.parent.name
            for view, *shape in VIEWS:
                pdf = f"{given.all}/{stem}.pdf" if view == "wide" else None
                picture(model, f"{given.all}/{stem}-{view}.png", *shape, pdf=pdf)
        chromium.close()


if __name__ == "__main__":
    main()
