#!/usr/bin/env python3
"""Runs the node tests of the `onnx` package against `ane run --reference` and prints the table of docs/frontends.md.

It makes its own virtual environment outside the repository (--venv DIR) and is not part of `cargo test`:

    cargo build --release && python3 scripts/onnx_backend.py --ane target/release/ane [--table] [--match NAME]

In scope are the operators of IN_SCOPE. All others must be refused by name: a pass or a wrong result there is reported.

A test counts where every input and output is a tensor of numbers of 8 bits or more, or of truth values, with fixed
extents and at least one element. All others are "excluded".

Many tests hand over as inputs what a static graph must know and what models hold as initializers: axes, shapes, pads,
counts. PARAMETERS names these operands, by operator and position. The harness stores their values as initializers of the
model before it runs it. A test `NAME_expanded` has the same operator spelt out: the same inputs are stored. Data,
indices, masks, conditions and lengths of sequences that the net can compute with stay inputs.

A result is rounded to the element type that the model declares for it, because ane writes floats as float32. It is
compared with the tolerances of the test.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

IN_SCOPE = frozenset("""
    Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization Cast
    CastLike CausalConvWithState Ceil Celu CenterCropPad Clip Concat Constant ConstantOfShape Conv ConvInteger
    ConvTranspose Cos Cosh CumProd CumSum DepthToSpace DequantizeLinear Div Dropout DynamicQuantizeLinear Einsum Elu
    Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool
    GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization HammingWindow HannWindow
    BlackmanWindow HardSigmoid HardSwish Hardmax Identity If InstanceNormalization IsInf IsNaN LRN LSTM
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax Loop LpNormalization LpPool MatMul MatMulInteger Max
    MaxPool Mean MeanVarianceNormalization Min Mish Mod Mul Neg NegativeLogLikelihoodLoss Not OneHot Or PRelu Pad Pow
    QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum
    ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize
    ReverseSequence RotaryEmbedding Round Scan ScatterElements Scatter ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh
    Size Slice Softmax SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum SwiGLU Swish
    Tan Tanh TensorScatter ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Upsample Where Xor
""".split())

# Extents, axes, counts and ways of padding, and what decides on training: they fix the shape of the graph.
REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()
PARAMETERS = {
    "AffineGrid": [1], "BlackmanWindow": [0], "CenterCropPad": [1], "ConstantOfShape": [0], "CumProd": [1],
    "CumSum": [1], "Dropout": [1, 2], "Expand": [1], "HammingWindow": [0], "HannWindow": [0], "LSTM": [4],
    "Loop": [0, 1], "OneHot": [1], "Pad": [1, 2, 3], "Range": [0, 1, 2], "Reshape": [1], "Resize": [1, 2, 3],
    "Slice": [1, 2, 3, 4], "Split": [1], "Squeeze": [1], "Tile": [1], "TopK": [1], "Trilu": [1], "Unsqueeze": [1],
    "Upsample": [1], **{f"Reduce{kind}": [1] for kind in REDUCTIONS},
}


def own_environment(folder):
    """Starts this script again under the environment's interpreter."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "onnx", "numpy"], check=True)
    if pathlib.Path(sys.prefix).resolve() != folder.resolve():
        os.execv(python, [str(python), *sys.argv])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ane", default="target/release/ane", help="the binary")
    parser.add_argument("--venv", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "anemone-onnx-venv")
    parser.add_argument("--match", default="", help="only tests whose name contains this")
    parser.add_argument("--table", action="store_true", help="print the table as Markdown")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    own_environment(options.venv)
    return run(options)


