#!/usr/bin/env python3
"""Compares the evaluator (`ane run --reference`) with ONNX Runtime on random single operators with numbers at limits.

    python3 -m venv venv && venv/bin/pip install onnxruntime onnx numpy
    cargo build --release && venv/bin/python scripts/fuzz_onnxruntime.py --cases 2000 [--seed 0]
    venv/bin/python scripts/fuzz_onnxruntime.py --cases 2000 --draw graphs --ways reference,fast,exact

`--draw graphs` draws small graphs of a longer list of operators (onnx_graphs.py); `attributes` draws attributes, opsets and optional
operands that are rarely used (onnx_attributes.py); `operators` draws the operators and operands that no other draw reaches
(onnx_operators.py). `--ways` also runs what is compiled for the M1, by the bounds of onnx_compare.py.

By hand, not part of `.ci/run`. What either side refuses is counted; a difference is printed with its seed, and the model stays
in --keep. A difference of which the run warns counts as `warned`. Where the standard leaves a result open, OPEN says so, and the
elements concerned are not compared.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import onnx_attributes
import onnx_graphs
import onnx_operators
from onnx_compare import difference

FLOATS = [TensorProto.FLOAT, TensorProto.FLOAT16]
WHOLE = [TensorProto.INT32, TensorProto.INT64, TensorProto.INT8, TensorProto.UINT8]
SPECIAL = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, 2047, 2048, 2050, 65504, -65504, 6e-8, 6.1e-5, 1e-3, np.inf, -np.inf, np.nan]
UNARY = """Abs Neg Ceil Floor Round Sign Sqrt Exp Log Reciprocal Relu Sigmoid Tanh Erf Softplus Softsign Sin Cos Tan Asin Acos Atan
    Sinh Cosh Atanh HardSwish Mish Selu Elu LeakyRelu HardSigmoid Identity IsNaN IsInf Gelu""".split()
BINARY = "Add Sub Mul Div Pow Max Min Mod PRelu".split()
COMPARE = "Equal Less LessOrEqual Greater GreaterOrEqual".split()
REDUCE = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceSumSquare ReduceL1 ReduceL2 ReduceLogSumExp".split()
MOVE = "Transpose Concat Slice Pad Tile Expand Gather GatherElements Reshape DepthToSpace Trilu CumSum TopK ArgMax ArgMin".split()
OTHER = "Where Clip Cast Softmax LogSoftmax MatMul Gemm Conv ConvTranspose MaxPool AveragePool Resize LayerNormalization".split()
MODES = ["constant", "edge", "reflect"]
DRAWS = {"graphs": onnx_graphs, "attributes": onnx_attributes, "operators": onnx_operators}
# Operators with elements that are not compared where either side is NaN: which operands open them, and why.
OPEN = {
    **{op: (np.isnan, "ONNX Runtime's greater and smaller of NaN and a number is the number")
       for op in ("MaxPool", "ReduceMax", "ReduceMin", "ReduceLogSumExp")},
    "Resize": (lambda x: ~np.isfinite(x), "a neighbour without weight is not read here, and zero times infinity there"),
    "Conv": (lambda x: ~np.isfinite(x), "padding is not read here, and zero times infinity there"),
    "ConvTranspose": (lambda x: ~np.isfinite(x), "padding is not read here, and zero times infinity there"),
    "LogSoftmax": (np.isinf, "a row with plus infinity: minus infinity beside it here, NaN there"),
    "Det": (lambda x: ~np.isfinite(x), "the order of products and differences decides what infinities become"),
    "InstanceNormalization": (lambda x: ~np.isfinite(x), "an infinite scale is folded into the offset there"),
    **{op: (lambda x: ~np.isfinite(x), "the activations of ONNX Runtime make a number of NaN") for op in ("RNN", "GRU", "LSTM")},
}


class Draw:
    """One random model: its node, inputs and initializers."""

    def __init__(self, seed):
        self.r = np.random.default_rng(seed)
        self.inputs, self.stored = {}, {}
        self.opset, self.domain = 21, ""

    def pick(self, of):
        return of[self.r.integers(len(of))]

    def shape(self, rank=None):
        rank = self.r.integers(1, 5) if rank is None else rank
        return [int(self.r.integers(1, 6)) for _ in range(rank)]

    def values(self, kind, shape):
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        if kind == TensorProto.BOOL:
            return self.r.integers(0, 2, shape).astype(bool)
        if kind in WHOLE:
            low = 0 if kind == TensorProto.UINT8 else -8
            return self.r.integers(low, 9, shape).astype(dtype)
        if self.r.integers(3) == 0:
            return self.r.choice(SPECIAL, shape).astype(dtype)
        return self.r.normal(0, 2, shape).astype(dtype)

    def operand(self, kind, shape, stored=None):
        name = f"x{len(self.inputs) + len(self.stored)}"
        stored = self.r.integers(2) == 1 and bool(self.inputs) if stored is None else stored
        (self.stored if stored else self.inputs)[name] = np.asarray(self.values(kind, shape))
        return name

    def numbers(self, values, kind=np.int64):
        name = f"x{len(self.inputs) + len(self.stored)}"
        self.stored[name] = np.asarray(values, kind)
        return name

    def beside(self, shape):
        other = [1 if self.r.integers(3) == 0 else n for n in shape]
        return other[self.r.integers(len(other)) if self.r.integers(3) == 0 else 0:]

    def node(self):
        group = self.pick([UNARY, BINARY, COMPARE, REDUCE, MOVE, OTHER])
        op = self.pick(group)
        return op, self.build(op)

    def single(self):
        op, node = self.node()
        return op, [node]

    def build(self, op):
        kind = self.pick(FLOATS if op in UNARY or op in OTHER and op not in ("Where", "Clip", "Cast") else FLOATS + WHOLE)
        if op in ("Relu", "Abs", "Neg", "Sign", "Identity"):
            kind = self.pick(FLOATS + WHOLE[:3])
        shape = self.shape(4 if op in ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "Resize", "DepthToSpace") else None)
        if op in ("MatMul", "Gemm", "Trilu"):
            shape = self.shape(2)
        if op == "DepthToSpace":
            shape[1] *= 4
        x = self.operand(kind, shape, stored=False)
        axis = int(self.r.integers(-len(shape), len(shape)))
        make = lambda inputs, **attributes: helper.make_node(op, inputs, ["y"], **attributes)
        if op in UNARY:
            return make([x], **({"alpha": 0.3} if op in ("Elu", "LeakyRelu", "HardSigmoid") else {}))
        if op in BINARY or op in COMPARE:
            y = self.operand(kind, self.beside(shape))
            if kind in WHOLE and op in ("Div", "Mod", "Pow"):
                # A division by zero ends ONNX Runtime's process.
                for operand in (self.inputs, self.stored):
                    for name, value in operand.items():
                        operand[name] = np.abs(value) + (value == 0).astype(value.dtype)
            fmod = {"fmod": 1} if op == "Mod" and kind in FLOATS else {}
            return make([x, y] if op == "PRelu" or self.r.integers(2) else [y, x], **fmod)
        if op in REDUCE:
            axes = sorted({int(a) for a in self.r.integers(0, len(shape), self.r.integers(1, 3))})
            return make([x, self.numbers(axes)], keepdims=int(self.r.integers(2)))
        if op == "Where":
            return make([self.operand(TensorProto.BOOL, self.beside(shape), stored=False), x, self.operand(kind, shape)])
        if op == "Clip":
            low, high = self.operand(kind, [], stored=True), self.operand(kind, [], stored=True)
            return make([x, low, high])
        if op == "Cast":
            return make([x], to=self.pick(FLOATS + WHOLE + [TensorProto.BOOL]))
        if op in ("Softmax", "LogSoftmax"):
            return make([x], axis=axis)
        if op in ("ArgMax", "ArgMin"):
            return make([x], axis=axis, keepdims=int(self.r.integers(2)), select_last_index=int(self.r.integers(2)))
        if op == "Transpose":
            return make([x], perm=[int(i) for i in self.r.permutation(len(shape))])
        if op == "Concat":
            return make([x, self.operand(kind, shape)], axis=axis)
        if op == "Slice":
            start, end = self.r.integers(-6, 7, 2)
            return make([x, self.numbers([start]), self.numbers([end]), self.numbers([axis]), self.numbers([self.pick([1, 2, -1])])])
        if op == "Pad":
            mode = self.pick(MODES)
            most = [n if mode == "constant" else min(n, 3) for n in shape] * 2
            return make([x, self.numbers([int(self.r.integers(0, m)) for m in most]), self.operand(kind, [], stored=True)], mode=mode)
        if op == "Tile":
            return make([x, self.numbers(self.r.integers(1, 4, len(shape)))])
        if op == "Expand":
            return make([x, self.numbers([int(self.r.integers(1, 4)), *shape])])
        if op == "Gather":
            return make([x, self.numbers(self.r.integers(-shape[axis], shape[axis], self.shape(2)))], axis=axis)
        if op == "GatherElements":
            return make([x, self.numbers(self.r.integers(-shape[axis], shape[axis], shape))], axis=axis)
        if op == "Reshape":
            return make([x, self.numbers([-1, shape[-1]])])
        if op == "DepthToSpace":
            return make([x], blocksize=2, mode=self.pick(["DCR", "CRD"]))
        if op == "Trilu":
            return make([x, self.numbers(int(self.r.integers(-2, 3)))], upper=int(self.r.integers(2)))
        if op == "CumSum":
            return make([x, self.numbers(axis)], exclusive=int(self.r.integers(2)), reverse=int(self.r.integers(2)))
        if op == "TopK":
            k = self.numbers([int(self.r.integers(1, shape[axis] + 1))])
            return helper.make_node(op, [x, k], ["y", "positions"], axis=axis, largest=int(self.r.integers(2)))
        if op in ("MatMul", "Gemm"):
            n = int(self.r.integers(1, 6))
            turned = op == "Gemm" and int(self.r.integers(2))
            y = self.operand(kind, [n, shape[1]] if turned else [shape[1], n])
            return make([x, y], **({"transB": int(turned), "alpha": 0.5} if op == "Gemm" else {}))
        if op == "LayerNormalization":
            return make([x, self.operand(kind, [shape[-1]])], axis=-1)
        if op == "Resize":
            scales = self.numbers([1, 1, *self.pick([(2, 2), (1.5, 2), (3, 1)])], np.float32)
            mode = self.pick(["nearest", "linear"])
            # The standard and ONNX Runtime place the corners of a broken extent apart.
            whole = all(n * s == int(n * s) for n, s in zip(shape, self.stored[scales]))
            way = self.pick(["half_pixel", "asymmetric", *(["align_corners"] if whole else [])])
            return make([x, "", scales], mode=mode, coordinate_transformation_mode=way)
        window = [int(self.r.integers(1, min(n, 3) + 1)) for n in shape[2:]]
        pads = [int(self.r.integers(0, k)) for k in window * 2]
        common = {"kernel_shape": window, "strides": [int(self.r.integers(1, 3)) for _ in window], "pads": pads}
        if op in ("MaxPool", "AveragePool"):
            extra = {"count_include_pad": int(self.r.integers(2))} if op == "AveragePool" else {}
            return make([x], ceil_mode=int(self.r.integers(2)), **common, **extra)
        n = int(self.r.integers(1, 5))
        channels = [n, shape[1]] if op == "Conv" else [shape[1], n]
        return make([x, self.operand(kind, channels + window)], **common)


def model_of(draw, nodes, opset):
    kind = lambda array: helper.np_dtype_to_tensor_dtype(array.dtype)
    infos = [helper.make_tensor_value_info(n, kind(a), a.shape) for n, a in draw.inputs.items()]
    outputs = ["y"] if any("y" in node.output for node in nodes) else list(nodes[0].output)[:1]
    graph = helper.make_graph(
        nodes, "case", infos, [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(a, n) for n, a in draw.stored.items()])
    domains = [helper.make_opsetid("", opset), *([helper.make_opsetid(draw.domain, 3 if draw.domain == onnx_operators.ML else 1)] if draw.domain else [])]
    model = helper.make_model(graph, opset_imports=domains, ir_version=10)
    if draw.domain:
        # The standard's inference does not know the operators of a domain.
        made = runtime(model, draw.inputs)
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info(model.graph.output[0].name, kind(made), made.shape))
        return model
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    onnx.checker.check_model(model)
    return model


def runtime(model, inputs):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except ort.capi.onnxruntime_pybind11_state.NotImplemented:
        return ReferenceEvaluator(model).run(None, inputs)[0]
    return session.run(None, inputs)[0]


def evaluated(ane, folder, inputs, way="reference"):
    arguments = ["--reference"] if way == "reference" else ["--numerics", way]
    command = [ane, "run", str(folder / "model.onnx"), *arguments, "--json", "--output", f"y={folder / 'y.npy'}"]
    for name, value in inputs.items():
        np.save(folder / f"{name}.npy", value)
        command += ["--input", f"{name}={folder / name}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        line = (done.stderr + done.stdout).strip().splitlines()[0]
        return None, json.loads(line).get("found") or json.loads(line)["message"] if line.startswith("{") else line
    return np.load(folder / "y.npy"), json.loads(done.stdout).get("warnings", [])


def same(got, wanted, half):
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    if got.shape != wanted.shape:
        return False
    if half:
        with np.errstate(over="ignore"):
            got = got.astype(np.float16).astype(np.float64)
    share = 4e-3 if half else 1e-4
    largest = np.max(np.abs(wanted), initial=0, where=np.isfinite(wanted))
    return np.allclose(got, wanted, rtol=share, atol=share * min(largest, 1e4) + 1e-6, equal_nan=True)


def compared(op, operands, got, wanted):
    """Both results with the elements left out that the standard leaves open."""
    left_out = np.zeros(wanted.shape, bool)
    if got.shape != wanted.shape:
        return got, wanted
    if op in OPEN and any(OPEN[op][0](x).any() for x in operands if x.dtype.kind == "f"):
        left_out |= np.isnan(got.astype(np.float64)) | np.isnan(wanted.astype(np.float64))
    if op in ("Cast", "CastLike") and wanted.dtype.kind in "iu":
        # Floats without a number of the type.
        x = operands[0].astype(np.float64)
        limits = np.iinfo(wanted.dtype)
        left_out |= ~((np.trunc(x) >= limits.min) & (np.trunc(x) <= limits.max))
    if op == "TopK" and any(np.isnan(x).any() for x in operands if x.dtype.kind == "f"):
        # NaN has no place in an order.
        left_out[...] = True
    if op == "LRN" and not all(np.isfinite(x).all() for x in operands):
        # ONNX Runtime slides its sum, in which infinity minus infinity stays.
        left_out[...] = True
    if op in ("QuantizeLinear", "DequantizeLinear") and any(np.isnan(x).any() for x in operands if x.dtype.kind == "f"):
        # NaN has no integer.
        left_out[...] = True
    if op in ("MaxPool", "Attention") and wanted.dtype.kind == "f":
        # ONNX Runtime has the least finite number for minus infinity.
        left_out |= (got == -np.inf) & (wanted == np.finfo(wanted.dtype).min)
    if op == "ReduceLogSumExp" and wanted.dtype.kind in "iu":
        # Exponentials of whole numbers are cut by ONNX Runtime before they are added.
        left_out[...] = True
    return np.where(left_out, 0, got), np.where(left_out, 0, wanted).astype(wanted.dtype)


def ways_of(options, op, draw, folder, wanted):
    """Outcome by way: equal, refused, warned or different, with what is to be said."""
    half = wanted.dtype == np.float16 or any(a.dtype == np.float16 for a in [*draw.inputs.values(), *draw.stored.values()])
    operands = [*draw.inputs.values(), *draw.stored.values()]
    for way in options.ways:
        got, why = evaluated(options.ane, folder, draw.inputs, way)
        if got is None:
            yield way, "refused", why
            continue
        got, expected = compared(op, operands, got, wanted)
        if way == "reference":
            text = "" if same(got, expected, half) else "differs"
        else:
            # Graphs of several operators have the bound of tables.
            text = difference(way, "" if options.draw == "graphs" else op, (0, 0), got, expected)
        if not text:
            yield way, "equal", ""
        elif why:
            yield way, "warned", why
        else:
            yield way, "different", (text, got, expected)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ane", default="target/release/ane")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draw", default="nodes", choices=["nodes", *DRAWS], help="what each case is")
    parser.add_argument("--ways", default="reference", type=lambda text: text.split(","), help="reference, fast, exact")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for models that differ")
    options = parser.parse_args()
    counts, told = collections.Counter(), collections.Counter()
    np.seterr(all="ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for seed in range(options.seed, options.seed + options.cases):
            draw = Draw(seed)
            try:
                op, nodes = DRAWS[options.draw].graph(draw) if options.draw in DRAWS else draw.single()
                model = model_of(draw, nodes, 23 if any(n.op_type == "RMSNormalization" for n in nodes) else draw.opset)
                wanted = runtime(model, draw.inputs)
            except Exception as error:
                counts["no model, or refused by ONNX Runtime"] += 1
                told[f"no model: {str(error).splitlines()[0][:110]}"] += options.draw != "nodes"
                continue
            onnx.save(model, folder / "model.onnx")
            for way, outcome, more in ways_of(options, op, draw, folder, wanted):
                counts[f"{way}: {outcome}"] += 1
                if outcome == "refused":
                    told[f"{way} refused {op}: {more}"] += 1
                if outcome != "different":
                    continue
                text, got, expected = more
                kinds = "/".join(str(a.dtype) for a in [*draw.inputs.values(), *draw.stored.values()])
                told[f"DIFFERENT {way} {op} {kinds}"] += 1
                if told[f"DIFFERENT {way} {op} {kinds}"] <= 2:
                    print(f"seed {seed}: {way} {' '.join(n.op_type for n in nodes)} {kinds}: {text}")
                    show(draw, got, expected)
                if options.keep:
                    kept = options.keep / str(seed)
                    kept.mkdir(parents=True, exist_ok=True)
                    onnx.save(model, kept / "model.onnx")
                    for name, value in draw.inputs.items():
                        np.save(kept / f"{name}.npy", value)
                    np.save(kept / "expected.npy", wanted)
    print(dict(counts))
    for text, n in told.most_common():
        if n:
            print(n, text)
    return 1 if any("different" in name for name in counts) else 0


def show(draw, got, wanted):
    """Prints the first elements that differ, with the operands there."""
    flat = [np.asarray(a).ravel() for a in (got, wanted)]
    if flat[0].size == flat[1].size:
        bad = [i for i in range(flat[0].size) if not same(flat[0][i:i + 1], flat[1][i:i + 1], True)][:4]
        print("   ", [(i, float(flat[0][i]), float(flat[1][i])) for i in bad],
              {n: a.ravel()[bad[:2]].tolist() if a.size == flat[0].size else a.ravel()[:6].tolist() for n, a in draw.inputs.items()})


if __name__ == "__main__":
    sys.exit(main())
