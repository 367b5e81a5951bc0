#!/usr/bin/env python3
"""Networks of many families with random weights: exported as users export them, compiled, run, and put into docs/networks.md.

    python3 -m venv v && v/bin/pip install torch==2.7.0 torchvision==0.22.0 torchaudio==2.7.0 coremltools==9.0 "numpy<2.4" \\
        onnx onnxscript timm==1.0.31 transformers==5.24 diffusers segmentation-models-pytorch
    v/bin/python scripts/networks.py export FOLDER [NAME ...]
    python3 scripts/networks.py measure FOLDER [--ane target/quick/ane] [--pace target/quick/examples/pace]
                                              [--write docs/data/networks.tsv] [NAME ...]

The networks are listed in the package zoo. `export` writes FOLDER/NAME/model.mlpackage, model.onnx, dynamo.onnx (by the newer exporter),
inputs x0.npy, ... and expected.npy (PyTorch, fp32), and leaves out networks that are there. `measure` needs nothing but the tool, and for
times (--pace) ONNX Runtime and the example `pace`; it keeps its results in FOLDER/NAME/row.json and measures again those named.
"""
import json
import os
import statistics
import subprocess
import sys
import time
import warnings

warnings.filterwarnings("ignore")
FORMS = {"mlpackage": "model.mlpackage", "onnx": "model.onnx", "dynamo": "dynamo.onnx"}


def reset(module):
    """Statistics of normalizations, and parameters that begin as zeros, as training leaves them."""
    import torch
    for parameter in module.parameters(recurse=False):
        if parameter.dim() > 1 and parameter.numel() > 1 and not parameter.any():
            torch.nn.init.normal_(parameter, 0, 0.02)
    if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
        module.running_mean.normal_(0, 0.1)
        module.running_var.uniform_(0.5, 1.5)


def attempt(path, form, work):
    """Result of one export, whose failure is kept beside it."""
    try:
        work()
    except Exception as error:
        with open(f"{path}/{form}.failed", "w") as file:
            file.write(f"{type(error).__name__} {str(error)[:2000]}")
        print(f"    {form}: {type(error).__name__} {' '.join(str(error).split())[:150]}", flush=True)


