"""Random ONNX nodes for scripts/fuzz_onnxruntime.py --draw attributes: attributes, opsets and optional operands that the other draws leave
at their defaults, and the operators that ONNX Runtime's optimizer writes. What ONNX Runtime computes otherwise than the standard says is
not drawn: transposed convolutions with `auto_pad` whose stride exceeds the kernel, dilated poolings with `auto_pad`, and regions of axes
whose scale is 1."""
import numpy as np
from onnx import TensorProto, helper

FLOAT, HALF, BOOL, U8, I8, I32, I64 = (getattr(TensorProto, k) for k in "FLOAT FLOAT16 BOOL UINT8 INT8 INT32 INT64".split())
DOMAIN = "com.microsoft"


class Case:
    """One node; `draw.opset` and `draw.domain` are those of the model."""

    def __init__(self, draw):
        self.draw, self.r, self.nodes = draw, draw.r, []
        self.kind = self.pick([FLOAT, FLOAT, HALF])
        size = self.pick([0.3, 1.0, 1.0, 3.0])
        plain = draw.values

        def values(kind, shape):
            if kind in (FLOAT, HALF):
                return np.asarray(self.r.normal(0, size, shape)).astype(helper.tensor_dtype_to_np_dtype(kind))
            return plain(kind, shape)
        draw.values = values

    def pick(self, of):
        return of[self.r.integers(len(of))]

    def below(self, low, high):
        return int(self.r.integers(low, high))

    def flip(self):
        return self.below(0, 2)

    def x(self, shape, kind=None):
        return self.draw.operand(kind or self.kind, list(shape), stored=False)

    def w(self, shape, kind=None):
        return self.draw.operand(kind or self.kind, list(shape), stored=bool(self.below(0, 4)))

    def numbers(self, values, kind=np.int64, live=False):
        name = self.draw.numbers(values, kind)
        if live and self.flip():
            self.draw.inputs[name] = self.draw.stored.pop(name)
        return name

    def spatial(self, rank, low=3, high=9):
        return [self.below(1, 3), self.below(1, 7), *(self.below(low, high) for _ in range(rank))]

    def node(self, op, inputs, outputs=1, take=0, **attributes):
        names = ["y" if i == take else f"o{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, domain=self.draw.domain, **attributes))
        return op


def pool(g):
    op, rank = g.pick(["MaxPool", "AveragePool", "LpPool"]), g.below(1, 4)
    kernel = [g.below(1, 4) for _ in range(rank)]
    more = {"kernel_shape": kernel, "strides": [g.below(1, 4) for _ in kernel]}
    if g.below(0, 4) == 0:
        more["auto_pad"] = g.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
    else:
        more |= {"pads": [g.below(0, k) for k in kernel * 2], "ceil_mode": g.flip()}
    if op == "AveragePool":
        more["count_include_pad"] = g.flip()
    if op == "LpPool":
        g.draw.opset, more["p"] = 18, g.below(1, 4)
    shape = g.spatial(rank, 4, 10)
    if op == "MaxPool" and g.flip():
        return g.node(op, [g.x(shape, FLOAT)], 2, take=g.flip(), **more)
    return g.node(op, [g.x(shape)], **more)


def conv(g):
    rank = g.below(1, 4)
    shape = g.spatial(rank, 4, 9)
    groups, kernel, more = g.pick([1, 1, shape[1]]), [g.below(1, 5) for _ in range(rank)], {}
    outputs = groups * g.below(1, 4)
    if g.flip():
        more["strides"] = [g.below(1, 4) for _ in kernel]
    if g.flip():
        more["dilations"] = [g.below(1, 3) if k < 3 else 1 for k in kernel]
    if g.flip():
        more["auto_pad"] = g.pick(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
    else:
        more["pads"] = [g.below(0, 5) for _ in kernel * 2]
    operands = [g.x(shape), g.w([outputs, shape[1] // groups, *kernel]), *([g.w([outputs])] if g.flip() else [])]
    return g.node("Conv", operands, group=groups, **more)


def transposed(g):
    rank = g.below(1, 4)
    shape = g.spatial(rank, 2, 6)
    groups, kernel = g.pick([1, 1, shape[1]]), [g.below(1, 5) for _ in range(rank)]
    outputs, strides, way = groups * g.below(1, 4), [g.below(1, k + 1) for k in kernel], g.below(0, 4)
    more = {"group": groups, "strides": strides, "kernel_shape": kernel}
    if way == 0:
        more["auto_pad"] = g.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif way == 1:
        more["output_shape"] = [n * s for n, s in zip(shape[2:], strides)]
    else:
        more |= {"pads": [g.below(0, k) for k in kernel * 2], "output_padding": [g.below(0, s) for s in strides]}
        more |= {"dilations": [g.below(1, 3) for _ in kernel]} if g.flip() else {}
    operands = [g.x(shape), g.w([shape[1], outputs // groups, *kernel]), *([g.w([outputs])] if g.flip() else [])]
    return g.node("ConvTranspose", operands, **more)


def resize(g):
    rank = g.below(1, 4)
    shape, g.draw.opset = g.spatial(rank, 2, 8), g.pick([11, 13, 18, 19])
    newer = ["half_pixel_symmetric"] if g.draw.opset > 18 else []
    mode = g.pick(["nearest", "linear", "cubic"] if rank == 2 else ["nearest", "linear"])
    way = g.pick(["half_pixel", "asymmetric", "pytorch_half_pixel", "tf_crop_and_resize", *newer])
    more, roi = {"mode": mode, "coordinate_transformation_mode": way}, ""
    if mode == "nearest":
        more["nearest_mode"] = g.pick(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if mode == "cubic":
        more |= {"cubic_coeff_a": g.pick([-0.75, -0.5]), "exclude_outside": g.flip()}
    if way == "tf_crop_and_resize":
        roi = g.numbers([0, 0] + [0.1] * rank + [1, 1] + [g.pick([0.8, 1.2])] * rank, np.float32)
        more["extrapolation_value"] = g.pick([0.0, 7.0])
    elif mode != "nearest" and g.draw.opset > 17 and g.below(0, 3) == 0:
        more["antialias"] = 1
    if g.draw.opset == 11 and not roi:
        roi = g.numbers([], np.float32)
    x = g.x(shape)
    if way != "tf_crop_and_resize" and g.flip():
        # Corners agree where extents are whole.
        more["coordinate_transformation_mode"] = g.pick([way, "align_corners"])
        sizes = g.numbers([*shape[:2], *(g.below(1, 2 * n + 1) for n in shape[2:])])
        return g.node("Resize", [x, roi, g.numbers([], np.float32) if g.draw.opset == 11 else "", sizes], **more)
    if way != "tf_crop_and_resize" and g.draw.opset > 17 and g.flip():
        return g.node("Resize", [x, "", g.numbers([g.pick([0.5, 2, 1.5])], np.float32)], axes=[2 + g.below(0, rank)], **more)
    return g.node("Resize", [x, roi, g.numbers([1, 1, *(g.pick([0.5, 2, 1.5, 3]) for _ in shape[2:])], np.float32)], **more)


def reduction(g):
    kinds = "Sum Mean Max Min Prod SumSquare L1 L2 LogSumExp".split()
    op, shape, g.draw.opset = "Reduce" + g.pick(kinds), g.draw.shape(g.below(1, 6)), g.pick([11, 13, 18, 20])
    x, given = g.x(shape, None if g.draw.opset > 12 else FLOAT), g.draw.opset > 17 or op == "ReduceSum" and g.draw.opset > 12
    axes = sorted({int(a) % len(shape) - len(shape) * g.flip() for a in g.r.integers(0, len(shape), g.below(1, 4))})
    axes = [a for i, a in enumerate(axes) if a % len(shape) not in [b % len(shape) for b in axes[:i]]]
    more = {"keepdims": g.flip()}
    if g.below(0, 4) == 0:
        return g.node(op, [x], **more, **({"noop_with_empty_axes": g.flip()} if given else {}))
    return g.node(op, [x, g.numbers(axes)], **more) if given else g.node(op, [x], axes=axes, **more)


def older(g):
    shape, g.draw.opset = g.draw.shape(g.below(2, 5)), g.pick([7, 8, 9])
    axis = g.below(0, len(shape))
    op = g.pick(["Clip", "Pad", "Slice", "Unsqueeze", "Split", "TopK", "Softmax", "LogSoftmax", "Hardmax", "Upsample"])
    if op == "Upsample":
        return g.node(op, [g.x(g.spatial(2, 2, 6), FLOAT), g.numbers([1, 1, g.below(1, 4), g.below(1, 4)], np.float32)], mode="nearest")
    if op == "Split":
        shape[axis] = 4
    x = g.x(shape, FLOAT)
    if op == "Split":
        return g.node(op, [x], 2, take=g.flip(), axis=axis, **({"split": [1, 3]} if g.flip() else {}))
    if op == "TopK":
        return g.node(op, [x], 2, axis=axis, k=g.below(1, shape[axis] + 1))
    return g.node(op, [x], **{
        "Clip": {"min": -0.5, "max": 0.7},
        "Pad": {"pads": [g.below(0, min(shape)) for _ in shape * 2], "mode": g.pick(["constant", "edge", "reflect"]), "value": 2.5},
        "Slice": {"starts": [g.below(-4, 2), 0], "ends": [g.pick([2**31 - 1, 3, -1]), 9], "axes": [axis, (axis + 1) % len(shape)]},
        "Unsqueeze": {"axes": sorted({0, g.below(1, len(shape) + 2)})},
    }.get(op, {"axis": axis}))


def recurrent(g):
    op, gates = g.pick([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    steps, batch, wide, hidden = g.below(1, 6), g.below(1, 4), g.below(1, 6), g.below(1, 6)
    way, turns = g.pick([("forward", 1), ("reverse", 1), ("bidirectional", 2)])
    g.draw.opset, more = g.pick([7, 14, 22]), {"hidden_size": hidden, "direction": way}
    stored = lambda shape: g.draw.operand(FLOAT, shape, stored=True)
    state = lambda: g.w([turns, batch, hidden], FLOAT) if g.flip() else ""
    operands = [g.x([steps, batch, wide], FLOAT), stored([turns, gates * hidden, wide]), stored([turns, gates * hidden, hidden]),
                stored([turns, 2 * gates * hidden]) if g.flip() else "", "", state()]
    if op == "LSTM":
        operands += [state(), stored([turns, 3 * hidden]) if g.below(0, 3) == 0 else ""]
    if g.below(0, 3) == 0:
        functions = {"LSTM": ["Sigmoid", g.pick(["Softsign", "Relu"]), "Tanh"], "GRU": ["HardSigmoid", "Tanh"],
                     "RNN": [g.pick(["Relu", "Sigmoid", "Softsign", "Elu"])]}[op]
        more["activations"] = functions * turns
    return layer(g, op, operands, more, clipped=4)


def layer(g, op, operands, more, clipped):
    """A recurrent layer without the absent operands at the end; one in `clipped` has a clip."""
    if g.below(0, clipped) == 0:
        more["clip"] = 0.6
    if op == "GRU":
        more["linear_before_reset"] = g.flip()
    while not operands[-1]:
        operands.pop()
    results = 3 if op == "LSTM" else 2
    return g.node(op, operands, results, take=g.below(0, results), **more)


def places(g):
    shape = g.draw.shape(g.below(2, 5))
    axis, x, op = g.below(-len(shape), len(shape)), g.x(shape), g.pick(["GatherND", "ScatterND", "ScatterElements", "GatherElements", "TopK"])
    small = [g.below(1, n + 1) for n in shape]
    reduction = g.pick(["add", "mul", "max", "min"])
    if op == "GatherND":
        batch = g.below(1, len(shape))
        depth, count = g.below(1, len(shape) - batch + 1), g.below(1, 4)
        rows = [g.r.integers(-shape[batch + i], shape[batch + i], [*shape[:batch], count]) for i in range(depth)]
        return g.node(op, [x, g.numbers(np.stack(rows, -1), live=True)], batch_dims=batch)
    if op == "ScatterND":
        depth, count = g.below(1, len(shape) + 1), g.below(1, 4)
        rows = np.stack([g.r.integers(0, shape[i], count) for i in range(depth)], -1)
        return g.node(op, [x, g.numbers(rows, live=True), g.w([count, *shape[depth:]])], reduction=reduction)
    if op == "TopK":
        return g.node(op, [x, g.numbers([g.below(1, shape[axis] + 1)])], 2, take=g.flip(), axis=axis, largest=g.flip())
    rows = g.numbers(g.r.integers(-shape[axis], shape[axis], small), live=True)
    if op == "GatherElements":
        return g.node(op, [x, rows], axis=axis)
    return g.node(op, [x, rows, g.w(small)], axis=axis, reduction=reduction)


def slices(g):
    shape = [g.below(1, 8) for _ in range(g.below(1, 6))]
    x, axes = g.x(shape, g.pick([FLOAT, HALF, I32, U8, BOOL])), [int(a) for a in g.r.permutation(len(shape))[:g.below(1, len(shape) + 1)]]
    steps = [g.pick([1, 2, 3, -1, -2, -3]) for _ in axes]
    starts = [g.below(-shape[a], 1) if s > 0 else g.pick([-1, shape[a] - 1, 2**31 - 1]) for a, s in zip(axes, steps)]
    ends = [g.pick([shape[a] + 3, 2**62]) if s > 0 else g.pick([-shape[a] - 1, -2**62]) for a, s in zip(axes, steps)]
    return g.node("Slice", [x, *(g.numbers(v) for v in (starts, ends, axes, steps))])


def grid(g):
    g.draw.opset = g.pick([16, 20])
    mode = g.pick(["bilinear", "nearest", "bicubic"] if g.draw.opset == 16 else ["linear", "nearest", "cubic"])
    padding = g.pick(["zeros", "border", "reflection"])
    places = g.numbers(g.r.uniform(-1.3, 1.3, (2, g.below(1, 6), g.below(1, 6), 2)), np.float32, live=True)
    return g.node("GridSample", [g.x([2, 3, g.below(2, 7), g.below(2, 7)], FLOAT), places], mode=mode, padding_mode=padding, align_corners=g.flip())


def einsum(g):
    text, *shapes = g.pick([
        ("bii->b", [2, 3, 3]), ("...i,...i->...", [2, 3, 4], [2, 3, 4]), ("bnqk,bnkd->bqnd", [1, 2, 3, 4], [1, 2, 4, 5]),
        ("ijk,ilm,njm->nkl", [2, 3, 4], [2, 5, 6], [7, 3, 6]), ("abc,cd,de->abe", [2, 3, 4], [4, 5], [5, 3]), ("ba", [3, 4]),
        ("bctw,vw->bctv", [1, 3, 4, 5], [5, 5]), ("i,i->", [5], [5]), ("b...d,d->b...", [2, 3, 4], [4]), ("bhwc,hkc->bhwk", [1, 3, 4, 5], [3, 6, 5])])
    return g.node("Einsum", [g.x(shapes[0], FLOAT), *(g.w(s, FLOAT) for s in shapes[1:])], equation=text)


def norm(g):
    channels = 2 * g.below(1, 4)
    shape, op = [g.below(1, 3), channels, *(g.below(2, 6) for _ in range(g.below(1, 3)))], g.pick(["Group", "Layer", "RMS", "MeanVariance", "LRN"])
    if op == "Group":
        g.draw.opset, groups = g.pick([(18, 2), (21, 1), (21, channels)])
        own = [2 if g.draw.opset == 18 else channels]
        return g.node("GroupNormalization", [g.x(shape), g.w(own), g.w(own)], num_groups=groups, epsilon=0.1)
    if op == "LRN":
        return g.node(op, [g.x([1, g.below(1, 9), 4, 4])], size=2 * g.below(0, 4) + 1, alpha=0.1, beta=g.pick([0.75, 0.5, 1.0]), bias=2.0)
    if op == "MeanVariance":
        return g.node("MeanVarianceNormalization", [g.x([2, 3, 4, 5])], axes=g.pick([[0, 2, 3], [2, 3], [1, 2, 3]]))
    axis = g.below(-len(shape), len(shape))
    if op == "RMS":
        g.draw.opset = 23
        return g.node("RMSNormalization", [g.x(shape), g.w(shape[axis:])], axis=axis, epsilon=g.pick([1e-5, 0.1]))
    return g.node("LayerNormalization", [g.x(shape), g.w(shape[axis:]), g.w(shape[axis:])], 3, take=g.below(0, 3), axis=axis)


def activation(g):
    op, more = g.pick([
        ("Shrink", {"lambd": 0.4, "bias": 0.2}), ("Celu", {"alpha": 0.5}), ("ThresholdedRelu", {"alpha": 0.3}), ("Selu", {"alpha": 1.2, "gamma": 0.9}),
        ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}), ("Gelu", {"approximate": "tanh"}), ("LeakyRelu", {"alpha": -0.2}), ("LeakyRelu", {"alpha": 1.5}),
        ("Elu", {"alpha": 2.0}), ("IsInf", {"detect_negative": 0}), ("Asinh", {}), ("Atan", {}), ("Sinh", {}), ("Cosh", {})])
    return g.node(op, [g.x(g.draw.shape(g.below(0, 6)), FLOAT if op == "Celu" else None)], **more)


def attention(g):
    g.draw.opset = 23
    batch, count, steps, keys, width = g.below(1, 3), g.pick([1, 2, 4]), g.below(1, 7), g.below(1, 7), g.pick([4, 8])
    own, more = g.pick([count, 1]), {k: v for k, v in (("is_causal", 1), ("softcap", 2.0), ("scale", 0.3)) if g.flip()}
    mask = [g.numbers(g.r.normal(0, 1, [steps, keys]), np.float32, live=True)] if g.flip() else []
    if g.flip():
        operands = [g.x([batch, n, t, width], FLOAT) for n, t in ((count, steps), (own, keys), (own, keys))]
    else:
        operands = [g.x([batch, t, n * width], FLOAT) for n, t in ((count, steps), (own, keys), (own, keys))]
        more |= {"q_num_heads": count, "kv_num_heads": own}
    return g.node("Attention", operands + mask, **more)


def optimized(g):
    g.draw.opset, g.draw.domain = 17, DOMAIN
    op = g.pick("FusedMatMul FusedConv Gelu BiasGelu FastGelu QuickGelu SkipLayerNormalization SkipSimplifiedLayerNormalization MatMulNBits "
                "MultiHeadAttention Attention RotaryEmbedding CDist CropAndResize ExpandDims Inverse MoE NhwcMaxPool TransposeMatMul".split())
    x = lambda *shape: g.x(shape, FLOAT)
    if op == "FusedMatMul":
        return g.node(op, [x(2, 3, 4), g.w([2, 5, 4], FLOAT)], alpha=0.5, transB=1)
    if op == "FusedConv":
        name, params = g.pick([("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.5]), ("HardSigmoid", [0.3, 0.4])])
        more = {"activation_params": params} if params else {}
        return g.node(op, [x(1, 3, 6, 6), g.w([4, 3, 3, 3], FLOAT), g.w([4], FLOAT)], activation=name, pads=[1] * 4, **more)
    if op in ("Gelu", "QuickGelu"):
        return g.node(op, [x(2, 3, 8)], **({"alpha": g.pick([1.702, 1.0])} if op == "QuickGelu" else {}))
    if op.endswith("Gelu"):
        return g.node(op, [x(2, 3, 8), g.w([8], FLOAT)])
    if op.startswith("Skip"):
        operands = [x(2, 3, 8), x(2, 3, 8), *(g.w([8], FLOAT) for _ in range(g.below(1, 3) if "Simplified" in op else g.below(2, 4)))]
        return g.node(op, operands, epsilon=1e-5)
    if op == "MatMulNBits":
        zeros = [g.numbers(g.r.integers(0, 256, [8 * 1]), np.uint8)] if g.flip() else []
        operands = [x(3, 32), g.numbers(g.r.integers(0, 256, [8, 2, 8]), np.uint8), g.numbers(g.r.uniform(0.01, 0.1, 16), np.float32)]
        return g.node(op, operands + zeros, K=32, N=8, bits=4, block_size=16)
    if op == "CDist":
        return g.node(op, [x(4, 3), x(5, 3)], metric=g.pick(["sqeuclidean", "euclidean"]))
    if op == "CropAndResize":
        regions = g.numbers(g.r.uniform(-.2, 1.2, [3, 4]), np.float32, live=True)
        size = g.numbers([g.below(1, 5), g.below(1, 5)], np.int32)
        return g.node(op, [x(2, 3, 6, 7), regions, g.numbers([1, 0, 1], np.int32), size], extrapolation_value=g.pick([0.0, 0.5]))
    if op == "ExpandDims":
        return g.node(op, [x(2, 3, 4), g.numbers(g.pick([0, 1, -1]), np.int32)])
    if op == "Inverse":
        rows = g.below(1, 5)
        return g.node(op, [g.numbers(g.r.normal(0, .5, [2, rows, rows]) + 3 * np.eye(rows), np.float32, live=True)])
    if op == "MoE":
        stored = lambda *shape: g.numbers(g.r.normal(0, 0.3, shape), np.float32)
        operands = [x(5, 6), x(5, 4), stored(4, 8, 6), g.pick(["", stored(4, 8)]), stored(4, 6, 8), g.pick(["", stored(4, 6)])]
        activation = g.pick(["relu", "gelu", "silu", "identity"])
        return g.node(op, operands, k=g.pick([1, 2]), activation_type=activation, normalize_routing_weights=int(g.flip()))
    if op == "NhwcMaxPool":
        return g.node(op, [g.numbers(g.r.integers(0, 256, [1, 6, 8, 3]), np.uint8, live=True)], kernel_shape=[2, 3], strides=[2, 1])
    if op == "TransposeMatMul":
        return g.node(op, [x(2, 3, 4), x(2, 5, 4)], alpha=0.5, transB=1)
    if op == "MultiHeadAttention":
        bias = [g.w([48], FLOAT)] if g.flip() else []
        return g.node(op, [x(1, 4, 16), x(1, 5, 16), x(1, 5, 16), *bias], num_heads=2)
    if op == "Attention":
        mask = [g.numbers([[1, 1, 1, 0]], np.int32)] if g.flip() else []
        operands = [x(1, 4, 16), g.numbers(g.r.normal(0, 0.2, [16, 48]), np.float32), g.numbers(g.r.normal(0, 0.2, 48), np.float32)]
        return g.node(op, operands + mask, num_heads=2, unidirectional=g.flip())
    tables = [g.numbers(g.r.normal(0, 1, [8, 4]), np.float32) for _ in range(2)]
    return g.node(op, [g.x(g.pick([(1, 2, 4, 8), (1, 4, 16)]), FLOAT), g.numbers(g.pick([[[0, 2, 1, 3]], [3]])), *tables], interleaved=g.flip())


def graph(draw):
    """Nodes of a graph whose result is `y`, and the operator that was drawn."""
    g = Case(draw)
    made = g.pick([pool, conv, transposed, resize, reduction, older, recurrent, places, slices, grid, einsum, norm, activation, attention, optimized])
    return made(g), g.nodes
