#!/usr/bin/env python3
"""A tiny decoder of the Llama family, trained on sentences made here, as one package with two functions.

    pip install -r requirements.txt && python train.py

Writes decoder.mlpackage (functions `prefill` and `decode`, over one pair of states) and expected.json: a prompt and the tokens that
PyTorch continues it with, greedily.
"""
import json
import shutil

import coremltools as ct
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

WORDS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen".split()
LETTERS = "\n " + "".join(sorted(set("".join(WORDS) + "and is.")))
CONTEXT, PROMPT = 128, 16
WIDTH, LAYERS, HEADS, GROUPS, SIZE = 64, 2, 4, 2, 16


def sentences(count, rng):
    """Sums in words, each of the last number and the last digit of the sum before: `two and three is five. three and five is eight.`"""
    parts = []
    while len(parts) < count:
        a, b = rng.integers(0, 10, 2)
        for _ in range(40):
            parts.append(f"{WORDS[a]} and {WORDS[b]} is {WORDS[a + b]}.")
            a, b = b, (a + b) % 10
    return " ".join(parts)


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.gain


def turn(x, cos, sin):
    """Rotary positions: halves of a head are the two coordinates."""
    a, b = x[..., : SIZE // 2], x[..., SIZE // 2 :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        line = lambda a, b: nn.Linear(a, b, bias=False)
        self.before, self.between = Norm(), Norm()
        self.q, self.k, self.v, self.o = line(WIDTH, HEADS * SIZE), line(WIDTH, GROUPS * SIZE), line(WIDTH, GROUPS * SIZE), line(HEADS * SIZE, WIDTH)
        self.gate, self.up, self.down = line(WIDTH, 160), line(WIDTH, 160), line(160, WIDTH)

    def forward(self, x, rotation, mask, cache):
        count = x.shape[1]
        y = self.before(x)
        q = turn(self.q(y).view(-1, count, HEADS, SIZE).transpose(1, 2), *rotation)
        k = turn(self.k(y).view(-1, count, GROUPS, SIZE).transpose(1, 2), *rotation)
        v = self.v(y).view(-1, count, GROUPS, SIZE).transpose(1, 2)
        k, v = cache(k, v)
        k, v = (z.repeat_interleave(HEADS // GROUPS, 1) for z in (k, v))
        weights = (q @ k.transpose(-1, -2) * SIZE**-0.5 + mask).softmax(-1)
        x = x + self.o((weights @ v).transpose(1, 2).reshape(-1, count, HEADS * SIZE))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(LETTERS), WIDTH)
        self.layers, self.norm = nn.ModuleList([Layer() for _ in range(LAYERS)]), Norm()
        angles = torch.arange(CONTEXT)[:, None] * 10000.0 ** (-torch.arange(SIZE // 2) * 2 / SIZE)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids):
        """Logits of a whole text."""
        count = ids.shape[1]
        mask = torch.full((count, count), -1e4).triu(1)
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, (self.cos[:count], self.sin[:count]), mask, lambda k, v: (k, v))
        return self.norm(x) @ self.embed.weight.T


class Step(nn.Module):
    """The decoder over some tokens from a position on: keys and values of all positions are states."""

    def __init__(self, decoder, count):
        super().__init__()
        self.decoder, self.count = decoder, count
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(LAYERS, GROUPS, CONTEXT, SIZE))

    def forward(self, ids, position):
        d, places = self.decoder, position + torch.arange(self.count, dtype=torch.int32)
        rotation = (d.cos[places], d.sin[places])
        everywhere = torch.arange(CONTEXT, dtype=torch.int32)
        mask = torch.where(everywhere[None, :] <= places[:, None], 0.0, -1e4)
        end, x = position + self.count, d.embed(ids)
        for i, layer in enumerate(d.layers):
            def cache(k, v, i=i):
                self.keys[i : i + 1, :, position:end] = k
                self.values[i : i + 1, :, position:end] = v
                return self.keys[i : i + 1], self.values[i : i + 1]
            x = layer(x, rotation, mask, cache)
        return d.norm(x) @ d.embed.weight.T


def train():
    torch.manual_seed(0)
    rng, model = np.random.default_rng(0), Decoder()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.01)
    steps = 2000
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, steps)
    text = torch.tensor([LETTERS.index(c) for c in sentences(4000, rng)])
    for step in range(steps):
        parts = torch.stack([text[at : at + 96] for at in rng.integers(0, len(text) - 96, 16)])
        total = F.cross_entropy(model(parts[:, :-1]).flatten(0, 1), parts[:, 1:].flatten())
        optimizer.zero_grad()
        total.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print(f"step {step + 1}: loss {total.item():.3f}", flush=True)
    return model.eval()


def function(decoder, count, path):
    step = Step(decoder, count).eval()
    inputs = (torch.zeros(1, count, dtype=torch.int32), torch.zeros(1, dtype=torch.int32))
    with torch.no_grad():
        traced = torch.jit.trace(step, inputs, check_trace=False)
    shape = (LAYERS, GROUPS, CONTEXT, SIZE)
    states = [ct.StateType(ct.TensorType(shape=shape, dtype=np.float16), name=name) for name in ("keys", "values")]
    ports = [ct.TensorType("ids", (1, count), np.int32), ct.TensorType("position", (1,), np.int32)]
    ct.convert(traced, inputs=ports, outputs=[ct.TensorType("logits", dtype=np.float16)], states=states, skip_model_load=True,
               minimum_deployment_target=ct.target.iOS18).save(path)


if __name__ == "__main__":
    decoder = train()
    both = ct.utils.MultiFunctionDescriptor()
    for name, count in (("prefill", PROMPT), ("decode", 1)):
        function(decoder, count, f"/tmp/{name}.mlpackage")
        both.add_function(f"/tmp/{name}.mlpackage", "main", name)
    both.default_function_name = "decode"
    shutil.rmtree("decoder.mlpackage", ignore_errors=True)
    ct.utils.save_multifunction(both, "decoder.mlpackage")
    prompt = "two and three is"
    ids = [LETTERS.index(c) for c in prompt]
    with torch.no_grad():
        for _ in range(64):
            ids.append(int(decoder(torch.tensor([ids]))[0, -1].argmax()))
    with open("expected.json", "w") as file:
        json.dump({"letters": LETTERS, "prompt": prompt, "tokens": ids[PROMPT:]}, file)
    print("".join(LETTERS[i] for i in ids))
