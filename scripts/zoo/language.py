"""Language models, encoders of text, and recurrent networks."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from .parts import Attention, Block, EncoderBlock, Fn, R, S, ids


class Bert(nn.Module):
    def __init__(self, d=96, t=32, causal=False, act=nn.GELU):
        super().__init__()
        self.w, self.p, self.n = nn.Embedding(500, d), nn.Embedding(t, d), nn.LayerNorm(d)
        self.b, self.o = nn.ModuleList([EncoderBlock(d, act=act) for _ in range(2)]), nn.Linear(d, 8)
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


class RNN(nn.Module):
    def __init__(self, kind, t=12, bi=False):
        super().__init__()
        self.r = kind(40, 48, 1, batch_first=True, bidirectional=bi)
        self.o = nn.Linear(96 if bi else 48, 10)

    def forward(self, x):
        return self.o(self.r(x)[0])


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
        self.q, self.x, self.b = nn.Parameter(R(1, 16, d)), Attention(d, 4, 40), EncoderBlock(d)

    def forward(self, x):
        return self.b(self.q + self.x(self.q, x)).mean(1)


class MHA(nn.Module):
    """torch.nn.MultiheadAttention as users take it."""

    def __init__(self, d, h):
        super().__init__()
        self.a = nn.MultiheadAttention(d, h, batch_first=True)

    def forward(self, q, k=None, v=None):
        k = q if k is None else k
        return self.a(q, k, k if v is None else v, need_weights=False)[0]


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


class S4D(nn.Module):
    """A diagonal state space as a long convolution by FFT."""

    def __init__(self, d=8, n=4, t=32):
        super().__init__()
        decay = torch.exp(-torch.rand(d, n))
        kernel = (R(d, n, 1) * decay[..., None] ** torch.arange(t)).sum(1)
        self.k, self.d, self.o = nn.Parameter(kernel), nn.Parameter(R(d)), nn.Conv1d(d, 2 * d, 1)

    def forward(self, x):
        t = x.shape[-1]
        y = torch.fft.irfft(torch.fft.rfft(self.k, n=2 * t) * torch.fft.rfft(x, n=2 * t), n=2 * t)[..., :t]
        return F.glu(self.o(F.gelu(y + x * self.d[:, None])), 1)


class MinGRU(nn.Module):
    """The recurrence of minGRU by logarithms, as in training."""

    def __init__(self, d=24):
        super().__init__()
        self.z, self.h, self.o = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        k = self.z(x)
        coefficients = -F.softplus(k)
        pre = self.h(x)
        values = -F.softplus(-k) + torch.where(pre >= 0, (torch.relu(pre) + 0.5).log(), -F.softplus(-pre))
        a = torch.cumsum(coefficients, 1)
        return self.o(torch.exp(a + torch.logcumsumexp(values - a, 1)))


class Griffin(nn.Module):
    """A real-gated linear recurrence, step by step, behind a causal convolution."""

    def __init__(self, d=24):
        super().__init__()
        self.x, self.y, self.c = nn.Linear(d, d), nn.Linear(d, d), nn.Conv1d(d, d, 4, groups=d, padding=3)
        self.r, self.i, self.a, self.o = nn.Linear(d, d), nn.Linear(d, d), nn.Parameter(torch.rand(d)), nn.Linear(d, d)

    def forward(self, x):
        u = self.c(self.x(x).transpose(1, 2))[..., :x.shape[1]].transpose(1, 2)
        a = torch.exp(-8 * F.softplus(self.a) * torch.sigmoid(self.r(u)))
        b = torch.sqrt(1 - a ** 2) * torch.sigmoid(self.i(u)) * u
        h, out = torch.zeros_like(b[:, 0]), []
        for t in range(x.shape[1]):
            h = a[:, t] * h + b[:, t]
            out.append(h)
        return self.o(torch.stack(out, 1) * F.gelu(self.y(x)))


class XLSTM(nn.Module):
    """The matrix memory of xLSTM in its parallel form."""

    def __init__(self, d=32, h=2):
        super().__init__()
        self.q, self.g, self.o, self.h = nn.Linear(d, 3 * d), nn.Linear(d, 2 * h), nn.Linear(d, d), h

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.q(x).reshape(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        i, f = self.g(x).transpose(1, 2).chunk(2, 1)
        f = torch.cumsum(F.logsigmoid(f), -1)
        decay = (f[..., :, None] - f[..., None, :] + i[..., None, :]).masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        m = decay.max(-1, keepdim=True)[0]
        c = q @ k.transpose(-1, -2) / math.sqrt(d // self.h) * torch.exp(decay - m)
        n = torch.maximum(c.sum(-1, keepdim=True).abs(), torch.exp(-m))
        return self.o((c / n @ v).transpose(1, 2).reshape(b, t, d))


class Performer(nn.Module):
    """Attention by random features."""

    def __init__(self, d=32, h=2, m=16):
        super().__init__()
        self.q, self.o, self.h = nn.Linear(d, 3 * d), nn.Linear(d, d), h
        self.register_buffer("w", R(d // h, m))

    def features(self, x):
        y = x @ self.w
        return torch.exp(y - (x ** 2).sum(-1, keepdim=True) / 2 - y.amax((-1, -2), keepdim=True)) + 1e-4

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.q(x).reshape(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        scale = (d // self.h) ** -0.25
        q, k = self.features(q * scale), self.features(k * scale)
        y = torch.einsum("bhnm,bhmd->bhnd", q, torch.einsum("bhnm,bhnd->bhmd", k, v))
        y = y / torch.einsum("bhnm,bhm->bhn", q, k.sum(2))[..., None]
        return self.o(y.transpose(1, 2).reshape(b, t, d))


class Linformer(nn.Module):
    def __init__(self, d=32, h=4, t=64, k=16):
        super().__init__()
        self.q, self.k, self.v, self.o, self.h = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), h
        self.e, self.f = nn.Parameter(R(k, t) * 0.1), nn.Parameter(R(k, t) * 0.1)

    def forward(self, x):
        split = lambda y: y.unflatten(-1, (self.h, -1)).transpose(1, 2)
        y = F.scaled_dot_product_attention(split(self.q(x)), split(self.e @ self.k(x)), split(self.f @ self.v(x)))
        return self.o(y.transpose(1, 2).flatten(2))


class LightGRU(nn.Module):
    """A loop over torch.nn.GRUCell, as decoders write it."""

    def __init__(self, d=24):
        super().__init__()
        self.c, self.o = nn.GRUCell(d, d), nn.Linear(d, d)

    def forward(self, x):
        h, out = torch.zeros(x.shape[0], x.shape[2]), []
        for t in range(x.shape[1]):
            h = self.c(x[:, t], h)
            out.append(self.o(h))
        return torch.stack(out, 1)


class CharLSTM(nn.Module):
    """Embedding, two LSTM layers, the last step."""

    def __init__(self):
        super().__init__()
        self.e, self.l, self.o = nn.Embedding(60, 16), nn.LSTM(16, 32, 2, batch_first=True), nn.Linear(32, 60)

    def forward(self, ids):
        y, (h, c) = self.l(self.e(ids))
        return self.o(h[-1])


def networks():
    yield "distilbert", Bert, (ids(32, 500),)
    yield "clip_text", lambda: Bert(causal=True), (ids(32, 500),)
    yield "llama_prefill", Llama, (ids(32, 500),)
    yield "llama_step", lambda: Llama(step=True), (ids(1), R(1, 2, 31, 32), R(1, 2, 31, 32), R(1, 32), R(1, 32), R(1, 32))
    yield "lstm", lambda: RNN(nn.LSTM), (R(1, 12, 40),)
    yield "lstm_bidirectional", lambda: RNN(nn.LSTM, bi=True), (R(1, 12, 40),)
    yield "gru", lambda: RNN(nn.GRU), (R(1, 12, 40),)
    yield "mamba_scan", Mamba, (R(1, 8, 32),)
    yield "perceiver", Perceiver, (R(1, 100, 40),)
    yield "text_cnn", lambda: Fn(lambda s, x: s.o(torch.cat([c(x).relu().max(2)[0] for c in s.c], 1)),
                                 c=nn.ModuleList([nn.Conv1d(50, 16, k) for k in (3, 4, 5)]), o=nn.Linear(48, 4)), (R(1, 50, 100),)
    yield "fnet", FNet, (R(1, 16, 32),)
    yield "t5_block", T5, (ids(24),)
    yield "gpt2", Gpt2, (ids(24),)
    yield "sentence_encoder", ALBERTMask, (ids(16), (torch.arange(16)[None] < 11).int())
    yield "torch_transformer", lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(48, 4, 96, batch_first=True, activation="gelu"), 2,
                                                             enable_nested_tensor=False), (R(1, 20, 48),)
    yield "torch_decoder", lambda: Fn(lambda s, x, m: s.n[2](
        (lambda y: y + s.m(y))(s.n[1]((lambda y: y + s.x(y, m))(s.n[0](x + s.a(x)))))), a=MHA(48, 4), x=MHA(48, 4),
        n=nn.ModuleList([nn.LayerNorm(48) for _ in range(3)]), m=S(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 48))), (R(1, 12, 48), R(1, 20, 48))
    yield "perceiver_mha", lambda: Fn(lambda s, x: s.b(s.q + s.a(s.q, s.n(x))), q=nn.Parameter(R(1, 8, 32)), a=MHA(32, 4), n=nn.LayerNorm(32), b=Block(32, 2)), (R(1, 50, 32),)
    yield "moe", MoE, (R(1, 10, 32),)
    yield "retnet", Retention, (R(1, 24, 64),)
    yield "rwkv", RWKV, (R(1, 16, 48),)
    yield "seq2seq_attention", Seq2Seq, (R(1, 10, 32), R(1, 32))
    yield "lstm_stacked", lambda: Fn(lambda s, x: s.o(s.r(x)[0][:, -1]), r=nn.LSTM(16, 24, 2, batch_first=True), o=nn.Linear(24, 4)), (R(1, 20, 16),)
    yield "gru_bidirectional", lambda: Fn(lambda s, x: s.o(s.r(x)[0]), r=nn.GRU(16, 24, 1, batch_first=True, bidirectional=True), o=nn.Linear(48, 4)), (R(1, 10, 16),)
    yield "elman", lambda: Fn(lambda s, x: s.o(s.r(x)[0]), r=nn.RNN(16, 24, 1, batch_first=True), o=nn.Linear(24, 4)), (R(1, 12, 16),)
    yield "s4d_fft", S4D, (R(1, 8, 32),)
    yield "min_gru", MinGRU, (R(1, 16, 24),)
    yield "griffin", Griffin, (R(1, 10, 24),)
    yield "xlstm", XLSTM, (R(1, 16, 32),)
    yield "performer", Performer, (R(1, 24, 32),)
    yield "linformer", Linformer, (R(1, 64, 32),)
    yield "gru_cell_loop", LightGRU, (R(1, 8, 24),)
    yield "char_lstm", CharLSTM, (torch.randint(0, 60, (1, 12)),)
