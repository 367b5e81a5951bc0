"""Backbones: convolutional networks, transformers and mixers that classify images."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from .parts import Block, EncoderBlock, Fn, R, Residual, S, SDPA, cbr, img


class ViT(nn.Module):
    def __init__(self, d=96, p=16, s=112, n=2, extra=1):
        super().__init__()
        self.p = nn.Conv2d(3, d, p, p)
        self.c = nn.Parameter(R(1, extra, d) * 0.1)
        self.e = nn.Parameter(R(1, (s // p) ** 2 + extra, d) * 0.1)
        self.b = nn.ModuleList([EncoderBlock(d) for _ in range(n)])
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
        self.l, self.i, self.b = cbr(c, c, 3, 1, nn.SiLU), nn.Conv2d(c, d, 1, bias=False), EncoderBlock(d, act=nn.SiLU)
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


class SqueezeExcite(nn.Module):
    def __init__(self, c, r=4, act=nn.SiLU, gate=nn.Sigmoid):
        super().__init__()
        self.a, self.b, self.f, self.g = nn.Conv2d(c, c // r, 1), nn.Conv2d(c // r, c, 1), act(), gate()

    def forward(self, x):
        return x * self.g(self.b(self.f(self.a(x.mean((2, 3), keepdim=True)))))


def mb(c, e=4, act=nn.SiLU, gate=nn.Sigmoid, k=3):
    return Fn(lambda s, x: x + s.m(x), m=S(
        nn.Conv2d(c, e * c, 1, bias=False), nn.BatchNorm2d(e * c), act(),
        nn.Conv2d(e * c, e * c, k, 1, k // 2, groups=e * c, bias=False), nn.BatchNorm2d(e * c), act(),
        SqueezeExcite(e * c, 4, act, gate), nn.Conv2d(e * c, c, 1, bias=False), nn.BatchNorm2d(c)))


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


class RepLK(nn.Module):
    def __init__(self, c=24, k=31):
        super().__init__()
        self.s, self.l, self.p = cbr(3, c, 3, 2), nn.Conv2d(c, c, k, 1, k // 2, groups=c), nn.Conv2d(c, c, 1)

    def forward(self, x):
        x = self.s(x)
        return (x + self.p(F.gelu(self.l(x)))).mean((2, 3))


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


class Spatial(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = S(nn.Conv2d(3, 8, 7, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 6))

    def forward(self, x):
        return F.grid_sample(x, F.affine_grid(self.l(x).view(-1, 2, 3) * 0.1, x.shape, align_corners=False),
                             align_corners=False)


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


def networks():
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
    yield "replknet", RepLK, img(64)
    yield "efficientvit", LinearAttention, (R(1, 32, 16, 16),)
    yield "shufflenet", Shuffle, (R(1, 48, 16, 16),)
    yield "spatial_transformer", Spatial, img(32)
    yield "wide_pooling", lambda: S(cbr(3, 16, 3, 2), nn.AvgPool2d(16, 8), nn.Flatten(), nn.Linear(144, 10)), img(64)
    yield "deit_distilled", DeiT, img(96)
    yield "swin_masked", SwinMasked, img(64)
    yield "pvt", PVT, img(64)
    yield "cvt", Cvt, img(64)
    yield "maxvit_grid", MaxViTGrid, img(32)
    yield "gmlp", GMLP, img(112)
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
    yield "capsule", Caps, img(28, 1)
    yield "dynamic_conv", Dconv, (R(1, 16, 12, 12),)
    yield "involution", Involution, (R(1, 16, 12, 12),)
    yield "arcface_head", lambda: Fn(lambda s, x: F.linear(F.normalize(s.l(s.c(x))), F.normalize(s.w)) * 64, c=S(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.PReLU(16), nn.Flatten()), l=S(nn.Linear(16 * 256, 32), nn.BatchNorm1d(32)), w=nn.Parameter(R(10, 32))), img(32)
    yield "netvlad", lambda: Fn(lambda s, x: F.normalize(F.normalize((torch.softmax(s.c(x).flatten(2), 1)[:, :, None] * (x.flatten(2)[:, None] - s.k[None, :, :, None])).sum(-1), dim=2).flatten(1)), c=nn.Conv2d(16, 8, 1), k=nn.Parameter(R(8, 16))), (R(1, 16, 8, 8),)
    yield "bilinear_pool", lambda: Fn(lambda s, x: (lambda y: s.o(F.normalize(torch.sign(y) * torch.sqrt(y.abs() + 1e-6))))((s.c(x).flatten(2) @ s.c(x).flatten(2).transpose(1, 2) / 64).flatten(1)), c=nn.Conv2d(3, 12, 3, 4, 1), o=nn.Linear(144, 4)), img(32)
