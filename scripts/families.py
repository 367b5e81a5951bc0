"""Further families for scripts/networks.py: (name, constructor, inputs) each, small, with the structure of the original."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

R, S = torch.randn, nn.Sequential


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


class MHA(nn.Module):
    """torch.nn.MultiheadAttention as users take it."""

    def __init__(self, d, h):
        super().__init__()
        self.a = nn.MultiheadAttention(d, h, batch_first=True)

    def forward(self, q, k=None, v=None):
        k = q if k is None else k
        return self.a(q, k, k if v is None else v, need_weights=False)[0]


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


class DeiT(nn.Module):
    def __init__(self, d=96, s=96):
        super().__init__()
        self.p, self.b = nn.Conv2d(3, d, 16, 16), S(Block(d), Block(d))
        self.c, self.t, self.e = (nn.Parameter(R(1, 1, d)), nn.Parameter(R(1, 1, d)),
                                  nn.Parameter(R(1, (s // 16) ** 2 + 2, d) * 0.1))
        self.n, self.o1, self.o2 = nn.LayerNorm(d), nn.Linear(d, 10), nn.Linear(d, 10)

    def forward(self, x):
        x = self.p(x).flatten(2).transpose(1, 2)
        x = self.n(self.b(torch.cat([self.c, self.t, x], 1) + self.e))
        return (self.o1(x[:, 0]) + self.o2(x[:, 1])) / 2


class SwinMasked(nn.Module):
    """Shifted windows with the relative table and the mask, window 4, two heads' groups and a patch merge between."""

    def __init__(self, d=32, w=4, s=16, h=2):
        super().__init__()
        self.w, self.s, self.h = w, s, h
        self.p = nn.Conv2d(3, d, 4, 4)
        self.n = nn.ModuleList([nn.LayerNorm(d) for _ in range(4)])
        self.qkv = nn.ModuleList([nn.Linear(d, 3 * d) for _ in range(2)])
        self.o = nn.ModuleList([nn.Linear(d, d) for _ in range(2)])
        self.m = nn.ModuleList([S(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(2)])
        self.table = nn.Parameter(R((2 * w - 1) ** 2, h) * 0.1)
        c = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
        r = (c[:, :, None] - c[:, None]).permute(1, 2, 0) + w - 1
        self.register_buffer("index", r[..., 0] * (2 * w - 1) + r[..., 1])
        img = torch.zeros(1, s, s, 1)
        cuts = (slice(0, -w), slice(-w, -(w // 2)), slice(-(w // 2), None))
        for i, a in enumerate(cuts):
            for j, b in enumerate(cuts):
                img[:, a, b] = 3 * i + j
        win = self.part(img).squeeze(-1)
        self.register_buffer("mask", (win[:, None] != win[:, :, None]).float() * -100.0)
        self.nm, self.merge, self.out = nn.LayerNorm(4 * d), nn.Linear(4 * d, 2 * d, bias=False), nn.Linear(2 * d, 10)

    def part(self, x):
        b, s, _, c = x.shape
        w = self.w
        return x.view(b, s // w, w, s // w, w, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, c)

    def forward(self, x):
        x = self.p(x).permute(0, 2, 3, 1)
        b, s, _, d = x.shape
        w, n = self.w, s // self.w
        bias = self.table[self.index.view(-1)].view(w * w, w * w, -1).permute(2, 0, 1)
        for i in range(2):
            y = self.n[2 * i](x)
            if i:
                y = torch.roll(y, (-(w // 2), -(w // 2)), (1, 2))
            y = self.part(y)
            q, k, v = self.qkv[i](y).reshape(-1, w * w, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4).unbind(0)
            a = (q * (d // self.h) ** -0.5) @ k.transpose(-2, -1) + bias.unsqueeze(0)
            if i:
                a = a.view(b, n * n, self.h, w * w, w * w) + self.mask[None, :, None]
                a = a.view(-1, self.h, w * w, w * w)
            y = self.o[i]((a.softmax(-1) @ v).transpose(1, 2).reshape(-1, w * w, d))
            y = y.view(b, n, n, w, w, d).permute(0, 1, 3, 2, 4, 5).reshape(b, s, s, d)
            if i:
                y = torch.roll(y, (w // 2, w // 2), (1, 2))
            x = x + y
            x = x + self.m[i](self.n[2 * i + 1](x))
        x = x.reshape(b, s // 2, 2, s // 2, 2, d).permute(0, 1, 3, 4, 2, 5).flatten(3)
        return self.out(self.merge(self.nm(x)).mean((1, 2)))


class PVT(nn.Module):
    """Attention with keys reduced by a strided convolution, and a depthwise convolution in the feed-forward."""

    def __init__(self, d=32, h=2, r=4):
        super().__init__()
        self.p, self.n0 = nn.Conv2d(3, d, 7, 4, 3), nn.LayerNorm(d)
        self.n1, self.n2, self.ns = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.kv, self.o, self.sr = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d), nn.Conv2d(d, d, r, r)
        self.f1, self.dw, self.f2, self.h = nn.Linear(d, 4 * d), nn.Conv2d(4 * d, 4 * d, 3, 1, 1, groups=4 * d), nn.Linear(4 * d, d), h

    def forward(self, x):
        x = self.p(x)
        b, d, hh, ww = x.shape
        x = self.n0(x.flatten(2).transpose(1, 2))
        y = self.n1(x)
        q = self.q(y).reshape(b, -1, self.h, d // self.h).permute(0, 2, 1, 3)
        z = self.ns(self.sr(y.permute(0, 2, 1).reshape(b, d, hh, ww)).reshape(b, d, -1).permute(0, 2, 1))
        k, v = self.kv(z).reshape(b, -1, 2, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-2, -1) * (d // self.h) ** -0.5).softmax(-1)
        x = x + self.o((a @ v).transpose(1, 2).reshape(b, -1, d))
        y = self.f1(self.n2(x))
        y = self.dw(y.transpose(1, 2).view(b, -1, hh, ww)).flatten(2).transpose(1, 2)
        return (x + self.f2(F.gelu(y))).transpose(1, 2).reshape(b, d, hh, ww)


class GMLP(nn.Module):
    def __init__(self, d=64, t=49):
        super().__init__()
        self.e = nn.Conv2d(3, d, 16, 16)
        self.n, self.i, self.o = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(2 * d, d)
        self.ns, self.s, self.h = nn.LayerNorm(2 * d), nn.Conv1d(t, t, 1), nn.Linear(d, 10)

    def forward(self, x):
        x = self.e(x).flatten(2).transpose(1, 2)
        u, v = F.gelu(self.i(self.n(x))).chunk(2, -1)
        return self.h((x + self.o(u * self.s(self.ns(v)))).mean(1))


class MobileOne(nn.Module):
    """Before re-parameterization: branches of 3x3, 1x1 and a bare batch norm are summed."""

    def __init__(self, c=24):
        super().__init__()
        bn = nn.BatchNorm2d
        self.s = cbr(3, c, 3, 2)
        self.d = nn.ModuleList([S(nn.Conv2d(c, c, 3, 1, 1, groups=c, bias=False), bn(c)) for _ in range(3)])
        self.d1, self.db = S(nn.Conv2d(c, c, 1, groups=c, bias=False), bn(c)), bn(c)
        self.p, self.pb, self.o = S(nn.Conv2d(c, c, 1, bias=False), bn(c)), bn(c), nn.Linear(c, 10)

    def forward(self, x):
        x = self.s(x)
        x = F.relu(sum(d(x) for d in self.d) + self.d1(x) + self.db(x))
        x = F.relu(self.p(x) + self.pb(x))
        return self.o(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Ghost(nn.Module):
    def __init__(self, a, b, act=True):
        super().__init__()
        act = nn.ReLU if act else nn.Identity
        self.p, self.c, self.b = cbr(a, b // 2, 1, act=act), cbr(b // 2, b // 2, 3, 1, act, b // 2), b

    def forward(self, x):
        y = self.p(x)
        return torch.cat([y, self.c(y)], 1)[:, :self.b]


class SE(nn.Module):
    def __init__(self, c, r=4):
        super().__init__()
        self.f = S(nn.Linear(c, c // r, bias=False), nn.ReLU(), nn.Linear(c // r, c, bias=False), nn.Sigmoid())

    def forward(self, x):
        b, c, _, _ = x.shape
        return x * self.f(F.adaptive_avg_pool2d(x, 1).view(b, c)).view(b, c, 1, 1).expand_as(x)


class Residual(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return F.relu(x + self.f(x))


class FPN(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.s = cbr(3, 16, 7, 2)
        self.b = nn.ModuleList([cbr(16, 32, 3, 2), cbr(32, 48, 3, 2), cbr(48, 64, 3, 2)])
        self.l = nn.ModuleList([nn.Conv2d(n, c, 1) for n in (32, 48, 64)])
        self.o = nn.ModuleList([nn.Conv2d(c, c, 3, 1, 1) for _ in range(3)])
        self.h, self.r = nn.Conv2d(c, 3 * 5, 3, 1, 1), nn.Conv2d(c, 3 * 4, 3, 1, 1)

    def forward(self, x):
        f, x = [], self.s(x)
        for b in self.b:
            x = b(x)
            f.append(x)
        p = [l(t) for l, t in zip(self.l, f)]
        for i in (1, 0):
            p[i] = p[i] + F.interpolate(p[i + 1], size=p[i].shape[-2:], mode="nearest")
        outs = []
        for o, t in zip(self.o, p):
            t = o(t)
            c, r = self.h(t), self.r(t)
            c = c.view(1, 3, 5, -1).permute(0, 3, 1, 2).reshape(1, -1, 5)
            r = r.view(1, 3, 4, -1).permute(0, 3, 1, 2).reshape(1, -1, 4)
            outs.append(torch.cat([c.sigmoid(), r], -1))
        return torch.cat(outs, 1)


class Hourglass(nn.Module):
    def __init__(self, c=24, n=3):
        super().__init__()
        block = lambda: Residual(S(cbr(c, c // 2, 1), cbr(c // 2, c // 2), nn.Conv2d(c // 2, c, 1)))
        self.u, self.d, self.l = block(), block(), block()
        self.i = Hourglass(c, n - 1) if n > 1 else block()

    def forward(self, x):
        y = self.l(self.i(self.d(F.max_pool2d(x, 2, 2))))
        return self.u(x) + F.interpolate(y, scale_factor=2.0, mode="nearest")


class CRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = S(cbr(1, 16), nn.MaxPool2d(2), cbr(16, 32), nn.MaxPool2d((2, 1)), cbr(32, 48), nn.MaxPool2d((8, 1)))
        self.r, self.o = nn.LSTM(48, 32, bidirectional=True), nn.Linear(64, 37)

    def forward(self, x):
        y = self.c(x).squeeze(2).permute(2, 0, 1)
        return F.log_softmax(self.o(self.r(y)[0]), 2)


class T5(nn.Module):
    """RMS norm without mean, biases of relative buckets, gated GELU, no scale of scores."""

    def __init__(self, d=64, h=4, t=24):
        super().__init__()
        self.e, self.h = nn.Embedding(300, d), h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.w1, self.w2, self.w3 = nn.Linear(d, 4 * d, bias=False), nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)
        self.n1, self.n2, self.n3 = (nn.Parameter(torch.ones(d)) for _ in range(3))
        self.b = nn.Embedding(32, h)
        p = torch.arange(t)
        r = p[None] - p[:, None]
        a = r.abs()
        big = 8 + (torch.log(a.float().clamp(min=1) / 8) / math.log(128 / 8) * 8).long().clamp(max=7)
        self.register_buffer("i", (r > 0).long() * 16 + torch.where(a < 8, a, big))

    def norm(self, x, w):
        return w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    def forward(self, i):
        x = self.e(i)
        b, t, d = x.shape
        y = self.norm(x, self.n1)
        s = lambda z: z.view(b, t, self.h, -1).transpose(1, 2)
        a = s(self.q(y)) @ s(self.k(y)).transpose(3, 2) + self.b(self.i).permute(2, 0, 1).unsqueeze(0)
        x = x + self.o((a.softmax(-1) @ s(self.v(y))).transpose(1, 2).contiguous().view(b, t, d))
        y = self.norm(x, self.n2)
        g = self.w1(y)
        g = 0.5 * g * (1 + torch.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g ** 3)))
        return self.norm(x + self.w3(g * self.w2(y)), self.n3)


class Caps(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.p = nn.Conv2d(1, 16, 9), nn.Conv2d(16, 32, 9, 2)
        self.w = nn.Parameter(R(1, 144, 5, 8, 8) * 0.1)

    def squash(self, x):
        n = (x ** 2).sum(-1, keepdim=True)
        return n / (1 + n) * x / torch.sqrt(n + 1e-6)

    def forward(self, x):
        u = self.p(F.relu(self.c(x)))
        u = self.squash(u.view(1, 4, 8, 6, 6).permute(0, 1, 3, 4, 2).reshape(1, 144, 8))
        u = (self.w @ u[:, :, None, :, None]).squeeze(-1)
        b = torch.zeros(1, 144, 5, 1)
        for _ in range(3):
            v = self.squash((b.softmax(2) * u).sum(1, keepdim=True))
            b = b + (u * v).sum(-1, keepdim=True)
        return v.squeeze(1).pow(2).sum(-1).sqrt()


class Style(nn.Module):
    """A style-based generator's two blocks: modulation of channels, noise, upsampling with a blur."""

    def __init__(self, c=32, z=48):
        super().__init__()
        self.m, self.k = S(nn.Linear(z, z), nn.LeakyReLU(0.2), nn.Linear(z, z), nn.LeakyReLU(0.2)), nn.Parameter(R(1, c, 4, 4))
        self.a = nn.ModuleList([nn.Linear(z, 2 * c) for _ in range(2)])
        self.c = nn.ModuleList([nn.Conv2d(c, c, 3, 1, 1) for _ in range(2)])
        f = torch.tensor([1.0, 3.0, 3.0, 1.0])
        self.register_buffer("f", (f[:, None] * f / 16)[None, None].repeat(c, 1, 1, 1))
        self.o, self.n = nn.Conv2d(c, 3, 1), c

    def forward(self, z):
        w = self.m(z * torch.rsqrt(z.pow(2).mean(1, keepdim=True) + 1e-8))
        x = self.k
        for a, c in zip(self.a, self.c):
            s, b = a(w)[:, :, None, None].chunk(2, 1)
            x = F.instance_norm(F.leaky_relu(c(x), 0.2)) * (1 + s) + b
            x = F.conv_transpose2d(x, self.f, stride=2, padding=1, groups=self.n)
        return torch.tanh(self.o(x))


class Correlation(nn.Module):
    """Cost volume of optical flow: products with shifted copies, then a small decoder."""

    def __init__(self, c=16, r=2):
        super().__init__()
        self.f, self.r = S(cbr(3, c, 3, 2, nn.LeakyReLU), cbr(c, c, 3, 2, nn.LeakyReLU)), r
        self.o = S(nn.Conv2d((2 * r + 1) ** 2 + c, 32, 3, 1, 1), nn.LeakyReLU(0.1), nn.Conv2d(32, 2, 3, 1, 1))

    def forward(self, a, b):
        a, b = self.f(a), self.f(b)
        _, c, h, w = a.shape
        p, n = F.pad(b, (self.r,) * 4), 2 * self.r + 1
        v = [(a * p[:, :, i:i + h, j:j + w]).mean(1, keepdim=True) for i in range(n) for j in range(n)]
        y = self.o(torch.cat([F.leaky_relu(torch.cat(v, 1), 0.1), a], 1))
        return F.interpolate(y, scale_factor=4.0, mode="bilinear", align_corners=True) * 4


class Raft(nn.Module):
    """All-pairs correlation and its pyramid."""

    def __init__(self, c=32):
        super().__init__()
        self.f = S(nn.Conv2d(3, c, 7, 4, 3), nn.InstanceNorm2d(c), nn.ReLU(), nn.Conv2d(c, c, 3, 2, 1))

    def forward(self, a, b):
        a, b = self.f(a), self.f(b)
        n, c, h, w = a.shape
        v = (a.view(n, c, h * w).transpose(1, 2) @ b.view(n, c, h * w)) / math.sqrt(c)
        v = v.view(n * h * w, 1, h, w)
        u = F.avg_pool2d(v, 2, 2)
        return torch.cat([v.flatten(1), u.flatten(1), F.avg_pool2d(u, 2, 2).flatten(1)], 1)


class WaveNet(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.i, self.d = nn.Conv1d(1, c, 1), [1, 2, 4, 8, 16, 32, 64]
        self.g = nn.ModuleList([nn.Conv1d(c, 2 * c, 2, dilation=d) for d in self.d])
        self.r, self.s = (nn.ModuleList([nn.Conv1d(c, c, 1) for _ in self.d]) for _ in range(2))
        self.o = S(nn.ReLU(), nn.Conv1d(c, c, 1), nn.ReLU(), nn.Conv1d(c, 64, 1))

    def forward(self, x):
        x, skip = self.i(x), 0
        for g, r, s, d in zip(self.g, self.r, self.s, self.d):
            a, b = g(F.pad(x, (d, 0))).chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            skip, x = skip + s(y), x + r(y)
        return self.o(skip)


class Retention(nn.Module):
    def __init__(self, d=64, h=4, t=24):
        super().__init__()
        self.q, self.k, self.v, self.g, self.o = (nn.Linear(d, d, bias=False) for _ in range(5))
        self.n, self.h = nn.GroupNorm(h, d), h
        gamma = 1 - 2.0 ** (-5 - torch.arange(h).float())
        e = torch.arange(t)[:, None] - torch.arange(t)[None]
        self.register_buffer("m", torch.where(e >= 0, gamma[:, None, None] ** e.clamp(min=0), torch.zeros(())))

    def forward(self, x):
        b, t, d = x.shape
        s = lambda z: z.view(b, t, self.h, -1).transpose(1, 2)
        q, k, v = s(self.q(x)), s(self.k(x)), s(self.v(x))
        y = ((q @ k.transpose(-1, -2)) * self.m) @ v
        y = self.n(y.transpose(1, 2).reshape(b * t, d)).view(b, t, d)
        return self.o(F.silu(self.g(x)) * y)


class RWKV(nn.Module):
    """Time mixing by the parallel sum, channel mixing with squared ReLU."""

    def __init__(self, d=48, t=16):
        super().__init__()
        self.r, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.m, self.ck, self.cv = nn.Parameter(torch.rand(3, d)), nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        e = (torch.arange(t)[:, None] - torch.arange(t)[None]).float()
        w = torch.rand(d)
        self.register_buffer("w", torch.where(e[..., None] >= 0, torch.exp(-w * e[..., None].clamp(min=0)), torch.zeros(())))

    def forward(self, x):
        y = self.n1(x)
        p = torch.cat([torch.zeros(1, 1, y.shape[-1]), y[:, :-1]], 1)
        k, v, r = (f(y * m + p * (1 - m)) for f, m in zip((self.k, self.v, self.r), self.m))
        k = torch.exp(k.clamp(max=4))
        num = torch.einsum("tsd,bsd->btd", self.w, k * v)
        den = torch.einsum("tsd,bsd->btd", self.w, k)
        x = x + self.o(torch.sigmoid(r) * num / (den + 1e-3))
        return x + self.cv(F.relu(self.ck(self.n2(x))) ** 2)


class WhisperStep(nn.Module):
    """One token of the decoder: own keys from a cache, cross attention to the encoder's."""

    def __init__(self, d=64, h=4):
        super().__init__()
        self.e, self.p, self.h = nn.Embedding(400, d), nn.Embedding(32, d), h
        self.q, self.k, self.v, self.o = nn.Linear(d, d), nn.Linear(d, d, bias=False), nn.Linear(d, d), nn.Linear(d, d)
        self.xq, self.xo, self.f = nn.Linear(d, d), nn.Linear(d, d), S(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.n = nn.ModuleList([nn.LayerNorm(d) for _ in range(4)])

    def forward(self, i, at, ck, cv, xk, xv):
        x = self.e(i) + self.p(at)
        b, t, d = x.shape
        s = lambda z: z.view(b, t, self.h, -1).transpose(1, 2)
        y = self.n[0](x)
        k, v = torch.cat([ck, s(self.k(y))], 2), torch.cat([cv, s(self.v(y))], 2)
        x = x + self.o(F.scaled_dot_product_attention(s(self.q(y)), k, v).transpose(1, 2).reshape(b, t, d))
        y = F.scaled_dot_product_attention(s(self.xq(self.n[1](x))), xk, xv)
        x = x + self.xo(y.transpose(1, 2).reshape(b, t, d))
        x = x + self.f(self.n[2](x))
        return self.n[3](x) @ self.e.weight.t()


class NBeats(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = nn.ModuleList([S(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 50)) for _ in range(3)])

    def forward(self, x):
        y = 0
        for b in self.b:
            back, fore = b(x).split((40, 10), -1)
            x, y = x - back, y + fore
        return y


class DLRM(nn.Module):
    """Tables of categories and the products of all pairs."""

    def __init__(self, d=16, n=6):
        super().__init__()
        self.e, self.b = nn.ModuleList([nn.Embedding(100, d) for _ in range(n)]), S(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, d), nn.ReLU())
        i, j = torch.tril_indices(n + 1, n + 1, -1)
        self.register_buffer("at", i * (n + 1) + j)
        self.t, self.n = S(nn.Linear(d + len(i), 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid()), n

    def forward(self, x, c):
        x = self.b(x)
        v = torch.stack([x] + [e(c[:, i]) for i, e in enumerate(self.e)], 1)
        z = torch.bmm(v, v.transpose(1, 2)).flatten(1)[:, self.at]
        return self.t(torch.cat([x, z], 1))


class GAT(nn.Module):
    """Graph attention with a dense adjacency."""

    def __init__(self, n=20, f=16, h=4, d=8):
        super().__init__()
        self.w, self.a, self.b, self.h = nn.Linear(f, h * d, bias=False), nn.Parameter(R(h, d)), nn.Parameter(R(h, d)), h
        self.register_buffer("m", torch.where(torch.rand(n, n) + torch.eye(n) > 0.6, 0.0, -1e4))

    def forward(self, x):
        y = self.w(x).view(1, x.shape[1], self.h, -1)
        s, t = (y * self.a).sum(-1), (y * self.b).sum(-1)
        e = F.leaky_relu(s[:, :, None] + t[:, None], 0.2).permute(0, 3, 1, 2) + self.m
        return F.elu((e.softmax(-1) @ y.transpose(1, 2)).transpose(1, 2).flatten(2))


class EdgeConv(nn.Module):
    """Dynamic graph of points: nearest neighbours at run time."""

    def __init__(self, k=4):
        super().__init__()
        self.c, self.k = S(nn.Conv2d(6, 16, 1), nn.LeakyReLU(0.2)), k

    def forward(self, x):
        d = ((x[:, :, :, None] - x[:, :, None]) ** 2).sum(1)
        i = (-d).topk(self.k, -1)[1]
        b, c, n = x.shape
        g = torch.gather(x[:, :, None].expand(b, c, n, n), 3, i[:, None].expand(b, c, n, self.k))
        y = torch.cat([g - x[..., None], x[..., None].expand_as(g)], 1)
        return self.c(y).max(-1)[0]


class MoE(nn.Module):
    """All experts computed, two chosen by the router."""

    def __init__(self, d=32, n=4):
        super().__init__()
        self.r, self.a, self.b = nn.Linear(d, n), nn.Parameter(R(n, d, 4 * d) * 0.1), nn.Parameter(R(n, 4 * d, d) * 0.1)

    def forward(self, x):
        p = self.r(x).softmax(-1)
        v, _ = p.topk(2, -1)
        p = torch.where(p >= v[..., -1:], p, torch.zeros(()))
        p = p / p.sum(-1, keepdim=True)
        y = torch.einsum("btd,ndh->bnth", x, self.a)
        y = torch.einsum("bnth,nhd->bntd", F.silu(y), self.b)
        return x + torch.einsum("bntd,btn->btd", y, p)


class VITSFlow(nn.Module):
    """A coupling layer of a text-to-speech flow: gated dilated convolutions, an affine of half of the channels, a flip."""

    def __init__(self, c=16, h=24):
        super().__init__()
        self.pre, self.post, self.h = nn.Conv1d(c // 2, h, 1), nn.Conv1d(h, c, 1), h
        self.i = nn.ModuleList([nn.Conv1d(h, 2 * h, 5, padding=2) for _ in range(3)])
        self.r = nn.ModuleList([nn.Conv1d(h, 2 * h, 1) for _ in range(3)])

    def forward(self, x, mask):
        a, b = x.chunk(2, 1)
        h, out = self.pre(a) * mask, 0
        for i, r in zip(self.i, self.r):
            t, s = i(h).split(self.h, 1)
            y, k = r(torch.tanh(t) * torch.sigmoid(s)).split(self.h, 1)
            h, out = (h + y) * mask, out + k
        m, logs = (self.post(out * mask) * mask).chunk(2, 1)
        return torch.flip(torch.cat([a, (m + b * torch.exp(logs * 0.1)) * mask], 1), [1])


class EncodecLSTM(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.e = S(nn.Conv1d(1, c, 7, padding=3), nn.ELU(), nn.Conv1d(c, 2 * c, 8, 4, 2), nn.ELU(), nn.Conv1d(2 * c, 2 * c, 16, 8, 4))
        self.l, self.o, self.cb = nn.LSTM(2 * c, 2 * c), nn.Conv1d(2 * c, 8, 3, padding=1), nn.Parameter(R(32, 8))

    def forward(self, x):
        y = self.e(x)
        z = y.permute(2, 0, 1)
        y = self.o((self.l(z)[0] + z).permute(1, 2, 0)).transpose(1, 2)
        d = y.pow(2).sum(-1, keepdim=True) - 2 * y @ self.cb.t() + self.cb.pow(2).sum(-1)
        return -d


class Seq2Seq(nn.Module):
    """A gated cell written out, with additive attention over the encoder, four steps."""

    def __init__(self, d=32):
        super().__init__()
        self.g, self.n, self.q, self.k, self.v, self.o = nn.Linear(3 * d, 2 * d), nn.Linear(3 * d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, 1), nn.Linear(d, d)

    def forward(self, e, h):
        k, ys, y = self.k(e), [], h
        for _ in range(4):
            a = self.v(torch.tanh(self.q(h)[:, None] + k)).softmax(1)
            i = torch.cat([y, (a * e).sum(1)], -1)
            z, r = torch.sigmoid(self.g(torch.cat([i, h], -1))).chunk(2, -1)
            h = (1 - z) * h + z * torch.tanh(self.n(torch.cat([i, r * h], -1)))
            y = self.o(h)
            ys.append(y)
        return torch.stack(ys, 1)


class ConvLSTM(nn.Module):
    def __init__(self, c=8, h=12):
        super().__init__()
        self.g, self.h, self.o = nn.Conv2d(c + h, 4 * h, 3, 1, 1), h, nn.Conv2d(h, 1, 1)

    def forward(self, x):
        b, t, c, hh, ww = x.shape
        h = s = torch.zeros(b, self.h, hh, ww)
        for i in range(t):
            f, k, o, g = self.g(torch.cat([x[:, i], h], 1)).chunk(4, 1)
            s = torch.sigmoid(f) * s + torch.sigmoid(k) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(s)
        return self.o(h)


class DenseNet(nn.Module):
    def __init__(self, c=16, g=8, n=4):
        super().__init__()
        self.s = nn.Conv2d(3, c, 3, 2, 1)
        self.l = nn.ModuleList([S(nn.BatchNorm2d(c + i * g), nn.ReLU(), nn.Conv2d(c + i * g, 4 * g, 1, bias=False),
                                  nn.BatchNorm2d(4 * g), nn.ReLU(), nn.Conv2d(4 * g, g, 3, 1, 1, bias=False)) for i in range(n)])
        self.t = S(nn.BatchNorm2d(c + n * g), nn.ReLU(), nn.Conv2d(c + n * g, 24, 1), nn.AvgPool2d(2))

    def forward(self, x):
        x = self.s(x)
        for l in self.l:
            x = torch.cat([x, l(x)], 1)
        return self.t(x)


class Inception(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.s, self.a, self.b = cbr(3, c, 3, 2), cbr(c, 16, 1), S(cbr(c, 12, 1), cbr(12, 16), cbr(16, 16))
        conv = lambda a, b, k: S(nn.Conv2d(a, b, k, padding=(k[0] // 2, k[1] // 2), bias=False), nn.BatchNorm2d(b), nn.ReLU())
        self.c, self.p = S(cbr(c, 12, 1), conv(12, 16, (1, 7)), conv(16, 16, (7, 1))), cbr(c, 16, 1)

    def forward(self, x):
        x = self.s(x)
        return torch.cat([self.a(x), self.b(x), self.c(x), self.p(F.avg_pool2d(x, 3, 1, 1))], 1)


class BiSeNet(nn.Module):
    """Context from a pooled branch, attention over channels, fused with a detailed branch; pyramid pooling."""

    def __init__(self, c=24):
        super().__init__()
        self.s, self.d = S(cbr(3, 16, 3, 2), cbr(16, c, 3, 2)), S(cbr(c, c, 3, 2), cbr(c, c, 3, 2))
        self.a, self.f = nn.Conv2d(c, c, 1), cbr(2 * c, c, 1)
        self.p = nn.ModuleList([cbr(c, c // 4, 1) for _ in range(4)])
        self.o = nn.Conv2d(2 * c, 5, 1)

    def forward(self, x):
        s = self.s(x)
        d = self.d(s)
        d = d * torch.sigmoid(self.a(d.mean((2, 3), keepdim=True)))
        q = [d] + [F.interpolate(p(F.adaptive_avg_pool2d(d, n)), size=d.shape[2:], mode="bilinear", align_corners=False)
                   for n, p in zip((1, 2, 4, 8), self.p)]
        d = torch.cat(q, 1)
        d = F.interpolate(d, size=s.shape[2:], mode="bilinear", align_corners=True)
        return F.interpolate(self.o(torch.cat([s + 0 * s, d[:, :24]], 1)), scale_factor=4.0, mode="bilinear", align_corners=False)


class EDSR(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.h, self.b = nn.Conv2d(3, c, 3, 1, 1), nn.ModuleList([S(nn.Conv2d(c, c, 3, 1, 1), nn.ReLU(), nn.Conv2d(c, c, 3, 1, 1)) for _ in range(2)])
        self.u, self.t = S(nn.Conv2d(c, 4 * c, 3, 1, 1), nn.PixelShuffle(2), nn.Conv2d(c, 4 * c, 3, 1, 1), nn.PixelShuffle(2)), nn.Conv2d(c, 3, 3, 1, 1)
        self.register_buffer("m", torch.tensor([0.45, 0.44, 0.4]).view(1, 3, 1, 1))

    def forward(self, x):
        x = y = self.h(x - self.m)
        for b in self.b:
            y = y + 0.1 * b(y)
        return self.t(self.u(x + y)) + self.m


class NAFNet(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.a, self.d, self.s, self.b = nn.Conv2d(c, 2 * c, 1), nn.Conv2d(2 * c, 2 * c, 3, 1, 1, groups=2 * c), nn.Conv2d(c, c, 1), nn.Conv2d(c, c, 1)
        self.e, self.f, self.i, self.o = nn.Conv2d(c, 2 * c, 1), nn.Conv2d(c, c, 1), nn.Conv2d(3, c, 3, 1, 1), nn.Conv2d(c, 3, 3, 1, 1)

    def norm(self, n, x):
        m = x.mean(1, keepdim=True)
        v = (x - m).pow(2).mean(1, keepdim=True)
        return (x - m) / (v + 1e-6).sqrt() * n.weight.view(1, -1, 1, 1) + n.bias.view(1, -1, 1, 1)

    def forward(self, x):
        y = self.i(x)
        a, b = self.d(self.a(self.norm(self.n1, y))).chunk(2, 1)
        z = a * b
        y = y + self.b(z * self.s(F.adaptive_avg_pool2d(z, 1)))
        a, b = self.e(self.norm(self.n2, y)).chunk(2, 1)
        return x + self.o(y + self.f(a * b))


class Unet3D(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        k = lambda a, b: S(nn.Conv3d(a, b, 3, 1, 1), nn.InstanceNorm3d(b), nn.LeakyReLU())
        self.a, self.b, self.u, self.c, self.o = k(1, c), k(c, 2 * c), nn.ConvTranspose3d(2 * c, c, 2, 2), k(2 * c, c), nn.Conv3d(c, 2, 1)

    def forward(self, x):
        a = self.a(x)
        return self.o(self.c(torch.cat([self.u(self.b(F.max_pool3d(a, 2))), a], 1)))


class Cvt(nn.Module):
    """Projections by depthwise convolutions before attention."""

    def __init__(self, d=32, h=2):
        super().__init__()
        self.p = nn.Conv2d(3, d, 7, 4, 2)
        dw = lambda s: S(nn.Conv2d(d, d, 3, s, 1, groups=d, bias=False), nn.BatchNorm2d(d))
        self.cq, self.ck, self.cv, self.h = dw(1), dw(2), dw(2), h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        x = self.p(x)
        b, d, hh, ww = x.shape
        t = lambda z: z.flatten(2).transpose(1, 2)
        s = lambda z: z.view(b, -1, self.h, d // self.h).transpose(1, 2)
        q, k, v = s(self.q(t(self.cq(x)))), s(self.k(t(self.ck(x)))), s(self.v(t(self.cv(x))))
        a = (torch.einsum("bhlk,bhtk->bhlt", q, k) * d ** -0.5).softmax(-1)
        y = torch.einsum("bhlt,bhtv->bhlv", a, v).transpose(1, 2).reshape(b, -1, d)
        return x + self.o(y).transpose(1, 2).reshape(b, d, hh, ww)


class MaxViTGrid(nn.Module):
    """Attention over a grid: positions far apart form a window; relative biases."""

    def __init__(self, d=32, g=4, h=2):
        super().__init__()
        self.s, self.a, self.n, self.g = cbr(3, d, 3, 2), SDPA(d, h), nn.LayerNorm(d), g

    def forward(self, x):
        x = self.s(x)
        b, d, h, w = x.shape
        g = self.g
        y = x.view(b, d, g, h // g, g, w // g).permute(0, 3, 5, 2, 4, 1).reshape(-1, g * g, d)
        y = y + self.a(self.n(y))
        return y.view(b, h // g, w // g, g, g, d).permute(0, 5, 3, 1, 4, 2).reshape(b, d, h, w)


class FNet(nn.Module):
    """Mixing by a discrete Fourier transform as two products."""

    def __init__(self, d=32, t=16):
        super().__init__()
        f = lambda n: torch.outer(torch.arange(n), torch.arange(n)) * 2 * math.pi / n
        for k, v in dict(ct=f(t).cos(), st=f(t).sin(), cd=f(d).cos(), sd=f(d).sin()).items():
            self.register_buffer(k, v)
        self.n1, self.n2, self.m = nn.LayerNorm(d), nn.LayerNorm(d), S(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        x = self.n1(x + self.ct @ x @ self.cd - self.st @ x @ self.sd)
        return self.n2(x + self.m(x))


class Heads(nn.Module):
    """A two-stage detector's head: anchors decoded by exp and clipped, the best score of each."""

    def __init__(self, n=9):
        super().__init__()
        self.c, self.s, self.b = cbr(16, 24), nn.Conv2d(24, 3, 1), nn.Conv2d(24, 12, 1)
        self.register_buffer("a", torch.rand(n * n * 3, 4) + 0.2)

    def forward(self, x):
        x = self.c(x)
        s = self.s(x).permute(0, 2, 3, 1).reshape(1, -1, 1).sigmoid()
        d = self.b(x).view(1, 3, 4, *x.shape[2:]).permute(0, 3, 4, 1, 2).reshape(1, -1, 4)
        xy, wh = d[..., :2] * self.a[:, 2:] + self.a[:, :2], torch.exp(d[..., 2:].clamp(max=4)) * self.a[:, 2:]
        return torch.cat([(xy - wh / 2).clamp(0, 1), (xy + wh / 2).clamp(0, 1), s], -1)


class Gpt2(nn.Module):
    def __init__(self, d=64, t=24):
        super().__init__()
        self.e, self.p, self.b, self.n = nn.Embedding(300, d), nn.Embedding(t, d), S(Block(d, causal=True), Block(d, causal=True)), nn.LayerNorm(d)

    def forward(self, i):
        x = self.e(i) + self.p(torch.arange(i.shape[1])[None])
        return F.linear(self.n(self.b(x)), self.e.weight)


class ALBERTMask(nn.Module):
    """A mask of lengths given at run time, as tokenizers hand it over."""

    def __init__(self, d=48, h=4):
        super().__init__()
        self.e, self.q, self.k, self.v, self.o, self.h = nn.Embedding(200, d), *(nn.Linear(d, d) for _ in range(4)), h
        self.n = nn.LayerNorm(d)

    def forward(self, i, mask):
        x = self.e(i)
        b, t, d = x.shape
        m = (1.0 - mask[:, None, None].float()) * -1e4
        s = lambda z: z.view(b, t, self.h, -1).transpose(1, 2)
        a = (s(self.q(x)) @ s(self.k(x)).transpose(-1, -2) / math.sqrt(d // self.h) + m).softmax(-1)
        x = self.n(x + self.o((a @ s(self.v(x))).transpose(1, 2).reshape(b, t, d)))
        w = mask.float().unsqueeze(-1)
        return F.normalize((x * w).sum(1) / w.sum(1).clamp(min=1e-6), dim=-1)


class Siren(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.l, self.o = nn.ModuleList([nn.Linear(2, d), nn.Linear(d, d)]), nn.Linear(d, 3)

    def forward(self, x):
        for i, l in enumerate(self.l):
            x = torch.sin((30.0 if i == 0 else 1.0) * l(x))
        return self.o(x)


class Dconv(nn.Module):
    """Kernels computed from the input (a dynamic convolution over four experts)."""

    def __init__(self, c=16, k=4):
        super().__init__()
        self.w, self.r, self.c = nn.Parameter(R(k, c, c, 3, 3) * 0.1), nn.Linear(c, k), c

    def forward(self, x):
        a = self.r(x.mean((2, 3))).softmax(-1)
        w = (a.view(-1, 1, 1, 1, 1) * self.w).sum(0)
        return F.relu(F.conv2d(x, w, padding=1))


class Involution(nn.Module):
    def __init__(self, c=16, g=4, k=3):
        super().__init__()
        self.r, self.s, self.g, self.k = cbr(c, c // 2, 1), nn.Conv2d(c // 2, k * k * g, 1), g, k

    def forward(self, x):
        b, c, h, w = x.shape
        q = self.s(self.r(x)).view(b * self.g, 1, self.k ** 2, h * w)
        u = F.unfold(x, self.k, padding=self.k // 2).view(b * self.g, c // self.g, self.k ** 2, h * w)
        return (q * u).sum(2).view(b, c, h, w)


def families():
    img = lambda s, c=3: (R(1, c, s, s),)
    ids = lambda t, n=200: torch.randint(0, n, (1, t), dtype=torch.int32)
    yield "deit_distilled", DeiT, img(96)
    yield "swin_masked", SwinMasked, img(64)
    yield "pvt", PVT, img(64)
    yield "cvt", Cvt, img(64)
    yield "maxvit_grid", MaxViTGrid, img(32)
    yield "gmlp", GMLP, img(112)
    yield "fnet", FNet, (R(1, 16, 32),)
    yield "poolformer", lambda: S(nn.Conv2d(3, 32, 7, 4, 2), Fn(lambda s, x: x + F.avg_pool2d(s.n(x), 3, 1, 1, count_include_pad=False) - s.n(x),
                                  n=nn.GroupNorm(1, 32)), Fn(lambda s, x: x + s.m(s.n(x)), n=nn.GroupNorm(1, 32),
                                  m=S(nn.Conv2d(32, 128, 1), nn.GELU(), nn.Conv2d(128, 32, 1)))), img(64)
    yield "mobileone", MobileOne, img(48)
    yield "ghostnet", lambda: S(cbr(3, 16, 3, 2), Ghost(16, 32), nn.Conv2d(32, 32, 3, 2, 1, groups=32), SE(32), Ghost(32, 24, False)), img(48)
    yield "regnet", lambda: S(cbr(3, 32, 3, 2), Residual(S(cbr(32, 32, 1), cbr(32, 32, 3, 1, nn.ReLU, 4), SE(32), nn.Conv2d(32, 32, 1))),
                              cbr(32, 48, 3, 2, nn.ReLU, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 10)), img(64)
    yield "senet", lambda: S(cbr(3, 32, 3, 2), Residual(S(cbr(32, 32), SE(32, 16))), nn.MaxPool2d(3, 2, ceil_mode=True),
                             nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)), img(64)
    yield "densenet", DenseNet, img(64)
    yield "inception", Inception, img(64)
    yield "vgg", lambda: S(cbr(3, 16), nn.MaxPool2d(2), cbr(16, 32), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d((7, 7)), nn.Flatten(),
                           nn.Linear(32 * 49, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 10)), img(64)
    yield "alexnet", lambda: S(nn.Conv2d(3, 32, 11, 4, 2), nn.ReLU(), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2), nn.Conv2d(32, 48, 5, 1, 2),
                               nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(432, 10)), img(128)
    yield "squeezenet", lambda: S(cbr(3, 16, 3, 2), Fn(lambda s, x: torch.cat([s.a(s.s(x)).relu(), s.b(s.s(x)).relu()], 1), s=cbr(16, 8, 1),
                                  a=nn.Conv2d(8, 16, 1), b=nn.Conv2d(8, 16, 3, 1, 1)), nn.Conv2d(32, 10, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)), img(64)
    yield "fpn", FPN, img(96)
    yield "hourglass", lambda: S(cbr(3, 24, 7, 2), Hourglass(), nn.Conv2d(24, 16, 1)), img(64)
    yield "bisenet", BiSeNet, img(128)
    yield "anchors", Heads, (R(1, 16, 9, 9),)
    yield "crnn", CRNN, (R(1, 1, 32, 48),)
    yield "t5_block", T5, (ids(24),)
    yield "gpt2", Gpt2, (ids(24),)
    yield "sentence_encoder", ALBERTMask, (ids(16), (torch.arange(16)[None] < 11).int())
    yield "torch_transformer", lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(48, 4, 96, batch_first=True, activation="gelu"), 2,
                                                             enable_nested_tensor=False), (R(1, 20, 48),)
    yield "torch_decoder", lambda: Fn(lambda s, x, m: s.n[2](
        (lambda y: y + s.m(y))(s.n[1]((lambda y: y + s.x(y, m))(s.n[0](x + s.a(x)))))), a=MHA(48, 4), x=MHA(48, 4),
        n=nn.ModuleList([nn.LayerNorm(48) for _ in range(3)]), m=S(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 48))), (R(1, 12, 48), R(1, 20, 48))
    yield "whisper_step", WhisperStep, (ids(1), torch.tensor([[7]], dtype=torch.int32), R(1, 4, 7, 16), R(1, 4, 7, 16), R(1, 4, 30, 16), R(1, 4, 30, 16))
    yield "perceiver_mha", lambda: Fn(lambda s, x: s.b(s.q + s.a(s.q, s.n(x))), q=nn.Parameter(R(1, 8, 32)), a=MHA(32, 4), n=nn.LayerNorm(32), b=Block(32, 2)), (R(1, 50, 32),)
    yield "moe", MoE, (R(1, 10, 32),)
    yield "retnet", Retention, (R(1, 24, 64),)
    yield "rwkv", RWKV, (R(1, 16, 48),)
    yield "capsule", Caps, img(28, 1)
    yield "dcgan", lambda: S(nn.ConvTranspose2d(48, 64, 4, 1, 0, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.ConvTranspose2d(64, 32, 4, 2, 1, bias=False),
                             nn.BatchNorm2d(32), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh()), (R(1, 48, 1, 1),)
    yield "style_generator", Style, (R(1, 48),)
    yield "cyclegan", lambda: S(nn.ReflectionPad2d(3), nn.Conv2d(3, 16, 7), nn.InstanceNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.InstanceNorm2d(32),
                                nn.ReLU(), nn.ConvTranspose2d(32, 16, 3, 2, 1, 1), nn.InstanceNorm2d(16), nn.ReLU(), nn.ReflectionPad2d(3), nn.Conv2d(16, 3, 7), nn.Tanh()), img(48)
    yield "flow_correlation", Correlation, (*img(48), *img(48))
    yield "flow_all_pairs", Raft, (*img(64), *img(64))
    yield "wavenet", WaveNet, (R(1, 1, 200),)
    yield "tts_flow", VITSFlow, (R(1, 16, 40), (torch.arange(40) < 33).float().view(1, 1, 40))
    yield "audio_codec", EncodecLSTM, (R(1, 1, 320),)
    yield "istft_vocoder", lambda: Fn(lambda s, x: s.o((lambda m, p: torch.cat([m * torch.cos(p), m * torch.sin(p)], 1))(
        *(lambda a, b: (torch.exp(a.clamp(max=5)), b))(*s.h(s.c(x)).chunk(2, 1)))), c=S(nn.Conv1d(20, 32, 7, 1, 3), nn.GELU()),
        h=nn.Conv1d(32, 34, 1), o=nn.ConvTranspose1d(34, 1, 32, 8, 12, bias=False)), (R(1, 20, 30),)
    yield "seq2seq_attention", Seq2Seq, (R(1, 10, 32), R(1, 32))
    yield "conv_lstm", ConvLSTM, (R(1, 4, 8, 12, 12),)
    yield "lstm_stacked", lambda: Fn(lambda s, x: s.o(s.r(x)[0][:, -1]), r=nn.LSTM(16, 24, 2, batch_first=True), o=nn.Linear(24, 4)), (R(1, 20, 16),)
    yield "gru_bidirectional", lambda: Fn(lambda s, x: s.o(s.r(x)[0]), r=nn.GRU(16, 24, 1, batch_first=True, bidirectional=True), o=nn.Linear(48, 4)), (R(1, 10, 16),)
    yield "elman", lambda: Fn(lambda s, x: s.o(s.r(x)[0]), r=nn.RNN(16, 24, 1, batch_first=True), o=nn.Linear(24, 4)), (R(1, 12, 16),)
    yield "nbeats", NBeats, (R(4, 40),)
    yield "dlrm", DLRM, (R(1, 13), ids(6, 100))
    yield "gat", GAT, (R(1, 20, 16),)
    yield "edge_conv", EdgeConv, (R(1, 3, 32),)
    yield "edsr", EDSR, img(24)
    yield "nafnet", NAFNet, img(32)
    yield "unet_3d", Unet3D, (R(1, 1, 8, 16, 16),)
    yield "siren", Siren, (torch.rand(64, 2) * 2 - 1,)
    yield "dynamic_conv", Dconv, (R(1, 16, 12, 12),)
    yield "involution", Involution, (R(1, 16, 12, 12),)
    yield "ft_transformer", lambda: Fn(lambda s, x: s.o(s.b(torch.cat([s.c, x.unsqueeze(-1) * s.w + s.z], 1))[:, 0]), w=nn.Parameter(R(10, 32)),
                                       z=nn.Parameter(R(10, 32)), c=nn.Parameter(R(1, 1, 32)), b=Block(32), o=nn.Linear(32, 2)), (R(1, 10),)
    yield "vae", lambda: Fn(lambda s, x, e: s.d((lambda m, l: m + e * torch.exp(0.5 * l))(*s.e(x.flatten(1)).chunk(2, 1))).view(x.shape),
                            e=S(nn.Linear(144, 64), nn.ReLU(), nn.Linear(64, 32)), d=S(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 144), nn.Sigmoid())), (torch.rand(1, 1, 12, 12), R(1, 16))
