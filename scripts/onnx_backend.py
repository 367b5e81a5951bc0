#!/usr/bin/env python3
"""Runs the node tests of the `onnx` package against `ane run --reference` and prints the table of docs/frontends.md.

It makes its own virtual environment outside the repository (--venv DIR) and is not part of `cargo test`:

    cargo build --release && python3 scripts/onnx_backend.py --ane target/release/ane [--table] [--match NAME]

A test counts as static where every input is a tensor of numbers with fixed extents. An operator is out of scope where
ane refuses it for what it is (random numbers, texts, sequences, results whose extents depend on values, training,
complex numbers, bits); all other static tests are in scope and must pass, or be refused by name.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

OUT_OF_SCOPE = (
    "random numbers at run time",
    "the extents of its result depend on values",
    "texts are not tensors",
    "sequences and optional values",
    "sequences, maps and optional values",
    "training is not part",
    "complex numbers",
    "bits of integers",
    "files within tensors",
    "trees are not part",
)


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
    run(options)


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

    def static(model):
        for info in model.graph.input:
            if not info.type.HasField("tensor_type"):
                return "inputs that are no tensors"
            tensor = info.type.tensor_type
            if any(not d.HasField("dim_value") for d in tensor.shape.dim):
                return "symbolic extents"
            if any(d.dim_value == 0 for d in tensor.shape.dim):
                return "no elements"
            if tensor.elem_type not in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13):
                return "element types without arithmetic"
        return None

    def one(case):
        model = case.model
        ops = [n.op_type for n in model.graph.node]
        reason = static(model)
        if reason:
            return case.name, ops, "not static", reason
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            onnx.save(model, path)
            initial = {i.name for i in model.graph.initializer}
            names_in = [i.name for i in model.graph.input if i.name not in initial]
            names_out = [o.name for o in model.graph.output]
            for inputs, outputs in case.data_sets:
                command = [options.ane, "run", path, "--reference", "--quiet"]
                for i, (name, value) in enumerate(zip(names_in, inputs)):
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
                    wanted = wanted.astype(numpy.float64)
                    limit = numpy.finfo(numpy.float32).max
                    wanted = numpy.where(numpy.abs(wanted) <= limit, wanted, numpy.sign(wanted) * numpy.inf)
                    if not numpy.allclose(got, wanted, rtol=case.rtol, atol=max(case.atol, 1e-6), equal_nan=True):
                        worst = numpy.nanmax(numpy.abs(got - wanted)) if got.size else 0
                        return case.name, ops, "wrong", f"{name}: largest difference {worst:.3e}"
        return case.name, ops, "pass", ""

    cases = [c for c in load_model_tests(kind="node") if options.match in c.name]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(one, cases))
    rows = collections.defaultdict(collections.Counter)
    plain = {name: ops[0] for name, ops, _, _ in results if len(ops) == 1}
    for name, ops, outcome, text in sorted(results):
        base = name.split("_expanded")[0]
        op = plain.get(base) or (ops[0] if ops else "?")
        if outcome == "refused" and any(reason in text for reason in OUT_OF_SCOPE):
            outcome = "out of scope"
        rows[op][outcome] += 1
        if not options.table and outcome not in ("pass", "out of scope", "not static"):
            print(f"{outcome}: {name} ({op}): {text}")
    total = sum((row for row in rows.values()), collections.Counter())
    if options.table:
        print("| operator | pass | refused | wrong | out of scope | not static |\n|---|---|---|---|---|---|")
        for op, row in sorted(rows.items()):
            kinds = ("pass", "refused", "wrong", "out of scope", "not static")
            print(f"| {op} | " + " | ".join(str(row[k] or "") for k in kinds) + " |")
    scope = total["pass"] + total["refused"] + total["wrong"]
    share = 100 * total["pass"] / max(scope, 1)
    print(f"\nonnx {onnx.__version__}: {total['pass']} of {scope} static tests in scope pass ({share:.1f} %), "
          f"{total['refused']} are refused by name, {total['wrong']} are wrong; "
          f"{total['out of scope']} are out of scope, {total['not static']} not static")
    return total["wrong"]


if __name__ == "__main__":
    main()
