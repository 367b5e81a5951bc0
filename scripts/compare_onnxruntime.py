#!/usr/bin/env python3
"""Times the engine beside ONNX Runtime, in turns, and prints the ratio of their medians.

Both run the same architectures on the same machine, each in a process of its own that is stopped out of its turn: Anemone
a Core ML package through its register program, ONNX Runtime a graph of the same layers in fp32 with random weights (times
do not depend on them), as it is by default.

    python3 -m venv venv && venv/bin/pip install onnxruntime onnx numpy
    cargo build --release -p anemone --example pace
    venv/bin/python scripts/compare_onnxruntime.py --pace target/release/examples/pace --models ../shared/models
    venv/bin/python scripts/compare_onnxruntime.py --pace target/release/examples/pace --models ../shared/models \\
        --record docs/data/performance-NAME.json && cargo xtask docs
    venv/bin/python scripts/compare_onnxruntime.py --compile target/release/examples/pace --models ../shared/models
    venv/bin/python scripts/compare_onnxruntime.py --ane target/release/ane --models ../shared/models
"""

import argparse
import contextlib
import datetime
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """Builds a network layer by layer; a value is its name and its channels."""

    def __init__(self):
        self.nodes, self.weights = [], []
        self.random = np.random.default_rng(1)

    def add(self, op, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def weight(self, *shape):
        name = f"w{len(self.weights)}"
        fan_in = np.prod(shape[1:]) if len(shape) > 1 else 100
        data = self.random.normal(0, (2 / fan_in) ** 0.5, shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(data, name))
        return name

    def scalar(self, value):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.float32(value), name))
        return name

    def conv(self, x, cin, cout, k=1, stride=1, groups=1):
        pad = k // 2
        return self.add(
            "Conv",
            [x, self.weight(cout, cin // groups, k, k), self.weight(cout)],
            kernel_shape=[k, k],
            strides=[stride, stride],
            pads=[pad] * 4,
            group=groups,
        )

    def relu(self, x):
        return self.add("Relu", [x])

    def relu6(self, x):
        return self.add("Clip", [x, self.scalar(0), self.scalar(6)])

    def linear(self, x, cin, cout):
        x = self.add("MatMul", [x, self.weight(cin, cout)])
        return self.add("Add", [x, self.weight(cout)])

    def norm(self, x, channels):
        return self.add("LayerNormalization", [x, self.weight(channels), self.weight(channels)], axis=-1, epsilon=1e-12)

    def reshaped(self, x, shape):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(shape, np.int64), name))
        return self.add("Reshape", [x, name])

    def classify(self, x, channels):
        x = self.add("Flatten", [self.add("GlobalAveragePool", [x])])
        return self.add("Gemm", [x, self.weight(1000, channels), self.weight(1000)], transB=1)

    def model(self, y, shape=(1, 3, 224, 224), result=(1, 1000)):
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(y, TensorProto.FLOAT, result)],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        return model.SerializeToString()


def mobilenet_v2():
    g = Graph()
    x, c = g.relu6(g.conv("x", 3, 32, 3, 2)), 32
    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for expand, cout, count, first_stride in stages:
        for i in range(count):
            stride, hidden, y = (first_stride if i == 0 else 1), c * expand, x
            if expand > 1:
                y = g.relu6(g.conv(y, c, hidden))
            y = g.relu6(g.conv(y, hidden, hidden, 3, stride, hidden))
            y = g.conv(y, hidden, cout)
            x, c = (g.add("Add", [x, y]) if stride == 1 and c == cout else y), cout
    return g.model(g.classify(g.relu6(g.conv(x, c, 1280)), 1280))


