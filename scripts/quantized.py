#!/usr/bin/env python3
"""Quantized networks: five small ones quantized by ONNX Runtime in seven ways, compiled, run, and measured.

    python3 -m venv v && v/bin/pip install torch==2.7.0 "numpy<2.4" onnx onnxruntime==1.32.0
    v/bin/python scripts/quantized.py export FOLDER
    v/bin/python scripts/quantized.py measure FOLDER [--ane target/quick/ane] [--write docs/data/quantized.tsv]

`export` writes NETWORK_WAY.onnx, its input and what ONNX Runtime gives without graph optimization. `measure` needs numpy and the tool.
"""
import os
import re
import subprocess
import sys
import warnings

warnings.filterwarnings("ignore")

NETWORKS = ["cnn", "mlp", "encoder", "unet", "inverted"]
WAYS = {
    "float": "not quantized",
    "qdq": "QDQ, int8 activations and weights",
    "qdq_channels": "QDQ, uint8 activations, int8 weights by channel",
    "qdq_16": "QDQ, uint16 activations, int8 weights",
    "qoperator": "QOperator, uint8",
    "qoperator_channels": "QOperator, uint8 activations, weights of 7 bits by channel",
    "dynamic": "dynamic, uint8 weights",
}


def networks():
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    class Cnn(nn.Module):
        def __init__(self):
            super().__init__()
            self.c1, self.b1 = nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16)
            self.c2, self.c3 = nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 32, 1)
            self.c4, self.fc = nn.Conv2d(32, 32, 3, padding=1), nn.Linear(32, 10)

        def forward(self, x):
            x = self.c3(torch.clamp(self.c2(torch.relu(self.b1(self.c1(x)))), 0, 6))
            x = F.max_pool2d(x + self.c4(torch.relu(x)), 2)
            return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(64, 64) for _ in range(4))
            self.n1, self.n2 = nn.LayerNorm(64), nn.LayerNorm(64)
            self.f1, self.f2 = nn.Linear(64, 128), nn.Linear(128, 64)

        def forward(self, x):
            h = self.n1(x)
            q, k, v = (f(h).reshape(1, 16, 4, 16).transpose(1, 2) for f in (self.q, self.k, self.v))
            a = torch.softmax(q @ k.transpose(-1, -2) / 4, -1) @ v
            x = x + self.o(a.transpose(1, 2).reshape(1, 16, 64))
            return x + self.f2(F.gelu(self.f1(self.n2(x))))

    class Unet(nn.Module):
        def __init__(self):
            super().__init__()
            self.d1, self.d2 = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
            self.u, self.o = nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Conv2d(16, 1, 1)

        def forward(self, x):
            a = torch.relu(self.d1(x))
            return torch.sigmoid(self.o(torch.cat([a, self.u(torch.relu(self.d2(a)))], 1)))

    class Inverted(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.e = nn.Conv2d(3, 16, 3, 2, 1), nn.Conv2d(16, 48, 1)
            self.d, self.s1 = nn.Conv2d(48, 48, 3, 1, 1, groups=48), nn.Conv2d(48, 12, 1)
            self.s2, self.p, self.f = nn.Conv2d(12, 48, 1), nn.Conv2d(48, 16, 1), nn.Linear(16, 8)

        def forward(self, x):
            x = F.hardswish(self.a(x))
            h = F.leaky_relu(self.d(F.hardswish(self.e(x))), 0.1)
            g = torch.sigmoid(self.s2(torch.relu(self.s1(h.mean((2, 3), keepdim=True)))))
            return self.f((x + self.p(h * g)).mean((2, 3)))

    layers = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 16), nn.Softmax(-1)]
    mlp = nn.Sequential(*layers)
    image = (1, 3, 32, 32)
    return dict(zip(NETWORKS, [
        (Cnn(), image), (mlp, (4, 64)), (Encoder(), (1, 16, 64)), (Unet(), (1, 1, 32, 32)), (Inverted(), image),
    ]))


