#!/usr/bin/env python3
"""Tests of the Python package with what it works beside: joblib, Dask, mypy, notebooks.

    cargo build --release && python3 scripts/python_package.py                # the module that cargo built
    python3 scripts/python_package.py --wheel target/release-files/X.whl      # an installed wheel, with no Rust on the path
    ANE_TEST_RAY=1 ANE_TEST_RUNS=100000 python3 scripts/python_package.py     # by hand: Ray too, a long run

It makes a virtual environment (--venv). Where the registry of packages is not reachable, it says so and ends with 0.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

import environment

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ["numpy>=2,<3", "joblib==1.5.2", "distributed==2025.9.1", "mypy==1.18.2", "nbclient==0.10.2", "ipykernel==6.30.1", "ml_dtypes"]
# Beside a wheel: the check of its tags, and what the examples need.
BESIDE_WHEEL = ["auditwheel>=6,<7", "scikit-learn"]


def lay(python, module):
    """Puts the package with a module that cargo built where the environment finds it."""
    where = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True)
    package = pathlib.Path(where.strip()) / "anemone"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(ROOT / "crates/python/python/anemone", package)
    shutil.copy(module, package / "_anemone.abi3.so")


def without_rust(folder):
    """The search path without folders that have Rust's tools, the environment's own first."""
    tools = ("cargo", "rustc", "rustup", "maturin")
    others = [f for f in os.environ["PATH"].split(os.pathsep) if not any((pathlib.Path(f) / t).exists() for t in tools)]
    return os.pathsep.join([str(folder.absolute() / "bin"), *others])


def misnamed(python, wheel):
    """What is wrong with a wheel's platform tag; None where it is right, or of another system than Linux."""
    wanted = re.search(r"manylinux_(\d+)_(\d+)_", wheel.name)
    if not wanted:
        return None
    told = subprocess.run([python, "-m", "auditwheel", "show", wheel], capture_output=True, text=True)
    needed = re.search(r'platform tag:\s+"manylinux_(\d+)_(\d+)_', told.stdout)
    if needed and tuple(map(int, needed.groups())) <= tuple(map(int, wanted.groups())):
        return None
    return f"{wheel.name}: {told.stdout}{told.stderr}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", type=pathlib.Path, default=ROOT / "target/release/lib_anemone.so")
    parser.add_argument("--wheel", type=pathlib.Path)
    parser.add_argument("--venv", type=pathlib.Path, default=ROOT / "target/python-venv")
    args = parser.parse_args()
    packages = PACKAGES + (BESIDE_WHEEL if args.wheel else []) + (["ray"] if os.environ.get("ANE_TEST_RAY") else [])
    python = environment.interpreter(args.venv, packages)
    if python is None:
        print("skipped: the packages cannot be installed here")
        return 0
    if args.wheel:
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", args.wheel], check=True)
    elif args.module.exists():
        lay(python, args.module)
    else:
        print(f"{args.module}: not built: cargo build --release --workspace", file=sys.stderr)
        return 2
    told = {**os.environ, "ANE_EXAMPLE": str(ROOT / "examples/digits"), "PYTHONDONTWRITEBYTECODE": "1"}
    tests = ROOT / "crates/python/tests"
    steps = [
        [python, "-m", "unittest", "-q", "test_anemone", "test_arrays", "test_sweep"],
        [python, "-m", "mypy", "--strict", "--no-error-summary", str(tests / "typed.py")],
        [python, str(ROOT / "examples/will-it-run/execute.py")],
    ]
    if args.wheel:
        problem = misnamed(python, args.wheel)
        if problem:
            print(problem, file=sys.stderr)
            return 1
        told["PATH"] = without_rust(args.venv)
        examples, command = ROOT / "examples", python.with_name("ane")
        digits = examples / "digits"
        steps += [
            [command, "doctor"],
            [command, "run", digits / "digits.mlpackage", "-i", digits / "image.npy", "--expect", digits / "expected.npy", "--atol", "2e-3"],
            [command, "run", examples / "tour/edge.mil", "-i", examples / "tour/image.npy"],
            [command, "check", examples / "train/step.mil"],
            [python, digits / "evaluate.py", "--limit", "60"],
        ]
    failed = [s for s in steps if subprocess.run(s, cwd=tests, env=told).returncode]
    for step in failed:
        print("failed:", *map(str, step[1:]), file=sys.stderr)
    print(f"{len(steps) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
