"""The training loop of train.c in PyTorch: the same numbers, steps and rate."""
import numpy as np
import torch

SAMPLES, INPUTS, HIDDEN, OUTPUTS = 16, 8, 16, 4


def numbers(count, seed, scale, shape):
    out, state = [], seed
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        out.append(np.float16((state >> 16) / 32768 - 1))
    return torch.tensor(np.array(out, np.float32) * scale).reshape(shape)


first = numbers(INPUTS * HIDDEN, 1, 0.5, (INPUTS, HIDDEN)).requires_grad_()
second = numbers(HIDDEN * OUTPUTS, 2, 0.5, (HIDDEN, OUTPUTS)).requires_grad_()
learned = numbers(INPUTS * OUTPUTS, 3, 0.5, (INPUTS, OUTPUTS))
optimizer = torch.optim.SGD([first, second], lr=0.05, momentum=0.9)
for step in range(100):
    x = numbers(SAMPLES * INPUTS, 10 + step % 4, 1.0, (SAMPLES, INPUTS))
    loss = ((torch.relu(x @ first) @ second - x @ learned) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 0 or step % 10 == 9:
        print(f"step {step + 1:3}  loss {loss.item():.5f}")
