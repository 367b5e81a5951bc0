"""Further networks for scripts/popular.py: families that neither it nor scripts/families.py has, as their users write them."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from families import Fn, R, S

# Graphs


class GraphConv(nn.Module):
    """Messages along a list of edges, summed where they arrive, as torch_geometric does it."""

    def __init__(self, a, b):
        super().__init__()
        self.own, self.other = nn.Linear(a, b), nn.Linear(a, b)

    def forward(self, x, edges):
        gathered = self.other(x)[edges[0].long()]
        summed = torch.zeros(x.shape[0], gathered.shape[1]).scatter_add(0, edges[1].long()[:, None].expand_as(gathered), gathered)
        return self.own(x) + summed


class GCN(nn.Module):
    """Kipf's, over a dense adjacency that is normalized inside."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(24, 32), nn.Linear(32, 6)

    def forward(self, x, adjacency):
        a = adjacency + torch.eye(adjacency.shape[0])
        d = a.sum(1).pow(-0.5)
        a = d[:, None] * a * d[None]
        return torch.log_softmax(a @ self.b(torch.relu(a @ self.a(x))), -1)


class EdgeGAT(nn.Module):
    """Attention over the edges of each node, softmax by scatter."""

    def __init__(self):
        super().__init__()
        self.w, self.s, self.d = nn.Linear(16, 16), nn.Linear(16, 1), nn.Linear(16, 1)

    def forward(self, x, edges):
        h, (a, b) = self.w(x), edges.long()
        e = F.leaky_relu(self.s(h)[a] + self.d(h)[b], 0.2)
        e = torch.exp(e - e.max())
        total = torch.zeros(x.shape[0], 1).scatter_add(0, b[:, None], e)
        weight = e / (total[b] + 1e-16)
        return F.elu(torch.zeros_like(h).scatter_add(0, b[:, None].expand(-1, h.shape[1]), weight * h[a]))


# Recommendation and tables


