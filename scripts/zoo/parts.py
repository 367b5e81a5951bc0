"""Parts that several networks have."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

R, S = torch.randn, nn.Sequential


def img(size, channels=3):
    return (R(1, channels, size, size),)


def ids(count, vocabulary=200):
    return torch.randint(0, vocabulary, (1, count), dtype=torch.int32)


class Part(nn.Module):
    """Part of a model's result, chosen by a function."""

    def __init__(self, model, run):
        super().__init__()
        self.model, self.run = model, run

    def forward(self, *inputs):
        return self.run(self.model, *inputs)


def first(model, *inputs):
    return model(*inputs, return_dict=False)[0]


class Attention(nn.Module):
    def __init__(self, d, h, kd=None):
        super().__init__()
        self.h = h
        kd = kd or d
        self.q, self.k, self.v, self.o = nn.Linear(d, d), nn.Linear(kd, d), nn.Linear(kd, d), nn.Linear(d, d)

    def forward(self, x, c=None, mask=None):
        c = x if c is None else c
        b, t, d = x.shape
        s = c.shape[1]
        q = self.q(x).view(b, t, self.h, -1).transpose(1, 2)
        k = self.k(c).view(b, s, self.h, -1).transpose(1, 2)
        v = self.v(c).view(b, s, self.h, -1).transpose(1, 2)
        a = q @ k.transpose(-1, -2) / math.sqrt(d // self.h)
        if mask is not None:
            a = a + mask
        return self.o((a.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class EncoderBlock(nn.Module):
    def __init__(self, d, h=4, m=4, act=nn.GELU):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.a = Attention(d, h)
        self.m = S(nn.Linear(d, m * d), act(), nn.Linear(m * d, d))

    def forward(self, x, mask=None):
        x = x + self.a(self.n1(x), mask=mask)
        return x + self.m(self.n2(x))


class Fn(nn.Module):
    """Parts and the function over them."""

    def __init__(self, f, **parts):
        super().__init__()
        self.f = f
        for k, v in parts.items():
            if isinstance(v, torch.Tensor) and not isinstance(v, nn.Parameter):
                self.register_buffer(k, v)
            else:
                setattr(self, k, v)

    def forward(self, *a):
        return self.f(self, *a)


def cbr(a, b, k=3, s=1, act=nn.ReLU, g=1, d=1):
    return S(nn.Conv2d(a, b, k, s, d * (k // 2), d, groups=g, bias=False), nn.BatchNorm2d(b), act())


class SDPA(nn.Module):
    def __init__(self, d, h, causal=False):
        super().__init__()
        self.qkv, self.o, self.h, self.causal = nn.Linear(d, 3 * d), nn.Linear(d, d), h, causal

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.o(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, d, h=4, m=4, act=nn.GELU, causal=False):
        super().__init__()
        self.n1, self.n2, self.a = nn.LayerNorm(d), nn.LayerNorm(d), SDPA(d, h, causal)
        self.m = S(nn.Linear(d, m * d), act(), nn.Linear(m * d, d))

    def forward(self, x):
        x = x + self.a(self.n1(x))
        return x + self.m(self.n2(x))


class Residual(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return F.relu(x + self.f(x))
