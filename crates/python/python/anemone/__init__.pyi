from os import PathLike
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

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
    """Placement of every operation on each chip, with the reasons of refusals."""

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
    @property
    def dim(self) -> Dict[str, int]: ...
    @property
    def function(self) -> Optional[str]: ...
    @property
    def digest(self) -> str:
        """SHA-256 of the model's content, in hexadecimal."""

    @property
    def portable(self) -> bool:
        """True if the model pickles with its bytes."""

    def check(self, chip: Union[str, Sequence[str]] = "m1", *, route: str = "direct") -> Report: ...
    def compile(
        self, chip: str = "m1", *, engine_only: bool = False, threads: Optional[int] = None
    ) -> Program: ...
    def evaluate(self, inputs: Mapping[str, ArrayLike]) -> Dict[str, NDArray[float32]]:
        """Outputs in fp32 of the graph's plain evaluator, by name."""

class State:
    """States of a model between runs, of one function or of several that share their names."""

    @property
    def names(self) -> List[str]: ...
    def read(self, name: str) -> NDArray[float32]:
        """A copy of a state."""

class Program:
    """A compiled program, with the software engine to run it."""

    @property
    def chip(self) -> str: ...
    @property
    def inputs(self) -> Dict[str, Tuple[int, ...]]: ...
    @property
    def outputs(self) -> Dict[str, Tuple[int, ...]]: ...
    @property
    def real_inputs(self) -> List[str]:
        """Names of the inputs that are no states."""

    @property
    def state_names(self) -> List[str]:
        """Names of the states: inputs that hold what the run before left."""

    @property
    def on_host(self) -> List[str]:
        """Reasons for operations that run on the host, a sentence each."""

    @property
    def notes(self) -> List[str]:
        """Casts of the runs so far, a sentence for each input and element type that is not float16."""

    @property
    def tasks(self) -> int:
        """Tasks of the engine."""

    @property
    def size_bytes(self) -> int:
        """Bytes of task descriptors and coefficients."""

    def run(
        self,
        only: Optional[ArrayLike] = None,
        *,
        numerics: str = "fast",
        threads: Optional[int] = None,
        inputs: Optional[Mapping[str, ArrayLike]] = None,
        state: Optional[State] = None,
        **named: ArrayLike,
    ) -> Dict[str, NDArray[float32]]: ...
    def make_state(self) -> State:
        """States before the first run: zeros."""

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

def load(
    model: Union[str, PathLike[str], Any],
    *,
    dim: Optional[Dict[str, int]] = None,
    function: Optional[str] = None,
    portable: bool = False,
    weights_dir: Union[None, str, PathLike[str]] = None,
) -> Model:
    """Reads a model file or package, a model object of coremltools, or its specification with the folder of its weights; `dim`
    gives open extents by name, `function` takes one of several."""

def validate(export: str, text: str, chip: str = "m1") -> List[str]:
    """Calls one of Apple's 55 exported validators on a text; the refusals, none where it accepts."""

def dump(path: Union[str, PathLike[str]]) -> str:
    """A compiled file explained, every field named."""

def assert_on_ane(model: Any, chip: Union[str, Sequence[str]] = "m1", *, route: str = "direct") -> Report:
    """Fails with the report's table unless every operation runs on the engine of the chip."""

class Score:
    """Mean of a metric with its confidence interval."""

    mean: float
    low: float
    high: float
    n: int

class Evaluation:
    """Result of :func:`evaluate`."""

    metric: str
    program: Score
    reference: Optional[Score]
    values: List[float]
    errors: List[str]
    def row(self) -> Dict[str, Any]: ...

def evaluate(
    model: Union[str, PathLike[str], Model, Program],
    dataset: Iterable[Tuple[Any, Any]],
    metric: Union[str, Callable[[Any, Any], float]] = "top1",
    *,
    chip: str = "m1",
    numerics: str = "exact",
    reference: Optional[Callable[..., Any]] = None,
    output: Optional[str] = None,
    threads: Optional[int] = None,
    confidence: float = 0.95,
    limit: Optional[int] = None,
) -> Evaluation:
    """Mean of a metric over a data set, computed by a program with the arithmetic of the device."""

class Sweep:
    """The rows of :func:`sweep`, computed as they are asked for, once."""

    def __iter__(self) -> Iterator[Dict[str, Any]]: ...
    def __len__(self) -> int: ...
    @property
    def rows(self) -> List[Dict[str, Any]]: ...
    def to_pandas(self) -> Any: ...
    def to_parquet(self, path: Union[str, PathLike[str]]) -> None: ...
    def to_jsonl(self, path: Union[str, PathLike[str]]) -> None: ...

def sweep(
    models: Union[str, PathLike[str], Model, Sequence[Union[str, PathLike[str], Model]]],
    *,
    chips: Union[str, Sequence[str]] = ("m1",),
    actions: Union[str, Sequence[str]] = ("check",),
    options: Union[None, Dict[str, Any], Sequence[Dict[str, Any]]] = None,
    data: Any = None,
    metrics: Union[str, Sequence[Union[str, Callable[[Any, Any], float]]]] = ("max_abs",),
    backend: Any = "joblib",
    workers: Optional[int] = None,
    file: Union[None, str, PathLike[str]] = None,
    ordered: bool = False,
    time_limit: Optional[float] = None,
    progress: Optional[bool] = None,
) -> Sweep:
    """Checks, compiles, runs or evaluates models for chips; an iterator of rows."""
