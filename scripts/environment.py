"""Virtual environments of the scripts, with pinned packages."""

import pathlib
import subprocess
import sys


def interpreter(folder, packages):
    """Interpreter of the environment in a folder, made with these packages if it has others; None if it cannot be made."""
    folder = pathlib.Path(folder).absolute()
    python, mark = folder / "bin" / "python", folder / "installed"
    if not mark.exists() or mark.read_text() != " ".join(packages):
        made = subprocess.run([sys.executable, "-m", "venv", folder])
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
        if made.returncode or subprocess.run(pip).returncode:
            return None
        mark.write_text(" ".join(packages))
    return python
