"""Train a small digit classifier and export it as a Core ML ML Program.

    python train.py [--out DIR]

Everything is seeded and runs on one CPU thread, so a re-run with the pinned
requirements on the same kind of machine writes the same bytes.
"""

import argparse
import json
import shutil
import uuid
from pathlib import Path

import coremltools as ct
import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

SEED = 7
EPOCHS = 80
BATCH = 64
N_TEST_IMAGES = 64
UUID_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "anemone/examples/digits")


class DigitNet(nn.Module):
    """[1,1,8,8] pixels in 0..1  ->  [1,10] class probabilities."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding="same")
        self.conv2 = nn.Conv2d(16, 32, 3, padding="same")
        self.depthwise = nn.Conv2d(32, 32, 3, padding="same", groups=32)
        self.pointwise = nn.Conv2d(32, 64, 1)
        self.fc = nn.Linear(64, 10)

    # `q` is applied to every intermediate tensor. It is the identity, except
    # when the fp16 model is emulated (see evaluate_fp16).
    def logits(self, x, q=lambda t: t):
        x = q(F.relu(q(self.conv1(x))))          # [1,16,8,8]
        x = q(F.relu(q(self.conv2(x))))          # [1,32,8,8]
        x = F.max_pool2d(x, 2, 2)                # [1,32,4,4]
        x = q(F.relu(q(self.depthwise(x))))      # [1,32,4,4]
        x = q(F.relu(q(self.pointwise(x))))      # [1,64,4,4]
        x = q(x.mean(dim=(2, 3)))                # [1,64]
        return q(self.fc(x))                     # [1,10]

    def forward(self, x):
        return F.softmax(self.logits(x), dim=1)


def load_data():
    digits = load_digits()
    x = (digits.images / 16.0).astype(np.float32)[:, None]  # pixels are 0..16
    y = digits.target.astype(np.int32)
    return train_test_split(x, y, test_size=0.2, random_state=SEED, stratify=y)


def train(model, x, y):
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-2)
    steps = EPOCHS * -(-len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    model.train()
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x)).split(BATCH):
            loss = F.cross_entropy(model.logits(x[batch]), y[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()


@torch.no_grad()
def evaluate_fp32(model, x):
    return model(x)


@torch.no_grad()
def evaluate_fp16(model, x):
    """The model with weights and every intermediate tensor rounded to fp16
    (sums are still formed in fp32)."""

    def q(t):
        return t.half().float()

    rounded = DigitNet().eval()
    rounded.load_state_dict({k: q(v) for k, v in model.state_dict().items()})
    return q(F.softmax(rounded.logits(q(x), q), dim=1))


def export(model, path):
    traced = torch.jit.trace(model, torch.zeros(1, 1, 8, 8))
    mlmodel = ct.convert(
        traced,
        convert_to="mlprogram",
        inputs=[ct.TensorType(name="image", shape=(1, 1, 8, 8), dtype=np.float32)],
        outputs=[ct.TensorType(name="probs", dtype=np.float32)],
        minimum_deployment_target=ct.target.iOS16,
        compute_precision=ct.precision.FLOAT16,
        skip_model_load=True,
    )
    mlmodel.short_description = "Handwritten digit classifier (8x8 grayscale)"
    mlmodel.license = "MIT OR Apache-2.0"
    mlmodel.input_description["image"] = "8x8 grayscale image, pixels in 0..1"
    mlmodel.output_description["probs"] = "Probability of each digit 0..9"
    shutil.rmtree(path, ignore_errors=True)
    mlmodel.save(str(path))
    make_reproducible(path)


def make_reproducible(path):
    """Replace what differs from run to run: the conversion date, the order of
    protobuf map entries, and the random identifiers in the manifest."""
    spec_path = path / "Data/com.apple.CoreML/model.mlmodel"
    spec = ct.proto.Model_pb2.Model.FromString(spec_path.read_bytes())
    user_defined = spec.description.metadata.userDefined
    for key in [k for k in user_defined if k.endswith("conversion_date")]:
        del user_defined[key]
    spec_path.write_bytes(spec.SerializeToString(deterministic=True))
    spec_path.chmod(0o644)

    manifest_path = path / "Manifest.json"
    manifest = json.loads(manifest_path.read_text())
    entries, root = {}, None
    for old_id, entry in manifest["itemInfoEntries"].items():
        new_id = str(uuid.uuid5(UUID_NAMESPACE, entry["path"])).upper()
        entries[new_id] = entry
        if old_id == manifest["rootModelIdentifier"]:
            root = new_id
    manifest["itemInfoEntries"] = entries
    manifest["rootModelIdentifier"] = root
    manifest_path.write_text(json.dumps(manifest, indent=4, sort_keys=True) + "\n")


def print_ops(path):
    spec = ct.models.MLModel(str(path), skip_model_load=True).get_spec()
    (function,) = spec.mlProgram.functions.values()
    block = function.block_specializations[function.opset]
    dtypes = {v: k for k, v in ct.proto.MIL_pb2.DataType.items()}
    print(f"ops (opset {function.opset}):")
    for op in block.operations:
        if op.type == "const":
            continue
        for out in op.outputs:
            tensor = out.type.tensorType
            shape = [d.constant.size for d in tensor.dimensions]
            print(f"  {op.type:12} {dtypes[tensor.dataType].lower()} {shape}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    x_train, x_test, y_train, y_test = load_data()
    model = DigitNet()
    train(model, torch.from_numpy(x_train), torch.from_numpy(y_train).long())

    x = torch.from_numpy(x_test)
    fp32, fp16 = evaluate_fp32(model, x).numpy(), evaluate_fp16(model, x).numpy()
    print(f"parameters: {sum(p.numel() for p in model.parameters())}")
    print(f"images: {len(x_train)} for training, {len(x_test)} held out")
    for name, probs in (("fp32", fp32), ("fp16", fp16)):
        right = int((probs.argmax(1) == y_test).sum())
        print(f"test accuracy {name}: {right}/{len(x_test)} = {100 * right / len(x_test):.2f} %")
    print(f"largest fp16 - fp32 difference of a probability: {np.abs(fp16 - fp32).max():.5f}")

    # The sample: among the exported images the model gets right, the one whose
    # winning probability is nearest 0.8. The class is clear, yet the other
    # probabilities are large enough that comparing them checks something.
    shown = slice(0, N_TEST_IMAGES)
    is_right = fp32[shown].argmax(1) == y_test[shown]
    sample = int(np.where(is_right, np.abs(fp32[shown].max(1) - 0.8), 1.0).argmin())
    image = np.ascontiguousarray(x_test[sample : sample + 1])
    expected = evaluate_fp32(model, torch.from_numpy(image)).numpy()

    export(model, out / "digits.mlpackage")
    np.save(out / "image.npy", image)
    np.save(out / "expected.npy", expected)
    np.save(out / "test_images.npy", np.ascontiguousarray(x_test[shown]))
    np.save(out / "test_labels.npy", np.ascontiguousarray(y_test[shown]))
    (out / "labels.txt").write_text("".join(f"{d}\n" for d in range(10)))

    print(f"first {N_TEST_IMAGES} held-out images: {int(is_right.sum())} right")
    print(
        f"image.npy is test image {sample}: a {y_test[sample]}; "
        f"expected class {expected.argmax()}, probability {expected.max():.6f}"
    )
    print("expected.npy:", " ".join(f"{p:.6f}" for p in expected[0]))
    print_ops(out / "digits.mlpackage")


if __name__ == "__main__":
    main()
