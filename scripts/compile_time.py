#!/usr/bin/env python3
"""Times the compiler on chains and wide networks of growing size, and fails where the time grows faster than the size.

    python3 -m venv venv && venv/bin/pip install onnx numpy
    cargo build --profile quick --workspace && venv/bin/python scripts/compile_time.py --ane target/quick/ane

Prints seconds of processor time by number of operations. Exit code 1 where four times the operations take more than --most times as long,
from --from operations on.
"""
import argparse
import pathlib
import resource
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHAPE = [1, 8, 4, 4]


class Graph:
    def __init__(self):
        self.nodes, self.stored = [], []

    def node(self, op, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def constant(self, values, kind):
        name = f"c{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.asarray(values, kind), name))
        return name


def chain(g, count):
    """Functions and operations with the input, one after another."""
    last = "x"
    while len(g.nodes) < count:
        last = g.node("Tanh", [g.node("Mul", [g.node("Sigmoid", [g.node("Add", [last, "x"])]), "x"])])
    return last


def convolutions(g, count):
    random, last = np.random.default_rng(0), "x"
    while len(g.nodes) < count:
        last = g.node("Relu", [g.node("Conv", [last, g.constant(random.normal(0, 0.3, (8, 8, 1, 1)), np.float32)])])
    return last


def parts(g, count):
    """Functions of the input, concatenated."""
    return g.node("Concat", [g.node("Sigmoid" if at % 2 else "Tanh", ["x"]) for at in range(count - 1)], axis=1)


def sums(g, count):
    """Products of the input with different constants, added in pairs."""
    all_ = [g.node("Mul", ["x", g.constant([1 + at / count], np.float32)]) for at in range(count // 2)]
    while len(all_) > 1:
        pairs = [g.node("Add", all_[at : at + 2]) for at in range(0, len(all_) - 1, 2)]
        all_ = pairs + all_[2 * len(pairs) :]
    return all_[0]


def slices(g, count):
    """Halves that change places, one of them through a function."""
    bounds = [g.constant([n], np.int64) for n in (0, 4, 8, 1)]
    last = "x"
    while len(g.nodes) < count:
        low, high = g.node("Slice", [last, *bounds[:2], bounds[3]]), g.node("Slice", [last, *bounds[1:]])
        last = g.node("Concat", [high, g.node("Sigmoid", [low])], axis=1)
    return last


def transposes(g, count):
    """Functions between transposes that undo each other."""
    last = "x"
    while len(g.nodes) < count:
        last = g.node("Relu", [g.node("Transpose", [g.node("Sigmoid", [last])], perm=[0, 2, 1, 3])])
    return last


def products(g, count):
    """Products of computed matrices with a softmax between."""
    last = "x"
    while len(g.nodes) < count:
        turned = g.node("Transpose", [last], perm=[0, 1, 3, 2])
        last = g.node("MatMul", [g.node("Softmax", [g.node("MatMul", [last, turned])]), last])
    return last


def padded(g, count):
    """Windows behind padding, over gathered channels."""
    pads, places, last = g.constant([0, 0, 1, 1, 0, 0, 0, 0], np.int64), g.constant([3, 1, 0, 2, 7, 6, 5, 4], np.int64), "x"
    while len(g.nodes) < count:
        last = g.node("MaxPool", [g.node("Pad", [g.node("Gather", [last, places], axis=1), pads])], kernel_shape=[2, 2])
    return last


def model(form, count, path):
    g = Graph()
    last = form(g, count)
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)], [helper.make_empty_tensor_value_info(last)]
    graph = helper.make_graph(g.nodes, form.__name__, *ends, g.stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(made), path)


def seconds(ane, path, output):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([ane, "compile", str(path), "--no-cache", "-q", "-o", str(output)], capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[0]
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ane", default="target/release/ane")
    parser.add_argument("--sizes", default="1000,4000,16000,64000", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--most", default=8.0, type=float, help="growth from one size to four times as many")
    parser.add_argument("--from", dest="least", default=4000, type=int, help="below, the start of the process counts")
    options = parser.parse_args()
    slow = False
    print("| network | " + " | ".join(f"{n:,}" for n in options.sizes) + " |")
    print("|---|" + "---|" * len(options.sizes))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for form in (chain, convolutions, parts, sums, slices, transposes, products, padded):
            cells, before = [], None
            for count in options.sizes:
                model(form, count, folder / "model.onnx")
                took, why = seconds(options.ane, folder / "model.onnx", folder / "model.hwx")
                cells.append(why if took is None else f"{took:.2f}")
                if took is not None and before and before[0] >= options.least:
                    slow |= took > before[1] * options.most * count / before[0] / 4
                before = (count, took) if took is not None else None
            print(f"| {form.__name__} | " + " | ".join(cells) + " |", flush=True)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
