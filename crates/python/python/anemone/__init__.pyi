from os import PathLike
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from numpy import float32
from numpy.typing import ArrayLike, NDArray

__version__: str

class Error(Exception):
    """A refusal. `str(error)` is one line; `render()` of the command line has the same code."""

    code: str
    op: Optional[str]
    output: Optional[str]
    found: Optional[str]
    limit: Optional[str]
    chip: Optional[str]
    place: Optional[str]
    suggestion: Optional[str]

class Refused(Error):
    """The answer is no: codes ANE1xxx."""

class BadInput(Error):
    """Wrong usage or unreadable input: codes ANE2xxx."""

class Defect(Error):
    """A defect of this package: codes ANE3xxx."""

class Report:
    """What runs on the engine of which chip, and why not."""

    @property
    def ok(self) -> bool: ...
    def table(self, verbose: bool = False) -> str: ...
    @property
    def summary(self) -> List[str]: ...
    @property
    def failures(self) -> List[Dict[str, str]]: ...
    @property
    def operations(self) -> List[Dict[str, Any]]: ...
    def to_dict(self) -> Dict[str, Any]: ...
    def _repr_html_(self) -> str: ...

class Model:
    """A model file: a network, or a program compiled already."""

    @property
    def path(self) -> str: ...
    @property
    def notes(self) -> List[str]: ...
    def check(self, chip: Union[str, Sequence[str]] = "m1", *, route: str = "direct") -> Report: ...
    def compile(self, chip: str = "m1") -> Program: ...

class Program:
    """A compiled program, with the software engine to run it."""

    @property
    def chip(self) -> str: ...
    @property
    def inputs(self) -> Dict[str, Tuple[int, ...]]: ...
    @property
    def outputs(self) -> Dict[str, Tuple[int, ...]]: ...
    def run(self, only: Optional[ArrayLike] = None, **inputs: ArrayLike) -> Dict[str, NDArray[float32]]: ...
    def save(self, folder: Union[str, PathLike[str]], emit: Sequence[str] = ("hwx",)) -> List[str]: ...
    def listing(self) -> str: ...

class Tensor:
    """A value of a graph."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> Tuple[int, ...]: ...

class Graph:
    """A network authored layer by layer; operands are [N, C, H, W] in fp16."""

    def __init__(self, name: str = "graph") -> None: ...
    def input(self, name: str, shape: Sequence[int]) -> Tensor: ...
    def constant(self, name: str, value: ArrayLike) -> Tensor: ...
    def native(self, kind: str, operands: Sequence[Tensor], *, name: Optional[str] = None, **params: Any) -> Tensor: ...
    def output(self, tensor: Tensor) -> None: ...
    def compile(self, chip: str = "m1") -> Program: ...

def load(model: Union[str, PathLike[str], Any], *, dim: Optional[Dict[str, int]] = None) -> Model:
    """Reads a model file or package, or a model object of coremltools; `dim` gives open extents by name."""

def dump(path: Union[str, PathLike[str]]) -> str:
    """A compiled file explained, every field named."""

def assert_on_ane(model: Any, chip: Union[str, Sequence[str]] = "m1", *, route: str = "direct") -> Report:
    """Fails with the report's table unless every operation runs on the engine of the chip."""
