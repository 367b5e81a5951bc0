#!/usr/bin/env python3
"""Compares the programs of two builds of `ane` over groups of networks: tasks, bytes through memory, compile time.

    target/release/xtask replay --record target/compare --only nothing    # writes 500 random networks
    scripts/compare_programs.py --before OLD_ANE packages=../shared/models random=target/compare/networks

A group is NAME=FOLDER. Both builds compile every network; programs with equal bytes are executed once. Without --before, the build is
compared with itself without its optional passes. The exit code is 1 if a network has more tasks, or more bytes through memory.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from compiler_tables import models, moved_bytes, name_of

HEAD = [
    "networks", "compiled by both", "one alone compiles", "tasks before", "tasks", "networks with more tasks", "MB through memory before",
    "MB through memory", "networks with more bytes", "compile s before", "compile s",
]


def program(ane, model, folder, *flags):
    """Tasks, seconds and digest of the compiled program; None where it is refused or has several segments."""
    out = folder / "out.hwx"
    out.unlink(missing_ok=True)
    command = [ane, "compile", str(model), "--no-cache", "--engine-only", "--json", "-o", str(out), *flags]
    times = []
    for _ in range(2):
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        times.append(time.perf_counter() - start)
        if done.returncode != 0 or not out.exists():
            return None
    return json.loads(done.stdout)["tasks"], min(times), hashlib.sha256(out.read_bytes()).hexdigest()


def row(ane, before, found, folder, told):
    sums = {"tasks": [0, 0], "bytes": [0, 0], "seconds": [0.0, 0.0]}
    both, alone, more_tasks, more_bytes = 0, 0, 0, 0
    for model in found:
        old = program(before[0], model, folder, *before[1])
        old_bytes = old and moved_bytes(before[0], folder)
        new = program(ane, model, folder)
        if old is None or new is None:
            alone += (old is None) != (new is None)
            continue
        new_bytes = old_bytes if old[2] == new[2] else moved_bytes(ane, folder)
        both += 1
        more_tasks += new[0] > old[0]
        more_bytes += new_bytes > old_bytes
        if new[0] > old[0] or new_bytes > old_bytes:
            told.append(f"{name_of(model)}: tasks {old[0]} to {new[0]}, bytes {old_bytes} to {new_bytes}")
        for key, pair in (("tasks", (old[0], new[0])), ("bytes", (old_bytes, new_bytes)), ("seconds", (old[1], new[1]))):
            sums[key] = [a + b for a, b in zip(sums[key], pair)]
    mb = [f"{n / 1e6:.2f}" for n in sums["bytes"]]
    seconds = [f"{n:.1f}" for n in sums["seconds"]]
    return [both, alone, *sums["tasks"], more_tasks, *mb, more_bytes, *seconds]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ane", default="target/release/ane")
    parser.add_argument("--before", help="the other build")
    parser.add_argument("groups", nargs="+", metavar="NAME=FOLDER")
    arguments = parser.parse_args()
    before = (arguments.before, []) if arguments.before else (arguments.ane, ["--pass-limit", "0"])
    other = "another build" if arguments.before else "the same build without optional passes"
    lines, told = [f"# programs of {other}, and of this one", "\t".join(HEAD)], []
    print(lines[-1])
    with tempfile.TemporaryDirectory() as folder:
        for group in arguments.groups:
            name, _, path = group.partition("=")
            found = models([path])
            lines.append("\t".join(map(str, [f"{name} ({len(found)})", *row(arguments.ane, before, found, pathlib.Path(folder), told)])))
            print(lines[-1], flush=True)
    print("\n".join(told), file=sys.stderr)
    sys.exit(1 if told else 0)


if __name__ == "__main__":
    main()
