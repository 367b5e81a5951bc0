from os import PathLike
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from numpy import float32
from numpy.typing import ArrayLike, NDArray

__version__: str

class Error(Exception):
    """A refusal. `str(error)` is one line with the code; the attributes have its parts, None where one does not apply."""

    code: str
    """Code that stays the same, such as ANE1001."""
    op: Optional[str]
    """Type of the operation."""
    output: Optional[str]
    """Name of the operation's result."""
    found: Optional[str]
    """The value that was found."""
    limit: Optional[str]
    """The limit that it exceeds."""
    chip: Optional[str]
    """Chip that the limit belongs to."""
    place: Optional[str]
    """Place in the input."""
    suggestion: Optional[str]
    """Change that helps."""

class Refused(Error):
    """The answer is no: codes ANE1xxx."""

class BadInput(Error):
    """Wrong usage or unreadable input: codes ANE2xxx."""

class Defect(Error):
    """A defect of this package: codes ANE3xxx."""

class Report:
    """Placement of every operation on each chip, with the reasons of refusals."""

    @property
    def ok(self) -> bool:
        """True if every operation is on the engine of every chip, by the route."""

    def table(self, verbose: bool = False) -> str:
        """The report as the command line prints it; `str(report)` is the same."""

    @property
    def summary(self) -> List[str]:
        """The verdict by both routes, a sentence for chips with one answer."""

    @property
    def failures(self) -> List[Dict[str, str]]:
        """Operations off the engine: `chip`, `op`, `name`, `code`, `reason`, `fix`."""

    @property
    def operations(self) -> List[Dict[str, Any]]:
        """Every operation: `name`, `op`, `operands`, `results`, `outputs`, `macs`."""

    def to_dict(self) -> Dict[str, Any]:
        """The document of `ane check --json`."""

    def _repr_html_(self) -> str: ...

class Model:
    """A model file: a network, or a compiled program."""

    @property
    def path(self) -> str:
        """The path that the model was loaded from."""

    @property
    def notes(self) -> List[str]:
        """Decisions of the reader, a sentence each."""

    @property
    def dim(self) -> Dict[str, int]:
        """Extents that `load` gave to symbolic dimensions, by name."""

    @property
    def function(self) -> Optional[str]:
        """Name of the function that `load` took, None for the default."""

    @property
    def digest(self) -> str:
        """SHA-256 of the model's content, in hexadecimal."""

    @property
    def portable(self) -> bool:
        """True if the model pickles with its bytes."""

    def check(
        self, chip: Union[str, Sequence[str]] = "m1", *, route: str = "direct", strict: bool = False
    ) -> Report:
        """Places every operation. `chip` is a name, names separated by commas, or a list: chips, products, groups. `route` is
        "direct" (Apple's engine compiler) or "framework" (Core ML). With `strict`, what Apple's compiler refuses is off the engine also
        where `compile` takes it."""

    def compile(
        self, chip: str = "m1", *, engine_only: bool = False, strict: bool = False, threads: Optional[int] = None
    ) -> Program:
        """Compiles for one chip. Operations without a way to the engine run on the host (`Program.on_host` has the reasons), or
        are refused with `engine_only`. With `strict`, whatever Apple's compiler refuses is refused. `threads` bounds the threads of a run."""

    def connect(
        self,
        chip: str = "m1",
        *,
        engine_only: bool = False,
        adapter: Union[None, str, PathLike[str], Mapping[str, ArrayLike]] = None,
        via: str = "inprocess",
        socket: Union[None, str, PathLike[str]] = None,
        cache: Union[None, str, PathLike[str]] = None,
        qos: Optional[int] = None,
        depth: int = 8,
        power_saving: bool = False,
        wired: bool = False,
        long_compile: bool = False,
        secure: bool = False,
        streams: int = 1,
        quirk: Sequence[str] = (),
    ) -> Connection:
        """Compiles and loads the model through the runtime, as `ane run --via` does: `via` is "inprocess", "broker" or "direct".
        `socket` is that of the broker, `cache` the folder of a driver in this process. A broker takes the class of service `qos`,
        `depth` requests at once, `power_saving`, `wired` and `long_compile`; a driver in this process takes `secure`. `adapter` has
        other weights on the same base by the names that `ane patch` lists, as a file `.npz` or as arrays. `streams` are submitted at
        once; `quirk=["overlapped-streams"]` has the second one never complete, as on an M1."""

    def evaluate(self, inputs: Mapping[str, ArrayLike]) -> Dict[str, NDArray[float32]]:
        """Outputs of the network in fp32 by name, computed without compiling it."""

