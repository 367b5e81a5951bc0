#!/usr/bin/env python3
"""Tables of docs/compiler.md: what each pass is worth over a folder of models, and buffers by allocation type.

    scripts/compiler_tables.py --ane target/release/ane MODELS [MODELS ...]

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
    return [line.split()[0] for line in listed.splitlines() if line.rstrip().endswith("may be left out")]


def pass_table(ane, found, folder):
    whole = {model: compiled(ane, model, folder) for model in found}
    known = [model for model in found if whole[model]]
    base = [measure(whole[model]) for model in known]
    total = [sum(column) for column in zip(*base)]
    mb = lambda n: f"{n / 1e6:.2f}"
    print("| left out | models changed | tasks | kernel MB | scratch MB | engine us |")
    print("|---|---|---|---|---|---|")
    print(f"| nothing | | {total[0]} | {mb(total[1])} | {mb(total[2])} | {total[3] / 1e3:.0f} |")
    for name in passes(ane):
        rows = [compiled(ane, model, folder, "--disable", name) for model in known]
        refused = sum(row is None for row in rows)
        kept = [(measure(row), own) for row, own in zip(rows, base) if row]
        changed = sum(row != own for row, own in kept)
        sums = [sum(column) for column in zip(*(row for row, _ in kept))]
        without = [sum(column) for column in zip(*(own for _, own in kept))]
        sums = [total[i] + sums[i] - without[i] for i in range(4)]
        note = f", {refused} refused" if refused else ""
        print(f"| `{name}` | {changed}{note} | {sums[0]} | {mb(sums[1])} | {mb(sums[2])} | {sums[3] / 1e3:.0f} |", flush=True)


def allocation_table(ane, found, folder):
    rows = []
    for model in found:
        stages = folder / "stages"
        document = compiled(ane, model, folder, "--dump-ir", str(stages))
        if document is None:
            continue
        last = (stages / "3z-reside.txt").read_text().strip().splitlines()[-1]
        counts = {int(kind): int(count) for count, kind in re.findall(r"(\d+) of type (\d)", last)}
        rows.append((name_of(model), counts, document["scratch_bytes"]))
    kinds = [0, 1, 2, 3, 4, 5, 8]
    print("| package | " + " | ".join(f"type {kind}" for kind in kinds) + " | scratch MB |")
    print("|---" * (len(kinds) + 2) + "|")
    for name, counts, scratch in rows:
        print(f"| {name} | " + " | ".join(str(counts.get(kind, 0)) for kind in kinds) + f" | {scratch / 1e6:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ane", default="target/release/ane")
    parser.add_argument("models", nargs="+")
    arguments = parser.parse_args()
    found = models(arguments.models)
    if not found:
        sys.exit("no models there")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        pass_table(arguments.ane, found, folder)
        print()
        allocation_table(arguments.ane, found, folder)


if __name__ == "__main__":
    main()
