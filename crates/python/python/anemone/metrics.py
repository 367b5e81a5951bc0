"""Metrics of an output against a target, each a number: functions ``(output, target) -> float``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Callable, Dict, Tuple, Union

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import ArrayLike, NDArray

    Metric = Callable[[ArrayLike, ArrayLike], float]


def _pair(output: ArrayLike, target: ArrayLike) -> Tuple[NDArray[float64], NDArray[float64]]:
    import numpy as np

    a, b = np.asarray(output, np.float64).ravel(), np.asarray(target, np.float64).ravel()
    if a.shape != b.shape:
        raise ValueError(f"the output has {a.size} elements, the target {b.size}")
    return a, b


def max_abs(output: ArrayLike, target: ArrayLike) -> float:
    """Largest absolute difference."""
    a, b = _pair(output, target)
    return float(abs(a - b).max(initial=0.0))


def mean_abs(output: ArrayLike, target: ArrayLike) -> float:
    """Mean absolute difference."""
    a, b = _pair(output, target)
    return float(abs(a - b).mean()) if a.size else 0.0


def mse(output: ArrayLike, target: ArrayLike) -> float:
    """Mean squared difference."""
    a, b = _pair(output, target)
    return float(((a - b) ** 2).mean()) if a.size else 0.0


def relative(output: ArrayLike, target: ArrayLike) -> float:
    """Largest absolute difference, divided by the largest absolute target."""
    a, b = _pair(output, target)
    largest = abs(b).max(initial=0.0)
    return float(abs(a - b).max(initial=0.0) / largest) if largest else float(abs(a - b).max(initial=0.0))


def cosine(output: ArrayLike, target: ArrayLike) -> float:
    """Cosine of the angle between both as vectors; of two zero vectors 1, of one 0."""
    a, b = _pair(output, target)
    lengths = [math.sqrt(float(v @ v)) for v in (a, b)]
    if 0.0 in lengths:
        return float(lengths[0] == lengths[1])
    return float(a @ b) / (lengths[0] * lengths[1])


def snr(output: ArrayLike, target: ArrayLike) -> float:
    """Signal-to-noise ratio in decibels: energy of the target over energy of the difference."""
    a, b = _pair(output, target)
    noise, signal = float(((a - b) ** 2).sum()), float((b**2).sum())
    return math.inf if noise == 0 else 10 * math.log10(signal / noise) if signal else -math.inf


def _top(k: int) -> Metric:
    def top(output: ArrayLike, target: ArrayLike) -> float:
        import numpy as np

        scores = np.asarray(output).ravel()
        wanted = np.asarray(target)
        label = int(wanted.ravel()[0]) if wanted.size == 1 else int(wanted.ravel().argmax())
        return float(label in np.argsort(-scores, kind="stable")[:k])

    top.__name__ = f"top{k}"
    top.__doc__ = f"1.0 where the target's class is among the {k} largest outputs, else 0.0; the target is a label or scores."
    return top


top1: Metric = _top(1)
top5: Metric = _top(5)

BY_NAME: Dict[str, Metric] = {f.__name__: f for f in (max_abs, mean_abs, mse, relative, cosine, snr, top1, top5)}


def named(metric: Union[str, Metric]) -> Tuple[str, Metric]:
    """``(name, function)`` of a metric, given by its name or as a function."""
    if callable(metric):
        return getattr(metric, "__name__", "metric"), metric
    if metric not in BY_NAME:
        raise ValueError(f"no metric is called {metric!r}; known: {', '.join(BY_NAME)}")
    return metric, BY_NAME[metric]