def resnet18():
    g = Graph()
    x = g.relu(g.conv("x", 3, 64, 7, 2))
    x, c = g.add("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for cout, first_stride in [(64, 1), (128, 2), (256, 2), (512, 2)]:
        for stride in (first_stride, 1):
            y = g.conv(g.relu(g.conv(x, c, cout, 3, stride)), cout, cout, 3)
            if stride > 1:
                x = g.conv(x, c, cout, 1, stride)
            x, c = g.relu(g.add("Add", [x, y])), cout
    return g.model(g.classify(x, c))


def minilm_layer(tokens=128, width=384, heads=12):
    """A layer of MiniLM-L6: attention, then two products with a gelu between, each added and normalized."""
    g = Graph()
    apart = [1, tokens, heads, width // heads]

    def turned(order):
        return g.add("Transpose", [g.reshaped(g.linear("x", width, width), apart)], perm=order)

    q, k, v = turned([0, 2, 1, 3]), turned([0, 2, 3, 1]), turned([0, 2, 1, 3])
    scores = g.add("Mul", [g.add("MatMul", [q, k]), g.scalar((heads / width) ** 0.5)])
    y = g.add("MatMul", [g.add("Softmax", [scores], axis=-1), v])
    y = g.reshaped(g.add("Transpose", [y], perm=[0, 2, 1, 3]), [1, tokens, width])
    x = g.norm(g.add("Add", ["x", g.linear(y, width, width)]), width)
    y = g.linear(x, width, 4 * width)
    erf = g.add("Erf", [g.add("Mul", [y, g.scalar(0.5**0.5)])])
    y = g.add("Mul", [g.add("Mul", [y, g.add("Add", [erf, g.scalar(1)])]), g.scalar(0.5)])
    y = g.norm(g.add("Add", [x, g.linear(y, 4 * width, width)]), width)
    return g.model(y, (1, tokens, width), (1, tokens, width))


NETWORKS = {"mobilenet_v2": mobilenet_v2, "resnet18": resnet18, "minilm_layer0": minilm_layer}


class Side:
    """A program that runs a network as often as each line it reads says, and answers with the nanoseconds. Out of its turn
    it is stopped: threads that look for work would take the cores from the other side."""

    def __init__(self, *command):
        self.process = subprocess.Popen([*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            self.close()
            raise SystemExit(f"it did not start: {' '.join(map(str, command))}")

    def run(self, runs):
        """Milliseconds of a run."""
        self.process.stdin.write(f"{runs}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline()) / runs / 1e6

    def busy(self):
        """Milliseconds that its threads had a core: other programs do not count."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6

    def turn(self, runs):
        """Milliseconds of a run by the clock, and on cores, after one that warms up."""
        self.process.send_signal(signal.SIGCONT)
        self.run(1)
        before = self.busy()
        clock = self.run(runs)
        busy = (self.busy() - before) / runs
        self.process.send_signal(signal.SIGSTOP)
        return clock, busy

    def close(self):
        """Ends it, stopped or not: one that is stopped would never see that nobody asks any more."""
        self.process.kill()
        self.process.wait()


def serve(network, threads):
    """ONNX Runtime as a side, by default but for the number of threads."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(NETWORKS[network](), options, providers=["CPUExecutionProvider"])
    x = {"x": np.random.default_rng(2).normal(0, 1, session.get_inputs()[0].shape).astype(np.float32)}
    session.run(None, x)
    print("ready", flush=True)
    for line in sys.stdin:
        start = time.perf_counter_ns()
        for _ in range(int(line)):
            session.run(None, x)
        print(time.perf_counter_ns() - start, flush=True)


def compare_compilation(arguments, package, graph):
    """Times compilation beside creating a fully optimised session from memory: the whole command, reading and writing
    files, or within a process, from the package's path to the program."""
    ours, theirs = [], []
    within = Side(arguments.compile, package, "compile") if arguments.compile else None
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.ane, "compile", str(package), "-q", "--no-cache", "-o", f"{folder}/model.hwx"]
        for _ in range(arguments.rounds):
            if within:
                ours.append(within.run(1))
            else:
                start = time.perf_counter()
                subprocess.run(command, check=True)
                ours.append((time.perf_counter() - start) * 1e3)
            options = ort.SessionOptions()
            options.intra_op_num_threads = arguments.threads
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
            start = time.perf_counter()
            ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
            theirs.append((time.perf_counter() - start) * 1e3)
    a, b = statistics.median(ours), statistics.median(theirs)
    print(f"{package.parent.name}: compile {a:.0f} ms, ONNX Runtime session {b:.0f} ms, ratio of medians {a / b:.2f}")


def host():
    """Processor, its widest vectors, and cores of this machine."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    told = {}
    for line in lines:
        name, _, value = line.partition(":")
        told.setdefault(name.strip(), value.strip())
    flags = told.get("flags", "").split()
    vectors = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else platform.machine()
    return {
        "processor": told.get("model name", platform.processor()),
        "instruction_set": vectors,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def record(path, case, threads, times, load):
    """Puts every run of a network into a file of measurements, which `cargo xtask docs` makes tables and plots of."""
    data = json.loads(path.read_text()) if path.exists() else {"schema": "anemone.performance/1", "host": host(), "series": []}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    data["series"] = [series for series in data["series"] if series["case"] != case]
    for kind, runs in times.items():
        series = {"case": case, "kind": kind, "unit": "ms", "threads": threads, "commit": commit.stdout.strip()}
        series |= {"date": datetime.date.today().isoformat(), "load": load, "runs": [round(run, 4) for run in runs]}
        if kind == "onnx":
            series["version"] = ort.__version__
        data["series"].append(series)
    data["series"].sort(key=lambda series: (series["case"], series["kind"]))
    rows = ",\n    ".join(json.dumps(series) for series in data["series"])
    head = json.dumps({key: value for key, value in data.items() if key != "series"}, indent=2)[1:-2].rstrip()
    path.write_text(f"{{{head},\n  \"series\": [\n    {rows}\n  ]\n}}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tool = parser.add_mutually_exclusive_group(required=True)
    tool.add_argument("--pace", help="the built example `pace`: times of runs")
    tool.add_argument("--compile", help="the built example `pace`: times of compiling, beside creating a session")
    tool.add_argument("--serve", choices=NETWORKS, help=argparse.SUPPRESS)
    tool.add_argument("--ane", help="the built `ane`: times of the whole command, beside creating a session")
    parser.add_argument("--models", required=True, type=Path, help="folder of packages, as ANE_MODELS_DIR")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--record", type=Path, help="file that every run of --pace is put into, those of packages alone too")
    arguments = parser.parse_args()
    if arguments.serve:
        return serve(arguments.serve, arguments.threads)
    networks = dict(NETWORKS)
    if arguments.record:
        names = (path.parent.name for path in sorted(arguments.models.glob("*/model.mlpackage")))
        networks |= {name: None for name in names if not any(name.startswith(known) for known in NETWORKS)}
    for name, build in networks.items():
        packages = sorted(arguments.models.glob(f"{name}*/model.mlpackage"))
        if not packages:
            print(f"{name}: no package {name}*/model.mlpackage in {arguments.models}")
            continue
        if arguments.ane or arguments.compile:
            compare_compilation(arguments, packages[0], build())
            continue
        commands = {kind: [arguments.pace, packages[0], kind] for kind in ("fast", "exact")}
        if build:
            commands["onnx"] = [sys.executable, __file__, "--serve", name, "--models", arguments.models]
            commands["onnx"] += ["--threads", arguments.threads]
        times, busy = ({kind: [] for kind in commands} for _ in range(2))
        load = os.getloadavg()[0]
        with contextlib.ExitStack() as stack:
            sides = {kind: stack.enter_context(contextlib.closing(Side(*of))) for kind, of in commands.items()}
            for side in sides.values():
                side.process.send_signal(signal.SIGSTOP)
            for _ in range(arguments.rounds):
                for kind, side in sides.items():
                    clock, on_cores = side.turn(4)
                    times[kind].append(clock)
                    busy[kind].append(on_cores)
        if arguments.record:
            record(arguments.record, packages[0].parent.name, arguments.threads, times, round(load, 1))
        print(f"{packages[0].parent.name}, ONNX Runtime {ort.__version__}:" if build else f"{packages[0].parent.name}:")
        for kind in times:
            line = f"  {kind}: median {statistics.median(times[kind]):.2f} ms, best {min(times[kind]):.2f}"
            if kind != "onnx" and build:
                ratios = [
                    measure(of[kind]) / measure(of["onnx"]) for of in (times, busy) for measure in (statistics.median, min)
                ]
                line += ", times that of ONNX Runtime: median {:.2f}, best {:.2f}; on cores: median {:.2f}, best {:.2f}"
                line = line.format(*ratios)
            print(line)


if __name__ == "__main__":
    main()
