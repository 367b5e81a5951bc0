"""The node tests of the `onnx` package as models with inputs and expected outputs: which count, and what is stored."""


# Operators that the ONNX reader translates. All others must be refused by name.
IN_SCOPE = frozenset("""
    Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization Cast
    CastLike CausalConvWithState Ceil Celu CenterCropPad Clip Concat Constant ConstantOfShape Conv ConvInteger
    ConvTranspose Cos Cosh CumProd CumSum DepthToSpace DequantizeLinear Div Dropout DynamicQuantizeLinear Einsum Elu
    Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool
    GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization HammingWindow HannWindow
    BlackmanWindow HardSigmoid HardSwish Hardmax Identity If InstanceNormalization IsInf IsNaN LRN LSTM
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax Loop LpNormalization LpPool MatMul MatMulInteger Max
    MaxPool Mean MeanVarianceNormalization Min Mish Mod Mul Neg NegativeLogLikelihoodLoss Not OneHot Or PRelu Pad Pow
    QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum
    ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize
    ReverseSequence RotaryEmbedding Round Scan ScatterElements Scatter ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh
    Size Slice Softmax SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum SwiGLU Swish
    Tan Tanh TensorScatter ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Upsample Where Xor
""".split())

# Operands that a static graph must know and that models hold as initializers, by operator and position: extents, axes,
# counts and ways of padding, and what decides on training. They are stored in either way. A test `NAME_expanded` has the
# same operator spelt out: the same inputs are stored. Data, indices, masks, conditions and lengths of sequences that the
# network can compute with stay inputs.
REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()
PARAMETERS = {
    "AffineGrid": [1], "BlackmanWindow": [0], "CenterCropPad": [1], "Col2Im": [1, 2], "ConstantOfShape": [0],
    "CumProd": [1], "CumSum": [1], "DFT": [1, 2], "Dropout": [1, 2], "MaxUnpool": [2], "STFT": [1, 3], "Expand": [1], "HammingWindow": [0], "HannWindow": [0], "LSTM": [4],
    "Loop": [0, 1], "MelWeightMatrix": [0, 1, 2, 3, 4], "OneHot": [1], "Pad": [1, 2, 3], "Range": [0, 1, 2], "Reshape": [1], "Resize": [1, 2, 3],
    "Slice": [1, 2, 3, 4], "Split": [1], "Squeeze": [1], "Tile": [1], "TopK": [1], "Trilu": [1], "Unsqueeze": [1],
    "Upsample": [1], **{f"Reduce{kind}": [1] for kind in REDUCTIONS},
}

# Floats of 16 to 64 bits, integers of 8 to 64 bits, truth values.
ELEMENT_TYPES = (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13)

# Forms of the inputs: all but the parameters live, or the first of them live and the others stored.
FORMS = ("live", "constant")


class Case:
    """A test: its operator, its models by form with the files of their live inputs, and its expected outputs."""

    def __init__(self, name, operator, excluded, tolerance):
        self.name, self.operator, self.excluded, self.tolerance = name, operator, excluded, tolerance
        self.runs = {}
        self.outputs = []


def cases(folder, match, every=1):
    """Writes the models and inputs of the installed package's tests, or of one in `every`, into a folder and gives them."""
    import numpy
    import onnx
    from onnx.backend.test.loader import load_model_tests

    def array(value):
        if isinstance(value, onnx.TensorProto):
            value = onnx.numpy_helper.to_array(value)
        return value if isinstance(value, numpy.ndarray) else numpy.asarray(value)

    def excluded(model):
        for info in [*model.graph.input, *model.graph.output]:
            if not info.type.HasField("tensor_type"):
                return "no tensors"
            tensor = info.type.tensor_type
            if any(not d.HasField("dim_value") for d in tensor.shape.dim):
                return "symbolic extents"
            if any(d.dim_value == 0 for d in tensor.shape.dim):
                return "no elements"
            if tensor.elem_type not in ELEMENT_TYPES:
                return "element types"
        return ""

    def parameters(model):
        """Names of the inputs that the first node uses as parameters."""
        names = {i.name for i in model.graph.input}
        node = model.graph.node[0]
        return {node.input[i] for i in PARAMETERS.get(node.op_type, ()) if i < len(node.input)} & names

    def store(case, form, model, inputs, names):
        """Writes the model with these inputs as initializers, and the other inputs."""
        stored = onnx.ModelProto()
        stored.CopyFrom(model)
        del stored.graph.input[:]
        live = []
        for at, (info, value) in enumerate(zip(model.graph.input, inputs)):
            if info.name in names:
                stored.graph.initializer.append(onnx.numpy_helper.from_array(array(value), info.name))
            else:
                stored.graph.input.append(info)
                file = folder / f"{case.name}.{at}.npy"
                numpy.save(file, numpy.ascontiguousarray(array(value)))
                live.append((info.name, file))
        path = folder / form / f"{case.name}.onnx"
        onnx.save(stored, path)
        case.runs[form] = (path, live)

    for form in FORMS:
        (folder / form).mkdir(parents=True, exist_ok=True)
    tests = [t for t in load_model_tests(kind="node") if match in t.name]
    single = {t.name: t.model for t in tests if len(t.model.graph.node) == 1}
    found = []
    for test in sorted(tests, key=lambda t: t.name)[::every]:
        model = test.model
        base = single.get(test.name.split("_expanded")[0], model)
        operator = base.graph.node[0].op_type if base.graph.node else "?"
        case = Case(test.name.removeprefix("test_"), operator, excluded(model), (test.rtol, test.atol))
        found.append(case)
        if case.excluded:
            continue
        [(inputs, outputs)] = test.data_sets
        case.outputs = [(info.name, array(value)) for info, value in zip(model.graph.output, outputs)]
        stored = parameters(base)
        store(case, "live", model, inputs, stored)
        others = [i.name for i in model.graph.input if i.name not in stored][1:]
        if others:
            store(case, "constant", model, inputs, stored | set(others))
    return found
