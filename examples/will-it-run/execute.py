"""Executes the notebook as it stands; an exception in a cell, or a sweep with the wrong rows, ends with exit code 1."""

import pathlib
import sys

import nbclient
import nbformat

HERE = pathlib.Path(__file__).resolve().parent


def main():
    notebook = nbformat.read(HERE / "will-it-run.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(HERE)}}).execute()
    texts = ["".join(str(o.get("data", {}).get("text/plain", "")) for o in c.get("outputs", [])) for c in notebook.cells]
    pages = [o for c in notebook.cells for o in c.get("outputs", []) if "<iframe" in o.get("data", {}).get("text/html", "")]
    rows = next(t for t in texts if "('check', 'm1', True, None)" in t)
    assert rows.count("'m1-pro', True") == 3, rows
    assert pages, "the report is not shown as a page"
    assert any("reference" in t for t in texts), texts
    print("the notebook runs")


if __name__ == "__main__":
    sys.exit(main())
