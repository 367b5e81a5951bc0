"""Detection, segmentation, restoration, generation, optical flow, and video."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from .parts import Attention, Fn, R, Residual, S, cbr, img


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


class RCAN(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.h, self.t = nn.Conv2d(3, c, 3, 1, 1), S(nn.Conv2d(c, 4 * c, 3, 1, 1), nn.PixelShuffle(2), nn.Conv2d(c, 3, 3, 1, 1))
        self.b = nn.ModuleList([S(nn.Conv2d(c, c, 3, 1, 1), nn.ReLU(), nn.Conv2d(c, c, 3, 1, 1)) for _ in range(3)])
        self.a = nn.ModuleList([S(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c // 4, 1), nn.ReLU(), nn.Conv2d(c // 4, c, 1), nn.Sigmoid()) for _ in range(3)])

    def forward(self, x):
        mean = torch.tensor([0.4488, 0.4371, 0.4040]).view(1, 3, 1, 1)
        x = y = self.h((x - mean) * 1.0)
        for b, a in zip(self.b, self.a):
            z = b(y)
            y = y + z * a(z)
        return self.t(x + y) + mean


class RRDB(nn.Module):
    """Dense residual blocks of ESRGAN, with nearest upsampling."""

    def __init__(self, c=16, g=8):
        super().__init__()
        self.i = nn.Conv2d(3, c, 3, 1, 1)
        self.d = nn.ModuleList([nn.ModuleList([nn.Conv2d(c + i * g, g if i < 4 else c, 3, 1, 1) for i in range(5)]) for _ in range(3)])
        self.u, self.o = nn.Conv2d(c, c, 3, 1, 1), nn.Conv2d(c, 3, 3, 1, 1)

    def forward(self, x):
        x = first = self.i(x)
        for block in self.d:
            parts = [x]
            for i, conv in enumerate(block):
                y = conv(torch.cat(parts, 1))
                parts.append(F.leaky_relu(y, 0.2) if i < 4 else y)
            x = x + 0.2 * parts[-1]
        x = x + first
        return self.o(F.leaky_relu(self.u(F.interpolate(x, scale_factor=2, mode="nearest")), 0.2))


class SwinIR(nn.Module):
    """Shifted windows at any size, with an attention mask made at run time and a table of relative positions."""

    def __init__(self, c=24, h=2, w=4):
        super().__init__()
        self.c, self.h, self.w = nn.Conv2d(3, c, 3, 1, 1), h, w
        self.n, self.q, self.p = nn.ModuleList([nn.LayerNorm(c) for _ in range(4)]), nn.ModuleList([nn.Linear(c, 3 * c) for _ in range(2)]), nn.ModuleList([nn.Linear(c, c) for _ in range(2)])
        self.m = nn.ModuleList([S(nn.Linear(c, 2 * c), nn.GELU(), nn.Linear(2 * c, c)) for _ in range(2)])
        self.t = nn.Parameter(R((2 * w - 1) ** 2, h) * 0.1)
        at = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
        d = at[:, :, None] - at[:, None] + w - 1
        self.register_buffer("i", d[0] * (2 * w - 1) + d[1])
        self.o = S(nn.Conv2d(c, 12, 3, 1, 1), nn.PixelShuffle(2))

    def windows(self, x):
        b, h, w, c = x.shape
        return x.view(b, h // self.w, self.w, w // self.w, self.w, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, self.w ** 2, c)

    def mask(self, h, w, shift):
        m, n = torch.zeros(1, h, w, 1), 0
        cuts = (slice(0, -self.w), slice(-self.w, -shift), slice(-shift, None))
        for a in cuts:
            for b in cuts:
                m[:, a, b] = n
                n += 1
        m = self.windows(m).squeeze(-1)
        d = m[:, None] - m[:, :, None]
        return d.masked_fill(d != 0, -100.0).masked_fill(d == 0, 0.0)

    def forward(self, x):
        y = self.c(x).permute(0, 2, 3, 1)
        b, h, w, c = y.shape
        for k, shift in enumerate((0, self.w // 2)):
            z = self.n[2 * k](y)
            z = torch.roll(z, (-shift, -shift), (1, 2)) if shift else z
            z = self.windows(z)
            q, kk, v = self.q[k](z).reshape(z.shape[0], -1, 3, self.h, c // self.h).permute(2, 0, 3, 1, 4)
            a = (q * (c // self.h) ** -0.5) @ kk.transpose(-2, -1) + self.t[self.i.view(-1)].view(self.w ** 2, self.w ** 2, -1).permute(2, 0, 1)
            if shift:
                m = self.mask(h, w, shift)
                a = (a.view(b, m.shape[0], self.h, self.w ** 2, -1) + m[None, :, None]).view(-1, self.h, self.w ** 2, self.w ** 2)
            z = self.p[k]((a.softmax(-1) @ v).transpose(1, 2).reshape(-1, self.w ** 2, c))
            z = z.view(b, h // self.w, w // self.w, self.w, self.w, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
            z = torch.roll(z, (shift, shift), (1, 2)) if shift else z
            y = y + z
            y = y + self.m[k](self.n[2 * k + 1](y))
        return self.o(y.permute(0, 3, 1, 2))


class HRNet(nn.Module):
    """Branches of three scales that exchange, and a soft argmax of heat maps."""

    def __init__(self, c=16):
        super().__init__()
        cb = lambda a, b, s=1, k=3: S(nn.Conv2d(a, b, k, s, k // 2, bias=False), nn.BatchNorm2d(b), nn.ReLU())
        self.i = S(cb(3, c, 2), cb(c, c, 2))
        self.d1, self.d2 = cb(c, 2 * c, 2), cb(2 * c, 4 * c, 2)
        self.b = nn.ModuleList([cb(c, c), cb(2 * c, 2 * c), cb(4 * c, 4 * c)])
        self.u1, self.u2, self.x, self.o = cb(2 * c, c, 1, 1), cb(4 * c, c, 1, 1), cb(c, 4 * c, 4), nn.Conv2d(c, 5, 1)

    def forward(self, x):
        a = self.i(x)
        b = self.d1(a)
        c = self.d2(b)
        a, b, c = self.b[0](a), self.b[1](b), self.b[2](c)
        y = a + F.interpolate(self.u1(b), scale_factor=2, mode="bilinear", align_corners=True) + F.interpolate(self.u2(c), scale_factor=4, mode="nearest")
        h = torch.softmax(self.o(y).flatten(2) * 10, -1).view(1, 5, *y.shape[2:])
        gx = (h.sum(2) * torch.arange(y.shape[3]).float()).sum(-1)
        gy = (h.sum(3) * torch.arange(y.shape[2]).float()).sum(-1)
        return torch.stack([gx, gy], -1)


class YOLOX(nn.Module):
    """Focus, CSP, a decoupled head over two scales, decoded with grids."""

    def __init__(self, c=16, n=4):
        super().__init__()
        cb = lambda a, b, k=3, s=1, g=1: S(nn.Conv2d(a, b, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(b, eps=1e-3), nn.SiLU())
        self.f, self.d1, self.d2 = cb(12, c), cb(c, 2 * c, 3, 2), cb(2 * c, 2 * c, 3, 2)
        self.spp, self.s = cb(8 * c, 2 * c, 1), nn.ModuleList([nn.MaxPool2d(k, 1, k // 2) for k in (5, 9, 13)])
        self.h = nn.ModuleList([nn.ModuleList([cb(2 * c, c, 1), cb(c, c), cb(c, c), nn.Conv2d(c, n, 1), nn.Conv2d(c, 4, 1), nn.Conv2d(c, 1, 1)]) for _ in range(2)])

    def forward(self, x):
        x = torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1)
        a = self.d1(self.f(x))
        b = self.d2(a)
        b = self.spp(torch.cat([b] + [s(b) for s in self.s], 1))
        out = []
        for (stem, one, two, cls, box, obj), y, stride in zip(self.h, (a, b), (4, 8)):
            y = stem(y)
            r = two(y)
            y = torch.cat([box(r), obj(r).sigmoid(), cls(one(y)).sigmoid()], 1)
            h, w = y.shape[2:]
            gy, gx = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            grid = torch.stack((gx, gy), 2).view(1, -1, 2).float()
            y = y.flatten(2).permute(0, 2, 1)
            out.append(torch.cat([(y[..., :2] + grid) * stride, torch.exp(y[..., 2:4]) * stride, y[..., 4:]], -1))
        return torch.cat(out, 1)


class CenterNet(nn.Module):
    """Peaks of a heat map by max pooling, and the boxes at the best of them."""

    def __init__(self, c=16):
        super().__init__()
        self.b = S(nn.Conv2d(3, c, 3, 2, 1), nn.ReLU(), nn.Conv2d(c, c, 3, 2, 1), nn.ReLU())
        self.h, self.w = nn.Conv2d(c, 2, 1), nn.Conv2d(c, 2, 1)

    def forward(self, x):
        y = self.b(x)
        heat = torch.sigmoid(self.h(y))
        heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat).float()
        score, at = heat.flatten(1).topk(10)
        cell = at % (y.shape[2] * y.shape[3])
        size = self.w(y).flatten(2).transpose(1, 2).gather(1, cell[..., None].expand(-1, -1, 2))
        centre = torch.stack([(cell % y.shape[3]).float(), (cell // y.shape[3]).float()], -1)
        return torch.cat([centre - size / 2, centre + size / 2, score[..., None]], -1)


class DPT(nn.Module):
    """Depth: tokens of a transformer as maps of several scales, fused from coarse to fine."""

    def __init__(self, d=32):
        super().__init__()
        self.p, self.pos = nn.Conv2d(3, d, 8, 8), nn.Parameter(R(1, 65, d) * 0.02)
        self.cls = nn.Parameter(R(1, 1, d))
        layer = lambda: nn.TransformerEncoderLayer(d, 4, 2 * d, batch_first=True, norm_first=True, activation="gelu")
        self.t = nn.ModuleList([layer() for _ in range(2)])
        self.r = nn.ModuleList([S(nn.Linear(2 * d, d), nn.GELU()) for _ in range(2)])
        self.a, self.b = S(nn.Conv2d(d, 16, 1), nn.ConvTranspose2d(16, 16, 2, 2)), S(nn.Conv2d(d, 16, 1), nn.Conv2d(16, 16, 3, 2, 1))
        self.f, self.o = nn.Conv2d(16, 16, 3, 1, 1), S(nn.Conv2d(16, 8, 3, 1, 1), nn.ReLU(), nn.Conv2d(8, 1, 1), nn.ReLU())

    def forward(self, x):
        y = torch.cat([self.cls.expand(x.shape[0], -1, -1), self.p(x).flatten(2).transpose(1, 2)], 1) + self.pos
        maps = []
        for t, r in zip(self.t, self.r):
            y = t(y)
            z = r(torch.cat([y[:, 1:], y[:, :1].expand_as(y[:, 1:])], -1))
            maps.append(z.transpose(1, 2).unflatten(2, (8, 8)))
        fine, coarse = self.a(maps[0]), self.b(maps[1])
        up = F.interpolate(coarse, size=fine.shape[2:], mode="bilinear", align_corners=True)
        y = self.f(torch.relu(fine + up))
        return self.o(F.interpolate(y, scale_factor=2, mode="bicubic", align_corners=False))


class StyleGAN2(nn.Module):
    """Modulated and demodulated kernels as a grouped convolution, with noise and a blur."""

    def __init__(self, c=16, d=24):
        super().__init__()
        self.m = S(*[nn.Linear(d, d) if i % 2 == 0 else nn.LeakyReLU(0.2) for i in range(4)])
        self.w, self.a, self.n = nn.Parameter(R(c, c, 3, 3)), nn.Linear(d, c), nn.Parameter(R(1, 1, 16, 16))
        self.x = nn.Parameter(R(1, c, 8, 8))
        blur = torch.tensor([1.0, 3, 3, 1])
        self.register_buffer("k", (blur[:, None] * blur / 64)[None, None].repeat(c, 1, 1, 1) * 4)
        self.rgb = nn.Conv2d(c, 3, 1)

    def forward(self, z):
        z = self.m(z * torch.rsqrt((z ** 2).mean(1, keepdim=True) + 1e-8))
        w = self.w[None] * (self.a(z) + 1)[:, None, :, None, None]
        w = w * torch.rsqrt((w ** 2).sum((2, 3, 4), keepdim=True) + 1e-8)
        b, o, i, _, _ = w.shape
        x = self.x.expand(b, -1, -1, -1).reshape(1, b * i, 8, 8)
        y = F.conv_transpose2d(x, w.transpose(1, 2).reshape(b * i, o, 3, 3), stride=2, groups=b).view(b, o, 17, 17)
        y = F.conv2d(F.pad(y, (1, 1, 1, 1)), self.k, groups=o)[..., :16, :16]
        return torch.tanh(self.rgb(F.leaky_relu(y + self.n, 0.2) * math.sqrt(2)))


class SPADE(nn.Module):
    """Normalization that is modulated by a map of classes."""

    def __init__(self, c=16):
        super().__init__()
        self.s, self.g, self.b, self.c = nn.Conv2d(4, 16, 3, 1, 1), nn.Conv2d(16, c, 3, 1, 1), nn.Conv2d(16, c, 3, 1, 1), nn.utils.spectral_norm(nn.Conv2d(c, c, 3, 1, 1))
        self.n = nn.InstanceNorm2d(c)

    def forward(self, x, segments):
        s = torch.relu(self.s(F.interpolate(segments, size=x.shape[2:], mode="nearest")))
        return x + self.c(F.leaky_relu(self.n(x) * (1 + self.g(s)) + self.b(s), 0.2))


class Glow(nn.Module):
    """A flow: activation norm, an invertible 1x1, affine coupling, squeezed, with its log determinant."""

    def __init__(self, c=12):
        super().__init__()
        self.s, self.b, self.w = nn.Parameter(R(1, c, 1, 1) * 0.1), nn.Parameter(R(1, c, 1, 1)), nn.Parameter(torch.linalg.qr(R(c, c))[0])
        self.m = S(nn.Conv2d(c // 2, 32, 3, 1, 1), nn.ReLU(), nn.Conv2d(32, 32, 1), nn.ReLU(), nn.Conv2d(32, c, 3, 1, 1))

    def forward(self, x):
        x = F.pixel_unshuffle(x, 2)
        x = F.conv2d((x + self.b) * torch.exp(self.s), self.w[..., None, None])
        a, b = x.chunk(2, 1)
        shift, log = self.m(a).chunk(2, 1)
        scale = torch.sigmoid(log + 2)
        y = torch.cat([a, (b + shift) * scale], 1)
        return torch.cat([y.flatten(1), torch.log(scale).flatten(1).sum(1, keepdim=True)], 1)


class SlowFast(nn.Module):
    def __init__(self):
        super().__init__()
        cb = lambda a, b, k, s: S(nn.Conv3d(a, b, k, s, tuple(i // 2 for i in k), bias=False), nn.BatchNorm3d(b), nn.ReLU())
        self.s, self.f = cb(3, 16, (1, 7, 7), (1, 2, 2)), cb(3, 4, (5, 7, 7), (1, 2, 2))
        self.l = nn.Conv3d(4, 8, (5, 1, 1), (4, 1, 1), (2, 0, 0), bias=False)
        self.s2, self.f2, self.o = cb(24, 24, (1, 3, 3), (1, 2, 2)), cb(4, 8, (3, 3, 3), (1, 2, 2)), nn.Linear(32, 10)

    def forward(self, x):
        slow, fast = x[:, :, ::4], x
        slow, fast = self.s(slow), self.f(fast)
        slow, fast = self.s2(torch.cat([slow, self.l(fast)], 1)), self.f2(fast)
        return self.o(torch.cat([F.adaptive_avg_pool3d(slow, 1).flatten(1), F.adaptive_avg_pool3d(fast, 1).flatten(1)], 1))


class X3D(nn.Module):
    """Depthwise 3-D convolutions with squeeze and excitation."""

    def __init__(self, c=12):
        super().__init__()
        self.a, self.t = nn.Conv3d(3, c, (1, 3, 3), (1, 2, 2), (0, 1, 1)), nn.Conv3d(c, c, (5, 1, 1), 1, (2, 0, 0), groups=c)
        self.e, self.d, self.p = nn.Conv3d(c, 27, 1), nn.Conv3d(27, 27, 3, (1, 2, 2), 1, groups=27), nn.Conv3d(27, c, 1)
        self.s, self.o = S(nn.AdaptiveAvgPool3d(1), nn.Conv3d(27, 8, 1), nn.ReLU(), nn.Conv3d(8, 27, 1), nn.Sigmoid()), nn.Linear(c, 5)

    def forward(self, x):
        x = torch.relu(self.t(self.a(x)))
        y = self.d(torch.relu(self.e(x)))
        return self.o(F.adaptive_avg_pool3d(self.p(F.silu(y * self.s(y))), 1).flatten(1))


class TSM(nn.Module):
    """Channels shifted in time between convolutions of frames."""

    def __init__(self, c=16, t=4):
        super().__init__()
        self.i, self.c, self.o, self.t = nn.Conv2d(3, c, 3, 2, 1), nn.Conv2d(c, c, 3, 1, 1), nn.Linear(c, 5), t

    def forward(self, x):
        b, t = x.shape[:2]
        y = torch.relu(self.i(x.flatten(0, 1)))
        n, c, h, w = y.shape
        v = y.view(n // t, t, c, h, w)
        out = torch.zeros_like(v)
        out[:, :-1, :c // 8] = v[:, 1:, :c // 8]
        out[:, 1:, c // 8:c // 4] = v[:, :-1, c // 8:c // 4]
        out[:, :, c // 4:] = v[:, :, c // 4:]
        y = y + torch.relu(self.c(out.view(n, c, h, w)))
        return self.o(y.mean((2, 3))).view(b, t, -1).mean(1)


class MonaiNet(nn.Module):
    """Residual 3-D encoder and decoder with instance norms and PReLU, and trilinear upsampling."""

    def __init__(self, c=8):
        super().__init__()
        cb = lambda a, b, s=1: S(nn.Conv3d(a, b, 3, s, 1), nn.InstanceNorm3d(b), nn.PReLU())
        self.a, self.d, self.b, self.o = cb(1, c), cb(c, 2 * c, 2), cb(2 * c, c), nn.Conv3d(2 * c, 2, 1)

    def forward(self, x):
        a = self.a(x)
        b = F.interpolate(self.b(self.d(a)), scale_factor=2, mode="trilinear", align_corners=False)
        return torch.softmax(self.o(torch.cat([a, b], 1)), 1)


class VAE(nn.Module):
    """Mean, deviation and a sample with noise that is given."""

    def __init__(self):
        super().__init__()
        self.e, self.m, self.s, self.d = S(nn.Linear(96, 64), nn.ELU()), nn.Linear(64, 8), nn.Linear(64, 8), S(nn.Linear(8, 64), nn.SELU(), nn.Linear(64, 96), nn.Sigmoid())

    def forward(self, x, noise):
        h = self.e(x)
        mu, log = self.m(h), self.s(h)
        z = mu + noise * torch.exp(0.5 * log)
        kl = -0.5 * (1 + log - mu ** 2 - log.exp()).sum(-1, keepdim=True)
        return torch.cat([self.d(z), kl], -1)


def networks():
    yield "yolo", YOLO, img(64)
    yield "unet", UNet, img(64)
    yield "deeplab", DeepLab, img(256)
    yield "sd_block", SD, (R(1, 64, 16, 16), R(1, 128), R(1, 20, 96))
    yield "time_embedding", TimeEmbedding, (torch.tensor([3.0]),)
    yield "detr_decoder", DETR, (R(1, 64, 7, 7),)
    yield "espcn", lambda: S(nn.Conv2d(1, 32, 5, 1, 2), nn.Tanh(), nn.Conv2d(32, 9, 3, 1, 1), nn.PixelShuffle(3)), img(32, 1)
    yield "unshuffle_denoiser", lambda: S(nn.PixelUnshuffle(4), nn.Conv2d(48, 48, 3, 1, 1), nn.ReLU(), nn.PixelShuffle(4)), img(64)
    yield "r3d", R3D, (R(1, 3, 8, 32, 32),)
    yield "restormer", ChannelAttention, (R(1, 48, 16, 16),)
    yield "autoencoder_strided", lambda: S(nn.Conv2d(3, 32, 8, 8), nn.ReLU(), nn.ConvTranspose2d(32, 3, 8, 8)), img(64)
    yield "fpn", FPN, img(96)
    yield "hourglass", lambda: S(cbr(3, 24, 7, 2), Hourglass(), nn.Conv2d(24, 16, 1)), img(64)
    yield "bisenet", BiSeNet, img(128)
    yield "anchors", Heads, (R(1, 16, 9, 9),)
    yield "crnn", CRNN, (R(1, 1, 32, 48),)
    yield "dcgan", lambda: S(nn.ConvTranspose2d(48, 64, 4, 1, 0, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.ConvTranspose2d(64, 32, 4, 2, 1, bias=False),
                             nn.BatchNorm2d(32), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh()), (R(1, 48, 1, 1),)
    yield "style_generator", Style, (R(1, 48),)
    yield "cyclegan", lambda: S(nn.ReflectionPad2d(3), nn.Conv2d(3, 16, 7), nn.InstanceNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.InstanceNorm2d(32),
                                nn.ReLU(), nn.ConvTranspose2d(32, 16, 3, 2, 1, 1), nn.InstanceNorm2d(16), nn.ReLU(), nn.ReflectionPad2d(3), nn.Conv2d(16, 3, 7), nn.Tanh()), img(48)
    yield "flow_correlation", Correlation, (*img(48), *img(48))
    yield "flow_all_pairs", Raft, (*img(64), *img(64))
    yield "conv_lstm", ConvLSTM, (R(1, 4, 8, 12, 12),)
    yield "edsr", EDSR, img(24)
    yield "nafnet", NAFNet, img(32)
    yield "unet_3d", Unet3D, (R(1, 1, 8, 16, 16),)
    yield "vae", lambda: Fn(lambda s, x, e: s.d((lambda m, l: m + e * torch.exp(0.5 * l))(*s.e(x.flatten(1)).chunk(2, 1))).view(x.shape),
                            e=S(nn.Linear(144, 64), nn.ReLU(), nn.Linear(64, 32)), d=S(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 144), nn.Sigmoid())), (torch.rand(1, 1, 12, 12), R(1, 16))
    yield "rcan", RCAN, img(24)
    yield "esrgan_rrdb", RRDB, img(20)
    yield "swinir", SwinIR, img(16)
    yield "hrnet_pose", HRNet, img(64)
    yield "yolox", YOLOX, img(64)
    yield "centernet_topk", CenterNet, img(32)
    yield "dpt_depth", DPT, img(64)
    yield "stylegan2_modulated", StyleGAN2, (R(2, 24),)
    yield "spade", SPADE, (R(1, 16, 16, 16), torch.rand(1, 4, 32, 32))
    yield "glow", Glow, img(16)
    yield "slowfast", SlowFast, (R(1, 3, 8, 32, 32),)
    yield "x3d", X3D, (R(1, 3, 6, 32, 32),)
    yield "tsm", TSM, (R(1, 4, 3, 24, 24),)
    yield "segresnet_3d", MonaiNet, (R(1, 1, 16, 16, 16),)
    yield "vae_sampled", VAE, (R(2, 96), R(2, 8))
