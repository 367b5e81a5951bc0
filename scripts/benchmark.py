#!/usr/bin/env python3
"""Times the engine beside ONNX Runtime and OpenVINO, in turns, and prints the ratio of medians to the faster one of them.

All run the same architectures on the same machine in fp32 or what the program computes with, each in a process of its own that is
stopped out of its turn, with its defaults but for the number of threads. Networks are thirty of many families with random weights
(benchmark_networks.py), or Core ML packages beside graphs of the same layers: times do not depend on the weights.

    python3 -m venv venv && venv/bin/pip install onnxruntime openvino onnx "numpy<2.4"
    cargo build --release -p anemone --example pace
    venv/bin/python scripts/benchmark_networks.py FOLDER
    venv/bin/python scripts/benchmark.py --pace target/release/examples/pace --networks FOLDER [NAME ...]
    venv/bin/python scripts/benchmark.py --pace target/release/examples/pace --models ../shared/models
    venv/bin/python scripts/benchmark.py --compile target/release/examples/pace --models ../shared/models
    venv/bin/python scripts/benchmark.py --ane target/release/ane --models ../shared/models

`--record docs/data/performance-NAME.json` puts every run into a file, from which `cargo xtask docs` makes tables. `--second OTHER` times
another build of `pace` in the same turns. OpenVINO is left out where it is not installed.
"""

import argparse
import contextlib
import datetime
import importlib.metadata
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


def feeds(folder, ports):
    """Inputs of a network by name: the files beside it, or random numbers. A port is its name, shape and whether it holds integers."""
    random = np.random.default_rng(2)
    values = {}
    for name, shape, integers in ports:
        path = Path(folder or ".") / f"{name}.npy"
        value = np.load(path) if folder and path.exists() else random.normal(0, 1, shape)
        values[name] = value.astype(np.int64 if integers else np.float32)
    return values


