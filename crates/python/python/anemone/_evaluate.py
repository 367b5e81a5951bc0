"""Evaluation of a program on a data set, in the engine's arithmetic, beside a reference."""

import math
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

from . import _anemone
from .metrics import named


@dataclass
class Score:
    """Mean of a metric with its confidence interval."""

    mean: float
    low: float
    high: float
    n: int

    def __str__(self):
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}], n = {self.n}"


@dataclass
class Evaluation:
    """Result of :func:`evaluate`."""

    metric: str
    program: Score
    reference: Optional[Score] = None
    values: List[float] = field(default_factory=list)
    errors: List[str] = field(default_factory=list)

    def row(self) -> Dict[str, Any]:
        """The result as fields of a sweep's row."""
        row = {"metric": self.metric, "n": self.program.n, "errors": len(self.errors)}
        for name, score in (("", self.program), ("reference_", self.reference)):
            if score is not None:
                row.update({name + "mean": score.mean, name + "low": score.low, name + "high": score.high})
        return row

    def __str__(self):
        text = f"{self.metric}: {self.program}"
        return f"{text}; reference {self.reference}" if self.reference else text


def interval(values, confidence=0.95):
    """Mean and confidence interval: Wilson's for values that are all 0 or 1, else the normal approximation."""
    from statistics import NormalDist

    n = len(values)
    if n == 0:
        return Score(math.nan, math.nan, math.nan, 0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    mean = math.fsum(values) / n
    if all(v in (0.0, 1.0) for v in values):
        middle = (mean + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
        return Score(mean, max(0.0, middle - half), min(1.0, middle + half), n)
    if n == 1 or not math.isfinite(mean):
        return Score(mean, math.nan, math.nan, n)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1))
    half = z * deviation / math.sqrt(n)
    return Score(mean, mean - half, mean + half, n)


def samples(item, shapes, only):
    """Pairs of inputs by name and target of one item of a data set. An item with a leading axis of samples is cut."""
    import numpy as np

    if not (isinstance(item, (tuple, list)) and len(item) == 2):
        raise ValueError(f"a pair (inputs, target) is expected, found {type(item).__name__}")
    inputs, target = item
    if not isinstance(inputs, dict):
        if only is None:
            raise ValueError(f"the program has {len(shapes)} inputs ({', '.join(shapes)}): give a dictionary")
        inputs = {only: inputs}
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    counts = set()
    for name, array in arrays.items():
        if name not in shapes:
            raise ValueError(f"the program has no input {name}; it has {', '.join(shapes)}")
        elements = math.prod(shapes[name])
        if array.size % max(elements, 1):
            raise ValueError(f"input {name}: {array.shape} given, {tuple(shapes[name])} expected")
        counts.add(array.size // elements)
    if counts == {1}:
        return [(arrays, target)]
    if len(counts) != 1:
        raise ValueError(f"inputs of different numbers of samples: {sorted(counts)}")
    (count,) = counts
    cut = {name: array.reshape(count, *shapes[name]) for name, array in arrays.items()}
    targets = np.asarray(target)
    if targets.ndim == 0 or targets.shape[0] != count:
        raise ValueError(f"{count} samples with targets of shape {targets.shape}")
    return [({name: array[at] for name, array in cut.items()}, targets[at]) for at in range(count)]


def _items(dataset, errors):
    """Items of a data set; one that raises is an error, and the others of an indexable set go on."""
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__") and not isinstance(dataset, dict):
        for at in range(len(dataset)):
            try:
                item = dataset[at]
            except Exception as error:  # noqa: BLE001 - whatever a data set raises
                errors.append(f"sample {at}: {type(error).__name__}: {error}")
                continue
            yield at, item
        return
    source, at = iter(dataset), 0
    while True:
        try:
            item = next(source)
        except StopIteration:
            return
        except Exception as error:  # noqa: BLE001
            errors.append(f"sample {at}: {type(error).__name__}: {error}; an iterator cannot go on after that")
            return
        yield at, item
        at += 1


def evaluate(
    model, dataset, metric="top1", *, chip="m1", numerics="exact", reference=None, output=None, threads=None,
    confidence=0.95, limit=None,
):
    """Mean of a metric over a data set, computed by a program with the arithmetic of the device.

    ``model``: a path, a ``Model`` or a ``Program``. ``dataset``: an iterable of ``(inputs, target)``, inputs an array or a
    dictionary of arrays; arrays of several samples along a leading axis are cut. ``metric``: a name of
    ``anemone.metrics.BY_NAME`` or a function ``(output, target) -> float``. ``reference``: a function of the same inputs
    (by name) that gives an array or a dictionary of arrays, for example ONNX Runtime in fp32. ``output``: the output to
    score, where there are several. ``threads``, ``numerics``: as for ``Program.run``. Returns an :class:`Evaluation`; a sample
    that raises, or has other extents, is in its ``errors``. Raises ``ValueError`` for an unknown metric.

    >>> images, labels = np.load("test_images.npy")[:20], np.load("test_labels.npy")[:20]
    >>> print(anemone.evaluate("digits.mlpackage", [(images, labels)], "top1"))
    top1: 0.95 [0.7639, 0.9911], n = 20
    """
    if not isinstance(model, _anemone.Program):
        loaded = model if isinstance(model, _anemone.Model) else _anemone.load(model)
        model = loaded.compile(chip, threads=threads)
    name, score = named(metric)
    shapes, inputs = model.inputs, model.real_inputs
    only = inputs[0] if len(inputs) == 1 else None
    values, beside, errors = [], [], []

    def picked(results):
        if not isinstance(results, dict):
            return results
        if output is not None:
            return results[output]
        if len(results) != 1:
            raise ValueError(f"several outputs, name one: output= one of {', '.join(results)}")
        return next(iter(results.values()))

    for at, item in _items(dataset, errors):
        if limit is not None and len(values) >= limit:
            break
        try:
            for arrays, target in samples(item, shapes, only):
                if limit is not None and len(values) >= limit:
                    break
                value = score(picked(model.run(numerics=numerics, threads=threads, inputs=arrays)), target)
                other = score(picked(reference(**arrays)), target) if reference else None
                values.append(float(value))
                if other is not None:
                    beside.append(float(other))
        except (ValueError, KeyError, TypeError, _anemone.Error) as error:
            errors.append(f"sample {at}: {type(error).__name__}: {error}")
    return Evaluation(
        name, interval(values, confidence), interval(beside, confidence) if reference else None, values, errors
    )
