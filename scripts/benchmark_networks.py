"""Thirty networks of all families with random weights, as ONNX: what benchmark.py measures.

    python3 -m venv v && v/bin/pip install torch torchvision torchaudio timm transformers onnx "numpy<2.4"
    v/bin/python scripts/benchmark_networks.py FOLDER [NAME ...]

Writes FOLDER/NAME/model.onnx and its inputs x0.npy, x1.npy, ...: architectures and sizes as their libraries define them.
"""
import os
import sys
import warnings

warnings.filterwarnings("ignore")


def convolutional(image):
    import timm
    import torchvision.models as tv

    for name, size in {
        "mobilenet_v2": 224, "mobilenet_v3_small": 224, "resnet18": 224, "resnet50": 224, "densenet121": 224, "squeezenet1_1": 224,
        "shufflenet_v2_x1_0": 224, "regnet_y_400mf": 224,
    }.items():
        yield name, lambda name=name: getattr(tv, name)(weights=None), image(size)
    yield "lraspp_mobilenet_v3", lambda: Only(tv.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None), "out"), image(224)
    for name, size in {"efficientnet_b0": 224, "convnext_atto": 224, "repvgg_a0": 224, "mobilenetv4_conv_small": 224}.items():
        yield name, lambda name=name: timm.create_model(name, pretrained=False), image(size)
    yield "unet", unet, image(128)
    yield "yolo", yolo, image(256)
    yield "edsr", edsr, image(64)


def attention(image):
    import timm
    import torch
    from transformers import BertConfig, BertModel, WhisperConfig, WhisperModel

    for name, model, size in [
        ("vit_small", "vit_small_patch16_224", 224), ("swin_tiny", "swin_tiny_patch4_window7_224", 224), ("pvt_v2_b0", "pvt_v2_b0", 224),
        ("mobilevit_s", "mobilevit_s", 256), ("mixer_s32", "mixer_s32_224", 224),
    ]:
        yield name, lambda model=model: timm.create_model(model, pretrained=False), image(size)
    eager = {"attn_implementation": "eager"}
    minilm = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536, vocab_size=1000, **eager)
    yield "minilm_l6", lambda: Only(BertModel(minilm).encoder, "last_hidden_state"), (torch.randn(1, 128, 384),)
    whisper = WhisperConfig(d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536, **eager)
    yield "whisper_tiny_encoder", lambda: Only(WhisperModel(whisper).encoder, "last_hidden_state"), (torch.randn(1, 80, 3000),)
    cosine, sine = torch.randn(1, 1, 128, 64), torch.randn(1, 1, 128, 64)
    later = torch.full((128, 128), -1e4).triu(1).view(1, 1, 128, 128)
    yield "llama_prefill", lambda: llama(0), (torch.randn(1, 128, 512), cosine, sine, later)
    cache = [torch.randn(1, 4, 511, 64) for _ in range(4)]
    one = (torch.randn(1, 1, 512), cosine[:, :, :1], sine[:, :, :1], torch.zeros(1, 1, 1, 512))
    yield "llama_decode", lambda: llama(511), (*one, *cache)
    yield "diffusion_block", diffusion, (torch.randn(1, 64, 32, 32), torch.randn(1, 256))


