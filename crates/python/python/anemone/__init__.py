"""Open toolchain for the Apple Neural Engine: check, compile and run models without Apple hardware.

    import anemone

    model = anemone.load("model.mlpackage")
    report = model.check("m1")
    program = model.compile("m1")
    outputs = program.run(x=array)

The verdicts, names and codes are those of the command line ``ane``.
"""

from ._anemone import (
    BadInput,
    Broker,
    Connection,
    Defect,
    Error,
    Graph,
    Model,
    Program,
    Refused,
    Report,
    State,
    Tensor,
    __version__,
    dump,
    load,
    validate,
)
from .testing import assert_on_ane

# Loaded on first use: importing the package stays fast.
_LATER = {
    "Evaluation": "_evaluate", "Score": "_evaluate", "evaluate": "_evaluate", "Sweep": "_sweep", "sweep": "_sweep",
}


def __getattr__(name):
    if name in _LATER:
        import importlib

        found = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted(__all__)


__all__ = [
    "BadInput",
    "Broker",
    "Connection",
    "Defect",
    "Error",
    "Evaluation",
    "Graph",
    "Model",
    "Program",
    "Refused",
    "Report",
    "Score",
    "State",
    "Sweep",
    "Tensor",
    "__version__",
    "assert_on_ane",
    "dump",
    "evaluate",
    "load",
    "sweep",
    "validate",
]
