#!/usr/bin/env python3
"""Small networks of many families with random weights: exported, compiled, run, and put into docs/networks.md.

    python3 -m venv v && v/bin/pip install torch==2.7.0 coremltools==9.0 "numpy<2.4" onnx
    v/bin/python scripts/networks.py export FOLDER [NAME ...]
    python3 scripts/networks.py measure FOLDER [--ane target/quick/ane] [--pace target/quick/examples/pace]
                                              [--write docs/data/networks.tsv] [NAME ...]

`export` writes FOLDER/NAME/model.mlpackage, model.onnx, inputs x0.npy, ... and expected.npy (PyTorch, fp32). `measure` needs nothing
but the tool, and for times (--pace) ONNX Runtime and the example `pace`. Further networks are in families.py.
"""
import json
import os
import statistics
import subprocess
import sys
import time
import warnings

warnings.filterwarnings("ignore")


def networks():
    import math
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from families import Fn, cbr

    R = torch.randn
    S = nn.Sequential

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

    class Block(nn.Module):
        def __init__(self, d, h=4, m=4, act=nn.GELU):
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.a = Attention(d, h)
            self.m = S(nn.Linear(d, m * d), act(), nn.Linear(m * d, d))

        def forward(self, x, mask=None):
            x = x + self.a(self.n1(x), mask=mask)
            return x + self.m(self.n2(x))

    class ViT(nn.Module):
        def __init__(self, d=96, p=16, s=112, n=2, extra=1):
            super().__init__()
            self.p = nn.Conv2d(3, d, p, p)
            self.c = nn.Parameter(R(1, extra, d) * 0.1)
            self.e = nn.Parameter(R(1, (s // p) ** 2 + extra, d) * 0.1)
            self.b = nn.ModuleList([Block(d) for _ in range(n)])
            self.n, self.o = nn.LayerNorm(d), nn.Linear(d, 10)

        def forward(self, x):
            x = self.p(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.c.expand(x.shape[0], -1, -1), x], 1) + self.e
            for b in self.b:
                x = b(x)
            return self.o(self.n(x)[:, 0])

    class Swin(nn.Module):
        def __init__(self, d=48, w=7, s=28, h=3):
            super().__init__()
            self.w, self.s, self.h = w, s, h
            self.p, self.n0 = nn.Conv2d(3, d, 4, 4), nn.LayerNorm(d)
            self.n = nn.ModuleList([nn.LayerNorm(d) for _ in range(4)])
            self.qkv = nn.ModuleList([nn.Linear(d, 3 * d) for _ in range(2)])
            self.o = nn.ModuleList([nn.Linear(d, d) for _ in range(2)])
            self.m = nn.ModuleList([S(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(2)])
            self.bias = nn.Parameter(R(h, w * w, w * w) * 0.1)
            self.nm, self.merge = nn.LayerNorm(4 * d), nn.Linear(4 * d, 2 * d, bias=False)

        def forward(self, x):
            x = self.p(x)
            b, d, s, _ = x.shape
            w, n = self.w, s // self.w
            x = self.n0(x.permute(0, 2, 3, 1))
            for i in range(2):
                y = self.n[2 * i](x)
                if i:
                    y = torch.roll(y, (-(w // 2), -(w // 2)), (1, 2))
                y = y.view(b, n, w, n, w, d).permute(0, 1, 3, 2, 4, 5).reshape(b * n * n, w * w, d)
                q, k, v = self.qkv[i](y).reshape(-1, w * w, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4).unbind(0)
                a = (q * (d // self.h) ** -0.5) @ k.transpose(-2, -1) + self.bias.unsqueeze(0)
                y = self.o[i]((a.softmax(-1) @ v).transpose(1, 2).reshape(-1, w * w, d))
                y = y.view(b, n, n, w, w, d).permute(0, 1, 3, 2, 4, 5).reshape(b, s, s, d)
                if i:
                    y = torch.roll(y, (w // 2, w // 2), (1, 2))
                x = x + y
                x = x + self.m[i](self.n[2 * i + 1](x))
            x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
            return self.merge(self.nm(x)).mean((1, 2))

    class Mixer(nn.Module):
        def __init__(self, d=96, p=32, s=224, t=24):
            super().__init__()
            n = (s // p) ** 2
            self.p, self.n1, self.n2 = nn.Conv2d(3, d, p, p), nn.LayerNorm(d), nn.LayerNorm(d)
            self.t = S(nn.Linear(n, t), nn.GELU(), nn.Linear(t, n))
            self.c = S(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
            self.o = nn.Linear(d, 10)

        def forward(self, x):
            x = self.p(x).flatten(2).transpose(1, 2)
            x = x + self.t(self.n1(x).transpose(1, 2)).transpose(1, 2)
            x = x + self.c(self.n2(x))
            return self.o(x.mean(1))

    class LN2(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.n = nn.LayerNorm(d)

        def forward(self, x):
            return self.n(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    class ConvNeXt(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.stem = S(nn.Conv2d(3, d, 4, 4), LN2(d))
            self.dw, self.n = nn.Conv2d(d, d, 7, 1, 3, groups=d), nn.LayerNorm(d)
            self.m, self.g = S(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)), nn.Parameter(R(d))
            self.down, self.o = S(LN2(d), nn.Conv2d(d, 2 * d, 2, 2)), nn.Linear(2 * d, 10)

        def forward(self, x):
            x = self.stem(x)
            y = self.n(self.dw(x).permute(0, 2, 3, 1))
            x = x + (self.m(y) * self.g).permute(0, 3, 1, 2)
            return self.o(self.down(x).mean((-2, -1)))

    class MobileViT(nn.Module):
        def __init__(self, c=32, d=48, p=2):
            super().__init__()
            self.p = p
            self.s = S(cbr(3, 16, 3, 2, nn.SiLU), cbr(16, c, 3, 2, nn.SiLU))
            self.l, self.i, self.b = cbr(c, c, 3, 1, nn.SiLU), nn.Conv2d(c, d, 1, bias=False), Block(d, act=nn.SiLU)
            self.o, self.f, self.h = cbr(d, c, 1, 1, nn.SiLU), cbr(2 * c, c, 3, 1, nn.SiLU), nn.Linear(c, 10)

        def forward(self, x):
            x = self.s(x)
            y = self.i(self.l(x))
            b, d, h, w = y.shape
            p, nh, nw = self.p, h // self.p, w // self.p
            y = y.reshape(b * d * nh, p, nw, p).transpose(1, 2).reshape(b, d, nh * nw, p * p).transpose(1, 3)
            y = self.b(y.reshape(b * p * p, nh * nw, d))
            y = y.view(b, p * p, nh * nw, d).transpose(1, 3).reshape(b * d * nh, nw, p, p).transpose(1, 2)
            y = y.reshape(b, d, h, w)
            return self.h(self.f(torch.cat([x, self.o(y)], 1)).mean((2, 3)))

    class SE(nn.Module):
        def __init__(self, c, r=4, act=nn.SiLU, gate=nn.Sigmoid):
            super().__init__()
            self.a, self.b, self.f, self.g = nn.Conv2d(c, c // r, 1), nn.Conv2d(c // r, c, 1), act(), gate()

        def forward(self, x):
            return x * self.g(self.b(self.f(self.a(x.mean((2, 3), keepdim=True)))))

    def mb(c, e=4, act=nn.SiLU, gate=nn.Sigmoid, k=3):
        return Fn(lambda s, x: x + s.m(x), m=S(
            nn.Conv2d(c, e * c, 1, bias=False), nn.BatchNorm2d(e * c), act(),
            nn.Conv2d(e * c, e * c, k, 1, k // 2, groups=e * c, bias=False), nn.BatchNorm2d(e * c), act(),
            SE(e * c, 4, act, gate), nn.Conv2d(e * c, c, 1, bias=False), nn.BatchNorm2d(c)))

    class UNet(nn.Module):
        def __init__(self, c=16):
            super().__init__()
            self.d1, self.d2, self.m = cbr(3, c), cbr(c, 2 * c), cbr(2 * c, 4 * c)
            self.u2, self.u1 = nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), nn.ConvTranspose2d(2 * c, c, 2, 2)
            self.c2, self.c1, self.o = cbr(4 * c, 2 * c), cbr(2 * c, c), nn.Conv2d(c, 2, 1)

        def forward(self, x):
            a = self.d1(x)
            b = self.d2(F.max_pool2d(a, 2))
            y = self.m(F.max_pool2d(b, 2))
            y = self.c2(torch.cat([self.u2(y), b], 1))
            return self.o(self.c1(torch.cat([self.u1(y), a], 1)))

    class DeepLab(nn.Module):
        def __init__(self, c=32):
            super().__init__()
            self.b = S(cbr(3, 16, 3, 2), cbr(16, c, 3, 2), cbr(c, c, 3, 2), cbr(c, c, 3, 2))
            self.a = nn.ModuleList([S(nn.Conv2d(c, c, 3, padding=r, dilation=r, bias=False), nn.BatchNorm2d(c), nn.ReLU())
                                    for r in (6, 12, 18)])
            self.i, self.g = cbr(c, c, 1), S(nn.Conv2d(c, c, 1), nn.ReLU())
            self.p, self.o = cbr(5 * c, c, 1), nn.Conv2d(c, 5, 1)

        def forward(self, x):
            y = self.b(x)
            g = F.interpolate(self.g(F.adaptive_avg_pool2d(y, 1)), size=y.shape[2:], mode="bilinear")
            y = self.p(torch.cat([self.i(y), *[a(y) for a in self.a], g], 1))
            return F.interpolate(self.o(y), scale_factor=8.0, mode="bilinear", align_corners=False)

    class SD(nn.Module):
        def __init__(self, c=64, k=96):
            super().__init__()
            self.n, self.c1, self.n2, self.c2 = (nn.GroupNorm(8, c), nn.Conv2d(c, c, 3, 1, 1), nn.GroupNorm(8, c),
                                                 nn.Conv2d(c, c, 3, 1, 1))
            self.t, self.gn, self.pi = nn.Linear(128, c), nn.GroupNorm(8, c), nn.Conv2d(c, c, 1)
            self.l = nn.ModuleList([nn.LayerNorm(c) for _ in range(3)])
            self.a, self.x = Attention(c, 4), Attention(c, 4, k)
            self.g, self.o, self.po = nn.Linear(c, 8 * c), nn.Linear(4 * c, c), nn.Conv2d(c, c, 1)

        def forward(self, x, t, ctx):
            y = self.c1(F.silu(self.n(x))) + self.t(F.silu(t))[:, :, None, None]
            x = x + self.c2(F.silu(self.n2(y)))
            b, c, h, w = x.shape
            y = self.pi(self.gn(x)).permute(0, 2, 3, 1).reshape(b, h * w, c)
            y = y + self.a(self.l[0](y))
            y = y + self.x(self.l[1](y), ctx)
            u, g = self.g(self.l[2](y)).chunk(2, -1)
            y = y + self.o(u * F.gelu(g))
            return x + self.po(y.reshape(b, h, w, c).permute(0, 3, 1, 2))

    class Whisper(nn.Module):
        def __init__(self, d=128, m=80, t=200):
            super().__init__()
            self.c1, self.c2 = nn.Conv1d(m, d, 3, 1, 1), nn.Conv1d(d, d, 3, 2, 1)
            self.e, self.b, self.n = nn.Parameter(R(t // 2, d) * 0.1), Block(d), nn.LayerNorm(d)

        def forward(self, x):
            x = F.gelu(self.c2(F.gelu(self.c1(x)))).permute(0, 2, 1) + self.e
            return self.n(self.b(x))

    class Wav2Vec(nn.Module):
        def __init__(self, c=64, d=96):
            super().__init__()
            self.f0, self.g0 = nn.Conv1d(1, c, 10, 5, bias=False), nn.GroupNorm(c, c)
            self.f = nn.ModuleList([nn.Conv1d(c, c, k, 2, bias=False) for k in (3, 3, 3, 3, 2, 2)])
            self.n, self.p = nn.LayerNorm(c), nn.Linear(c, d)
            self.e, self.b, self.l = nn.Conv1d(d, d, 128, 1, 64, groups=16), Block(d), nn.LayerNorm(d)

        def forward(self, x):
            x = F.gelu(self.g0(self.f0(x[:, None])))
            for f in self.f:
                x = F.gelu(f(x))
            x = self.p(self.n(x.transpose(1, 2)))
            x = self.l(x + F.gelu(self.e(x.transpose(1, 2))[:, :, :-1]).transpose(1, 2))
            return self.b(x)

    class Conformer(nn.Module):
        def __init__(self, d=96, t=100):
            super().__init__()
            self.s = S(nn.Conv2d(1, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 32, 3, 2), nn.ReLU())
            self.i = nn.Linear(32 * 19, d)
            ff = lambda: S(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))
            self.f1, self.f2, self.a, self.na = ff(), ff(), Attention(d, 4), nn.LayerNorm(d)
            self.nc, self.p1 = nn.LayerNorm(d), nn.Conv1d(d, 2 * d, 1)
            self.dw, self.bn, self.p2 = nn.Conv1d(d, d, 31, 1, 15, groups=d), nn.BatchNorm1d(d), nn.Conv1d(d, d, 1)
            self.n = nn.LayerNorm(d)

        def forward(self, x):
            y = self.s(x[:, None])
            b, c, t, f = y.shape
            x = self.i(y.transpose(1, 2).reshape(b, t, c * f))
            x = x + 0.5 * self.f1(x)
            x = x + self.a(self.na(x))
            y = F.glu(self.p1(self.nc(x).transpose(1, 2)), 1)
            x = x + self.p2(F.silu(self.bn(self.dw(y)))).transpose(1, 2)
            return self.n(x + 0.5 * self.f2(x))

    class Bert(nn.Module):
        def __init__(self, d=96, t=32, causal=False, act=nn.GELU):
            super().__init__()
            self.w, self.p, self.n = nn.Embedding(500, d), nn.Embedding(t, d), nn.LayerNorm(d)
            self.b, self.o = nn.ModuleList([Block(d, act=act) for _ in range(2)]), nn.Linear(d, 8)
            self.register_buffer("m", torch.triu(torch.full((t, t), -1e4), 1) if causal else torch.zeros(t, t))

        def forward(self, i):
            x = self.n(self.w(i) + self.p(torch.arange(i.shape[1])))
            for b in self.b:
                x = b(x, self.m)
            return self.o(x)

    def rope(x, c, s):
        a, b = x.chunk(2, -1)
        return x * c + torch.cat([-b, a], -1) * s

    class Llama(nn.Module):
        def __init__(self, d=128, h=4, kv=2, t=32, step=False):
            super().__init__()
            self.h, self.kv, self.dh, self.step = h, kv, d // h, step
            self.e, self.q, self.o = nn.Embedding(500, d), nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
            self.k, self.v = nn.Linear(d, kv * self.dh, bias=False), nn.Linear(d, kv * self.dh, bias=False)
            self.g, self.u, self.dn = (nn.Linear(d, 3 * d, bias=False), nn.Linear(d, 3 * d, bias=False),
                                       nn.Linear(3 * d, d, bias=False))
            self.n1, self.n2, self.n3 = (nn.Parameter(torch.ones(d)) for _ in range(3))
            self.l = nn.Linear(d, 500, bias=False)
            p = torch.outer(torch.arange(t), 1 / 10000 ** (torch.arange(0, self.dh, 2) / self.dh))
            p = torch.cat([p, p], -1)
            self.register_buffer("c", p.cos())
            self.register_buffer("s", p.sin())
            self.register_buffer("m", torch.triu(torch.full((t, t), -1e4), 1))

        def rms(self, x, w):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w

        def forward(self, i, ck=None, cv=None, cos=None, sin=None, mask=None):
            x = self.e(i)
            b, t, d = x.shape
            y = self.rms(x, self.n1)
            q = self.q(y).view(b, t, self.h, self.dh).transpose(1, 2)
            k = self.k(y).view(b, t, self.kv, self.dh).transpose(1, 2)
            v = self.v(y).view(b, t, self.kv, self.dh).transpose(1, 2)
            c, s, m = (cos, sin, mask) if self.step else (self.c, self.s, self.m)
            q, k = rope(q, c, s), rope(k, c, s)
            if self.step:
                k, v = torch.cat([ck, k], 2), torch.cat([cv, v], 2)
            n = self.h // self.kv
            kk, vv = k.repeat_interleave(n, 1), v.repeat_interleave(n, 1)
            a = (q @ kk.transpose(-1, -2) / self.dh ** 0.5 + m).softmax(-1) @ vv
            x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
            y = self.rms(x, self.n2)
            x = x + self.dn(F.silu(self.g(y)) * self.u(y))
            return self.l(self.rms(x, self.n3))

    class DETR(nn.Module):
        def __init__(self, d=64, q=20):
            super().__init__()
            self.q, self.e = nn.Parameter(R(1, q, d)), nn.Parameter(R(1, 49, d))
            self.a, self.x = Attention(d, 4), Attention(d, 4)
            self.n = nn.ModuleList([nn.LayerNorm(d) for _ in range(3)])
            self.f, self.c = S(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d)), nn.Linear(d, 10)
            self.b = S(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 4))

        def forward(self, x):
            m = x.flatten(2).transpose(1, 2) + self.e
            y = self.n[0](self.q + self.a(self.q))
            y = self.n[1](y + self.x(y, m))
            y = self.n[2](y + self.f(y))
            return torch.cat([self.c(y), self.b(y).sigmoid()], -1)

    class RNN(nn.Module):
        def __init__(self, kind, t=12, bi=False):
            super().__init__()
            self.r = kind(40, 48, 1, batch_first=True, bidirectional=bi)
            self.o = nn.Linear(96 if bi else 48, 10)

        def forward(self, x):
            return self.o(self.r(x)[0])

    class YOLO(nn.Module):
        def __init__(self):
            super().__init__()
            c = lambda a, b, k=1, s=1: cbr(a, b, k, s, nn.SiLU)
            self.s = S(c(3, 16, 3, 2), c(16, 32, 3, 2), c(32, 32, 3))
            self.d, self.p, self.q = c(32, 64, 3, 2), c(64, 32), c(128, 64)
            self.h = nn.ModuleList([nn.Conv2d(32, 84, 1), nn.Conv2d(64, 84, 1)])
            self.u = c(96, 32, 3)

        def forward(self, x):
            a = self.s(x)
            b = self.p(self.d(a))
            m = lambda t: F.max_pool2d(t, 5, 1, 2)
            b1 = m(b)
            b2 = m(b1)
            b = self.q(torch.cat([b, b1, b2, m(b2)], 1))
            a = self.u(torch.cat([a, F.interpolate(b, scale_factor=2.0)], 1))
            o = torch.cat([h(t).flatten(2) for h, t in zip(self.h, (a, b))], 2)
            box, cls = o.split((64, 20), 1)
            n = box.shape[-1]
            d = box.view(1, 4, 16, n).transpose(2, 1).softmax(1)
            return torch.cat([(d * torch.arange(16.0).view(1, 16, 1, 1)).sum(1), cls.sigmoid()], 1)

    def resnet(block_act=nn.ReLU):
        class B(nn.Module):
            def __init__(self, a, b, s=1):
                super().__init__()
                self.a, self.b = cbr(a, b, 3, s, block_act), S(nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b))
                self.d = S(nn.Conv2d(a, b, 1, s, bias=False), nn.BatchNorm2d(b)) if s > 1 or a != b else nn.Identity()

            def forward(self, x):
                return F.relu(self.b(self.a(x)) + self.d(x))
        return S(cbr(3, 16, 7, 2), nn.MaxPool2d(3, 2, 1), B(16, 16), B(16, 32, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                 nn.Linear(32, 10))

    class STFT(nn.Module):
        def __init__(self, n=400, hop=160, mels=80):
            super().__init__()
            t, k = torch.arange(n), torch.arange(n // 2 + 1)
            w = torch.hann_window(n)
            a = 2 * math.pi * torch.outer(k, t) / n
            self.register_buffer("k", torch.cat([a.cos() * w, -a.sin() * w])[:, None])
            self.register_buffer("m", torch.rand(mels, n // 2 + 1) * 0.01)
            self.hop = hop

        def forward(self, x):
            y = F.conv1d(x[:, None], self.k, stride=self.hop)
            r, i = y.chunk(2, 1)
            return torch.log(self.m @ (r * r + i * i) + 1e-3)

    class TCN(nn.Module):
        def __init__(self, c=32):
            super().__init__()
            self.i = nn.Conv1d(8, c, 1)
            self.l = nn.ModuleList([nn.Conv1d(c, c, 3, padding=2 * 2 ** i, dilation=2 ** i) for i in range(6)])
            self.o = nn.Conv1d(c, 4, 1)

        def forward(self, x):
            x = self.i(x)
            for i, l in enumerate(self.l):
                x = x + F.relu(l(x)[:, :, :-2 * 2 ** i])
            return self.o(x)

    class HiFiGAN(nn.Module):
        def __init__(self, c=64):
            super().__init__()
            self.i = nn.Conv1d(40, c, 7, 1, 3)
            self.u = nn.ModuleList([nn.ConvTranspose1d(c, c // 2, 16, 8, 4), nn.ConvTranspose1d(c // 2, c // 4, 4, 2, 1)])
            self.r = nn.ModuleList([nn.Conv1d(c // 2, c // 2, 11, 1, 25, dilation=5), nn.Conv1d(c // 4, c // 4, 7, 1, 9, dilation=3)])
            self.o = nn.Conv1d(c // 4, 1, 7, 1, 3)

        def forward(self, x):
            x = self.i(x)
            for u, r in zip(self.u, self.r):
                x = u(F.leaky_relu(x, 0.1))
                x = x + r(F.leaky_relu(x, 0.1))
            return torch.tanh(self.o(F.leaky_relu(x)))

    class RepLK(nn.Module):
        def __init__(self, c=24, k=31):
            super().__init__()
            self.s, self.l, self.p = cbr(3, c, 3, 2), nn.Conv2d(c, c, k, 1, k // 2, groups=c), nn.Conv2d(c, c, 1)

        def forward(self, x):
            x = self.s(x)
            return (x + self.p(F.gelu(self.l(x)))).mean((2, 3))

    class R3D(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv3d(3, 16, (3, 7, 7), (1, 2, 2), (1, 3, 3)), nn.Conv3d(16, 32, 3, 2, 1)
            self.o = nn.Linear(32, 10)

        def forward(self, x):
            x = F.max_pool3d(F.relu(self.a(x)), 2)
            return self.o(F.relu(self.b(x)).mean((2, 3, 4)))

    class TimeEmbedding(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.m, self.d = S(nn.Linear(d, 128), nn.SiLU(), nn.Linear(128, 128)), d

        def forward(self, t):
            f = torch.exp(-math.log(10000) * torch.arange(self.d // 2) / (self.d // 2))
            a = t[:, None] * f[None]
            return self.m(torch.cat([a.cos(), a.sin()], -1))

    class PointNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = S(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 128, 1))
            self.o = nn.Linear(128, 10)

        def forward(self, x):
            return self.o(self.a(x).max(2)[0])

    class ChannelAttention(nn.Module):
        def __init__(self, c=48, h=4):
            super().__init__()
            self.q, self.d, self.o, self.h = (nn.Conv2d(c, 3 * c, 1), nn.Conv2d(3 * c, 3 * c, 3, 1, 1, groups=3 * c),
                                              nn.Conv2d(c, c, 1), h)
            self.t = nn.Parameter(torch.ones(h, 1, 1))

        def forward(self, x):
            b, c, h, w = x.shape
            q, k, v = self.d(self.q(x)).view(b, 3, self.h, c // self.h, h * w).unbind(1)
            a = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * self.t).softmax(-1)
            return x + self.o((a @ v).reshape(b, c, h, w))

    class LinearAttention(nn.Module):
        def __init__(self, c=32, h=4):
            super().__init__()
            self.q, self.o, self.h = nn.Conv2d(c, 3 * c, 1, bias=False), nn.Conv2d(c, c, 1), h

        def forward(self, x):
            b, c, h, w = x.shape
            q, k, v = self.q(x).reshape(b, 3, self.h, c // self.h, h * w).unbind(1)
            q, k = F.relu(q), F.relu(k)
            v = F.pad(v, (0, 0, 0, 1), value=1.0)
            y = (v @ k.transpose(-1, -2)) @ q
            return x + self.o((y[:, :, :-1] / (y[:, :, -1:] + 1e-3)).reshape(b, c, h, w))

    class Shuffle(nn.Module):
        def __init__(self, c=48, g=3):
            super().__init__()
            self.a, self.d, self.b, self.g = (cbr(c, c, 1, 1, nn.ReLU, g), cbr(c, c, 3, 1, nn.Identity, c),
                                              nn.Conv2d(c, c, 1, groups=g), g)

        def forward(self, x):
            y = self.a(x)
            b, c, h, w = y.shape
            y = y.view(b, self.g, c // self.g, h, w).transpose(1, 2).reshape(b, c, h, w)
            return F.relu(x + self.b(self.d(y)))

    class Mamba(nn.Module):
        """A selective scan over few steps, unrolled."""

        def __init__(self, d=32, n=8, t=8):
            super().__init__()
            self.i, self.c, self.o = nn.Linear(d, 2 * d), nn.Conv1d(d, d, 4, padding=3, groups=d), nn.Linear(d, d)
            self.x, self.a, self.n, self.t = nn.Linear(d, 1 + 2 * n), nn.Parameter(-torch.rand(d, n)), n, t

        def forward(self, u):
            x, z = self.i(u).chunk(2, -1)
            x = F.silu(self.c(x.transpose(1, 2))[:, :, :self.t].transpose(1, 2))
            dt, b, c = self.x(x).split((1, self.n, self.n), -1)
            dt = F.softplus(dt)
            h, ys = torch.zeros(1, x.shape[-1], self.n), []
            for t in range(self.t):
                h = torch.exp(dt[:, t, :, None] * self.a) * h + dt[:, t, :, None] * b[:, t, None] * x[:, t, :, None]
                ys.append((h * c[:, t, None]).sum(-1))
            return self.o(torch.stack(ys, 1) * F.silu(z))

    class Perceiver(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.q, self.x, self.b = nn.Parameter(R(1, 16, d)), Attention(d, 4, 40), Block(d)

        def forward(self, x):
            return self.b(self.q + self.x(self.q, x)).mean(1)

    class NeRF(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = S(nn.Linear(39, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 4))

        def forward(self, x):
            f = [x]
            for i in range(6):
                f += [torch.sin(x * 2.0 ** i), torch.cos(x * 2.0 ** i)]
            return self.m(torch.cat(f, -1))

    class Spatial(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = S(nn.Conv2d(3, 8, 7, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 6))

        def forward(self, x):
            return F.grid_sample(x, F.affine_grid(self.l(x).view(-1, 2, 3) * 0.1, x.shape, align_corners=False),
                                 align_corners=False)

    img = lambda s, c=3: (R(1, c, s, s),)
    ids = lambda t=32: (torch.randint(0, 500, (1, t), dtype=torch.int32),)
    yield "vit_p16", ViT, img(112)
    yield "vit_p14_registers", lambda: ViT(p=14, extra=5), img(112)
    yield "swin", Swin, img(112)
    yield "mixer_p32", Mixer, img(224)
    yield "convnext", ConvNeXt, img(64)
    yield "mobilevit", MobileViT, img(64)
    yield "efficientnet", lambda: S(cbr(3, 16, 3, 2, nn.SiLU), mb(16), mb(16, k=5), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                    nn.Linear(16, 10)), img(64)
    yield "mobilenet_v3", lambda: S(cbr(3, 16, 3, 2, nn.Hardswish), mb(16, 4, nn.Hardswish, nn.Hardsigmoid),
                                    mb(16, 4, nn.ReLU, nn.Hardsigmoid, 5), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                    nn.Linear(16, 32), nn.Hardswish(), nn.Linear(32, 10)), img(64)
    yield "resnet", resnet, img(64)
    yield "yolo", YOLO, img(64)
    yield "unet", UNet, img(64)
    yield "deeplab", DeepLab, img(256)
    yield "sd_block", SD, (R(1, 64, 16, 16), R(1, 128), R(1, 20, 96))
    yield "time_embedding", TimeEmbedding, (torch.tensor([3.0]),)
    yield "whisper_encoder", Whisper, (R(1, 80, 200),)
    yield "wav2vec2", Wav2Vec, (R(1, 8000),)
    yield "conformer", Conformer, (R(1, 100, 80),)
    yield "stft_mel", STFT, (R(1, 8000) * 0.1,)
    yield "tcn", TCN, (R(1, 8, 128),)
    yield "hifigan", HiFiGAN, (R(1, 40, 32),)
    yield "distilbert", Bert, ids()
    yield "clip_text", lambda: Bert(causal=True), ids()
    yield "llama_prefill", Llama, ids()
    yield "llama_step", lambda: Llama(step=True), (*ids(1), R(1, 2, 31, 32), R(1, 2, 31, 32), R(1, 32), R(1, 32), R(1, 32))
    yield "detr_decoder", DETR, (R(1, 64, 7, 7),)
    yield "lstm", lambda: RNN(nn.LSTM), (R(1, 12, 40),)
    yield "lstm_bidirectional", lambda: RNN(nn.LSTM, bi=True), (R(1, 12, 40),)
    yield "gru", lambda: RNN(nn.GRU), (R(1, 12, 40),)
    yield "espcn", lambda: S(nn.Conv2d(1, 32, 5, 1, 2), nn.Tanh(), nn.Conv2d(32, 9, 3, 1, 1), nn.PixelShuffle(3)), img(32, 1)
    yield "unshuffle_denoiser", lambda: S(nn.PixelUnshuffle(4), nn.Conv2d(48, 48, 3, 1, 1), nn.ReLU(), nn.PixelShuffle(4)), img(64)
    yield "replknet", RepLK, img(64)
    yield "r3d", R3D, (R(1, 3, 8, 32, 32),)
    yield "pointnet", PointNet, (R(1, 3, 200),)
    yield "restormer", ChannelAttention, (R(1, 48, 16, 16),)
    yield "efficientvit", LinearAttention, (R(1, 32, 16, 16),)
    yield "shufflenet", Shuffle, (R(1, 48, 16, 16),)
    yield "mamba_scan", Mamba, (R(1, 8, 32),)
    yield "perceiver", Perceiver, (R(1, 100, 40),)
    yield "nerf", NeRF, (torch.rand(64, 3),)
    yield "spatial_transformer", Spatial, img(32)
    yield "autoencoder_strided", lambda: S(nn.Conv2d(3, 32, 8, 8), nn.ReLU(), nn.ConvTranspose2d(32, 3, 8, 8)), img(64)
    yield "wide_pooling", lambda: S(cbr(3, 16, 3, 2), nn.AvgPool2d(16, 8), nn.Flatten(), nn.Linear(144, 10)), img(64)
    yield "text_cnn", lambda: Fn(lambda s, x: s.o(torch.cat([c(x).relu().max(2)[0] for c in s.c], 1)),
                                 c=nn.ModuleList([nn.Conv1d(50, 16, k) for k in (3, 4, 5)]), o=nn.Linear(48, 4)), (R(1, 50, 100),)
    from families import families
    yield from families()


def export(folder, names):
    import coremltools as ct
    import numpy as np
    import torch
    torch.backends.mha.set_fastpath_enabled(False)
    for name, make, inputs in networks():
        if names and name not in names:
            continue
        torch.manual_seed(len(name))
        started, path = time.time(), f"{folder}/{name}"
        try:
            os.makedirs(path, exist_ok=True)
            model = make().eval()
            with torch.no_grad():
                for m in model.modules():
                    if isinstance(m, torch.nn.modules.batchnorm._BatchNorm):
                        m.running_mean.normal_(0, 0.1)
                        m.running_var.uniform_(0.5, 1.5)
                expected = model(*inputs)
                traced = torch.jit.trace(model, inputs, strict=False)
            kind = lambda a: np.float32 if a.is_floating_point() else np.int32
            ports = [ct.TensorType(f"x{i}", shape=a.shape, dtype=kind(a)) for i, a in enumerate(inputs)]
            package = ct.convert(traced, inputs=ports, minimum_deployment_target=ct.target.iOS17,
                                 compute_precision=ct.precision.FLOAT16)
            package.save(f"{path}/model.mlpackage")
            for i, a in enumerate(inputs):
                np.save(f"{path}/x{i}.npy", a.numpy().astype(kind(a)))
            np.save(f"{path}/expected.npy", expected.numpy())
            ops, computing = operations(f"{path}/model.mlpackage")
            with open(f"{path}/meta.json", "w") as file:
                json.dump({"ops": ops, "computing": computing}, file)
            print(f"{name}: {time.time() - started:.1f} s", flush=True)
            torch.onnx.export(model, inputs, f"{path}/model.onnx", input_names=[f"x{i}" for i in range(len(inputs))],
                              output_names=["y"], opset_version=17, dynamo=False)
        except Exception as error:
            print(f"{name}: not exported: {type(error).__name__} {str(error)[:200]}", flush=True)


def ane(tool, *arguments):
    try:
        done = subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return 9, "", "more than 300 s"
    return done.returncode, done.stdout, done.stderr


# Operations that only move or name data.
MOVES = {"const", "reshape", "transpose", "slice_by_index", "slice_by_size", "concat", "split", "squeeze", "expand_dims",
         "cast", "identity", "stack", "shape", "range_1d", "fill", "tile", "gather", "constexpr_lut_to_dense"}


def operations(path):
    """All operations of a package, and those that compute."""
    import coremltools as ct
    program = ct.utils.load_spec(path).mlProgram
    kinds = [op.type for f in program.functions.values() for b in f.block_specializations.values() for op in b.operations]
    return len([k for k in kinds if k != "const"]), len([k for k in kinds if k not in MOVES])


def one(path, form, tool):
    """Results of one of a network's files."""
    model = f"{path}/{form}"
    inputs = [f for f in sorted(os.listdir(path)) if f.startswith("x") and f.endswith(".npy")]
    flags = [f"--input={f[:-4]}={path}/{f}" for f in inputs]
    row = {}
    for numerics in ("fast", "exact"):
        code, out, err = ane(tool, "run", model, *flags, f"--expect={path}/expected.npy", "--json", "--numerics", numerics)
        document = json.loads(out) if out.startswith("{") else {}
        if "outputs" not in document:
            row["refused"] = " ".join((document.get("message") or out or err).split())[:160]
            break
        report = document["outputs"][0]
        share = lambda found, most: found / most if most else 0.0
        row[numerics] = max(share(report["max_abs_error"], report["atol"]), share(report["rms_error"], report["rms_tolerance"]))
        row.update(tasks=document["tasks"], programs=document.get("programs", 1), hosts=document.get("host_segments", 0))
    code, out, err = ane(tool, "check", model, "-t", "m1", "--json")
    document = json.loads(out) if out.startswith("{") else {}
    counts = document["chips"][0]["direct"]["counts"] if "chips" in document else {"rejected": int("code" in document)}
    off = counts.get("host", 0) + counts.get("rejected", 0)
    row["agree"] = bool(counts) and (off > 0) == ("refused" in row or row["hosts"] > 0)
    return row


def pace(path, program, seconds=1.5):
    """Time of a run in `fast` divided by that of ONNX Runtime, both on two threads and in turns; None where the example `pace`
    cannot run the model: it runs one program without host segments."""
    import benchmark

    sides = []
    try:
        sides.append(benchmark.Side(program, path, "fast"))
        sides.append(benchmark.Side(sys.executable, benchmark.__file__, "--serve", "onnx", "--network", path, "--threads", 2))
        end, times = time.monotonic() + seconds, []
        while len(times) < 7 or time.monotonic() < end and len(times) < 40:
            times.append([side.turn(1)[0] for side in sides])
        ours, theirs = (statistics.median(of) for of in zip(*times))
        return ours / theirs
    except SystemExit:
        return None
    finally:
        for side in sides:
            side.close()


def measure(folder, tool, names, program=None):
    """One row a network."""
    rows = []
    for name in sorted(os.listdir(folder)):
        path = f"{folder}/{name}"
        if names and name not in names or not os.path.exists(f"{path}/expected.npy"):
            continue
        row = {"name": name}
        if os.path.exists(f"{path}/meta.json"):
            row.update(json.load(open(f"{path}/meta.json")))
        row["forms"] = {form: one(path, f"model.{form}", tool) for form in ("mlpackage", "onnx") if os.path.exists(f"{path}/model.{form}")}
        onnx = row["forms"].get("onnx", {})
        if program and "tasks" in onnx and onnx["programs"] == 1 and not onnx["hosts"]:
            row["pace"] = pace(f"{path}/model.onnx", program)
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def table(rows):
    forms = [(r, f) for r in rows for f in r["forms"].values()]
    ran = [(r, f) for r, f in forms if "refused" not in f]
    per = sorted(f["tasks"] / r["computing"] for r in rows for f in [r["forms"].get("mlpackage", {})] if "tasks" in f and r.get("computing"))
    within = lambda k: sum(f.get(k, 9) <= 1 for _, f in ran)
    text = ""
    if per:
        text += (f"#: {len(rows)} networks, {len(forms)} models: {len(ran)} run, {within('fast')} within the tolerance in `fast` and {within('exact')} in `exact`; "
                 f"check and compiler agree in {sum(f['agree'] for _, f in forms)}. Tasks per computing operation: median {per[len(per) // 2]:.1f}, "
                 f"at most 3 in {sum(p <= 3 for p in per)} of {len(per)}, above 10 in {sum(p > 10 for p in per)}.")
        if paces := sorted(r["pace"] for r in rows if r.get("pace")):
            text += (f" Time against ONNX Runtime, {len(paces)} models: median {statistics.median(paces):.2f}, "
                     f"at most 1.5 in {sum(p <= 1.5 for p in paces)}, largest {paces[-1]:.1f}.")
        text += "\n"
    heads = ["network", "operations", "computing", "tasks", "per computing", "programs, host", "fast", "exact", "ONNX: tasks", "fast", "exact", "time", "agree"]
    text += "\t".join(heads) + "\n"
    for r in rows:
        cells = [r["name"], str(r.get("ops", "")), str(r.get("computing", ""))]
        error = lambda f, k: f"{f[k]:.2f}" if k in f else ""
        core, onnx = r["forms"].get("mlpackage", {}), r["forms"].get("onnx", {})
        if "tasks" in core:
            ratio = f"{core['tasks'] / r['computing']:.1f}" if r.get("computing") else ""
            cells += [str(core["tasks"]), ratio, f"{core['programs']}, {core['hosts']}", error(core, "fast"), error(core, "exact")]
        else:
            cells += ["refused: " + core.get("refused", ""), "", "", "", ""]
        cells += [str(onnx.get("tasks", onnx.get("refused", ""))), error(onnx, "fast"), error(onnx, "exact")]
        cells.append(f"{r['pace']:.2f}" if r.get("pace") else "")
        cells.append("yes" if all(f["agree"] for f in r["forms"].values()) else "no")
        text += "\t".join(cells) + "\n"
    return text


def flags(rest, **given):
    """Values of flags with their defaults; takes them from the arguments."""
    for name in given:
        if f"--{name}" in rest:
            at = rest.index(f"--{name}")
            given[name] = rest[at + 1]
            del rest[at:at + 2]
    return given


def write(path, text):
    """Writes a table, if asked for."""
    if path:
        with open(path, "w") as file:
            file.write(text)


if __name__ == "__main__":
    command, folder, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
    given = flags(rest, ane="target/quick/ane", write=None, pace=None)
    if command == "export":
        export(folder, rest)
    else:
        write(given["write"], table(measure(folder, given["ane"], rest, given["pace"])))
