#!/usr/bin/env python3
"""Continues a prompt greedily: one pass over the prompt, then a step for every token, with keys and values held between the calls.

    python decode.py [TOKENS]

Prints the text, and compares its tokens with those of PyTorch (expected.json).
"""
import json
import pathlib
import sys

import anemone
import numpy as np

here = pathlib.Path(__file__).parent
expected = json.loads((here / "expected.json").read_text())
letters, prompt = expected["letters"], expected["prompt"]
count = int(sys.argv[1]) if len(sys.argv) > 1 else 64

prefill, decode = (anemone.load(here / "decoder.mlpackage", function=name).compile("m1") for name in ("prefill", "decode"))
state = decode.make_state()

ids = [letters.index(c) for c in prompt]
logits = prefill.run(ids=np.array([ids], np.int32), position=np.array([0], np.int32), state=state)["logits"]
while len(ids) < len(prompt) + count:
    ids.append(int(logits[0, -1].argmax()))
    step = {"ids": np.array([ids[-1:]], np.int32), "position": np.array([len(ids) - 1], np.int32)}
    logits = decode.run(inputs=step, state=state)["logits"]

print("".join(letters[i] for i in ids))
made, wanted = ids[len(prompt) :], expected["tokens"][:count]
same = sum(a == b for a, b in zip(made, wanted))
print(f"{same} of {len(wanted)} tokens as PyTorch")
sys.exit(made != wanted)
