"""Comparison of a result with a test's expectation.

Truth values and integers must be equal. NaN must be where the standard has it, and infinities with their sign. The bound
on finite floats depends on the way:

- The evaluator computes in fp32: the tolerances of the test.
- What is compiled rounds operands and results to fp16. Operators that only move or select elements (MOVES) return the
  fp16 number nearest to the expected one: half a unit in the last place; where `exact` moves through the array, half of its
  unit of 2^-16 (docs/numerics.md, mac). Operators without activation tables (ARITHMETIC)
  are within 2e-3 of the value plus 2e-3 of the largest one, `rounding` in `crates/facts/src/tolerance.rs`. All others
  go through tables and are within 1e-2 of the value plus 1e-2 of the largest one.
"""

import numpy

MOVES = frozenset("""
    Abs ArgMax ArgMin CenterCropPad Clip Compress Concat Constant ConstantOfShape DepthToSpace Expand EyeLike Flatten
    Gather GatherElements GatherND GlobalMaxPool Identity Max MaxPool Min Neg OneHot Pad ReduceMax ReduceMin Relu Reshape
    ReverseSequence Sign Slice SpaceToDepth Split Squeeze TensorScatter Tile TopK
    Transpose Trilu Unsqueeze Upsample Where
""".split())
ARITHMETIC = frozenset("""
    Add AveragePool Conv ConvTranspose CumSum Einsum Gemm GlobalAveragePool HardSigmoid HardSwish LeakyRelu MatMul Mean Mul
    PRelu ReduceL1 ReduceMean ReduceSum ReduceSumSquare Scatter ScatterElements ScatterND Sub Sum ThresholdedRelu
""".split())

HALF_UNIT = 2.0**-11
LEAST = {"fast": 2.0**-25, "exact": 2.0**-17}


def bound(way, operator, tolerance, wanted):
    """Admitted error of every element, and the share of the largest one that is admitted besides."""
    if way == "reference":
        return tolerance[0], max(tolerance[1], 1e-6)
    largest = numpy.max(numpy.abs(wanted), initial=0.0, where=numpy.isfinite(wanted))
    if operator in MOVES:
        return HALF_UNIT, LEAST[way]
    share = 2e-3 if operator in ARITHMETIC else 1e-2
    return share, share * largest


def difference(way, operator, tolerance, got, wanted):
    """Description of an error in a result; empty where it is right."""
    if got.shape != wanted.shape:
        return f"extents {list(got.shape)}, expected {list(wanted.shape)}"
    if wanted.dtype.kind in "iub":
        # Files of outputs hold fp32: larger whole numbers than it has are compared as it rounds them.
        bad = got.astype(numpy.float64) != wanted.astype(numpy.float32).astype(numpy.float64)
        return described(bad, got, wanted)
    with numpy.errstate(over="ignore", invalid="ignore"):
        got = got.astype(wanted.dtype if way == "reference" else numpy.float32).astype(numpy.float64)
        wanted = wanted.astype(numpy.float32).astype(numpy.float64)
        share, least = bound(way, operator, tolerance, wanted)
        close = numpy.abs(got - wanted) <= share * numpy.abs(wanted) + least
        same = (got == wanted) | (numpy.isnan(got) & numpy.isnan(wanted))
        finite = numpy.isfinite(got) & numpy.isfinite(wanted)
    return described(~numpy.where(finite, close, same), got, wanted)


def described(bad, got, wanted):
    """The first element that differs."""
    bad = numpy.atleast_1d(bad)
    if not bad.any():
        return ""
    at = int(numpy.argmax(bad.ravel()))
    got, wanted = got.ravel()[at], wanted.ravel()[at]
    return f"{bad.sum()} of {bad.size} elements differ, first {at}: {got:.6g} for {wanted:.6g}"