class DeepFM(nn.Module):
    def __init__(self, fields=8, rows=50, d=8):
        super().__init__()
        self.e, self.l = nn.Embedding(fields * rows, d), nn.Embedding(fields * rows, 1)
        self.register_buffer("at", torch.arange(fields) * rows)
        self.m = S(nn.Linear(fields * d, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))

    def forward(self, x):
        x = x + self.at
        e = self.e(x)
        pairs = 0.5 * (e.sum(1) ** 2 - (e ** 2).sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(self.l(x).sum(1) + pairs + self.m(e.flatten(1)))


class DCN(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.c = nn.ModuleList([nn.Linear(d, d) for _ in range(3)])
        self.m = S(nn.Linear(d, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.o = nn.Linear(d + 32, 1)

    def forward(self, x):
        y = x
        for c in self.c:
            y = x * c(y) + y
        return torch.sigmoid(self.o(torch.cat([y, self.m(x)], 1)))


class CIN(nn.Module):
    """Compressed interactions of xDeepFM."""

    def __init__(self, fields=10, d=8):
        super().__init__()
        self.a, self.b, self.o = nn.Conv1d(fields * fields, 16, 1), nn.Conv1d(16 * fields, 16, 1), nn.Linear(32, 1)

    def forward(self, x):
        b, f, d = x.shape
        one = torch.relu(self.a(torch.einsum("bhd,bfd->bhfd", x, x).reshape(b, f * f, d)))
        two = torch.relu(self.b(torch.einsum("bhd,bfd->bhfd", one, x).reshape(b, -1, d)))
        return self.o(torch.cat([one.sum(2), two.sum(2)], 1))


class DIN(nn.Module):
    """Interest in a candidate, from a history that is padded."""

    def __init__(self, d=16):
        super().__init__()
        self.e = nn.Embedding(100, d, padding_idx=0)
        self.a = S(nn.Linear(4 * d, 32), nn.PReLU(), nn.Linear(32, 1))
        self.m = S(nn.Linear(2 * d, 32), nn.PReLU(), nn.Linear(32, 1))

    def forward(self, history, candidate):
        h, c = self.e(history), self.e(candidate)
        q = c[:, None].expand_as(h)
        w = self.a(torch.cat([q, h, q - h, q * h], -1)).squeeze(-1)
        w = torch.softmax(w.masked_fill(history == 0, float("-inf")), -1)
        return torch.sigmoid(self.m(torch.cat([(w[..., None] * h).sum(1), c], -1)))


class TabNet(nn.Module):
    """Attentive choice of features by sparsemax, in two steps."""

    def __init__(self, f=16, d=16):
        super().__init__()
        self.b = nn.BatchNorm1d(f)
        self.f = nn.ModuleList([S(nn.Linear(f, 2 * d), nn.BatchNorm1d(2 * d), nn.GLU()) for _ in range(3)])
        self.a = nn.ModuleList([S(nn.Linear(d, f), nn.BatchNorm1d(f)) for _ in range(2)])
        self.o = nn.Linear(d, 4)

    @staticmethod
    def sparsemax(z):
        ordered, _ = torch.sort(z, -1, descending=True)
        k = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype)
        sums = ordered.cumsum(-1) - 1
        count = (ordered * k > sums).sum(-1, keepdim=True)
        return torch.relu(z - sums.gather(-1, count - 1) / count)

    def forward(self, x):
        x = self.b(x)
        prior, attended, out = torch.ones_like(x), self.f[0](x), 0
        for a, f in zip(self.a, self.f[1:]):
            mask = self.sparsemax(prior * a(attended))
            prior = prior * (1.3 - mask)
            attended = f(mask * x)
            out = out + torch.relu(attended)
        return self.o(out)


class KAN(nn.Module):
    """Cubic splines on a grid by the recursion of Cox and de Boor."""

    def __init__(self, a, b, grid=5, order=3):
        super().__init__()
        h = 2 / grid
        self.register_buffer("grid", torch.arange(-order, grid + order + 1).float() * h - 1)
        self.base, self.spline, self.order = nn.Linear(a, b, bias=False), nn.Parameter(R(b, a, grid + order) * 0.1), order

    def forward(self, x):
        g, u = self.grid, x[..., None]
        bases = ((u >= g[:-1]) & (u < g[1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            left = (u - g[:-k - 1]) / (g[k:-1] - g[:-k - 1]) * bases[..., :-1]
            bases = left + (g[k + 1:] - u) / (g[k + 1:] - g[1:-k]) * bases[..., 1:]
        return self.base(F.silu(x)) + F.linear(bases.flatten(1), self.spline.flatten(1))


# Sequences


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


# Time series


class DLinear(nn.Module):
    def __init__(self, t=96, p=24):
        super().__init__()
        self.s, self.t = nn.Linear(t, p), nn.Linear(t, p)

    def forward(self, x):
        front, end = x[:, :1].repeat(1, 12, 1), x[:, -1:].repeat(1, 12, 1)
        trend = F.avg_pool1d(torch.cat([front, x, end], 1).permute(0, 2, 1), 25, 1).permute(0, 2, 1)
        return (self.s((x - trend).permute(0, 2, 1)) + self.t(trend.permute(0, 2, 1))).permute(0, 2, 1)


class ITransformer(nn.Module):
    """Variables as tokens, with reversible normalization."""

    def __init__(self, t=48, p=12, d=32):
        super().__init__()
        self.e, self.o = nn.Linear(t, d), nn.Linear(d, p)
        self.m = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 4, 64, batch_first=True, activation="gelu"), 2)

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        std = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
        y = self.o(self.m(self.e(((x - mean) / std).transpose(1, 2)))).transpose(1, 2)
        return y * std + mean


class NHiTS(nn.Module):
    def __init__(self, t=64, p=16):
        super().__init__()
        self.k = (8, 4, 1)
        self.m = nn.ModuleList([S(nn.Linear(t // k, 32), nn.ReLU(), nn.Linear(32, t // k + p // k)) for k in self.k])
        self.t, self.p = t, p

    def forward(self, x):
        out = 0
        for k, m in zip(self.k, self.m):
            y = m(F.max_pool1d(x, k, k, ceil_mode=True).squeeze(1))
            back = F.interpolate(y[:, None, :self.t // k], size=self.t, mode="linear", align_corners=False)
            out = out + F.interpolate(y[:, None, self.t // k:], size=self.p, mode="linear", align_corners=False)
            x = x - back
        return out


class TimesNet(nn.Module):
    """A series folded by a period, and 2-D convolutions over it."""

    def __init__(self, t=48, d=16):
        super().__init__()
        self.e, self.c, self.o = nn.Conv1d(4, d, 3, padding=1, padding_mode="circular"), S(nn.Conv2d(d, d, 3, 1, 1), nn.GELU(), nn.Conv2d(d, d, 5, 1, 2)), nn.Linear(d, 4)

    def forward(self, x):
        y = self.e(x.transpose(1, 2))
        b, d, t = y.shape
        parts = [self.c(F.pad(y, (0, -t % p)).reshape(b, d, -1, p)).reshape(b, d, -1)[..., :t] for p in (24, 7, 12)]
        weight = torch.softmax(torch.stack([y.mean((1, 2)) * i for i in range(3)], -1), -1)
        y = y + (torch.stack(parts, -1) * weight[:, None, None]).sum(-1)
        return self.o(y.transpose(1, 2))


# Speech and audio


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


# Pictures


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


class PointNet2(nn.Module):
    """Farthest points, groups of their nearest, and a maximum over each group."""

    def __init__(self, n=8, k=8):
        super().__init__()
        self.a, self.b, self.o, self.n, self.k = S(nn.Conv2d(6, 16, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 1), nn.ReLU()), nn.Linear(32, 32), nn.Linear(32, 5), n, k

    def forward(self, x):
        at, distance = [torch.zeros(1, dtype=torch.long)], torch.full(x.shape[:2], 1e4)
        for _ in range(self.n - 1):
            c = x.gather(1, at[-1][:, None, None].expand(-1, -1, 3))
            distance = torch.minimum(distance, ((x - c) ** 2).sum(-1))
            at.append(distance.argmax(-1))
        centre = x.gather(1, torch.stack(at, 1)[..., None].expand(-1, -1, 3))
        near = torch.cdist(centre, x).topk(self.k, dim=-1, largest=False)[1]
        group = x[0][near[0]][None]
        y = torch.cat([group - centre[:, :, None], group], -1).permute(0, 3, 1, 2)
        return self.o(torch.relu(self.b(self.a(y).max(-1)[0].transpose(1, 2))).max(1)[0])


class DeepSDF(nn.Module):
    """A signed distance from frequencies of a place and a code, weights normalized."""

    def __init__(self, d=48):
        super().__init__()
        w = torch.nn.utils.weight_norm
        self.a, self.b, self.o = w(nn.Linear(39 + 16, d)), w(nn.Linear(d + 55, d)), nn.Linear(d, 1)

    def forward(self, x, code):
        f = 2.0 ** torch.arange(6)
        e = torch.cat([x] + [g(x * k) for k in f for g in (torch.sin, torch.cos)], -1)
        y = torch.cat([e, code.expand(x.shape[0], -1)], -1)
        h = F.softplus(self.a(y), beta=100)
        return torch.tanh(self.o(F.softplus(self.b(torch.cat([h, y], -1)), beta=100)))


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


class Dueling(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = S(nn.Conv2d(4, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten())
        self.v, self.a = S(nn.Linear(2592, 32), nn.ReLU(), nn.Linear(32, 1)), S(nn.Linear(2592, 32), nn.ReLU(), nn.Linear(32, 6))

    def forward(self, x):
        y = self.c(x.float() / 255.0)
        a = self.a(y)
        return self.v(y) + a - a.mean(1, keepdim=True)


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


def further():
    """Name, maker and inputs of each network."""
    img = lambda n, c=3: (R(1, c, n, n),)
    edges = torch.randint(0, 20, (2, 48))
    yield "gcn_dense", GCN, (R(20, 24), (torch.rand(20, 20) > 0.8).float())
    yield "graph_conv_edges", lambda: Fn(lambda s, x, e: s.b(torch.relu(s.a(x, e)), e).mean(0, keepdim=True), a=GraphConv(16, 24), b=GraphConv(24, 8)), (R(20, 16), edges)
    yield "gat_edges", EdgeGAT, (R(20, 16), edges)
    yield "deepfm", DeepFM, (torch.randint(0, 50, (4, 8)),)
    yield "dcn_v2", DCN, (R(4, 48),)
    yield "xdeepfm_cin", CIN, (R(2, 10, 8),)
    yield "din", DIN, (torch.tensor([[5, 9, 2, 44, 7, 0, 0, 0]]), torch.tensor([12]))
    yield "tabnet", TabNet, (R(4, 16),)
    yield "kan", lambda: S(KAN(6, 12), KAN(12, 3)), (torch.rand(8, 6) * 1.6 - 0.8,)
    yield "s4d_fft", S4D, (R(1, 8, 32),)
    yield "min_gru", MinGRU, (R(1, 16, 24),)
    yield "griffin", Griffin, (R(1, 10, 24),)
    yield "xlstm", XLSTM, (R(1, 16, 32),)
    yield "performer", Performer, (R(1, 24, 32),)
    yield "linformer", Linformer, (R(1, 64, 32),)
    yield "gru_cell_loop", LightGRU, (R(1, 8, 24),)
    yield "char_lstm", CharLSTM, (torch.randint(0, 60, (1, 12)),)
    yield "dlinear", DLinear, (R(1, 96, 7),)
    yield "itransformer", ITransformer, (R(1, 48, 7) * 3 + 2,)
    yield "nhits", NHiTS, (R(2, 1, 64),)
    yield "timesnet", TimesNet, (R(1, 48, 4),)
    yield "ecapa_tdnn", ECAPA, (R(1, 40, 60),)
    yield "silero_vad", Silero, (R(1, 512) * 0.1, R(1, 32), R(1, 32))
    yield "sincnet", SincNet, (R(1, 1, 250),)
    yield "quartznet", QuartzNet, (R(1, 40, 128),)
    yield "deep_filter", DeepFilter, (R(1, 2, 10, 32),)
    yield "residual_vq", RVQ, (R(1, 8, 20),)
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
    yield "pointnet2", PointNet2, (R(1, 48, 3),)
    yield "deep_sdf", DeepSDF, (torch.rand(40, 3), R(1, 16))
    yield "segresnet_3d", MonaiNet, (R(1, 1, 16, 16, 16),)
    yield "dqn_dueling", Dueling, (torch.randint(0, 256, (1, 4, 84, 84)),)
    yield "vae_sampled", VAE, (R(2, 96), R(2, 8))
    yield "real_nvp", lambda: Fn(lambda s, x: torch.cat([x[:, ::2], x[:, 1::2] * torch.exp(torch.tanh(s.s(x[:, ::2]))) + s.t(x[:, ::2])], 1), s=nn.Linear(8, 8), t=nn.Linear(8, 8)), (R(4, 16),)
    yield "arcface_head", lambda: Fn(lambda s, x: F.linear(F.normalize(s.f(s.c(x))), F.normalize(s.w)) * 64, c=S(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.PReLU(16), nn.Flatten()), f=S(nn.Linear(16 * 256, 32), nn.BatchNorm1d(32)), w=nn.Parameter(R(10, 32))), img(32)
    yield "netvlad", lambda: Fn(lambda s, x: F.normalize(F.normalize((torch.softmax(s.c(x).flatten(2), 1)[:, :, None] * (x.flatten(2)[:, None] - s.k[None, :, :, None])).sum(-1), dim=2).flatten(1)), c=nn.Conv2d(16, 8, 1), k=nn.Parameter(R(8, 16))), (R(1, 16, 8, 8),)
    yield "bilinear_pool", lambda: Fn(lambda s, x: (lambda y: s.o(F.normalize(torch.sign(y) * torch.sqrt(y.abs() + 1e-6))))((s.c(x).flatten(2) @ s.c(x).flatten(2).transpose(1, 2) / 64).flatten(1)), c=nn.Conv2d(3, 12, 3, 4, 1), o=nn.Linear(144, 4)), img(32)