def export(folder):
    import numpy as np
    import onnxruntime
    import torch
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Samples(CalibrationDataReader):
        def __init__(self, shape):
            draw = np.random.default_rng(1)
            self.samples = iter([{"x": draw.standard_normal(shape).astype(np.float32)} for _ in range(8)])

        def get_next(self):
            return next(self.samples, None)

    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    qdq, operators = QuantFormat.QDQ, QuantFormat.QOperator
    s8, u8 = QuantType.QInt8, QuantType.QUInt8
    ways = {
        "qdq": dict(quant_format=qdq, activation_type=s8, weight_type=s8),
        "qdq_channels": dict(quant_format=qdq, activation_type=u8, weight_type=s8, per_channel=True),
        "qdq_16": dict(quant_format=qdq, activation_type=QuantType.QUInt16, weight_type=s8,
                       extra_options={"UseQDQContribOps": True}),
        "qoperator": dict(quant_format=operators, activation_type=u8, weight_type=u8),
        "qoperator_channels": dict(quant_format=operators, activation_type=u8, weight_type=u8, per_channel=True,
                                   reduce_range=True),
    }
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for name, (module, shape) in networks().items():
        path = lambda way: os.path.join(folder, f"{name}_{way}.onnx")
        x = torch.randn(shape, generator=torch.Generator().manual_seed(7))
        np.save(os.path.join(folder, f"{name}_x.npy"), x.numpy())
        torch.onnx.export(module.eval(), x, path("float"), input_names=["x"], output_names=["y"], opset_version=17,
                          dynamo=False)
        quant_pre_process(path("float"), path("prepared"))
        for way, options in ways.items():
            quantize_static(path("prepared"), path(way), Samples(shape), **options)
        quantize_dynamic(path("prepared"), path("dynamic"), weight_type=u8)
        for way in WAYS:
            y = onnxruntime.InferenceSession(path(way), plain).run(None, {"x": x.numpy()})[0]
            np.save(os.path.join(folder, f"{name}_{way}_y.npy"), y)


def measure(folder, ane):
    import numpy as np

    def run(*arguments):
        return subprocess.run([ane, *arguments], capture_output=True, text=True)

    rows = []
    for name in NETWORKS:
        exact = np.load(os.path.join(folder, f"{name}_float_y.npy"))
        for way in WAYS:
            model = os.path.join(folder, f"{name}_{way}.onnx")
            out = os.path.join(folder, "out.npy")
            compiled = run("compile", model, "-o", os.path.join(folder, "out.hwx"))
            tasks = re.search(r"(\d+) tasks", compiled.stdout + compiled.stderr)
            wanted = np.load(os.path.join(folder, f"{name}_{way}_y.npy"))
            errors = [abs(wanted - exact).max() / abs(exact).max()]
            for how in (["--reference"], [], ["--numerics", "exact"]):
                done = run("run", model, "-i", os.path.join(folder, f"{name}_x.npy"), "-o", out, *how)
                got = np.load(out).reshape(wanted.shape) if done.returncode == 0 else np.full(wanted.shape, np.nan)
                errors.append(abs(got - wanted).max() / abs(wanted).max())
            rows.append([name, way, tasks.group(1) if tasks else "refused", *(f"{100 * e:.2f}" for e in errors)])
            print(*rows[-1], flush=True)
    return rows


def write(path, rows):
    head = ["network", "quantization", "tasks", "error of quantization, %", "evaluator, %", "`fast`, %", "`exact`, %"]
    with open(path, "w") as file:
        file.write("# written by scripts/quantized.py measure --write\n")
        file.writelines("\t".join(row) + "\n" for row in [head, *rows])


def main():
    arguments = sys.argv[1:]
    option = lambda name, default: arguments[arguments.index(name) + 1] if name in arguments else default
    if len(arguments) < 2 or arguments[0] not in ("export", "measure"):
        sys.exit(__doc__)
    if arguments[0] == "export":
        return export(arguments[1])
    rows = measure(arguments[1], option("--ane", "target/quick/ane"))
    if "--write" in arguments:
        write(option("--write", None), rows)


if __name__ == "__main__":
    main()
