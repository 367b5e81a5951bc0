"""Tables, graphs, points, time series, and functions of coordinates."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from .parts import Block, Fn, R, S, ids


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = S(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 128, 1))
        self.o = nn.Linear(128, 10)

    def forward(self, x):
        return self.o(self.a(x).max(2)[0])


class NeRF(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = S(nn.Linear(39, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 4))

    def forward(self, x):
        f = [x]
        for i in range(6):
            f += [torch.sin(x * 2.0 ** i), torch.cos(x * 2.0 ** i)]
        return self.m(torch.cat(f, -1))


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


class Siren(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.l, self.o = nn.ModuleList([nn.Linear(2, d), nn.Linear(d, d)]), nn.Linear(d, 3)

    def forward(self, x):
        for i, l in enumerate(self.l):
            x = torch.sin((30.0 if i == 0 else 1.0) * l(x))
        return self.o(x)


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


class Dueling(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = S(nn.Conv2d(4, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten())
        self.v, self.a = S(nn.Linear(2592, 32), nn.ReLU(), nn.Linear(32, 1)), S(nn.Linear(2592, 32), nn.ReLU(), nn.Linear(32, 6))

    def forward(self, x):
        y = self.c(x.float() / 255.0)
        a = self.a(y)
        return self.v(y) + a - a.mean(1, keepdim=True)


def networks():
    edges = torch.randint(0, 20, (2, 48))
    yield "pointnet", PointNet, (R(1, 3, 200),)
    yield "nerf", NeRF, (torch.rand(64, 3),)
    yield "nbeats", NBeats, (R(4, 40),)
    yield "dlrm", DLRM, (R(1, 13), ids(6, 100))
    yield "gat", GAT, (R(1, 20, 16),)
    yield "edge_conv", EdgeConv, (R(1, 3, 32),)
    yield "siren", Siren, (torch.rand(64, 2) * 2 - 1,)
    yield "ft_transformer", lambda: Fn(lambda s, x: s.o(s.b(torch.cat([s.c, x.unsqueeze(-1) * s.w + s.z], 1))[:, 0]), w=nn.Parameter(R(10, 32)),
                                       z=nn.Parameter(R(10, 32)), c=nn.Parameter(R(1, 1, 32)), b=Block(32), o=nn.Linear(32, 2)), (R(1, 10),)
    yield "gcn_dense", GCN, (R(20, 24), (torch.rand(20, 20) > 0.8).float())
    yield "graph_conv_edges", lambda: Fn(lambda s, x, e: s.b(torch.relu(s.a(x, e)), e).mean(0, keepdim=True), a=GraphConv(16, 24), b=GraphConv(24, 8)), (R(20, 16), edges)
    yield "gat_edges", EdgeGAT, (R(20, 16), edges)
    yield "deepfm", DeepFM, (torch.randint(0, 50, (4, 8)),)
    yield "dcn_v2", DCN, (R(4, 48),)
    yield "xdeepfm_cin", CIN, (R(2, 10, 8),)
    yield "din", DIN, (torch.tensor([[5, 9, 2, 44, 7, 0, 0, 0]]), torch.tensor([12]))
    yield "tabnet", TabNet, (R(4, 16),)
    yield "kan", lambda: S(KAN(6, 12), KAN(12, 3)), (torch.rand(8, 6) * 1.6 - 0.8,)
    yield "dlinear", DLinear, (R(1, 96, 7),)
    yield "itransformer", ITransformer, (R(1, 48, 7) * 3 + 2,)
    yield "nhits", NHiTS, (R(2, 1, 64),)
    yield "timesnet", TimesNet, (R(1, 48, 4),)
    yield "pointnet2", PointNet2, (R(1, 48, 3),)
    yield "deep_sdf", DeepSDF, (torch.rand(40, 3), R(1, 16))
    yield "dqn_dueling", Dueling, (torch.randint(0, 256, (1, 4, 84, 84)),)
    yield "real_nvp", lambda: Fn(lambda s, x: torch.cat([x[:, ::2], x[:, 1::2] * torch.exp(torch.tanh(s.s(x[:, ::2]))) + s.t(x[:, ::2])], 1), s=nn.Linear(8, 8), t=nn.Linear(8, 8)), (R(4, 16),)
