#!/usr/bin/env python3
"""Compares the evaluator (`ane run --reference`) with coremltools' own value inference on random MIL operations with numbers at limits.

    python3 -m venv v && v/bin/pip install torch==2.7.0 coremltools==9.0 "numpy<2.4"
    cargo build --profile quick --bin ane && v/bin/python scripts/fuzz_coremltools.py --programs 50 [--seed 0] [--keep FOLDER]

By hand, not part of `.ci/run`. Each program is a package in fp32 of up to --results operations over shared inputs; the same operations on
constants are what coremltools computes while it builds them. Only operations that have a value inference are drawn. Where value
inference itself departs from the MIL documentation or from NumPy, KNOWN says how; those elements are counted, not compared.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
import coremltools as ct  # noqa: E402
import numpy as np  # noqa: E402
from coremltools.converters.mil.mil import Builder as mb, Function, Program, types  # noqa: E402

SPECIAL = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, 2047, 2048, 2050, 65504, -65504, 6e-8, 6.1e-5, 1e-3, np.inf, -np.inf, np.nan]
WHOLE = [0, 1, -1, 2, 3, -2, 5, 7, -7, 16, 100, -100, 127, -128, 1000, 2049]
UNARY = """abs acos asin atan atanh ceil cos cosh erf exp exp2 floor identity relu relu6 round sigmoid sign sin sinh softplus softsign sqrt
    square tan tanh""".split()
SCALED = {"elu": ("alpha",), "leaky_relu": ("alpha",), "thresholded_relu": ("alpha",), "threshold": ("alpha",), "linear_activation": ("alpha", "beta"),
          "scaled_tanh": ("alpha", "beta"), "sigmoid_hard": ("alpha", "beta"), "clamped_relu": ("alpha", "beta")}
WITH_EPSILON = ["inverse", "log", "rsqrt"]
BINARY = "add sub mul real_div floor_div mod pow maximum minimum".split()
COMPARE = "equal not_equal less less_equal greater greater_equal".split()
REDUCE = ["reduce_" + k for k in "max min sum mean prod l1_norm l2_norm sum_square log_sum log_sum_exp".split()]
MOVE = """concat expand_dims squeeze reshape transpose tile pad reverse slice_by_index slice_by_size gather gather_along_axis scatter_along_axis
    split stack band_part cumsum argsort topk reduce_argmax reduce_argmin select clip cast fill_like reverse_sequence""".split()
PRODUCT = "matmul linear einsum softmax layer_norm l2_norm prelu softplus_parametric gelu logical_and logical_or logical_xor logical_not".split()

# Where value inference is not compared: a condition on the draw (`w`: what it gives), and why.
KNOWN = {
    "argsort": (lambda d, w: True, "the order of equal numbers and of NaN is NumPy's unstable sort's; compared by topk's values"),
    "topk": (lambda d, w: np.issubdtype(w.dtype, np.integer) or not d.tame(), "positions of equal numbers; NaN"),
    "reduce_argmax": (lambda d, w: not d.tame(), "NumPy gives the position of a NaN; a run warns of it"),
    "reduce_argmin": (lambda d, w: not d.tame(), "NumPy gives the position of a NaN; a run warns of it"),
    "band_part": (lambda d, w: not d.tame(), "elements outside of the band are multiplied by zero there; the documentation says zero"),
    "thresholded_relu": (lambda d, w: not d.tame(), "NaN is not below the threshold there; the documentation says x where x >= alpha, else 0"),
    "clamped_relu": (lambda d, w: d.negative(w), "a negative beta is added twice there; the documentation says min(beta, x)"),
    "floor_div": (lambda d, w: not d.tame(), "NumPy has NaN for an infinite dividend; the documentation says floor(x / y)"),
    "real_div": (lambda d, w: np.issubdtype(w.dtype, np.integer), "integers divided by zero; a run warns of it"),
    "reduce_log_sum_exp": (lambda d, w: not d.tame(), "the greatest element is subtracted there, and infinity less infinity is NaN"),
    "cast": (lambda d, w: not d.tame(), "an infinity or NaN as an integer; a run warns of it"),
    "cumsum": (lambda d, w: not d.tame(), "small numbers beside large ones that cancel: the order of the sums"),
    "layer_norm": (lambda d, w: d.special, "numbers that cancel: the order of the sums"),
    "reduce_log_sum": (lambda d, w: True, "sums that cancel: their order"),
    "prelu": (lambda d, w: d.special, "zero times an infinite alpha is added there; the documentation says x where x >= 0"),
    "scatter_along_axis": (lambda d, w: True, "the mode is not looked at there: every mode updates"),
}


class Draw:
    def __init__(self, seed):
        self.r = np.random.default_rng(seed)
        rank = int(self.r.integers(1, 6))
        self.shape = tuple(int(self.r.integers(1, 6)) for _ in range(rank))
        self.special = self.r.random() < 0.5
        self.inputs = {"x": self.floats(self.shape), "y": self.floats(self.beside()), "i": self.whole(self.shape), "j": self.whole(self.beside())}

    def tame(self):
        """True where every number is finite and none occurs twice."""
        x, y = self.inputs["x"], self.inputs["y"]
        return np.isfinite(x).all() and np.isfinite(y).all() and not (y == 0).any() and np.unique(x).size == x.size

    def negative(self, wanted):
        return (wanted < 0).any()

    def pick(self, of):
        return of[self.r.integers(len(of))]

    def beside(self):
        return tuple(1 if self.r.random() < 0.2 else n for n in self.shape)

    def floats(self, shape):
        if self.special:
            return self.r.choice(np.array(SPECIAL, np.float32), shape).astype(np.float32)
        return (self.r.integers(-2000, 2001, shape) / 500).astype(np.float32)

    def whole(self, shape):
        return self.r.choice(np.array(WHOLE, np.int32), shape).astype(np.int32)

    def axis(self):
        return int(self.r.integers(-len(self.shape), len(self.shape)))

    def axes(self):
        count = int(self.r.integers(1, len(self.shape) + 1))
        return [int(a) for a in sorted(self.r.choice(len(self.shape), count, replace=False))]

    def one(self):
        """An operation: what calls it with a table of inputs."""
        kind = self.r.random()
        number = "x" if self.r.random() < 0.7 else "i"
        other = {"x": "y", "i": "j"}[number]
        scalar = lambda: float(np.float32(self.pick([0.25, 0.5, 1.0, 1.5, 2.0, 0.0, -1.0])))
        if kind < 0.15:
            op = self.pick(UNARY)
            number = number if op in ("abs", "sign", "identity", "square") and op == "identity" else "x"
            return op, lambda v: getattr(mb, op)(x=v[number])
        if kind < 0.22:
            op = self.pick(list(SCALED))
            given = {p: scalar() for p in SCALED[op]}
            return op, lambda v: getattr(mb, op)(x=v["x"], **given)
        if kind < 0.26:
            op = self.pick(WITH_EPSILON)
            given = {"epsilon": self.pick([0.0, 1e-4, 1e-2])}
            return op, lambda v: getattr(mb, op)(x=v["x"], **given)
        if kind < 0.42:
            op = self.pick(BINARY + COMPARE)
            x, y = (number, other) if self.r.random() < 0.5 else (other, number)
            return f"{op} {number}", lambda v: getattr(mb, op)(x=v[x], y=v[y])
        if kind < 0.56:
            op, axes, keep = self.pick(REDUCE), self.axes(), bool(self.r.integers(2))
            number = number if op in ("reduce_max", "reduce_min", "reduce_sum", "reduce_prod", "reduce_mean") else "x"
            return f"{op} {number}", lambda v: getattr(mb, op)(x=v[number], axes=axes, keep_dims=keep)
        op = self.pick(MOVE if kind < 0.86 else PRODUCT)
        return f"{op} {number}", getattr(self, op)(number, other)

    def concat(self, x, _):
        axis = self.axis()
        return lambda v: mb.concat(values=[v[x], v[x]], axis=axis)

    def stack(self, x, _):
        axis = int(self.r.integers(0, len(self.shape) + 1))
        return (lambda v: mb.stack(values=[v[x], v[x]], axis=axis)) if len(self.shape) < 5 else (lambda v: mb.identity(x=v[x]))

    def expand_dims(self, x, _):
        axis = int(self.r.integers(0, len(self.shape)))
        return lambda v: mb.expand_dims(x=v[x], axes=[axis]) if len(self.shape) < 5 else mb.identity(x=v[x])

    def squeeze(self, x, _):
        ones = [i for i, n in enumerate(self.shape) if n == 1]
        if not ones or len(ones) == len(self.shape):
            return lambda v: mb.identity(x=v[x])
        return lambda v: mb.squeeze(x=v[x], axes=ones[:1])

    def reshape(self, x, _):
        total = int(np.prod(self.shape))
        a = self.pick([n for n in range(1, total + 1) if total % n == 0])
        return lambda v: mb.reshape(x=v[x], shape=[int(a), total // int(a)])

    def transpose(self, x, _):
        perm = [int(p) for p in self.r.permutation(len(self.shape))]
        return lambda v: mb.transpose(x=v[x], perm=perm)

    def tile(self, x, _):
        reps = [int(self.r.integers(1, 4)) for _ in self.shape]
        return lambda v: mb.tile(x=v[x], reps=reps)

    def pad(self, x, _):
        mode = self.pick(["constant", "reflect", "replicate"])
        most = lambda n: n if mode == "reflect" else 3
        last = self.shape[-2:] if mode != "constant" else self.shape
        pads = [int(self.r.integers(0, max(most(n), 1))) for n in last for _ in range(2)]
        value = self.pick([0.0, 1.5, -7.0])
        return lambda v: mb.pad(x=v["x"], pad=pads, mode=mode, constant_val=value)

    def reverse(self, x, _):
        axes = self.axes()
        return lambda v: mb.reverse(x=v[x], axes=axes)

    def reverse_sequence(self, x, _):
        if len(self.shape) < 2:
            return lambda v: mb.reverse(x=v[x])
        lengths = self.r.integers(1, self.shape[1] + 1, self.shape[0]).astype(np.int32)
        return lambda v: mb.reverse_sequence(x=v[x], lengths=lengths, seq_axis=1, batch_axis=0)

    def slice_by_index(self, x, _):
        begin, end, stride, squeezed = [], [], [], [False] * len(self.shape)
        for n in self.shape:
            b = int(self.r.integers(0, n))
            e = int(self.r.integers(b + 1, n + 1))
            step = int(self.r.integers(1, 3))
            if b > 0 and self.r.random() < 0.2:
                b, e, step = e - 1, b - 1, -step
            begin.append(b), end.append(e), stride.append(step)
        return lambda v: mb.slice_by_index(x=v[x], begin=begin, end=end, stride=stride, squeeze_mask=squeezed)

    def slice_by_size(self, x, _):
        begin = [int(self.r.integers(0, n)) for n in self.shape]
        size = [int(self.r.integers(1, n - b + 1)) for n, b in zip(self.shape, begin)]
        return lambda v: mb.slice_by_size(x=v[x], begin=begin, size=size)

    def places(self, shape, extent):
        return self.r.integers(-extent, extent, shape).astype(np.int32)

    def gather(self, x, _):
        axis = self.axis()
        places = self.places((int(self.r.integers(1, 4)),), self.shape[axis])
        return lambda v: mb.gather(x=v[x], indices=places, axis=axis)

    def gather_along_axis(self, x, _):
        axis = self.axis()
        places = self.places(self.shape, self.shape[axis])
        return lambda v: mb.gather_along_axis(x=v[x], indices=places, axis=axis)

    def scatter_along_axis(self, x, _):
        axis, mode = self.axis(), self.pick(["add", "mul", "max", "update", "update", "update"])
        axis %= len(self.shape)
        lines = np.argsort(self.r.random(self.shape), axis).astype(np.int32)
        data = self.floats(self.shape) if x == "x" else self.whole(self.shape)
        return lambda v: mb.scatter_along_axis(data=v[x], indices=lines, updates=data, axis=axis, mode=mode)

    def split(self, x, _):
        axis = self.axis()
        n = self.shape[axis]
        parts = self.pick([k for k in range(1, n + 1) if n % k == 0])
        at = int(self.r.integers(parts))
        if parts == 1:
            return lambda v: mb.identity(x=v[x])
        return lambda v: mb.split(x=v[x], num_splits=int(parts), axis=axis)[at]

    def band_part(self, x, _):
        if len(self.shape) < 2:
            return lambda v: mb.identity(x=v[x])
        lower, upper = int(self.r.integers(-1, 3)), int(self.r.integers(-1, 3))
        return lambda v: mb.band_part(x=v[x], lower=lower, upper=upper)

    def cumsum(self, x, _):
        axis, exclusive, backwards = self.axis(), bool(self.r.integers(2)), bool(self.r.integers(2))
        return lambda v: mb.cumsum(x=v[x], axis=axis, exclusive=exclusive, reverse=backwards)

    def argsort(self, x, _):
        axis, ascending = self.axis(), bool(self.r.integers(2))
        return lambda v: mb.argsort(x=v[x], axis=axis, ascending=ascending)

    def topk(self, x, _):
        axis, ascending = self.axis(), bool(self.r.integers(2))
        k, at = int(self.r.integers(1, self.shape[axis] + 1)), int(self.r.integers(2))
        return lambda v: mb.topk(x=v[x], k=k, axis=axis, ascending=ascending)[at]

    def reduce_argmax(self, x, _):
        axis, keep = self.axis(), bool(self.r.integers(2))
        return lambda v: mb.reduce_argmax(x=v[x], axis=axis, keep_dims=keep)

    def reduce_argmin(self, x, _):
        axis, keep = self.axis(), bool(self.r.integers(2))
        return lambda v: mb.reduce_argmin(x=v[x], axis=axis, keep_dims=keep)

    def select(self, x, y):
        mask = self.r.integers(0, 2, self.shape).astype(bool)
        return lambda v: mb.select(cond=mask, a=v[x], b=mb.mul(x=v[x], y=v[y]))

    def clip(self, x, _):
        low, high = sorted([float(self.pick([-1.5, 0.0, 1.0])), float(self.pick([3.0, 0.5, 1.0]))])
        return lambda v: mb.clip(x=v["x"], alpha=low, beta=high)

    def cast(self, x, _):
        to = self.pick(["int32", "fp32", "bool"])
        return lambda v: mb.cast(x=v[x], dtype=to)

    def fill_like(self, x, _):
        return lambda v: mb.fill_like(ref_tensor=v[x], value=1.5)

    def matmul(self, x, _):
        if len(self.shape) < 2:
            return lambda v: mb.identity(x=v[x])
        right = bool(self.r.integers(2))
        return lambda v: mb.matmul(x=v["x"], y=v["x"], transpose_x=not right, transpose_y=right)

    def linear(self, x, _):
        w, b = self.floats((3, self.shape[-1])), self.floats((3,))
        return lambda v: mb.linear(x=v["x"], weight=w, bias=b)

    def einsum(self, x, _):
        return self.matmul(x, None)

    def softmax(self, x, _):
        axis = self.axis()
        return lambda v: mb.softmax(x=v["x"], axis=axis)

    def layer_norm(self, x, _):
        axis = len(self.shape) - 1
        gamma = self.floats(self.shape[axis:])
        return lambda v: mb.layer_norm(x=v["x"], axes=[axis], gamma=gamma, epsilon=1e-3)

    def l2_norm(self, x, _):
        return (lambda v: mb.l2_norm(x=v["x"], epsilon=1e-3)) if len(self.shape) >= 3 else (lambda v: mb.identity(x=v[x]))

    def prelu(self, x, _):
        if len(self.shape) < 3:
            return lambda v: mb.identity(x=v[x])
        alpha = self.floats((self.shape[1],))
        return lambda v: mb.prelu(x=v["x"], alpha=alpha)

    def softplus_parametric(self, x, _):
        if len(self.shape) < 3:
            return lambda v: mb.softplus(x=v["x"])
        a, b = (np.abs(self.r.normal(size=self.shape[1])).astype(np.float32) for _ in range(2))
        return lambda v: mb.softplus_parametric(x=v["x"], alpha=a, beta=b)

    def gelu(self, x, _):
        mode = self.pick(["EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"])
        return lambda v: mb.gelu(x=v["x"], mode=mode)

    def truths(self, v):
        return mb.greater(x=v["x"], y=0.0), mb.less(x=v["x"], y=1.0)

    def logical_and(self, x, _):
        return lambda v: mb.logical_and(**dict(zip("xy", self.truths(v))))

    def logical_or(self, x, _):
        return lambda v: mb.logical_or(**dict(zip("xy", self.truths(v))))

    def logical_xor(self, x, _):
        return lambda v: mb.logical_xor(**dict(zip("xy", self.truths(v))))

    def logical_not(self, x, _):
        return lambda v: mb.logical_not(x=self.truths(v)[0])


KINDS = {"x": types.fp32, "y": types.fp32, "i": types.int32, "j": types.int32}


def alone(draw, make):
    """What value inference gives for an operation, in a function of its own, since one that fails leaves it half built, and on copies, since some write into them."""
    ports = {n: mb.placeholder(a.shape, dtype=KINDS[n]) for n, a in draw.inputs.items()}
    try:
        with Function(ports, opset_version=ct.target.iOS17) as function:
            wanted = make({n: mb.const(val=a.copy()) for n, a in draw.inputs.items()}).val
            out = make(dict(function.inputs))
            return None if out.val is not None else wanted
    except Exception:
        return None


def program(draw, operations):
    """The package's program, and the value that inference gives for each output."""
    found = [(name, make, alone(draw, make)) for name, make in operations]
    built, kept, values = Program(), [], {}
    ports = {n: mb.placeholder(a.shape, dtype=KINDS[n]) for n, a in draw.inputs.items()}
    with Function(ports, opset_version=ct.target.iOS17) as function:
        live, outputs = dict(function.inputs), []
        for name, make, wanted in found:
            if wanted is None:
                continue
            out, label = make(live), f"o{len(outputs)}"
            if types.is_bool(out.dtype):
                out, wanted = mb.cast(x=out, dtype="int32"), np.asarray(wanted).astype(np.int32)
            outputs.append(mb.identity(x=out, name=label))
            values[label] = np.asarray(wanted)
            kept.append((label, name))
        # Every input is read.
        outputs += [mb.reduce_sum(x=v, axes=list(range(len(v.shape))), name=f"read{n}") for n, v in enumerate(live.values())]
        function.set_outputs(outputs)
    built.add_function("main", function)
    return built, kept, values