class State:
    """States of a model between runs, of one function or of several that share their names."""

    @property
    def names(self) -> List[str]:
        """Names of the states."""

    def read(self, name: str) -> NDArray[float32]:
        """A copy of a state."""

class Program:
    """A compiled program, with the software engine to run it."""

    @property
    def chip(self) -> str:
        """Target of Apple's compiler that the program is for, such as h13."""

    @property
    def inputs(self) -> Dict[str, Tuple[int, ...]]:
        """Shapes of the inputs by name."""

    @property
    def outputs(self) -> Dict[str, Tuple[int, ...]]:
        """Shapes of the outputs by name."""

    @property
    def real_inputs(self) -> List[str]:
        """Names of the inputs that are not states."""

    @property
    def state_names(self) -> List[str]:
        """Names of the states: inputs that hold the values that the previous run left."""

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
    ) -> Dict[str, NDArray[float32]]:
        """Executes the program and returns its outputs by name. Inputs are arrays by name, in `inputs` or as keywords; `only` is
        the array of a program with one input. `numerics` is "fast" (fp32 sums) or "exact" (the device's accumulator). With
        `state`, states are read from it, written to it, and left out of the outputs; without it they are zeros at first and come
        out as outputs. Plans are kept between runs, also of several threads."""

    def make_state(self) -> State:
        """States before the first run: zeros."""

    def save(self, folder: Union[str, PathLike[str]], emit: Sequence[str] = ("hwx",)) -> List[str]:
        """Writes the program in the forms asked for (`hwx`, `bin`, `anec`, `e5`, `firmware`) and returns the paths."""

    def listing(self) -> str:
        """The listing that `ane asm` assembles to the same bytes."""

class Connection:
    """A model that is loaded once and dispatched many times, by a broker or by a driver in this process."""

    @property
    def inputs(self) -> Dict[str, Tuple[int, ...]]:
        """Shapes of the inputs by name."""

    @property
    def outputs(self) -> Dict[str, Tuple[int, ...]]:
        """Shapes of the outputs by name."""

    @property
    def state_names(self) -> List[str]:
        """Names of the inputs that hold, on the device, the values that the previous run left."""

    @property
    def cached(self) -> bool:
        """True if the program came from a cache: nothing was compiled."""

    def run(
        self,
        only: Optional[ArrayLike] = None,
        *,
        inputs: Optional[Mapping[str, ArrayLike]] = None,
        **named: ArrayLike,
    ) -> Dict[str, NDArray[float32]]:
        """Dispatches once and returns the outputs by name. Inputs are arrays by name, in `inputs` or as keywords; `only` is the array
        of a model with one input. States are no outputs; one that is not given is what the previous run left."""

    def state(self, name: str) -> NDArray[float32]:
        """A copy of a state, by the name of its input."""

    def counters(self) -> Dict[str, Any]:
        """Counters of the device, as `ane stat --json` prints them."""

class Broker:
    """A broker at a socket."""

    def __init__(self, socket: Union[None, str, PathLike[str]] = None) -> None: ...
    def stat(self) -> Dict[str, Any]:
        """Counters of the broker and its driver, as `ane stat --json` prints them."""

    def purge(self, key: Optional[str] = None) -> int:
        """Removes one program from the broker's cache by its key, or all of them; returns their number."""

    def method(self, name: str, *numbers: int) -> Union[int, List[str]]:
        """Calls a method of the driver by name, as `ane driver method --socket` does."""

