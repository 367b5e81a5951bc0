#!/usr/bin/env python3
"""Preprocessor of the site: `mdbook build docs` calls it (docs/book.toml).

Pages in the root of the repository (ARCHITECTURE.md and others) become chapters: drafts of docs/SUMMARY.md with their
names. Links between them and the pages below docs are written for a reader of the repository and are rewritten for the
site; a link to any other file becomes the file's path.
"""

import json
import posixpath
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = {name: name.upper() + ".md" for name in ("Architecture", "Contributing", "Changelog", "Security")}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
BY_FILE = {file: file.lower() for file in PAGES.values()} | {"README.md": "index.md"}


def site_path(folder, target):
    """Where a link from a file in `folder` of the repository leads on the site, or None for what the site lacks."""
    path, hash_sign, heading = target.partition("#")
    if not path or "://" in target or target.startswith("mailto:"):
        return target
    whole = posixpath.normpath(posixpath.join(folder, path))
    page = BY_FILE.get(whole) or (whole[len("docs/") :] if whole.startswith("docs/") else None)
    return page and page + hash_sign + heading


def rewrite(text, file, chapter):
    """The text of a file of the repository as the chapter at `chapter`."""
    folder, place = posixpath.dirname(file), posixpath.dirname(chapter) or "."

    def link(match):
        image, label, target = match.groups()
        found = site_path(folder, target)
        if found is None:
            path = posixpath.normpath(posixpath.join(folder, target.partition("#")[0]))
            return f"`{path}`" if label.strip("`") in (path, target) else f"{label} (`{path}`)"
        if found != target or folder:
            bare, hash_sign, heading = found.partition("#")
            if bare and "://" not in bare and target != found or folder and bare and "://" not in bare:
                found = posixpath.relpath(bare, place) + hash_sign + heading
        return f"{image}[{label}]({found})"

    parts = re.split(r"(^```.*?^```[^\n]*$)", text, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def chapters(items):
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "supports":
        return
    _, book = json.load(sys.stdin)
    for chapter in chapters(book.get("sections") or book.get("items")):
        file = PAGES.get(chapter["name"])
        if chapter["path"] is None and file:
            chapter["path"] = chapter["source_path"] = file.lower()
            chapter["content"] = rewrite((ROOT / file).read_text(), file, file.lower())
        elif chapter["path"]:
            chapter["content"] = rewrite(chapter["content"], "docs/" + chapter["path"], chapter["path"])
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