def onnx_runtime(graph, folder, threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    x = feeds(folder, [(port.name, port.shape, "int" in port.type) for port in session.get_inputs()])
    return lambda: session.run(None, x)


def open_vino(graph, folder, threads):
    import openvino

    core = openvino.Core()
    model = core.read_model(graph) if isinstance(graph, bytes) else core.read_model(str(graph))
    hints = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
    request = core.compile_model(model, "CPU", hints).create_infer_request()
    ports = [(port.any_name, tuple(port.shape), "int" in port.element_type.to_string() or port.element_type.to_string()[0] == "i")
             for port in model.inputs]
    x = feeds(folder, ports)
    return lambda: request.infer(x, share_inputs=True, share_outputs=True)


RIVALS = {"onnx": onnx_runtime, "openvino": open_vino}


def version(kind):
    """Version of a rival, or None where it is not installed."""
    names = {"onnx": "onnxruntime", "openvino": "openvino"}
    try:
        return importlib.metadata.version(names[kind])
    except importlib.metadata.PackageNotFoundError:
        return None


def serve(kind, network, threads):
    """A rival as a side, by default but for the number of threads. The network is a file, or the name of one of `NETWORKS`."""
    path = Path(network)
    graph, folder = (str(path), path.parent) if path.suffix == ".onnx" else (NETWORKS[network](), None)
    work = RIVALS[kind](graph, folder, threads)
    work()
    print("ready", flush=True)
    for line in sys.stdin:
        start = time.perf_counter_ns()
        for _ in range(int(line)):
            work()
        print(time.perf_counter_ns() - start, flush=True)


def compare_compilation(arguments, package, graph):
    """Times compilation beside creating a fully optimised session: the whole command, reading and writing
    files, or within a process, from the model's path to the program. Returns the ratio of medians."""
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
    print(f"{package.parent.name}: compile {a:.0f} ms, ONNX Runtime session {b:.0f} ms, ratio of medians {a / b:.2f}", flush=True)
    return a / b


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


def record(path, networks, case, threads, times, load):
    """Puts every run of a network into a file of measurements, which `cargo xtask docs` makes tables and plots of."""
    data = json.loads(path.read_text()) if path.exists() else {"schema": "anemone.performance/1", "host": host(), "series": []}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    if networks:
        data["set"] = "Networks with random weights"
    data["series"] = [series for series in data["series"] if series["case"] != case]
    for kind, runs in times.items():
        series = {"case": case, "kind": kind, "unit": "ms", "threads": threads, "commit": commit.stdout.strip()}
        series |= {"date": datetime.date.today().isoformat(), "load": load, "runs": [round(run, 4) for run in runs]}
        if kind in RIVALS:
            series["version"] = version(kind)
        data["series"].append(series)
    data["series"].sort(key=lambda series: (series["case"], series["kind"]))
    rows = ",\n    ".join(json.dumps(series) for series in data["series"])
    head = json.dumps({key: value for key, value in data.items() if key != "series"}, indent=2)[1:-2].rstrip()
    path.write_text(f"{{{head},\n  \"series\": [\n    {rows}\n  ]\n}}\n")


def measure(arguments, case, commands, few):
    """Runs all sides in turns; prints and records their times. Returns the ratios of `fast` and `exact` to the fastest rival."""
    times, busy = ({kind: [] for kind in commands} for _ in range(2))
    load = os.getloadavg()[0]
    with contextlib.ExitStack() as stack:
        sides = {kind: stack.enter_context(contextlib.closing(Side(*of))) for kind, of in commands.items()}
        for side in sides.values():
            side.process.send_signal(signal.SIGSTOP)
        end = time.monotonic() + arguments.seconds if few else float("inf")
        for turn in range(arguments.rounds):
            if turn >= 5 and time.monotonic() > end:
                break
            for kind, side in sides.items():
                clock, on_cores = side.turn(1 if few else 4)
                times[kind].append(clock)
                busy[kind].append(on_cores)
    if arguments.record:
        recorded = {kind: of for kind, of in times.items() if not kind.startswith("second")}
        record(arguments.record, few, case, arguments.threads, recorded, round(load, 1))
    rivals = [kind for kind in times if kind in RIVALS]
    fastest = min(rivals, key=lambda kind: statistics.median(times[kind]), default=None)
    print(f"{case}: " + ", ".join(f"{kind} {version(kind)}" for kind in rivals))
    ratios = {}
    for kind, of in times.items():
        line = f"  {kind}: median {statistics.median(of):.3g} ms, best {min(of):.3g}"
        if kind not in RIVALS and fastest:
            found = [take(runs[kind]) / take(runs[fastest]) for runs in (times, busy) for take in (statistics.median, min)]
            ratios[kind] = found[0]
            line += f"; times {fastest}: median {found[0]:.2f}, best {found[1]:.2f}; on cores: median {found[2]:.2f}, best {found[3]:.2f}"
        print(line, flush=True)
    return ratios


def sides(arguments, model, network):
    """Commands of all sides for a model of ours, and a network for the others; None where there is none."""
    commands = {kind: [arguments.pace, model, kind] for kind in ("fast", "exact")}
    if arguments.second:
        commands |= {f"second {kind}": [arguments.second, model, kind] for kind in ("fast", "exact")}
    for kind in RIVALS:
        if network and version(kind):
            commands[kind] = [sys.executable, __file__, "--serve", kind, "--network", network, "--threads", arguments.threads]
    return commands


def measure_networks(arguments):
    """Times the networks of a folder, or their compilation, and prints median and worst ratio."""
    all_ratios = []
    for path in sorted(arguments.networks.glob("*/model.onnx")):
        if arguments.names and path.parent.name not in arguments.names:
            continue
        if not arguments.pace:
            all_ratios.append({"compilation": compare_compilation(arguments, path, str(path))})
            continue
        try:
            all_ratios.append(measure(arguments, path.parent.name, sides(arguments, path, path), True))
        except SystemExit as error:
            print(f"{path.parent.name}: {error}")
    for kind in ("fast", "exact", "compilation"):
        found = sorted(ratios[kind] for ratios in all_ratios if kind in ratios)
        if found:
            print(f"{kind}: median ratio {statistics.median(found):.2f}, worst {found[-1]:.2f}, {len(found)} networks")


def measure_packages(arguments):
    networks = dict(NETWORKS)
    if arguments.record:
        names = (path.parent.name for path in sorted(arguments.models.glob("*/model.mlpackage")))
        networks |= {name: None for name in names if not any(name.startswith(known) for known in NETWORKS)}
    for name, build in networks.items():
        packages = sorted(arguments.models.glob(f"{name}*/model.mlpackage"))
        if not packages:
            print(f"{name}: no package {name}*/model.mlpackage in {arguments.models}")
        elif arguments.ane or arguments.compile:
            compare_compilation(arguments, packages[0], build())
        else:
            measure(arguments, packages[0].parent.name, sides(arguments, packages[0], build and name), False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tool = parser.add_mutually_exclusive_group(required=True)
    tool.add_argument("--pace", help="the built example `pace`: times of runs")
    tool.add_argument("--compile", help="the built example `pace`: times of compiling, beside creating a session")
    tool.add_argument("--serve", choices=RIVALS, help=argparse.SUPPRESS)
    tool.add_argument("--ane", help="the built `ane`: times of the whole command, beside creating a session")
    parser.add_argument("--network", help=argparse.SUPPRESS)
    parser.add_argument("--networks", type=Path, help="folder that benchmark_networks.py wrote")
    parser.add_argument("--models", type=Path, help="folder of packages, as ANE_MODELS_DIR")
    parser.add_argument("--second", help="`pace` of another build, in the same turns as that of --pace")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=5, help="of a network, after which no further round begins")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--record", type=Path, help="file that every run of --pace is put into, those of packages alone too")
    parser.add_argument("names", nargs="*", help="networks of --networks; all without any")
    arguments = parser.parse_args()
    if arguments.serve:
        return serve(arguments.serve, arguments.network, arguments.threads)
    if arguments.networks:
        return measure_networks(arguments)
    if not arguments.models:
        parser.error("--models FOLDER or --networks FOLDER")
    measure_packages(arguments)


if __name__ == "__main__":
    main()
