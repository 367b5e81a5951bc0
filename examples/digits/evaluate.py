"""Accuracy on the 360 held-back images of scikit-learn's digits, by number model and size of weights, with intervals.

    pip install anemone-ane[sweep] scikit-learn
    python evaluate.py [--limit N] [--write ../../docs/data/digits.tsv]

Prints tab-separated rows, or writes them to a file, from which `cargo xtask docs` makes the table of docs/python.md. The split is that
of `train.py`.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import anemone
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = pathlib.Path(__file__).resolve().parent
SEED = 7  # as in train.py
WEIGHTS = {"fp16": [], "int8": ["--int8"], "4-bit palettes": ["--palettize", "4"]}


def held_back():
    """Images [360,1,8,8] in 0..1 and their classes."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None]
    _, images, _, labels = train_test_split(
        images, digits.target, test_size=0.2, random_state=SEED, stratify=digits.target
    )
    return images, labels


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, help="so many images only")
    parser.add_argument("--write", type=pathlib.Path, help="file that gets the rows")
    arguments = parser.parse_args()
    limit = arguments.limit
    images, labels = held_back()
    dataset = list(zip(images, labels))
    rows = ["weights\tnumbers\taccuracy\t95 % interval\timages"]
    with tempfile.TemporaryDirectory() as folder:
        for name, flags in WEIGHTS.items():
            path = HERE / "digits.mlpackage"
            if flags:
                source, path = path, pathlib.Path(folder) / f"{name.split()[0]}.mlpackage"
                convert = [sys.executable, "-m", "anemone", "convert", source, "-o", path, "--quiet", *flags]
                subprocess.run(convert, check=True)
            model = anemone.load(path)
            scores = {}
            for numerics in ("fast", "exact"):
                result = anemone.evaluate(
                    model, dataset, "top1", numerics=numerics, limit=limit, reference=lambda **x: model.evaluate(x)
                )
                if result.errors:
                    sys.exit(result.errors[0])
                scores["fp32 (evaluator)"], scores[numerics] = result.reference, result.program
            for numerics, score in scores.items():
                bounds = f"{100 * score.low:.1f} to {100 * score.high:.1f} %"
                rows.append(f"{name}\t{numerics}\t{100 * score.mean:.2f} %\t{bounds}\t{score.n}")
    if arguments.write:
        source = "# written by examples/digits/evaluate.py --write"
        arguments.write.write_text("\n".join([source, *rows]) + "\n")
    else:
        print("\n".join(rows))


if __name__ == "__main__":
    main()
