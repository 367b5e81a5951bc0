#!/usr/bin/env python3
"""Runs the node tests of the `onnx` package three ways: evaluated (`ane run --reference`), and compiled for the M1 and
executed by the models `fast` and `exact`; each with inputs live, and with all inputs but the first stored as constants.

    cargo build --release && python3 scripts/onnx_backend.py                 # compare with what is recorded
    python3 scripts/onnx_backend.py --record                                 # record, then `cargo xtask docs`
    python3 scripts/onnx_backend.py --match attention -v                     # a few, every outcome
    python3 scripts/onnx_backend.py --every 4                                # one test in four, as `.ci/run` does

It makes a virtual environment with the pinned package (--venv). Outcomes:

- `right`, `wrong` (exit code 0 and another result, or an exit code that no refusal has), `refused` (with a message),
  `warned` (another result, and a warning that says so).
- Not counted ("excluded"): tests with symbolic extents, without elements, with sequences or texts, or with element types
  other than floats of 16 to 64 bits, integers of 8 to 64 bits and truth values.

docs/data/onnx-node-suite.tsv has the outcome of every test by way, docs/data/onnx-node-wrong.tsv those that are wrong with
the reason. The exit code is 1 where a test is wrong and not listed, is listed and not wrong, or was right and is no longer.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

import environment
import onnx_cases

ROOT = pathlib.Path(__file__).resolve().parent.parent
PINNED = ["onnx==1.23.2", "numpy>=2,<3"]
RECORD = ROOT / "docs/data/onnx-node-suite.tsv"
WRONG = ROOT / "docs/data/onnx-node-wrong.tsv"
WAYS = {"reference": ["--reference"], "fast": ["--numerics", "fast"], "exact": ["--numerics", "exact"]}
COLUMNS = [(form, way) for form in onnx_cases.FORMS for way in WAYS]


def own_environment(folder, package):
    """Starts this script again under the environment's interpreter; False where it cannot be made."""
    if pathlib.Path(sys.prefix).resolve() == folder.resolve():
        return True
    python = environment.interpreter(folder, package)
    if python is None:
        return False
    os.execv(python, [str(python), *sys.argv])


