"""Speech and sound."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from .parts import Attention, EncoderBlock, Fn, R, S, ids


class Whisper(nn.Module):
    def __init__(self, d=128, m=80, t=200):
        super().__init__()
        self.c1, self.c2 = nn.Conv1d(m, d, 3, 1, 1), nn.Conv1d(d, d, 3, 2, 1)
        self.e, self.b, self.n = nn.Parameter(R(t // 2, d) * 0.1), EncoderBlock(d), nn.LayerNorm(d)

    def forward(self, x):
        x = F.gelu(self.c2(F.gelu(self.c1(x)))).permute(0, 2, 1) + self.e
        return self.n(self.b(x))


class Wav2Vec(nn.Module):
    def __init__(self, c=64, d=96):
        super().__init__()
        self.f0, self.g0 = nn.Conv1d(1, c, 10, 5, bias=False), nn.GroupNorm(c, c)
        self.f = nn.ModuleList([nn.Conv1d(c, c, k, 2, bias=False) for k in (3, 3, 3, 3, 2, 2)])
        self.n, self.p = nn.LayerNorm(c), nn.Linear(c, d)
        self.e, self.b, self.l = nn.Conv1d(d, d, 128, 1, 64, groups=16), EncoderBlock(d), nn.LayerNorm(d)

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


class ECAPA(nn.Module):
    """Res2 blocks with squeeze and excitation, and attentive statistics."""

    def __init__(self, c=32):
        super().__init__()
        self.i = S(nn.Conv1d(40, c, 5, padding=2), nn.ReLU(), nn.BatchNorm1d(c))
        self.r = nn.ModuleList([nn.Conv1d(c // 4, c // 4, 3, dilation=d, padding=d) for d in (2, 2, 2, 3, 3, 3)])
        self.s = nn.ModuleList([S(nn.Conv1d(c, 8, 1), nn.ReLU(), nn.Conv1d(8, c, 1), nn.Sigmoid()) for _ in range(2)])
        self.a = S(nn.Conv1d(3 * c, 16, 1), nn.ReLU(), nn.BatchNorm1d(16), nn.Tanh(), nn.Conv1d(16, c, 1))
        self.b, self.o = nn.BatchNorm1d(2 * c), nn.Linear(2 * c, 24)

    def forward(self, x):
        x = self.i(x)
        for k in range(2):
            parts, y, done = torch.chunk(x, 4, 1), 0, []
            for j, p in enumerate(parts):
                y = p if j == 0 else torch.relu(self.r[3 * k + j - 1](p + (y if j > 1 else 0)))
                done.append(y)
            y = torch.cat(done, 1)
            x = x + y * self.s[k](y.mean(2, keepdim=True))
        mean, std = x.mean(2, keepdim=True), torch.sqrt(x.var(2, keepdim=True).clamp(min=1e-4))
        t = x.shape[2]
        w = torch.softmax(self.a(torch.cat([x, mean.repeat(1, 1, t), std.repeat(1, 1, t)], 1)), 2)
        mu = (x * w).sum(2)
        sg = torch.sqrt(((x ** 2 * w).sum(2) - mu ** 2).clamp(min=1e-4))
        return F.normalize(self.o(self.b(torch.cat([mu, sg], 1))))


class Silero(nn.Module):
    """Voice activity: an STFT by convolution, convolutions and a cell with its state outside."""

    def __init__(self):
        super().__init__()
        n = 64
        k = torch.arange(n // 2 + 1)[:, None] * torch.arange(n)[None] * (2 * math.pi / n)
        self.register_buffer("basis", (torch.cat([k.cos(), -k.sin()]) * torch.hann_window(n))[:, None])
        self.c = S(nn.Conv1d(33, 32, 3, 1, 1), nn.ReLU(), nn.Conv1d(32, 32, 3, 2, 1), nn.ReLU(), nn.Conv1d(32, 32, 3, 2, 1), nn.ReLU())
        self.l, self.o = nn.LSTMCell(32, 32), nn.Conv1d(32, 1, 1)

    def forward(self, x, h, c):
        x = F.pad(x[:, None], (0, 32), mode="reflect")
        y = F.conv1d(x, self.basis, stride=32)
        y = torch.sqrt(y[:, :33] ** 2 + y[:, 33:] ** 2)
        h, c = self.l(self.c(y).mean(-1), (h, c))
        return torch.sigmoid(self.o(torch.relu(h)[..., None])).squeeze(1)


class SincNet(nn.Module):
    """Band-pass filters that are made of their frequencies at run time."""

    def __init__(self, n=8, k=51):
        super().__init__()
        self.low, self.band = nn.Parameter(torch.linspace(0.01, 0.3, n)[:, None]), nn.Parameter(torch.full((n, 1), 0.05))
        self.register_buffer("t", torch.arange(-(k // 2), k // 2 + 1).float()[None])
        self.register_buffer("w", torch.hamming_window(k))
        self.c = S(nn.MaxPool1d(3), nn.LayerNorm([n, 66]), nn.LeakyReLU(0.2), nn.Conv1d(n, 16, 5), nn.MaxPool1d(3))

    def forward(self, x):
        low = self.low.abs()
        high = torch.clamp(low + self.band.abs(), max=0.5)
        sinc = lambda f: 2 * f * torch.sin(2 * math.pi * f * self.t + 1e-6) / (2 * math.pi * f * self.t + 1e-6)
        return self.c(F.conv1d(x, ((sinc(high) - sinc(low)) * self.w)[:, None], stride=1, padding=0))


class QuartzNet(nn.Module):
    """Separable convolutions with long kernels, and a CTC head."""

    def __init__(self):
        super().__init__()
        block = lambda a, b, k, s=1: S(nn.Conv1d(a, a, k, s, k // 2, groups=a, bias=False), nn.Conv1d(a, b, 1, bias=False), nn.BatchNorm1d(b))
        self.a, self.b, self.c = block(40, 48, 33, 2), block(48, 48, 39), block(48, 64, 87)
        self.r, self.o = S(nn.Conv1d(48, 48, 1, bias=False), nn.BatchNorm1d(48)), nn.Conv1d(64, 29, 1)

    def forward(self, x):
        x = torch.relu(self.a(x))
        x = torch.relu(self.b(x) + self.r(x))
        return torch.log_softmax(self.o(torch.relu(self.c(x))).transpose(1, 2), -1)


class DeepFilter(nn.Module):
    """Grouped GRU over frames of an encoder, a mask and a deep filter of complex numbers in two planes."""

    def __init__(self):
        super().__init__()
        self.e = S(nn.Conv2d(2, 16, (3, 3), (1, 2), (1, 1)), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, (1, 3), (1, 2), (0, 1), groups=4), nn.ReLU())
        self.g, self.m, self.f = nn.GRU(16 * 8, 32, batch_first=True), nn.Linear(32, 32), nn.Linear(32, 5 * 8 * 2)

    def forward(self, x):
        b, _, t, f = x.shape
        y, _ = self.g(self.e(x).permute(0, 2, 1, 3).flatten(2))
        mask = torch.sigmoid(self.m(y))
        k = torch.tanh(self.f(y)).reshape(b, t, 5, 8, 2)
        low = F.pad(x[..., :8], (0, 0, 2, 2)).unfold(2, 5, 1)
        re, im = low[:, 0].permute(0, 1, 3, 2), low[:, 1].permute(0, 1, 3, 2)
        real = (re * k[..., 0] - im * k[..., 1]).sum(2)
        imag = (re * k[..., 1] + im * k[..., 0]).sum(2)
        rest = x * mask[:, None]
        return torch.cat([torch.stack([real, imag], 1), rest[..., 8:]], -1)


class RVQ(nn.Module):
    """Residual vector quantization: nearest entries by distance, and their sum."""

    def __init__(self, d=16, n=32):
        super().__init__()
        self.e, self.c, self.o = nn.Conv1d(8, d, 3, padding=1), nn.Parameter(R(3, n, d)), nn.Conv1d(d, 8, 3, padding=1)

    def forward(self, x):
        r = self.e(x).transpose(1, 2)
        total = 0
        for book in self.c:
            distance = (r ** 2).sum(-1, keepdim=True) - 2 * r @ book.t() + (book ** 2).sum(-1)
            q = F.embedding(distance.argmin(-1), book)
            total, r = total + q, r - q
        return self.o(total.transpose(1, 2))


def networks():
    yield "whisper_encoder", Whisper, (R(1, 80, 200),)
    yield "wav2vec2", Wav2Vec, (R(1, 8000),)
    yield "conformer", Conformer, (R(1, 100, 80),)
    yield "stft_mel", STFT, (R(1, 8000) * 0.1,)
    yield "tcn", TCN, (R(1, 8, 128),)
    yield "hifigan", HiFiGAN, (R(1, 40, 32),)
    yield "whisper_step", WhisperStep, (ids(1), torch.tensor([[7]], dtype=torch.int32), R(1, 4, 7, 16), R(1, 4, 7, 16), R(1, 4, 30, 16), R(1, 4, 30, 16))
    yield "wavenet", WaveNet, (R(1, 1, 200),)
    yield "tts_flow", VITSFlow, (R(1, 16, 40), (torch.arange(40) < 33).float().view(1, 1, 40))
    yield "audio_codec", EncodecLSTM, (R(1, 1, 320),)
    yield "istft_vocoder", lambda: Fn(lambda s, x: s.o((lambda m, p: torch.cat([m * torch.cos(p), m * torch.sin(p)], 1))(
        *(lambda a, b: (torch.exp(a.clamp(max=5)), b))(*s.h(s.c(x)).chunk(2, 1)))), c=S(nn.Conv1d(20, 32, 7, 1, 3), nn.GELU()),
        h=nn.Conv1d(32, 34, 1), o=nn.ConvTranspose1d(34, 1, 32, 8, 12, bias=False)), (R(1, 20, 30),)
    yield "ecapa_tdnn", ECAPA, (R(1, 40, 60),)
    yield "silero_vad", Silero, (R(1, 512) * 0.1, R(1, 32), R(1, 32))
    yield "sincnet", SincNet, (R(1, 1, 250),)
    yield "quartznet", QuartzNet, (R(1, 40, 128),)
    yield "deep_filter", DeepFilter, (R(1, 2, 10, 32),)
    yield "residual_vq", RVQ, (R(1, 8, 20),)
