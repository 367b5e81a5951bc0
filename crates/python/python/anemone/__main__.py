"""The command ``ane`` of the wheel: the command line of the library, and ``ane sweep``."""

import signal
import sys

from . import _anemone


def main() -> None:
    """Runs ``sys.argv`` and ends the process with the command's exit code."""
    if sys.argv[1:2] == ["sweep"]:
        from ._sweep import main as sweep

        sys.exit(sweep(sys.argv[2:]))
    # The command line ends at once, as any program does, where the interpreter would only take a note.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_anemone.main(["ane", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