def differs(name, got, wanted):
    """The first element that differs, as a text."""
    got, wanted = np.asarray(got, np.float64).reshape(-1), np.asarray(wanted, np.float64).reshape(-1)
    if got.size != wanted.size:
        return f"{got.size} elements for {wanted.size}"
    finite = wanted[np.isfinite(wanted)]
    slack = 2e-5 * np.abs(wanted) + 2e-6 * (np.abs(finite).max() if finite.size and not name.split()[0] in MOVE else 0) + 1e-30
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted)) | (np.abs(got - wanted) <= slack)
    bad = np.flatnonzero(~same)
    return f"element {bad[0]} is {got[bad[0]]!r} for {wanted[bad[0]]!r} ({bad.size} of {got.size})" if bad.size else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=50)
    parser.add_argument("--results", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ane", default="target/quick/ane")
    parser.add_argument("--keep")
    given = parser.parse_args()
    counts, found = collections.Counter(), {}
    folder = pathlib.Path(given.keep or tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    for seed in range(given.seed, given.seed + given.programs):
        draw = Draw(seed)
        with np.errstate(all="ignore"):
            built, kept, values = program(draw, [draw.one() for _ in range(given.results)])
        path = folder / f"{seed}.mlpackage"
        try:
            ct.convert(built, convert_to="mlprogram", minimum_deployment_target=ct.target.iOS17, compute_precision=ct.precision.FLOAT32,
                       pass_pipeline=ct.PassPipeline.EMPTY, skip_model_load=True).save(str(path))
        except Exception as error:
            counts["not made"] += 1
            print(f"seed {seed}: not made: {error}"[:200], flush=True)
            continue
        command = [given.ane, "run", str(path), "--reference", "--json"]
        for name, array in draw.inputs.items():
            np.save(folder / f"{seed}.{name}.npy", array)
            command += ["--input", f"{name}={folder}/{seed}.{name}.npy"]
        command += [part for label, _ in kept for part in ("--output", f"{label}={folder}/{seed}.{label}.npy")]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode > 1 or not (folder / f"{seed}.{kept[0][0]}.npy").exists():
            counts["refused"] += 1
            print(f"seed {seed}: {(done.stderr or done.stdout)[:300]}", flush=True)
            continue
        for label, name in kept:
            got = np.load(folder / f"{seed}.{label}.npy")
            why = differs(name, got, values[label])
            known = why is not None and KNOWN.get(name.split()[0], (lambda d, w: False,))[0](draw, values[label])
            counts["same" if why is None else "known" if known else "different"] += 1
            if why and not known:
                found.setdefault(name, []).append((seed, label, why))
        if not given.keep:
            for file in folder.glob(f"{seed}.*.npy"):
                file.unlink()
    for name, cases in sorted(found.items()):
        print(f"DIFFERENT {name}: {len(cases)} times, first seed {cases[0][0]} {cases[0][1]}: {cases[0][2]}")
    print(json.dumps(counts))
    return 1 if found or counts["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
