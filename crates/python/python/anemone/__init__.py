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
    Defect,
    Error,
    Graph,
    Model,
    Program,
    Refused,
    Report,
    Tensor,
    __version__,
    dump,
    load,
)
from .testing import assert_on_ane

__all__ = [
    "BadInput",
    "Defect",
    "Error",
    "Graph",
    "Model",
    "Program",
    "Refused",
    "Report",
    "Tensor",
    "__version__",
    "assert_on_ane",
    "dump",
    "load",
]