class Tensor:
    """A value of a graph."""

    @property
    def name(self) -> str:
        """Name in the graph."""

    @property
    def shape(self) -> Tuple[int, ...]:
        """Extents: [N, C, H, W]."""

class Graph:
    """A network authored layer by layer; operands are [N, C, H, W] in fp16. A program of it does not pickle: save it."""

    def __init__(self, name: str = "graph") -> None: ...
    def input(self, name: str, shape: Sequence[int]) -> Tensor:
        """Adds an input."""

    def constant(self, name: str, value: ArrayLike) -> Tensor:
        """Adds a constant."""

    def native(self, kind: str, operands: Sequence[Tensor], *, name: Optional[str] = None, **params: Any) -> Tensor:
        """Adds a native layer by its type; `params` are its keys as a netplist spells them."""

    def output(self, tensor: Tensor) -> None:
        """Marks a tensor as an output."""

    def compile(self, chip: str = "m1") -> Program:
        """Compiles the graph for one chip."""

def load(
    model: Union[str, PathLike[str], Any],
    *,
    dim: Optional[Dict[str, int]] = None,
    function: Optional[str] = None,
    portable: bool = False,
    weights_dir: Union[None, str, PathLike[str]] = None,
) -> Model:
    """Reads a model file or package, a model object of coremltools, or its specification (`get_spec()`, `load_spec`), whose weights
    are in `weights_dir` (`MLModel.weights_dir`). `dim={"N": 1}` gives symbolic dimensions their extents, `function` takes one
    function of several, and `portable` pickles the model with its bytes. A path that does not exist is a `FileNotFoundError`."""

def validate(export: str, text: str, chip: str = "m1") -> List[str]:
    """Calls one of Apple's 55 exported validators on a text and returns its refusals: an empty list where it accepts."""

def dump(path: Union[str, PathLike[str]]) -> str:
    """Explains a compiled file, with every field by name."""

def assert_on_ane(
    model: Any, chip: Union[str, Sequence[str]] = "m1", *, route: str = "direct", strict: bool = False
) -> Report:
    """Returns the report, or raises an `AssertionError` with its table unless every operation runs on the engine of the chip. The
    pytest plugin has it as a fixture."""

class Score:
    """Mean of a metric with its confidence interval."""

    mean: float
    """Mean over the samples."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""
    n: int
    """Number of samples."""

class Evaluation:
    """Result of `evaluate`."""

    metric: str
    """Name of the metric."""
    program: Score
    """Score of the program."""
    reference: Optional[Score]
    """Score of the reference, where one was given."""
    values: List[float]
    """Value of the metric by sample."""
    errors: List[str]
    """Samples that raised, a sentence each."""
    def row(self) -> Dict[str, Any]:
        """The numbers as a row of a sweep."""

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
    """Mean of a metric over a data set, computed by a program with the arithmetic of the device. `dataset` is an iterable of
    `(inputs, target)`; arrays with several samples along a leading axis are cut."""

class Sweep:
    """The rows of `sweep`, computed once, as they are asked for."""

    def __iter__(self) -> Iterator[Dict[str, Any]]: ...
    def __len__(self) -> int: ...
    @property
    def rows(self) -> List[Dict[str, Any]]:
        """All rows; computes those that are missing."""

    def to_pandas(self) -> Any:
        """The rows as a `pandas.DataFrame`."""

    def to_parquet(self, path: Union[str, PathLike[str]]) -> None:
        """Writes the rows as a Parquet file, by pandas."""

    def to_jsonl(self, path: Union[str, PathLike[str]]) -> None:
        """Writes the rows as lines of JSON."""

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
    """Checks, compiles, runs or evaluates models for chips, and returns the rows as an iterator."""
