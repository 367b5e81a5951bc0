#!/usr/bin/env python3
"""Tables of docs/compiler.md: the effect of each pass over a folder of models, functions, buffers, traffic and weights.

    scripts/compiler_tables.py --ane target/release/ane --write MODELS [MODELS ...]
    scripts/compiler_tables.py --ane target/release/ane --before OTHER/ane --aims NAME=MODELS [NAME=MODELS ...] --write
    cargo xtask docs

The second form compares two builds over sets of models: programs with more and with fewer tasks, tasks, megabytes between
memory and the units in one run, and seconds of compilation.

Every model is compiled once as it is and once with each pass left out that may be. Sums over the models: tasks, bytes of kernel
data and of the intermediate region, modelled time of the engine. A pass without a difference has a row too.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

SUFFIXES = (".mlpackage", ".mil", ".onnx", ".plist", ".mlmodel")


def models(paths):
    """Model files at or below the paths."""
    found = []
    for path in map(pathlib.Path, paths):
        below = [p for p in path.rglob("*") if p.suffix in SUFFIXES] if path.is_dir() and path.suffix not in SUFFIXES else [path]
        found += [p for p in below if not any(parent.suffix == ".mlpackage" for parent in p.parents)]
    return sorted(found)


def compiled(ane, model, folder, *flags):
    """The compiler's JSON document; None where it refuses."""
    command = [ane, "compile", str(model), "--no-cache", "--engine-only", "--json", "-o", str(folder / "out.hwx"), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def name_of(model):
    return model.parent.name if model.stem == "model" else model.stem


def measure(document):
    """Tasks, kernel bytes, scratch bytes, engine nanoseconds."""
    modelled = document["modelled"] or {}
    return [document["tasks"], document["kernel_bytes"], document["scratch_bytes"], modelled.get("engine_ns", 0)]


def passes(ane):
    """Names of the passes that may be left out, in order."""
    listed = subprocess.run([ane, "passes"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line.rstrip().endswith("optional")]


def pass_rows(ane, found, folder):
    """Every model as it is, then without each pass: name, models changed, models refused, and the sums of `measure`."""
    whole = {model: compiled(ane, model, folder) for model in found}
    known = [model for model in found if whole[model]]
    base = [measure(whole[model]) for model in known]
    total = [sum(column) for column in zip(*base)]
    yield ["nothing", 0, 0, *total]
    for name in passes(ane):
        rows = [compiled(ane, model, folder, "--disable", name) for model in known]
        refused = sum(row is None for row in rows)
        kept = [(measure(row), own) for row, own in zip(rows, base) if row]
        changed = sum(row != own for row, own in kept)
        sums = [sum(column) for column in zip(*(row for row, _ in kept))]
        without = [sum(column) for column in zip(*(own for _, own in kept))]
        yield [name, changed, refused, *(total[i] + sums[i] - without[i] for i in range(4))]


REPEATS = 3
KINDS = {0: "on chip", 1: "in memory", 2: "chained", 3: "behind a chained one", 4: "in place", 5: "in place behind a chained one", 8: "in place in memory"}


def moved_bytes(ane, folder):
    """Bytes between memory and the units in one run of the program in the folder."""
    call(ane, "run", folder / "out.hwx", "--trace", folder / "trace.json")
    tasks = json.loads((folder / "trace.json").read_text())["tasks"]
    return sum(task["bytes"][key] for task in tasks for key in ("source1", "source2", "destination"))


def allocation_rows(ane, found, folder):
    """A head, then for every model its buffers by type, and its intermediate region and traffic with types 0 and 1 alone and with all."""
    measured = ["scratch MB, 0 and 1 alone", "scratch MB", "MB through memory, 0 and 1 alone", "MB through memory"]
    yield ["package", *(f"{kind} {meaning}" for kind, meaning in KINDS.items()), *measured]
    for model in found:
        stages = folder / "stages"
        plain = compiled(ane, model, folder, "--disable", "allocate")
        before = plain and moved_bytes(ane, folder)
        document = compiled(ane, model, folder, "--dump-ir", str(stages))
        if document is None or plain is None:
            continue
        last = (stages / "3z-reside.txt").read_text().strip().splitlines()[-1]
        counts = {int(kind): int(count) for count, kind in re.findall(r"(\d+) of type (\d)", last)}
        bytes_of = [plain["scratch_bytes"], document["scratch_bytes"], before, moved_bytes(ane, folder)]
        yield [name_of(model), *(counts.get(kind, 0) for kind in KINDS), *(f"{n / 1e6:.2f}" for n in bytes_of)]


def call(ane, *arguments):
    return subprocess.run([ane, *map(str, arguments)], capture_output=True, text=True).stdout


def function_rows(ane, found, folder):
    """A head, then tasks and largest error against fp32 for each choice of `--activations`, for models in which it changes tasks."""
    choices = [["--activations", word] for word in ("auto", "fused", "accurate")] + [["--compat", "zin-9.509"]]
    yield ["package", "`auto`", "`fused`", "`accurate`", "`--compat zin-9.509`"]
    for model in found:
        programs = [compiled(ane, model, folder, *choice) for choice in choices]
        if None in programs or len({document["tasks"] for document in programs[:3]}) == 1:
            continue
        names = [output["name"] for output in json.loads(call(ane, "run", model, "--reference", "--json"))["outputs"]]
        files = [f"{name}={folder / str(at)}.npy" for at, name in enumerate(names)]
        write, expect = ([word for file in files for word in (flag, file)] for flag in ("-o", "--expect"))
        call(ane, "run", model, "--seed", 1, "--reference", *write)
        cells = []
        for choice, document in zip(choices, programs):
            outputs = json.loads(call(ane, "run", model, "--seed", 1, "--json", *expect, *choice))["outputs"]
            error = f"{max(output['max_abs_error'] for output in outputs):.1e}".replace("e-0", "e-")
            cells.append(f"{document['tasks']} tasks, {error}")
        yield [name_of(model), *cells]


def traffic_rows(ane, found, folder):
    """A head, then tasks with no optional pass and with all, and megabytes of one run, with results in memory and kept on chip."""
    yield ["package", "tasks, no optional pass", "tasks", "MB through memory", "MB kept on chip", "ratio"]
    for model in found:
        plain = compiled(ane, model, folder, "--pass-limit", "0")
        moved = []
        for flags in (["--disable", "reside"], []):
            whole = compiled(ane, model, folder, *flags)
            moved.append(moved_bytes(ane, folder))
        if plain and whole:
            cells = [f"{n / 1e6:.2f}" for n in moved] + [f"{moved[1] / moved[0]:.2f}" if moved[0] else "-"]
            yield [name_of(model), plain["tasks"], whole["tasks"], *cells]


def weight_rows(ane, found, folder):
    """A head, then kernel bytes of models whose weights are compressed, expanded and as the chip takes them."""
    yield ["package", "kernel bytes, expanded", "compressed", "tasks with palettes", "tasks with sparse weights"]
    for model in (model for model in found if any(form in name_of(model) for form in ("pal", "int8", "sparse"))):
        program, expanded = compiled(ane, model, folder), compiled(ane, model, folder, "--expand-weights")
        if program and expanded:
            tasks = [program["palette_tasks"], program["zero_skipping_tasks"]]
            yield [name_of(model), expanded["kernel_bytes"], program["kernel_bytes"], *tasks]


def seconds(ane, model, folder, repeats=REPEATS):
    """Shortest time of a compilation, and its document."""
    best, document = float("inf"), None
    for _ in range(repeats):
        start = time.perf_counter()
        document = compiled(ane, model, folder)
        best = min(best, time.perf_counter() - start)
    return best, document


def aim_rows(ane, before, sets, folder):
    """A head, then for every set: models that both builds compile, more and fewer tasks, and sums before and after."""
    yield ["set", "models", "more tasks", "fewer tasks", *(f"{what}, {when}" for what in ("tasks", "MB between memory and units", "seconds of compilation") for when in ("before", "after"))]
    for name, found in sets:
        rows = []
        for model in found:
            (old_time, old), (new_time, new) = seconds(before, model, folder), seconds(ane, model, folder)
            if old and new:
                moved = []
                for build in (before, ane):
                    compiled(build, model, folder)
                    moved.append(moved_bytes(build, folder))
                rows.append((old["tasks"], new["tasks"], *moved, old_time, new_time))
        more, fewer = sum(r[1] > r[0] for r in rows), sum(r[1] < r[0] for r in rows)
        sums = [sum(column) for column in zip(*rows)] or [0] * 6
        yield [name, len(rows), more, fewer, *sums[:2], *(f"{n / 1e6:.2f}" for n in sums[2:4]), *(f"{s:.1f}" for s in sums[4:])]


def table(name, about, rows, write):
    """Prints rows, and records them in docs/data."""
    lines = [f"# {about}"]
    for row in rows:
        lines.append("\t".join(map(str, row)))
        print(lines[-1], flush=True)
    if write:
        data = pathlib.Path(__file__).parent.parent / "docs" / "data"
        (data / f"{name}.tsv").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ane", default="target/release/ane")
    parser.add_argument("--write", action="store_true", help="record in docs/data, for `cargo xtask docs`")
    parser.add_argument("--before", help="binary of another build, for --aims")
    parser.add_argument("--aims", nargs="+", metavar="NAME=MODELS", help="sets of models over which two builds are compared")
    parser.add_argument("models", nargs="*")
    arguments = parser.parse_args()
    if arguments.aims:
        if not arguments.before:
            sys.exit("--aims compares with --before")
        sets = [(name, models([path])) for name, _, path in (item.partition("=") for item in arguments.aims)]
        with tempfile.TemporaryDirectory() as folder:
            table("aims", "two builds by set of models", aim_rows(arguments.ane, arguments.before, sets, pathlib.Path(folder)), arguments.write)
        return
    found = models(arguments.models)
    if not found:
        sys.exit("no models there")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        tables = {
            "passes": (pass_rows, "left out, models changed, models refused, tasks, kernel bytes, scratch bytes, modelled engine nanoseconds"),
            "functions": (function_rows, "tasks and errors by --activations"),
            "allocations": (allocation_rows, "buffers by allocation type"),
            "traffic": (traffic_rows, "tasks and bytes between memory and the units"),
            "weights": (weight_rows, "kernel bytes of compressed weights"),
        }
        for name, (rows, about) in tables.items():
            table(name, about, rows(arguments.ane, found, folder), arguments.write)


if __name__ == "__main__":
    main()