def export_one(path, library, make, inputs):
    """All forms of a network, its inputs, and what PyTorch computes in fp32."""
    import coremltools as ct
    import numpy as np
    import torch
    torch.backends.mha.set_fastpath_enabled(False)
    model = make().eval()
    model.apply(reset)
    with torch.no_grad():
        expected = model(*inputs)
    if not isinstance(expected, torch.Tensor):
        inner = model

        class First(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = inner

            def forward(self, *a):
                y = self.inner(*a)
                while not isinstance(y, torch.Tensor):
                    y = list(y.values())[0] if isinstance(y, dict) else y[0]
                return y
        model = First().eval()
        expected = model(*inputs)
    kind = lambda a: np.float32 if a.is_floating_point() else np.int32
    names = [f"x{i}" for i in range(len(inputs))]
    os.makedirs(path, exist_ok=True)
    for name, a in zip(names, inputs):
        np.save(f"{path}/{name}.npy", a.numpy().astype(kind(a)))
    np.save(f"{path}/expected.npy", expected.detach().numpy())

    def keep(facts):
        with open(f"{path}/meta.json", "w") as file:
            json.dump(facts, file)

    def package():
        with torch.no_grad():
            traced = torch.jit.trace(model, inputs, strict=False, check_trace=False)
        ports = [ct.TensorType(n, shape=a.shape, dtype=kind(a)) for n, a in zip(names, inputs)]
        ct.convert(traced, inputs=ports, minimum_deployment_target=ct.target.iOS17, compute_precision=ct.precision.FLOAT16,
                   skip_model_load=True).save(f"{path}/model.mlpackage")
        ops, computing = operations(f"{path}/model.mlpackage")
        keep({"library": library, "ops": ops, "computing": computing})

    keep({"library": library})
    attempt(path, "mlpackage", package)
    attempt(path, "onnx", lambda: torch.onnx.export(model, inputs, f"{path}/model.onnx", input_names=names, output_names=["y"],
                                                    opset_version=17, dynamo=False))
    attempt(path, "dynamo", lambda: torch.onnx.export(model, inputs, f"{path}/dynamo.onnx", input_names=names, output_names=["y"],
                                                      dynamo=True, external_data=False, verbose=False))


def export(folder, names):
    import torch
    from zoo import networks
    for library, name, make, inputs in networks():
        if names and name not in names or os.path.exists(f"{folder}/{name}/expected.npy") and not names:
            continue
        torch.manual_seed(len(name))
        started = time.time()
        try:
            export_one(f"{folder}/{name}", library, make, inputs)
            print(f"{name}: {time.time() - started:.1f} s", flush=True)
        except Exception as error:
            print(f"{name}: not made: {type(error).__name__} {' '.join(str(error).split())[:200]}", flush=True)


def ane(tool, *arguments):
    try:
        done = subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return 9, "", "more than 300 s"
    return done.returncode, done.stdout, done.stderr


# Operations that only move or name data.
MOVES = {"const", "reshape", "transpose", "slice_by_index", "slice_by_size", "concat", "split", "squeeze", "expand_dims",
         "cast", "identity", "stack", "shape", "range_1d", "fill", "tile", "gather", "constexpr_lut_to_dense"}


def operations(path):
    """All operations of a package, and those that compute."""
    import coremltools as ct
    program = ct.utils.load_spec(path).mlProgram
    kinds = [op.type for f in program.functions.values() for b in f.block_specializations.values() for op in b.operations]
    return len([k for k in kinds if k != "const"]), len([k for k in kinds if k not in MOVES])


def one(path, form, tool):
    """Results of one of a network's files."""
    model = f"{path}/{form}"
    inputs = [f for f in sorted(os.listdir(path)) if f.startswith("x") and f.endswith(".npy")]
    flags = [f"--input={f[:-4]}={path}/{f}" for f in inputs]
    row = {}
    for numerics in ("fast", "exact"):
        code, out, err = ane(tool, "run", model, *flags, f"--expect={path}/expected.npy", "--json", "--numerics", numerics)
        document = json.loads(out) if out.startswith("{") else {}
        if "outputs" not in document:
            row["refused"] = " ".join((document.get("message") or out or err).split())[:160]
            break
        report = document["outputs"][0]
        # An error that is no finite number is null in JSON.
        share = lambda found, most: float("inf") if found is None else found / most if most else 0.0
        row[numerics] = max(share(report["max_abs_error"], report["atol"]), share(report["rms_error"], report["rms_tolerance"]))
        row.update(tasks=document["tasks"], programs=document.get("programs", 1), hosts=document.get("host_segments", 0))
    code, out, err = ane(tool, "check", model, "-t", "m1", "--json")
    document = json.loads(out) if out.startswith("{") else {}
    counts = document["chips"][0]["direct"]["counts"] if "chips" in document else {"rejected": int("code" in document)}
    off = counts.get("host", 0) + counts.get("rejected", 0)
    row["agree"] = bool(counts) and (off > 0) == ("refused" in row or row["hosts"] > 0)
    return row


def pace(path, program, seconds=1.5):
    """Time of a run in `fast` divided by that of ONNX Runtime, both on two threads and in turns; None where the example `pace`
    cannot run the model: it runs one program without host segments."""
    import benchmark

    sides = []
    try:
        sides.append(benchmark.Side(program, path, "fast"))
        sides.append(benchmark.Side(sys.executable, benchmark.__file__, "--serve", "onnx", "--network", path, "--threads", 2))
        end, times = time.monotonic() + seconds, []
        while len(times) < 7 or time.monotonic() < end and len(times) < 40:
            times.append([side.turn(1)[0] for side in sides])
        ours, theirs = (statistics.median(of) for of in zip(*times))
        return ours / theirs
    except SystemExit:
        return None
    finally:
        for side in sides:
            side.close()


def measure(folder, tool, names, program=None):
    """One row a network."""
    rows = []
    for name in sorted(os.listdir(folder)):
        path = f"{folder}/{name}"
        if not os.path.exists(f"{path}/expected.npy"):
            continue
        row = {"name": name}
        for kept in ("meta.json", "row.json"):
            if os.path.exists(f"{path}/{kept}"):
                row.update(json.load(open(f"{path}/{kept}")))
        if name in names or "forms" not in row:
            row["forms"] = {form: one(path, file, tool) for form, file in FORMS.items() if os.path.exists(f"{path}/{file}")}
            row.pop("pace", None)
        onnx = row["forms"].get("onnx", {})
        if program and "pace" not in row and "tasks" in onnx and onnx["programs"] == 1 and not onnx["hosts"]:
            row["pace"] = pace(f"{path}/model.onnx", program)
        with open(f"{path}/row.json", "w") as file:
            json.dump(row, file)
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def table(rows):
    forms = [f for r in rows for f in r["forms"].values()]
    ran = [f for f in forms if "refused" not in f]
    per = sorted(f["tasks"] / r["computing"] for r in rows for f in [r["forms"].get("mlpackage", {})] if "tasks" in f and r.get("computing"))
    within = lambda k: sum(f.get(k, 9) <= 1 for f in ran)
    text = (f"#: {len(rows)} networks, {len(forms)} models: {len(ran)} run, {within('fast')} within the tolerance in `fast` and "
            f"{within('exact')} in `exact`; check and compiler agree in {sum(f['agree'] for f in forms)}. Tasks per computing operation: "
            f"median {statistics.median(per):.1f}, at most 3 in {sum(p <= 3 for p in per)} of {len(per)}, above 10 in {sum(p > 10 for p in per)}.")
    if paces := sorted(r["pace"] for r in rows if r.get("pace")):
        text += (f" Time against ONNX Runtime, {len(paces)} models: median {statistics.median(paces):.2f}, "
                 f"at most 1.5 in {sum(p <= 1.5 for p in paces)}, largest {paces[-1]:.1f}.")
    heads = ["network", "library", "operations", "computing", "tasks", "per computing", "programs, host", "fast", "exact",
             "ONNX: tasks", "fast", "exact", "dynamo: tasks", "fast", "exact", *(["time"] if paces else []), "agree"]
    text += "\n" + "\t".join(heads) + "\n"
    error = lambda f, k: f"{f[k]:.2f}" if k in f else ""
    result = lambda f: [f.get("tasks", "refused: " + f["refused"] if "refused" in f else ""), error(f, "fast"), error(f, "exact")]
    for r in rows:
        core = r["forms"].get("mlpackage", {})
        tasks, *errors = result(core)
        ratio = f"{core['tasks'] / r['computing']:.1f}" if "tasks" in core and r.get("computing") else ""
        any_form = next((f for f in r["forms"].values() if "tasks" in f), {})
        chain = f"{any_form['programs']}, {any_form['hosts']}" if any_form else ""
        cells = [r["name"], r["library"], r.get("ops", ""), r.get("computing", ""), tasks, ratio, chain, *errors]
        cells += [cell for form in ("onnx", "dynamo") for cell in result(r["forms"].get(form, {}))]
        cells += [f"{r['pace']:.2f}" if r.get("pace") else ""] if paces else []
        cells.append("yes" if all(f["agree"] for f in r["forms"].values()) else "no")
        text += "\t".join(str(cell) for cell in cells) + "\n"
    return text


def flags(rest, **given):
    """Values of flags with their defaults; takes them from the arguments."""
    for name in given:
        if f"--{name}" in rest:
            at = rest.index(f"--{name}")
            given[name] = rest[at + 1]
            del rest[at:at + 2]
    return given


def write(path, text):
    """Writes a table, if asked for."""
    if path:
        with open(path, "w") as file:
            file.write(text)


if __name__ == "__main__":
    command, folder, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
    given = flags(rest, ane="target/quick/ane", write=None, pace=None)
    if command == "export":
        export(folder, rest)
    else:
        write(given["write"], table(measure(folder, given["ane"], rest, given["pace"])))
