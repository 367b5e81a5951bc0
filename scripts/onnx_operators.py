"""Random ONNX nodes for scripts/fuzz_onnxruntime.py --draw operators: operators and operands that no other draw reaches. Recurrent layers with
lengths and all activations, attention with caches, regions, bits, spectra, windows, quantized products, losses, sequences, loops,
classical models. Where ONNX Runtime does not know a node, the reference evaluator of the `onnx` package computes it. What ONNX Runtime
computes otherwise than the standard says is not drawn: Softplus in recurrent layers (it overflows), and causal attention of one query with
a mask."""
import numpy as np
from onnx import TensorProto, helper

from onnx_attributes import BOOL, DOMAIN, FLOAT, HALF, I8, I32, I64, U8, Case, layer

ML = "ai.onnx.ml"


def recurrent(g):
    op, gates = g.pick([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    steps, batch, wide, hidden = g.below(1, 7), g.below(1, 4), g.below(1, 6), g.below(1, 6)
    way, turns = g.pick([("forward", 1), ("reverse", 1), ("bidirectional", 2)])
    g.draw.opset, more = g.pick([14, 22]), {"hidden_size": hidden, "direction": way}
    stored = lambda shape: g.draw.operand(FLOAT, shape, stored=True)
    state = lambda: g.w([turns, batch, hidden], FLOAT) if g.flip() else ""
    lengths = g.numbers(g.r.integers(1, steps + 1, batch), np.int32, live=True) if g.below(0, 4) else ""
    operands = [g.x([steps, batch, wide], FLOAT), stored([turns, gates * hidden, wide]), stored([turns, gates * hidden, hidden]),
                stored([turns, 2 * gates * hidden]) if g.flip() else "", lengths, state()]
    if op == "LSTM":
        operands += [state(), stored([turns, 3 * hidden]) if g.below(0, 4) == 0 else ""]
    functions = [("Relu", ()), ("Tanh", ()), ("Sigmoid", ()), ("Affine", (.5, .2)), ("LeakyRelu", (.2, 0)), ("ThresholdedRelu", (.3, 0)),
                 ("ScaledTanh", (.9, .7)), ("HardSigmoid", (.25, .4)), ("Elu", (.8, 0)), ("Softsign", ())]
    if g.flip():
        names = [g.pick(functions) for _ in range({"LSTM": 3, "GRU": 2, "RNN": 1}[op] * turns)]
        more["activations"] = [n for n, _ in names]
        # A list per function that has the parameter: ONNX Runtime takes the next of the list for each.
        more["activation_alpha"] = [p[0] for _, p in names if p]
        more["activation_beta"] = [p[1] for n, p in names if n in ("Affine", "ScaledTanh", "HardSigmoid")]
        more = {k: v for k, v in more.items() if v != []}
    if op == "LSTM" and g.below(0, 5) == 0:
        more["input_forget"] = 1
    return layer(g, op, operands, more, clipped=5)


def attention(g):
    g.draw.opset = g.pick([23, 24])
    batch, count, steps, keys, width, past = g.below(1, 3), g.pick([2, 4]), g.below(1, 7), g.below(1, 7), g.pick([4, 8]), g.pick([0, 0, 3])
    own, own_width = g.pick([count, 1, 2]), g.pick([width, width, 6])
    more = {k: v for k, v in (("is_causal", 1), ("softcap", 2.0), ("scale", 0.3)) if g.flip()}
    total, mode = keys + past, g.pick([0, 1, 2, 3])
    flat = g.flip()
    if flat:
        operands = [g.x([batch, t, n * w], FLOAT) for n, t, w in ((count, steps, width), (own, keys, width), (own, keys, own_width))]
        more |= {"q_num_heads": count, "kv_num_heads": own}
    else:
        operands = [g.x([batch, n, t, w], FLOAT) for n, t, w in ((count, steps, width), (own, keys, width), (own, keys, own_width))]
    shape = g.pick([[steps, total], [1, 1, steps, total], [1, count, steps, total], [batch, count, steps, total], [1, total]])
    mask = g.pick(["", "float", "bool"]) if steps > 1 or "is_causal" not in more else ""
    if mask == "float":
        mask = g.numbers(g.r.normal(0, 1, shape), np.float32, live=True)
    elif mask:
        mask = g.numbers(g.r.integers(0, 4, shape) > 0, bool, live=True)
    operands.append(mask)
    if past:
        operands += [g.x([batch, own, past, width], FLOAT), g.x([batch, own, past, own_width], FLOAT)]
    elif g.draw.opset > 23 and g.flip():
        operands += ["", "", g.numbers(g.r.integers(1, keys + 1, batch), np.int64, live=True)]
    while not operands[-1]:
        operands.pop()
    return g.node("Attention", operands, 4, take=g.pick([0, 0, 1, 2, 3]), qk_matmul_output_mode=mode, **more)


def standard(g):
    g.draw.opset = 23
    batch, steps, count, width, most = g.below(1, 3), g.below(1, 5), g.pick([1, 2, 3]), g.pick([4, 8]), 7
    part = g.pick([0, 4])
    half = (part or width) // 2
    x = g.x(g.pick([[batch, count, steps, width], [batch, steps, count * width]]), FLOAT)
    more = {"interleaved": g.flip(), "rotary_embedding_dim": part, "num_heads": count}
    if g.flip():
        places = g.numbers(g.r.integers(0, most, [batch, steps]), np.int64, live=True)
        return g.node("RotaryEmbedding", [x, *(g.w([most, half], FLOAT) for _ in range(2)), places], **more)
    return g.node("RotaryEmbedding", [x, *(g.w([batch, steps, half], FLOAT) for _ in range(2))], **more)


def heads(g):
    g.draw.opset, g.draw.domain = 17, DOMAIN
    batch, count, steps, keys, width, past = g.below(1, 3), g.pick([2, 4]), g.below(1, 6), g.below(1, 6), g.pick([4, 8]), g.below(1, 4)
    hidden = count * width
    op = g.pick(["MultiHeadAttention", "GroupQueryAttention", "GroupQueryAttention", "Attention"])
    if op == "Attention":
        operands = [g.x([batch, steps, 16], FLOAT), g.w([16, 3 * hidden], FLOAT), g.w([3 * hidden], FLOAT)]
        total = steps + past
        way = g.below(0, 5)
        if way < 2:
            mask = g.pick([g.r.integers(0, 2, [batch, total]), g.r.integers(0, 2, [batch, steps, total]), g.r.integers(1, total + 1, [batch])])
            return g.node(op, [*operands, g.numbers(mask, np.int32), g.x([2, batch, count, past, width], FLOAT)], 2, take=g.flip(),
                          num_heads=count, unidirectional=g.flip())
        if way == 2:
            return g.node(op, [*operands, "", g.x([2, batch, count, past, width], FLOAT)], 2, take=g.flip(), num_heads=count,
                          unidirectional=g.flip())
        mask = g.pick([g.r.integers(0, 2, [batch, steps]), g.r.integers(0, 2, [batch, steps, steps]), g.r.integers(1, steps + 1, [batch])])
        added = [g.x([batch, count, steps, steps], FLOAT)] if way == 3 else []
        return g.node(op, [*operands, g.numbers(mask, np.int32), *(["", *added] if added else [])], num_heads=count, unidirectional=g.flip(),
                      scale=g.pick([0.0, 0.2]))
    if op == "MultiHeadAttention":
        way = g.below(0, 5)
        more = {"num_heads": count, "unidirectional": g.flip(), "scale": g.pick([0.0, 0.2])}
        if way == 0:
            return g.node(op, [g.x([batch, steps, count, 3, width], FLOAT)], num_heads=count)
        if way == 1:
            return g.node(op, [g.x([batch, steps, hidden], FLOAT), g.x([batch, keys, count, 2, width], FLOAT)], num_heads=count)
        q = g.x([batch, steps, hidden], FLOAT)
        if way == 2:
            return g.node(op, [q, *(g.x([batch, count, keys, width], FLOAT) for _ in range(2))], num_heads=count)
        bias = g.w([3 * hidden], FLOAT) if g.flip() else ""
        keys = steps if g.flip() else keys
        own = [g.x([batch, keys, hidden], FLOAT) for _ in range(2)]
        if way == 3:
            total = keys + past
            mask = g.pick(["", "", g.numbers(g.r.integers(0, 2, [batch, total]), np.int32)])
            added = g.pick(["", g.x([1, count, steps, total], FLOAT)])
            return g.node(op, [q, *own, bias, mask, added, *(g.x([batch, count, past, width], FLOAT) for _ in range(2))], 3,
                          take=g.below(0, 3), **more)
        mask = g.pick(["", g.numbers(g.r.integers(0, 2, [batch, keys]), np.int32), g.numbers(g.r.integers(1, keys + 1, [batch]), np.int32),
                       g.numbers(g.r.integers(0, 2, [batch, steps, keys]), np.int32)])
        added = g.pick(["", g.x([g.pick([1, batch]), g.pick([1, count]), steps, keys], FLOAT)])
        return g.node(op, [q, *own, bias, mask, added], num_heads=count, unidirectional=more["unidirectional"], scale=more["scale"])
    own = g.pick([count, 1, 2])
    more = {"num_heads": count, "kv_num_heads": own}
    width = 16 if g.below(0, 2) else width
    if g.flip():
        more["scale"] = 0.3
    if g.below(0, 3) == 0:
        more["softcap"] = 2.0
    if g.below(0, 3) == 0:
        more["local_window_size"] = g.below(1, 5)
    cached = g.below(0, 3)
    steps, past = (steps, 0) if cached == 0 else (g.pick([1, 1, steps]), past)
    if cached and steps > 1:
        batch = 1
    buffer = past + g.pick([0, 0, 2 + steps]) if cached else 0
    totals = np.full(batch, past + steps)
    if cached and steps == 1:
        totals = g.r.integers(1, past + 2, batch)
        totals[0] = past + 1
    packed = g.below(0, 4) == 0
    if packed:
        operands = [g.x([batch, steps, (count + 2 * own) * width], FLOAT), "", ""]
    else:
        operands = [g.x([batch, steps, n * width], FLOAT) for n in (count, own, own)]
    operands += [g.x([batch, own, buffer, width], FLOAT) for _ in range(2)] if cached else ["", ""]
    for name in operands[3:5] if cached else []:
        # Places behind the past keys are zeros here, and are made zeros by ONNX Runtime.
        for item, total in enumerate(totals):
            g.draw.inputs[name][item, :, total - steps:] = 0
    operands += [g.numbers(totals - 1, np.int32), g.numbers([past + steps], np.int32)]
    if g.below(0, 2) and width % 16 == 0:
        more |= {"do_rotary": 1, "rotary_interleaved": g.flip()}
        operands += [g.w([12, width // 2], FLOAT) for _ in range(2)]
    return g.node(op, operands, 3, take=g.pick([0, 0, 1, 2]), **more)


def regions(g):
    op = g.pick(["MaxRoiPool", "RoiAlign", "AffineGrid", "Col2Im", "MaxUnpool", "DeformConv"])
    high, wide = g.below(4, 9), g.below(4, 9)
    if op == "MaxRoiPool":
        g.draw.opset, count = 22, g.below(1, 4)
        corners = np.sort(g.r.integers(0, 9, [count, 2, 2]), 1).reshape(count, 4)
        rois = np.concatenate([g.r.integers(0, 2, [count, 1]), corners], 1)
        return g.node(op, [g.x([2, 3, high, wide], FLOAT), g.numbers(rois, np.float32, live=True)], pooled_shape=[g.below(1, 4), g.below(1, 4)],
                      spatial_scale=g.pick([1.0, 0.5]))
    if op == "RoiAlign":
        g.draw.opset, count = g.pick([10, 16, 22]), g.below(1, 4)
        rois = np.sort(g.r.uniform(0, 8, [count, 2, 2]), 1).reshape(count, 4)
        more = {"coordinate_transformation_mode": g.pick(["half_pixel", "output_half_pixel"])} if g.draw.opset > 15 else {}
        return g.node(op, [g.x([2, 3, high, wide], FLOAT), g.numbers(rois, np.float32, live=True), g.numbers(g.r.integers(0, 2, count))],
                      output_height=g.below(1, 4), output_width=g.below(1, 4), sampling_ratio=g.below(1, 4), spatial_scale=g.pick([1.0, 0.5]),
                      mode=g.pick(["avg", "max"]), **more)
    if op == "AffineGrid":
        g.draw.opset = 20
        if g.flip():
            return g.node(op, [g.x([2, 2, 3], FLOAT), g.numbers([2, 3, high, wide])], align_corners=g.flip())
        return g.node(op, [g.x([2, 3, 4], FLOAT), g.numbers([2, 3, 3, high, wide])], align_corners=g.flip())
    if op == "Col2Im":
        g.draw.opset = 18
        block, strides, dilations, pads = ([g.below(a, b) for _ in range(n)] for a, b, n in ((1, 4, 2), (1, 3, 2), (1, 3, 2), (0, 2, 4)))
        counts = [(n + p + q - (k - 1) * d - 1) // s + 1 for n, k, s, d, p, q in zip((high, wide), block, strides, dilations, pads[:2], pads[2:])]
        return g.node(op, [g.x([2, 3 * block[0] * block[1], counts[0] * counts[1]], FLOAT), g.numbers([high, wide]), g.numbers(block)],
                      strides=strides, dilations=dilations, pads=pads)
    if op == "MaxUnpool":
        places = np.stack([np.sort(g.r.permutation(4 * high // 2 * (wide // 2))[:high // 2 * (wide // 2)]) for _ in range(6)])
        base = np.arange(6)[:, None] * (high // 2 * 2) * (wide // 2 * 2)
        return g.node(op, [g.x([2, 3, high // 2, wide // 2], FLOAT), g.numbers((places + base).reshape(2, 3, high // 2, wide // 2), live=True)],
                      kernel_shape=[2, 2], strides=[2, 2])
    g.draw.opset, groups, own = 19, g.pick([1, 2]), g.pick([1, 2])
    offsets = g.x([1, own * 2 * 9, high, wide], FLOAT)
    return g.node(op, [g.x([1, 4, high, wide], FLOAT), g.w([4, 4 // groups, 3, 3], FLOAT), offsets, *([g.w([4], FLOAT)] if g.flip() else [])],
                  kernel_shape=[3, 3], pads=[1] * 4, group=groups, offset_group=own)


def spectrum(g):
    op = g.pick(["DFT", "DFT", "STFT", "HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix"])
    g.draw.opset = g.pick([17, 20]) if op == "DFT" else 17
    if op.endswith("Window"):
        return g.node(op, [g.numbers(g.below(2, 12))], periodic=g.flip())
    if op == "MelWeightMatrix":
        return g.node(op, [g.numbers(8), g.numbers(16), g.numbers(8000), g.numbers(100.0, np.float32), g.numbers(3000.0, np.float32)])
    if op == "STFT":
        size, step, length = g.pick([4, 6, 8]), g.below(1, 4), g.below(9, 17)
        window = g.w([size], FLOAT) if g.flip() else ""
        return g.node(op, [g.x([2, length, 1], FLOAT), g.numbers(step), window, *([g.numbers(size)] if g.flip() or not window else [])],
                      onesided=g.flip())
    inverse = g.flip()
    parts = g.pick([1, 2]) if not inverse else 2
    shape = [g.below(1, 3), *(g.below(2, 8) for _ in range(g.below(1, 3))), parts]
    axis = g.below(1, len(shape) - 1)
    more = {"inverse": inverse, "onesided": int(parts == 1 and g.flip())}
    length = g.numbers(g.below(2, 9)) if g.flip() else ""
    if g.draw.opset > 19:
        return g.node(op, [g.x(shape, FLOAT), length, g.numbers(axis)], **more)
    return g.node(op, [g.x(shape, FLOAT), *([length] if length else [])], axis=axis, **more)


def truth(g):
    op, shape = g.pick(["And", "Or", "Xor", "Not", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift", "CumProd", "Acosh", "Swish",
                        "SwiGLU", "CastLike", "BitCast"]), g.draw.shape(g.below(1, 5))
    g.draw.opset = 18
    if op == "Not":
        return g.node(op, [g.x(shape, BOOL)])
    if op in ("And", "Or", "Xor"):
        return g.node(op, [g.x(shape, BOOL), g.x(g.draw.beside(shape), BOOL)])
    if op == "BitwiseNot":
        return g.node(op, [g.x(shape, g.pick([I8, U8, I32]))])
    if op.startswith("Bitwise"):
        kind = g.pick([I8, U8, I32, I64])
        return g.node(op, [g.x(shape, kind), g.x(g.draw.beside(shape), kind)])
    if op == "BitShift":
        return g.node(op, [g.x(shape, U8), g.numbers(g.r.integers(0, 8, g.draw.beside(shape)), np.uint8, live=True)], direction=g.pick(["LEFT", "RIGHT"]))
    if op == "CumProd":
        g.draw.opset = 26
        return g.node(op, [g.x(shape, FLOAT), g.numbers(g.below(-len(shape), len(shape)))], exclusive=g.flip(), reverse=g.flip())
    if op == "Swish":
        g.draw.opset = 24
        return g.node(op, [g.x(shape)], alpha=g.pick([1.0, 1.5]))
    if op == "SwiGLU":
        g.draw.opset = 28
        return g.node(op, [g.x(shape, FLOAT), g.x(shape, FLOAT)])
    if op == "CastLike":
        return g.node(op, [g.x(shape, g.pick([FLOAT, I32, BOOL, HALF])), g.w([1], g.pick([FLOAT, I32, U8, BOOL]))])
    if op == "BitCast":
        g.draw.opset = 26
        return g.node(op, [g.x(shape, I32)], to=TensorProto.UINT32)
    return g.node(op, [g.draw.numbers(1 + np.abs(g.r.normal(0, 2, shape)), np.float32)])


def quantized(g):
    op = g.pick(["ConvInteger", "MatMulInteger", "QLinearMatMul", "QLinearConv", "DynamicQuantizeLinear", "QuantizeLinear", "DequantizeLinear"])
    g.draw.opset = 21
    kind = g.pick([np.uint8, np.int8])
    byte = lambda shape, live=False: g.numbers(g.r.integers(*((0, 256) if kind == np.uint8 else (-128, 128)), shape), kind, live=live)
    first = lambda shape: g.draw.operand(U8 if kind == np.uint8 else I8, shape, stored=False)
    scale = lambda shape=(): g.numbers(g.r.uniform(0.01, 0.1, shape), np.float32)
    if op == "DynamicQuantizeLinear":
        return g.node(op, [g.x(g.draw.shape(2), FLOAT)], 3, take=g.below(0, 3))
    if op in ("QuantizeLinear", "DequantizeLinear"):
        shape = [g.below(1, 4), 4, g.below(1, 4)]
        axis = g.below(0, 3)
        own = g.pick([[], [shape[axis]]])
        block = {}
        if g.below(0, 3) == 0:
            axis, own, block = 1, [shape[0], 2, shape[2]], {"block_size": 2}
        x = g.x(shape, FLOAT) if op[0] == "Q" else first(shape)
        return g.node(op, [x, scale(own), byte(own)], axis=axis, **block)
    if op == "MatMulInteger":
        per = g.flip()
        return g.node(op, [first([2, 3, 4]), byte([4, 5], True), byte([]), byte([5] if per else [])])
    if op == "ConvInteger":
        return g.node(op, [first([1, 3, 5, 5]), byte([2, 3, 3, 3]), byte([])], pads=g.pick([[0] * 4, [1] * 4]), strides=[g.below(1, 3)] * 2)
    if op == "QLinearMatMul":
        return g.node(op, [first([2, 3, 4]), scale(), byte([]), byte([4, 5]), scale(g.pick([[], [5]])), byte([]), scale(), byte([])])
    groups = g.pick([1, 3])
    return g.node(op, [first([1, 3, 5, 5]), scale(), byte([]), byte([3, 3 // groups, 3, 3]), scale([3]), byte([3]) if False else g.numbers(np.zeros(3), kind), scale(), byte([]),
                       g.numbers(g.r.integers(-50, 50, 3), np.int32)], pads=[1] * 4, group=groups)


def losses(g):
    op = g.pick(["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
    g.draw.opset = 13
    shape = [g.below(1, 4), g.below(2, 5), *(g.below(1, 4) for _ in range(g.below(0, 3)))]
    target = g.numbers(g.r.integers(0, shape[1], [shape[0], *shape[2:]]), live=True)
    more = {"reduction": g.pick(["none", "sum", "mean"])} | ({"ignore_index": 1} if g.flip() else {})
    outputs = 2 if op[0] == "S" and g.flip() else 1
    return g.node(op, [g.x(shape, FLOAT), target, *([g.w([shape[1]], FLOAT)] if g.flip() else [])], outputs, take=g.below(0, outputs), **more)


def made(g):
    op, shape = g.pick(["EyeLike", "Range", "Shape", "Size", "TensorScatter", "Scatter", "ConstantOfShape", "Dropout", "Constant", "OptionalGetElement",
                        "LinearAttention", "CausalConvWithState"]), g.draw.shape(g.below(1, 5))
    if op == "EyeLike":
        return g.node(op, [g.x(g.draw.shape(2), FLOAT)], k=g.below(-3, 4), dtype=g.pick([FLOAT, I32, I64]))
    if op == "Range":
        start, step, count = g.below(-4, 5), g.pick([1, 2, -1, -3]), g.below(1, 6)
        kind = g.pick([np.float32, np.int64, np.int32])
        return g.node(op, [g.numbers(v, kind) for v in (start, start + step * count, step)])
    if op in ("Shape", "Size"):
        return g.node(op, [g.x(shape, FLOAT)], **({"start": g.below(-5, 3), "end": g.below(0, 6)} if op == "Shape" else {}))
    if op == "TensorScatter":
        g.draw.opset, batch, most, steps = 24, g.below(1, 3), g.below(4, 8), g.below(1, 4)
        mode = g.pick(["linear", "circular"])
        places = g.numbers(g.r.integers(0, most - steps + 1 if mode == "linear" else most, batch), live=True)
        return g.node(op, [g.x([batch, 2, most, 3], FLOAT), g.x([batch, 2, steps, 3], FLOAT), *([places] if g.flip() else [])], mode=mode)
    if op == "Scatter":
        g.draw.opset = 9
        axis = g.below(-len(shape), len(shape))
        small = [g.below(1, n + 1) for n in shape]
        order = g.r.permutation(shape[axis])[:small[axis]].reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])
        return g.node(op, [g.x(shape, FLOAT), g.numbers(order + np.zeros(small, np.int64)), g.x(small, FLOAT)], axis=axis)
    if op == "ConstantOfShape":
        return g.node(op, [g.numbers(shape)], value=helper.make_tensor("v", g.pick([FLOAT, I64]), [1], [3]))
    if op == "Dropout":
        return g.node(op, [g.x(shape), g.numbers(0.5, np.float32), *([g.numbers(False, bool)] if g.flip() else [])], 2)
    if op == "LinearAttention":
        g.draw.opset = 28
        return g.node(op, [g.x([1, 3, 8], FLOAT) for _ in range(3)], q_num_heads=2, kv_num_heads=2)
    if op == "CausalConvWithState":
        g.draw.opset = 28
        return g.node(op, [g.x([1, 3, 6], FLOAT), g.w([3, 1, 3], FLOAT)], 2)
    if op == "Constant":
        g.node(op, [], value_floats=[1.0, 2.0, 3.0])
        g.nodes[-1].output[0] = "k"
        return g.node("Add", [g.x([2, 3], FLOAT), "k"])
    return g.node("Identity", [g.x(shape, FLOAT)])


def sequences(g):
    shape = [g.below(2, 6), g.below(1, 4)]
    x, way = g.x(shape, FLOAT), g.below(0, 4)
    g.draw.opset = 13
    add = lambda op, inputs, output, **more: g.nodes.append(helper.make_node(op, inputs, [output], **more))
    if way == 0:
        add("SplitToSequence", [x, g.numbers(g.pick([1, 2]))], "s", axis=0)
        add("SequenceAt", ["s", g.numbers(g.pick([0, -1]))], "t")
        add("SequenceInsert", ["s", "t"], "u")
        return g.node("ConcatFromSequence", ["u"], axis=0)
    if way == 1:
        add("SplitToSequence", [x], "s", axis=0, keepdims=g.flip())
        add("SequenceErase", ["s", g.numbers(0)], "t")
        return g.node("ConcatFromSequence", ["t"], axis=0)
    if way == 2:
        other = g.x(shape, FLOAT)
        add("SequenceConstruct", [x, other, x], "s")
        return g.node("ConcatFromSequence", ["s"], axis=g.below(-3, 3), new_axis=1)
    add("SequenceEmpty", [], "s")
    add("SequenceInsert", ["s", x], "t")
    return g.node("SequenceLength", ["t"])


def loops(g):
    g.draw.opset, way = 16, g.pick(["Loop", "Scan", "If"])
    info = lambda name, kind, shape: helper.make_tensor_value_info(name, kind, shape)
    wide = g.below(1, 5)
    x, w = g.x([wide], FLOAT), g.w([wide, wide], FLOAT)
    if way == "If":
        other = lambda op: helper.make_graph([helper.make_node(op, [x], ["r"])], "b", [], [info("r", FLOAT, [wide])])
        return g.node("If", [g.numbers(bool(g.flip()), bool, live=True)], then_branch=other("Relu"), else_branch=other("Neg"))
    if way == "Scan":
        steps = g.below(1, 6)
        many = g.x([steps, wide], FLOAT)
        body = helper.make_graph([helper.make_node("MatMul", ["s", w], ["m"]), helper.make_node("Add", ["m", "i"], ["a"]),
                                  helper.make_node("Tanh", ["a"], ["n"]), helper.make_node("Identity", ["n"], ["o"])], "b",
                                 [info("s", FLOAT, [wide]), info("i", FLOAT, [wide])], [info("n", FLOAT, [wide]), info("o", FLOAT, [wide])])
        return g.node("Scan", [x, many], 2, take=g.flip(), body=body, num_scan_inputs=1, scan_input_directions=[g.flip()],
                      scan_output_directions=[g.flip()])
    nodes = [helper.make_node("MatMul", ["s", w], ["m"]), helper.make_node("Tanh", ["m"], ["n"]), helper.make_node("Cast", ["i"], ["f"], to=FLOAT),
             helper.make_node("Add", ["n", "f"], ["o"]), helper.make_node("Identity", ["c"], ["d"])]
    body = helper.make_graph(nodes, "b", [info("i", I64, []), info("c", BOOL, []), info("s", FLOAT, [wide])],
                             [info("d", BOOL, []), info("n", FLOAT, [wide]), info("o", FLOAT, [wide])])
    return g.node("Loop", [g.numbers(g.below(1, 7)), g.pick(["", g.numbers(True, bool)]), x], 2, take=g.flip(), body=body)


def trees(g, op, x):
    """A few trees of random forms, with weights of one or several targets."""
    mode, targets, nodes, leaves = g.pick(["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"]), g.below(1, 4), [], []
    for tree in range(g.below(1, 5)):
        open_, made = [0], 1
        while open_:
            at = open_.pop(0)
            if at and (made > 8 or g.flip()):
                nodes.append((tree, at, 0, 0.0, "LEAF", 0, 0))
                leaves.append((tree, at))
            else:
                nodes.append((tree, at, int(g.r.integers(0, 4)), float(g.r.normal(0, 1)), mode, made, made + 1))
                open_ += [made, made + 1]
                made += 2
    lists = {f"nodes_{name}": list(column) for name, column in
             zip(("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids"), zip(*nodes))}
    own, kind = ("target", "Regressor") if op.endswith("Regressor") else ("class", "Classifier")
    to = [int(g.r.integers(0, targets)) for _ in leaves]
    lists |= {f"{own}_treeids": [tree for tree, _ in leaves], f"{own}_nodeids": [at for _, at in leaves], f"{own}_ids": to,
              f"{own}_weights": g.r.normal(0, 1, len(leaves)).tolist()}
    if kind == "Regressor":
        return g.node(op, [x], n_targets=targets, aggregate_function=g.pick(["SUM", "AVERAGE"]), **lists)
    lists["class_ids"] = [at % 3 for at in range(len(leaves))] if len(leaves) > 2 else [0] * len(leaves)
    return g.node(op, [x], 2, take=1, classlabels_int64s=[0, 1, 2], post_transform=g.pick(["NONE", "SOFTMAX"]), **lists)


def classical(g):
    g.draw.opset, g.draw.domain = 17, ML
    op, x = g.pick(["Binarizer", "Scaler", "Normalizer", "Imputer", "ArrayFeatureExtractor", "FeatureVectorizer", "LinearRegressor", "OneHotEncoder",
                    "LinearClassifier", "LabelEncoder", "SVMRegressor", "TreeEnsembleRegressor", "TreeEnsembleClassifier"]), g.x([3, 4], FLOAT)
    if op == "ArrayFeatureExtractor":
        return g.node(op, [x, g.numbers([0, 3, 1])])
    if op == "FeatureVectorizer":
        return g.node(op, [x, g.x([3, 2], FLOAT)], inputdimensions=[4, 2])
    if op == "OneHotEncoder":
        return g.node(op, [g.numbers(g.r.integers(0, 4, [3]), live=True)], cats_int64s=[0, 1, 2, 3], zeros=1)
    if op == "LinearClassifier":
        return g.node(op, [x], 2, take=1, coefficients=g.r.normal(0, 1, 12).tolist(), intercepts=[.1, .2, .3], classlabels_ints=[0, 1, 2],
                      post_transform=g.pick(["NONE", "SOFTMAX", "LOGISTIC"]))
    if op == "LabelEncoder":
        return g.node(op, [g.numbers(g.r.integers(0, 4, [3]), live=True)], keys_int64s=[3, 0, 2], values_floats=[1.5, -2.0, 4.0], default_float=9.0)
    if op == "SVMRegressor":
        return g.node(op, [x], kernel_type=g.pick(["LINEAR", "POLY", "RBF", "SIGMOID"]), kernel_params=[.3, .2, 2.0], n_supports=3, rho=[.1],
                      support_vectors=g.r.normal(0, 1, 12).tolist(), coefficients=g.r.normal(0, 1, 3).tolist())
    if op.startswith("Tree"):
        return trees(g, op, x)
    return g.node(op, [x], **{
        "Binarizer": {"threshold": 0.2}, "Scaler": {"offset": g.pick([[0.5], [.1, .2, .3, .4]]), "scale": g.pick([[2.0], [1., 2., 3., 4.]])},
        "Normalizer": {"norm": g.pick(["MAX", "L1", "L2"])}, "Imputer": {"imputed_value_floats": [1.5], "replaced_value_float": 0.0},
        "LinearRegressor": {"coefficients": g.r.normal(0, 1, 4).tolist(), "intercepts": [0.3], "targets": 1}}[op])


def graph(draw):
    """Nodes of a graph whose result is `y`, and the operator that was drawn."""
    g = Case(draw)
    made_by = g.pick([recurrent, recurrent, attention, attention, standard, heads, heads, heads, regions, spectrum, truth, quantized, losses, made,
                      sequences, loops, classical])
    return made_by(g), g.nodes
