"""Random small ONNX graphs for scripts/fuzz_onnxruntime.py --draw graphs: an operator of the longer list, often with another before or
behind it, with extents, attributes and values drawn."""
from onnx import TensorProto, helper

FLOATS = [TensorProto.FLOAT, TensorProto.FLOAT16]
BEFORE = ["Relu", "Sigmoid", "Tanh", "Abs", "Neg", "HardSwish", "Identity"]
BEHIND = ["Relu", "Tanh", "Neg", "Abs", "Add", "Mul", "Sub", "ReduceMax", "Transpose", "Unsqueeze", "Cast"]


class Graph:
    """Nodes so far; the last result is called `y`."""

    def __init__(self, draw):
        self.draw, self.nodes = draw, []

    def node(self, op, inputs, outputs=1, **attributes):
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0]

    def below(self, low, high):
        return int(self.draw.r.integers(low, high))

    def flip(self):
        return self.below(0, 2)


def spatial(g, rank, most=9):
    return [g.below(1, 3), g.below(1, 7), *(g.below(3, most) for _ in range(rank))]


def window(g, shape, dilated=True):
    kernel = [g.below(1, min(n, 4) + 1) for n in shape[2:]]
    dilations = [g.below(1, 3) if dilated and (k - 1) * 2 + 1 <= n else 1 for k, n in zip(kernel, shape[2:])]
    pads = [g.below(0, k) for k in kernel * 2]
    return {"kernel_shape": kernel, "dilations": dilations, "pads": pads, "strides": [g.below(1, 4) for _ in kernel]}


def norm(g, kind):
    d, op = g.draw, g.draw.pick(["GroupNormalization", "InstanceNormalization", "BatchNormalization", "LRN",
                                 "MeanVarianceNormalization", "LpNormalization", "LayerNormalization", "LayerNormalization"])
    shape = spatial(g, 2 if op in ("MeanVarianceNormalization", "LRN") else g.below(1, 3))
    if op == "GroupNormalization":
        shape[1] = 2 * g.below(1, 5)
    x = d.operand(kind, shape, stored=False)
    per = [d.operand(kind, [shape[1]]) for _ in range(2)]
    if op == "GroupNormalization":
        return g.node(op, [x, *per], num_groups=2, epsilon=1e-3)
    if op == "InstanceNormalization":
        return g.node(op, [x, *per])
    if op == "BatchNormalization":
        variance = d.numbers(abs(d.r.normal(1, 0.3, shape[1])) + 0.1, helper.tensor_dtype_to_np_dtype(kind))
        return g.node(op, [x, *per, d.operand(kind, [shape[1]]), variance])
    if op == "LRN":
        return g.node(op, [x], size=g.draw.pick([1, 3, 5]), alpha=0.05, beta=0.6, bias=1.5)
    if op == "MeanVarianceNormalization":
        return g.node(op, [x])
    if op == "LpNormalization":
        return g.node(op, [x], axis=g.below(-len(shape), len(shape)), p=g.below(1, 3))
    axis = g.below(1, len(shape))
    scale = d.operand(kind, shape[axis:])
    return g.node(op, [x, scale], axis=axis, epsilon=1e-4)