def sequences():
    import torch
    import torch.nn as nn
    import torchaudio

    def recurrent(kind):
        class Recurrent(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers, self.last = kind(40, 64, 2, batch_first=True, bidirectional=True), nn.Linear(128, 10)

            def forward(self, x):
                return self.last(self.layers(x)[0])

        return Recurrent

    class Conformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torchaudio.models.Conformer(144, 4, 576, 4, 31)

        def forward(self, x):
            return self.layers(x, torch.tensor([x.shape[1]]))[0]

    yield "lstm", recurrent(nn.LSTM), (torch.randn(1, 32, 40),)
    yield "gru", recurrent(nn.GRU), (torch.randn(1, 32, 40),)
    yield "conformer", Conformer, (torch.randn(1, 200, 144),)
    yield "wav2letter", lambda: torchaudio.models.Wav2Letter(40, "mfcc", 64), (torch.randn(1, 64, 200),)


def Only(model, key):
    """The model with one of its results."""
    import torch.nn as nn

    class Only(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *inputs):
            return self.model(*inputs)[key]

    return Only()


def unet(base=16):
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    def twice(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.ReLU())

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            widths = [base, 2 * base, 4 * base, 8 * base]
            self.down = nn.ModuleList([twice(3, widths[0]), twice(widths[0], widths[1]), twice(widths[1], widths[2])])
            self.middle = twice(widths[2], widths[3])
            self.up = nn.ModuleList([nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[2::-1]])
            self.both = nn.ModuleList([twice(2 * w, w) for w in widths[2::-1]])
            self.last = nn.Conv2d(base, 2, 1)

        def forward(self, x):
            kept = []
            for layer in self.down:
                x = layer(x)
                kept.append(x)
                x = F.max_pool2d(x, 2)
            x = self.middle(x)
            for up, both in zip(self.up, self.both):
                x = both(torch.cat([up(x), kept.pop()], 1))
            return self.last(x)

    return UNet()


def yolo():
    """A detector of three scales: bottlenecks in parts, pooling pyramid, upsampling and concatenation."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    def conv(a, b, k=1, s=1):
        return nn.Sequential(nn.Conv2d(a, b, k, s, k // 2, bias=False), nn.BatchNorm2d(b), nn.SiLU())

    class Parts(nn.Module):
        def __init__(self, a, b, count, add=True):
            super().__init__()
            self.first, self.last, self.add = conv(a, b), conv((2 + count) * b // 2, b), add
            self.blocks = nn.ModuleList([nn.Sequential(conv(b // 2, b // 2, 3), conv(b // 2, b // 2, 3)) for _ in range(count)])

        def forward(self, x):
            parts = list(self.first(x).chunk(2, 1))
            for block in self.blocks:
                parts.append(parts[-1] + block(parts[-1]) if self.add else block(parts[-1]))
            return self.last(torch.cat(parts, 1))

    class Yolo(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(conv(3, 16, 3, 2), conv(16, 32, 3, 2), Parts(32, 32, 1))
            self.c3 = nn.Sequential(conv(32, 64, 3, 2), Parts(64, 64, 2))
            self.c4 = nn.Sequential(conv(64, 128, 3, 2), Parts(128, 128, 2))
            self.c5 = nn.Sequential(conv(128, 256, 3, 2), Parts(256, 256, 1))
            self.before, self.after = conv(256, 128), conv(512, 256)
            self.p4, self.p3 = Parts(384, 128, 1, False), Parts(192, 64, 1, False)
            self.heads = nn.ModuleList([nn.Conv2d(w, 144, 1) for w in (64, 128, 256)])

        def forward(self, x):
            c3 = self.c3(self.stem(x))
            c4 = self.c4(c3)
            pooled = [self.before(self.c5(c4))]
            for _ in range(3):
                pooled.append(F.max_pool2d(pooled[-1], 5, 1, 2))
            c5 = self.after(torch.cat(pooled, 1))
            p4 = self.p4(torch.cat([F.interpolate(c5, scale_factor=2), c4], 1))
            p3 = self.p3(torch.cat([F.interpolate(p4, scale_factor=2), c3], 1))
            return torch.cat([head(x).flatten(2) for head, x in zip(self.heads, (p3, p4, c5))], 2)

    return Yolo()


def edsr(width=32, blocks=4):
    """Super-resolution by two."""
    import torch.nn as nn

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1))

        def forward(self, x):
            return x + self.layers(x)

    last = [nn.Conv2d(width, 4 * width, 3, 1, 1), nn.PixelShuffle(2), nn.Conv2d(width, 3, 3, 1, 1)]
    return nn.Sequential(nn.Conv2d(3, width, 3, 1, 1), *[Residual() for _ in range(blocks)], *last)


def llama(cached, width=512, heads=8, shared=4, layers=2, inner=1536):
    """A decoder with grouped queries and rotary positions: a prompt, or one token behind a cache."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    each = width // heads

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            sizes = {"q": (width, width), "k": (width, shared * each), "v": (width, shared * each), "o": (width, width)}
            sizes |= {"gate": (width, inner), "up": (width, inner), "down": (inner, width)}
            layer = lambda: nn.ModuleDict({name: nn.Linear(*size, bias=False) for name, size in sizes.items()})
            self.layers, self.last = nn.ModuleList([layer() for _ in range(layers)]), nn.Linear(width, 4000, bias=False)
            self.weight = nn.Parameter(torch.ones(width))

        def norm(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight

        def forward(self, x, cosine, sine, mask, *cache):
            tokens, written = x.shape[1], []
            turn = lambda x: x * cosine + torch.cat([-x.chunk(2, -1)[1], x.chunk(2, -1)[0]], -1) * sine
            for i, layer in enumerate(self.layers):
                y = self.norm(x)
                q, k, v = (layer[n](y).view(1, tokens, -1, each).transpose(1, 2) for n in "qkv")
                q, k = turn(q), turn(k)
                written += [k, v]
                if cached:
                    k, v = torch.cat([cache[2 * i], k], 2), torch.cat([cache[2 * i + 1], v], 2)
                q = q.reshape(1, shared, -1, each)
                scores = q @ k.transpose(-1, -2) / each**0.5
                scores = (scores.view(1, heads, tokens, -1) + mask).view(scores.shape)
                y = (scores.softmax(-1) @ v).view(1, heads, tokens, each).transpose(1, 2)
                x = x + layer["o"](y.reshape(1, tokens, width))
                y = self.norm(x)
                x = x + layer["down"](F.silu(layer["gate"](y)) * layer["up"](y))
            return (self.last(self.norm(x)), *(written if cached else []))

    return Llama()


def diffusion(width=64):
    """A block of a diffusion network: two convolutions with a step's embedding between, then attention over positions."""
    import torch.nn as nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList([nn.GroupNorm(8, width) for _ in range(3)])
            self.convs = nn.ModuleList([nn.Conv2d(width, width, 3, 1, 1) for _ in range(2)])
            self.step, self.act = nn.Linear(256, width), nn.SiLU()
            self.qkv, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

        def forward(self, x, step):
            y = self.convs[0](self.act(self.norms[0](x))) + self.step(self.act(step))[:, :, None, None]
            x = x + self.convs[1](self.act(self.norms[1](y)))
            q, k, v = self.qkv(self.norms[2](x)).flatten(2).chunk(3, 1)
            y = v @ (q.transpose(1, 2) @ k / width**0.5).softmax(-1).transpose(1, 2)
            return x + self.out(y.view(x.shape))

    return Block()


def networks():
    import torch

    image = lambda size: (torch.randn(1, 3, size, size),)
    yield from convolutional(image)
    yield from attention(image)
    yield from sequences()


def export(folder, names):
    import numpy as np
    import torch

    torch.backends.mha.set_fastpath_enabled(False)
    for name, make, inputs in networks():
        path = f"{folder}/{name}"
        if names and name not in names or not names and os.path.exists(f"{path}/model.onnx"):
            continue
        torch.manual_seed(len(name))
        os.makedirs(path, exist_ok=True)
        ports = [f"x{i}" for i in range(len(inputs))]
        try:
            with torch.no_grad():
                torch.onnx.export(make().eval(), inputs, f"{path}/model.onnx", input_names=ports, opset_version=17, dynamo=False)
        except Exception as error:
            print(f"{name}: not exported: {type(error).__name__} {' '.join(str(error).split())[:200]}", flush=True)
            continue
        for port, x in zip(ports, inputs):
            np.save(f"{path}/{port}.npy", x.numpy())
        print(f"{name}: exported", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    export(sys.argv[1], sys.argv[2:])