def run(ane, folder, case, form, way):
    """Outcome of one run, and what is to be said of it."""
    import numpy
    from onnx_compare import difference

    model, live = case.runs[form]
    command = [ane, "run", str(model), "--json", *WAYS[way]]
    for name, file in live:
        command += ["--input", f"{name}={file}"]
    targets = [folder / f"{case.name}.{form}.{way}.{at}.npy" for at in range(len(case.outputs))]
    for (name, _), target in zip(case.outputs, targets):
        command += ["--output", f"{name}={target}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return "wrong", "no end after 120 s"
    if done.returncode != 0:
        first = message(done.stdout + done.stderr)
        return ("refused" if done.returncode in (1, 2) and "ANE3" not in first else "wrong"), first
    values = {output["name"]: output.get("values") for output in json.loads(done.stdout).get("outputs", [])}
    for (name, wanted), target in zip(case.outputs, targets):
        got = real_rows(numpy.load(target), wanted, values.get(f"{name}_count"))
        target.unlink()
        text = difference(way, case.operator, case.tolerance, got, wanted)
        if text:
            warnings = json.loads(done.stdout).get("warnings", [])
            return ("warned" if warnings else "wrong"), f"{name}: {text}"
    return "right", ""


def real_rows(got, wanted, count):
    """The first rows of an output with a number of them, if all behind them are zero."""
    axes = [axis for axis in range(got.ndim) if got.ndim == wanted.ndim and got.shape[axis] != wanted.shape[axis]]
    if not count or len(axes) != 1:
        return got
    rows, others = got.swapaxes(0, axes[0])[: int(count[0])], got.swapaxes(0, axes[0])[int(count[0]) :]
    return got if others.any() else rows.swapaxes(0, axes[0])


def message(text):
    """The first line of a refusal, from JSON or text."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if line.startswith("{"):
            found = json.loads(line)
            found = found.get("error", found)
            return f"{found.get('code', '')} {found.get('message', '')}".strip()
    return next((line for line in lines if "ANE" in line), lines[0] if lines else "no message")


def recorded():
    """Outcomes by test and column."""
    if not RECORD.exists():
        return {}
    rows = [line.split("\t") for line in RECORD.read_text().splitlines() if line and not line.startswith("#")]
    return {row[0]: dict(zip(COLUMNS, row[2:])) for row in rows}


def listed():
    """Known wrong results: reasons by test and column."""
    known = {}
    for line in WRONG.read_text().splitlines() if WRONG.exists() else ():
        if line and not line.startswith("#"):
            name, columns, reason = line.split("\t")
            for column in columns.split(","):
                known[name, tuple(column.strip().split())] = reason
    return known


def record(cases, outcomes):
    """Writes the outcome of every test, and the list of what is wrong with the reasons known so far."""
    lines = ["# test\toperator\t" + "\t".join(" ".join(c) for c in COLUMNS) + "\tremark"]
    wrong = ["# test\tways\treason"]
    known = {name: reason for (name, _), reason in listed().items()}
    for case in cases:
        row = [outcomes.get((case.name, column), ("-", "")) for column in COLUMNS]
        remark = case.excluded or (row[0][1].split(" is not supported: ")[-1] if row[0][0] == "refused" else "")
        lines.append("\t".join([case.name, case.operator, *(outcome for outcome, _ in row), remark]))
        bad = [(" ".join(column), text) for column, (outcome, text) in zip(COLUMNS, row) if outcome == "wrong"]
        if bad:
            reason = known.get(case.name, f"unexplained: {bad[0][1]}")
            wrong.append("\t".join([case.name, ", ".join(column for column, _ in bad), reason]))
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text("\n".join(line.rstrip() for line in lines) + "\n")
    WRONG.write_text("\n".join(wrong) + "\n")


def findings(outcomes):
    """Differences from the record, and the number of outcomes that are better than recorded."""
    was, known, found, better = recorded(), listed(), [], 0
    names = {name for name, _ in outcomes}
    for (name, column), (outcome, text) in sorted(outcomes.items()):
        before = was.get(name, {}).get(column, "-")
        if outcome == "wrong" and (name, column) not in known:
            found.append(f"{name}, {' '.join(column)}: wrong and not listed: {text}")
        elif outcome != "wrong" and (name, column) in known:
            found.append(f"{name}, {' '.join(column)}: listed as wrong and {outcome}: take it off {WRONG.name}")
        elif before == "right" and outcome != "right":
            found.append(f"{name}, {' '.join(column)}: was right and is {outcome}: {text}")
        better += outcome == "right" and before != "right"
    found += [f"{name}: listed in {WRONG.name} and no test" for name, _ in known if names and name not in names]
    return found, better


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ane", default=str(ROOT / "target/release/ane"), help="the binary")
    parser.add_argument("--venv", type=pathlib.Path, default=ROOT / "target/onnx-venv")
    parser.add_argument("--suite", type=pathlib.Path, default=ROOT / "target/onnx-suite", help="folder of the models")
    parser.add_argument("--package", nargs="*", default=PINNED, help="what pip installs, to try another release")
    parser.add_argument("--match", default="", help="only tests whose name contains this")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one test in N, in the order of their names")
    parser.add_argument("--record", action="store_true", help="write the files in docs/data")
    parser.add_argument("--report", type=pathlib.Path, help="file for every outcome but `right`, with its text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("-v", "--verbose", action="store_true", help="print every outcome but `right`")
    options = parser.parse_args()
    if not own_environment(options.venv, options.package):
        print("onnx node suite: SKIPPED, the onnx package cannot be installed from the registry", file=sys.stderr)
        return 0
    import warnings

    warnings.filterwarnings("ignore")
    partial = options.match or options.every > 1
    cases = onnx_cases.cases(options.suite, options.match, options.every)
    runs = [(case, (form, way)) for case in cases for form, way in COLUMNS if form in case.runs]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda r: run(options.ane, options.suite, r[0], *r[1]), runs)
        outcomes = {(case.name, column): result for (case, column), result in zip(runs, results)}
    by_column = {c: collections.Counter(o for (_, k), (o, _) in outcomes.items() if k == c) for c in COLUMNS}
    for column, counts in by_column.items():
        print(f"{' '.join(column):20}" + ", ".join(f"{counts[o]} {o}" for o in ("right", "wrong", "refused", "warned")))
    told = [f"{o}: {n}, {' '.join(c)}: {text}" for (n, c), (o, text) in sorted(outcomes.items()) if o != "right"]
    if options.verbose:
        print("\n".join(told))
    if options.report:
        options.report.write_text("\n".join(told) + "\n")
    if options.record:
        if partial:
            sys.exit("--record takes the whole suite")
        record(cases, outcomes)
        return 0
    found, better = findings(outcomes)
    if partial:
        found = [f for f in found if "and no test" not in f]
    print("\n".join(found))
    if better:
        print(f"{better} outcomes are better than recorded: record them with --record, then `cargo xtask docs`")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