def windows(g, kind):
    d = g.draw
    op = d.pick(["Conv", "Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
    shape = spatial(g, g.below(1, 3) if op != "Conv" else g.below(1, 4), 7)
    if op.startswith("Global"):
        return g.node(op, [d.operand(kind, shape, stored=False)])
    options = window(g, shape)
    if op in ("MaxPool", "AveragePool", "LpPool"):
        if op == "AveragePool":
            options["count_include_pad"] = g.flip()
        if op == "LpPool":
            options["p"] = g.below(1, 3)
        return g.node(op, [d.operand(kind, shape, stored=False)], ceil_mode=g.flip(), **options)
    groups = d.pick([1, 1, shape[1]])
    n = groups * g.below(1, 4)
    if op == "Conv":
        weights = [n, shape[1] // groups, *options["kernel_shape"]]
    else:
        weights = [shape[1], n // groups, *options["kernel_shape"]]
        options["output_padding"] = [g.below(0, s) for s in options["strides"]]
    operands = [d.operand(kind, shape, stored=False), d.operand(kind, weights)]
    if g.flip():
        operands.append(d.operand(kind, [n]))
    return g.node(op, operands, group=groups, **options)


def places(g, kind):
    d = g.draw
    op = d.pick(["ScatterElements", "ScatterND", "GatherND", "OneHot", "ReverseSequence", "GatherElements", "Gather", "TopK", "CumSum"])
    shape = d.shape(g.below(2, 4))
    x = d.operand(kind, shape, stored=False)
    axis = g.below(0, len(shape))
    live = g.flip()

    def indices(array):
        name = d.numbers(array)
        if live:
            d.inputs[name] = d.stored.pop(name)
        return name

    if op == "ScatterElements":
        small = [g.below(1, n + 1) for n in shape]
        small[axis] = g.below(1, shape[axis] + 1)
        reduction = d.pick(["none", "add", "mul", "max", "min"])
        rows = d.r.integers(0, shape[axis], small)
        if reduction == "none":
            # Each place once: which of several updates stays is open.
            order = d.r.permutation(shape[axis])[: small[axis]]
            rows = order.reshape([-1 if i == axis else 1 for i in range(len(shape))]) + 0 * rows
        return g.node(op, [x, indices(rows), d.operand(kind, small)], axis=axis, reduction=reduction)
    if op == "ScatterND":
        count = g.below(1, shape[0] + 1)
        rows = d.r.permutation(shape[0])[:count].reshape(count, 1)
        return g.node(op, [x, indices(rows), d.operand(kind, [count, *shape[1:]])])
    if op == "GatherND":
        depth = g.below(1, len(shape) + 1)
        rows = d.r.integers(0, shape[:depth], (g.below(1, 4), depth))
        return g.node(op, [x, indices(rows)])
    if op == "OneHot":
        depth = g.below(2, 7)
        at = indices(d.r.integers(-depth, depth, shape))
        d.inputs.pop(x, None)
        return g.node(op, [at, d.numbers(depth), d.operand(kind, [2], stored=True)], axis=g.below(-1, len(shape)))
    if op == "ReverseSequence":
        lengths = indices(d.r.integers(1, shape[1] + 1, shape[0]))
        return g.node(op, [x, lengths], batch_axis=0, time_axis=1)
    if op == "Gather":
        return g.node(op, [x, indices(d.r.integers(-shape[axis], shape[axis], d.shape(g.below(0, 3))))], axis=axis)
    if op == "GatherElements":
        return g.node(op, [x, indices(d.r.integers(-shape[axis], shape[axis], shape))], axis=axis)
    if op == "TopK":
        return g.node(op, [x, d.numbers([g.below(1, shape[axis] + 1)])], 2, axis=axis, largest=g.flip())
    return g.node(op, [x, d.numbers(axis)], exclusive=g.flip(), reverse=g.flip())


def products(g, kind):
    d = g.draw
    b, i, j, k = (g.below(1, 7) for _ in range(4))
    op = d.pick(["Einsum", "MatMul", "Gemm", "MatMul", "Det"])
    if op == "Einsum":
        text, shapes = d.pick([
            ("bij,bjk->bik", [[b, i, j], [b, j, k]]), ("ij,kj->ik", [[i, j], [k, j]]), ("bij->bji", [[b, i, j]]),
            ("bij,bij->b", [[b, i, j], [b, i, j]]), ("ij,j->i", [[i, j], [j]]), ("bhqd,bhkd->bhqk", [[b, 2, i, j], [b, 2, k, j]]),
            ("i,j->ij", [[i], [j]]), ("bij->i", [[b, i, j]]), ("...ij,...jk->...ik", [[b, i, j], [b, j, k]])])
        return g.node(op, [d.operand(kind, s, stored=False if not at else None) for at, s in enumerate(shapes)], equation=text)
    if op == "Det":
        return g.node(op, [d.operand(kind, [b, 3, 3], stored=False)])
    if op == "MatMul":
        left, right = d.pick([([b, i, j], [j, k]), ([i, j], [b, j, k]), ([j], [j, k]), ([b, 2, i, j], [2, j, k]), ([i, j], [j])])
        return g.node(op, [d.operand(kind, left, stored=False), d.operand(kind, right)])
    ta, tb = g.flip(), g.flip()
    operands = [d.operand(kind, [j, i] if ta else [i, j], stored=False), d.operand(kind, [k, j] if tb else [j, k])]
    operands.append(d.operand(kind, d.pick([[k], [i, k], [i, 1], []])))
    return g.node(op, operands, transA=ta, transB=tb, alpha=0.75, beta=1.25)


def shapes(g, kind):
    d = g.draw
    op = d.pick(["Split", "Squeeze", "SpaceToDepth", "DepthToSpace", "Pad", "Resize", "Slice", "Tile", "Expand", "CenterCropPad", "Concat", "Flatten"])
    if op in ("SpaceToDepth", "DepthToSpace"):
        shape = [g.below(1, 3), 4 * g.below(1, 3), 2 * g.below(1, 4), 2 * g.below(1, 4)]
        more = {"mode": d.pick(["DCR", "CRD"])} if op == "DepthToSpace" else {}
        return g.node(op, [d.operand(kind, shape, stored=False)], blocksize=2, **more)
    if op == "Resize":
        shape = spatial(g, 2, 7)
        sizes = d.numbers([*shape[:2], *(n * g.below(1, 4) for n in shape[2:])])
        return g.node(op, [d.operand(kind, shape, stored=False), "", "", sizes], mode=d.pick(["nearest", "linear", "cubic"]),
                      coordinate_transformation_mode=d.pick(["half_pixel", "asymmetric", "align_corners"]))
    shape = d.shape(g.below(2, 6))
    x, axis = d.operand(kind, shape, stored=False), g.below(0, len(shape))
    if op == "Split":
        shape[axis] = 3
        d.inputs[x] = d.values(kind, shape)
        return g.node(op, [x, d.numbers([2, 1])], 2, axis=axis)
    if op == "Squeeze":
        shape[axis] = 1
        d.inputs[x] = d.values(kind, shape)
        return g.node(op, [x, d.numbers([axis])])
    if op == "Pad":
        mode = d.pick(["constant", "edge", "reflect", "wrap"])
        pads = [g.below(0, n if mode != "constant" else 4) for n in shape * 2]
        return g.node(op, [x, d.numbers(pads)], mode=mode)
    if op == "Slice":
        return g.node(op, [x, d.numbers(d.r.integers(-3, 3, 2)), d.numbers(d.r.integers(1, 9, 2)), d.numbers([0, 1]), d.numbers([d.pick([1, 2]), 1])])
    if op == "Tile":
        return g.node(op, [x, d.numbers(d.r.integers(1, 3, len(shape)))])
    if op == "Expand":
        return g.node(op, [x, d.numbers([g.below(1, 4), *shape])])
    if op == "CenterCropPad":
        return g.node(op, [x, d.numbers([g.below(1, 7)])], axes=[axis])
    if op == "Flatten":
        return g.node(op, [x], axis=axis)
    return g.node(op, [x, d.operand(kind, shape), x], axis=axis)


def functions(g, kind):
    d = g.draw
    op = d.pick(["Hardmax", "Shrink", "Celu", "ThresholdedRelu", "Mean", "Sum", "Max", "Min", "Softmax", "LogSoftmax", "Gelu", "Selu", "Mish",
                 "HardSigmoid", "PRelu", "Where", "Clip", "Reciprocal", "Sqrt", "Log", "Pow", "Div", "Mod", "ReduceLogSum", "ReduceL2",
                 "ReduceLogSumExp", "ReduceProd", "Trilu", "Erf", "Softplus"])
    shape = d.shape()
    x = d.operand(kind, shape, stored=False)
    axis = g.below(-len(shape), len(shape))
    if op in ("Mean", "Sum", "Max", "Min"):
        return g.node(op, [x, d.operand(kind, d.beside(shape)), d.operand(kind, d.beside(shape))])
    if op in ("Hardmax", "Softmax", "LogSoftmax"):
        return g.node(op, [x], axis=axis)
    if op in ("PRelu", "Pow", "Div", "Mod"):
        return g.node(op, [x, d.operand(kind, d.beside(shape))], **({"fmod": 1} if op == "Mod" else {}))
    if op == "Where":
        return g.node(op, [d.operand(TensorProto.BOOL, d.beside(shape), stored=False), x, d.operand(kind, d.beside(shape))])
    if op == "Clip":
        return g.node(op, [x, d.operand(kind, [], stored=True), ""])
    if op.startswith("Reduce"):
        return g.node(op, [x, d.numbers([axis])], keepdims=g.flip())
    if op == "Trilu":
        x = d.operand(kind, d.shape(3), stored=False)
        return g.node(op, [x], upper=g.flip())
    return g.node(op, [x])


def recurrent(g, kind):
    d = g.draw
    op, gates = d.pick([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    steps, batch, wide, hidden = g.below(1, 5), g.below(1, 3), g.below(1, 6), g.below(1, 6)
    both = g.flip()
    way, turns = d.pick(["forward", "reverse"]), 1
    if both:
        way, turns = "bidirectional", 2
    parts = [[steps, batch, wide], [turns, gates * hidden, wide], [turns, gates * hidden, hidden]]
    operands = [d.operand(TensorProto.FLOAT, s, stored=bool(at)) for at, s in enumerate(parts)]
    if g.flip():
        operands.append(d.operand(TensorProto.FLOAT, [turns, 2 * gates * hidden], stored=True))
    more = {"linear_before_reset": g.flip()} if op == "GRU" else {}
    return g.node(op, operands, hidden_size=hidden, direction=way, **more)


def quantized(g, kind):
    d = g.draw
    shape = d.shape(g.below(1, 4))
    x = d.operand(TensorProto.FLOAT, shape, stored=False)
    scale = d.numbers(d.pick([0.25, 0.1, 0.05]), "float32")
    zero = d.numbers(g.below(-5, 6), "int8")
    q = g.node("QuantizeLinear", [x, scale, zero])
    return g.node("DequantizeLinear", [q, scale, zero]) if g.flip() else q


def graph(draw):
    """Nodes of a graph whose last result is `y`, and the operator it was drawn for."""
    g = Graph(draw)
    kind = draw.pick(FLOATS)
    if draw.r.integers(4):
        # Numbers at limits stay with the single operators.
        draw.values = lambda kind, shape, plain=draw.values: draw_plain(draw, kind, shape, plain)
    made = draw.pick([norm, windows, places, products, shapes, functions, functions, recurrent, quantized])
    last = made(g, kind)
    op = g.nodes[-1].op_type
    first = g.nodes[0].input[0]
    if first in draw.inputs and draw.inputs[first].dtype.kind == "f" and draw.r.integers(3) == 0:
        before = helper.make_node(draw.pick(BEFORE), [first], ["before"])
        for node in g.nodes:
            node.input[:] = ["before" if name == first else name for name in node.input]
        g.nodes.insert(0, before)
    if made not in (quantized, places) and draw.r.integers(3) == 0:
        behind = draw.pick(BEHIND)
        if behind in ("Add", "Mul", "Sub"):
            other = draw.operand(TensorProto.FLOAT if made is recurrent else kind, [])
            g.node(behind, [last, other])
        elif behind == "Cast":
            g.node(behind, [last], to=TensorProto.FLOAT)
        elif behind == "ReduceMax":
            g.node(behind, [last], keepdims=1)
        elif behind == "Unsqueeze":
            g.node(behind, [last, draw.numbers([0])])
        else:
            g.node(behind, [last])
        last = g.nodes[-1].output[0]
    for node in g.nodes:
        node.output[:] = ["y" if name == last else name for name in node.output]
    return op, g.nodes


def draw_plain(draw, kind, shape, plain):
    if kind in FLOATS:
        size = draw.pick([0.3, 1.0, 1.0, 3.0, 20.0])
        return draw.r.normal(0, size, shape).astype(helper.tensor_dtype_to_np_dtype(kind))
    return plain(kind, shape)