def run(options):
    import warnings

    warnings.filterwarnings("ignore")
    import numpy
    import onnx
    from onnx.backend.test.loader import load_model_tests

    def array(value):
        if isinstance(value, onnx.TensorProto):
            value = onnx.numpy_helper.to_array(value)
        return value if isinstance(value, numpy.ndarray) else numpy.asarray(value)

    def excluded(model):
        for info in [*model.graph.input, *model.graph.output]:
            if not info.type.HasField("tensor_type"):
                return "no tensors"
            tensor = info.type.tensor_type
            if any(not d.HasField("dim_value") for d in tensor.shape.dim):
                return "symbolic extents"
            if any(d.dim_value == 0 for d in tensor.shape.dim):
                return "no elements"
            if tensor.elem_type not in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13):
                return "element types"
        return None

    def parameters(model):
        """Names of the inputs that the first node uses as parameters."""
        names = {i.name for i in model.graph.input}
        node = model.graph.node[0]
        return {node.input[i] for i in PARAMETERS.get(node.op_type, ()) if i < len(node.input)} & names

    def store(model, inputs, names):
        """The model with these inputs as initializers, and the other inputs."""
        stored, rest = onnx.ModelProto(), []
        stored.CopyFrom(model)
        del stored.graph.input[:]
        for info, value in zip(model.graph.input, inputs):
            if info.name in names:
                stored.graph.initializer.append(onnx.numpy_helper.from_array(array(value), info.name))
            else:
                stored.graph.input.append(info)
                rest.append((info.name, value))
        return stored, rest

    def one(case):
        model = case.model
        ops = [n.op_type for n in model.graph.node]
        reason = excluded(model)
        if reason:
            return case.name, ops, "excluded", reason
        base = single.get(case.name.split("_expanded")[0], model)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            names_out = [o.name for o in model.graph.output]
            for inputs, outputs in case.data_sets:
                stored, rest = store(model, inputs, parameters(base))
                onnx.save(stored, path)
                command = [options.ane, "run", path, "--reference", "--quiet"]
                for i, (name, value) in enumerate(rest):
                    file = os.path.join(folder, f"in{i}.npy")
                    numpy.save(file, numpy.ascontiguousarray(array(value)))
                    command += ["--input", f"{name}={file}"]
                targets = []
                for i, name in enumerate(names_out):
                    targets.append(os.path.join(folder, f"out{i}.npy"))
                    command += ["--output", f"{name}={targets[-1]}"]
                try:
                    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
                except subprocess.TimeoutExpired:
                    return case.name, ops, "wrong", "no end after 60 s"
                if done.returncode != 0:
                    lines = [l for l in done.stderr.strip().splitlines() if l.strip()]
                    first = lines[0] if lines else "no message"
                    kind = "refused" if done.returncode in (1, 2) and "ANE3" not in first else "wrong"
                    return case.name, ops, kind, first
                for name, target, wanted in zip(names_out, targets, outputs):
                    got, wanted = numpy.load(target), array(wanted)
                    if got.shape != wanted.shape:
                        return case.name, ops, "wrong", f"{name}: extents {got.shape}, expected {wanted.shape}"
                    with numpy.errstate(over="ignore"):
                        got = got.astype(wanted.dtype).astype(numpy.float64)
                    wanted = wanted.astype(numpy.float64)
                    limit = numpy.finfo(numpy.float32).max
                    wanted = numpy.where(numpy.abs(wanted) <= limit, wanted, numpy.sign(wanted) * numpy.inf)
                    if not numpy.allclose(got, wanted, rtol=case.rtol, atol=max(case.atol, 1e-6), equal_nan=True):
                        worst = numpy.nanmax(numpy.abs(got - wanted)) if got.size else 0
                        return case.name, ops, "wrong", f"{name}: largest difference {worst:.3e}"
        return case.name, ops, "pass", ""

    cases = [c for c in load_model_tests(kind="node") if options.match in c.name]
    single = {c.name: c.model for c in cases if len(c.model.graph.node) == 1}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(one, cases))
    kinds = ("pass", "refused", "wrong", "excluded")
    rows = collections.defaultdict(collections.Counter)
    reasons = collections.defaultdict(collections.Counter)
    plain = {name: ops[0] for name, ops, _, _ in results if len(ops) == 1}
    for name, ops, outcome, text in sorted(results):
        op = plain.get(name.split("_expanded")[0]) or (ops[0] if ops else "?")
        rows[op][outcome] += 1
        if outcome == "refused":
            reasons[op][text.split(" is not supported: ", 1)[-1]] += 1
        if not options.table and (outcome == "wrong" or outcome == "refused" and op in IN_SCOPE):
            print(f"{outcome}: {name} ({op}): {text}")
    if options.table:
        print("| operator | pass | refused | wrong | excluded |\n|---|---|---|---|---|")
        for op, row in sorted(rows.items()):
            if op in IN_SCOPE:
                print(f"| {op} | " + " | ".join(str(row[k] or "") for k in kinds) + " |")
        print("\nOut of scope:\n\n| operator | tests | refused because |\n|---|---|---|")
        for op, row in sorted(rows.items()):
            if op not in IN_SCOPE and row["refused"] + row["pass"] + row["wrong"]:
                why = "; ".join(reason for reason, _ in reasons[op].most_common(1))
                more = f", {row['pass']} of them spelt out pass" if row["pass"] else ""
                print(f"| {op} | {sum(row.values()) - row['excluded']}{more} | {why} |")
    inside = sum((row for op, row in rows.items() if op in IN_SCOPE), collections.Counter())
    outside = sum((row for op, row in rows.items() if op not in IN_SCOPE), collections.Counter())
    scope = inside["pass"] + inside["refused"] + inside["wrong"]
    print(f"\nonnx {onnx.__version__}: of {scope} tests of {len(IN_SCOPE)} operators in scope {inside['pass']} pass "
          f"({100 * inside['pass'] / max(scope, 1):.1f} %), {inside['refused']} are refused by name, "
          f"{inside['wrong']} are wrong; out of scope {outside['refused']} are refused by name, {outside['pass']} pass, "
          f"{outside['wrong']} are wrong; {inside['excluded'] + outside['excluded']} are excluded")
    return inside["wrong"] + outside["wrong"]


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
