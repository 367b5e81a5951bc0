//! Numbers of operands of the ONNX operators, least and greatest over opsets 7 to 28; facts of the public operator schemas.

use super::node::Node;
use crate::error::Error;

/// The greatest number of a list of operands.
const ANY: usize = usize::MAX;

/// Least and greatest number of operands, and the operators that take it.
#[rustfmt::skip]
pub const COUNTS: &[(usize, usize, &str)] = &[
    (0, 0, "Constant RandomNormal RandomUniform SequenceEmpty"),
    (0, 1, "Optional OptionalHasElement"),
    (1, 1, "Abs Acos Acosh ArgMax ArgMin Asin Asinh Atan Atanh AveragePool Bernoulli BitCast BitwiseNot BlackmanWindow Cast Ceil Celu ConcatFromSequence ConstantOfShape Cos Cosh DepthToSpace Det DynamicQuantizeLinear Elu Erf Exp EyeLike Flatten Floor Gelu GlobalAveragePool GlobalLpPool GlobalMaxPool HammingWindow HannWindow HardSigmoid HardSwish Hardmax Identity If ImageDecoder IsInf IsNaN LRN LeakyRelu Log LogSoftmax LpNormalization LpPool MaxPool MeanVarianceNormalization Mish Multinomial Neg NonZero Not OptionalGetElement RandomNormalLike RandomUniformLike Reciprocal RegexFullMatch Relu Round Selu SequenceLength Shape Shrink Sigmoid Sign Sin Sinh Size Softmax Softplus Softsign SpaceToDepth Sqrt StringNormalizer StringSplit Swish Tan Tanh TfIdfVectorizer ThresholdedRelu Transpose Unique"),
    (1, 2, "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare SequenceErase Split SplitToSequence Squeeze TopK Trilu Unsqueeze Upsample"),
    (1, 3, "Clip DFT Dropout"),
    (1, 4, "Pad Resize"),
    (1, 5, "Slice"),
    (1, ANY, "Concat Einsum Max Mean Min Scan SequenceConstruct SequenceMap Sum"),
    (2, 2, "Add AffineGrid And BitShift BitwiseAnd BitwiseOr BitwiseXor CastLike CenterCropPad Compress CumProd CumSum Div Equal Expand Gather GatherElements GatherND Greater GreaterOrEqual GridSample Less LessOrEqual MatMul MaxRoiPool Mod Mul Or PRelu Pow RMSNormalization Reshape ReverseSequence SequenceAt StringConcat Sub SwiGLU Tile Xor"),
    (2, 3, "Conv ConvTranspose DequantizeLinear Gemm LayerNormalization MaxUnpool NegativeLogLikelihoodLoss QuantizeLinear SequenceInsert SoftmaxCrossEntropyLoss TensorScatter"),
    (2, 4, "CausalConvWithState ConvInteger MatMulInteger STFT"),
    (2, 5, "NonMaxSuppression"),
    (2, ANY, "Loop"),
    (3, 3, "Col2Im GroupNormalization InstanceNormalization OneHot Range RoiAlign Scatter ScatterElements ScatterND Where"),
    (3, 4, "RotaryEmbedding"),
    (3, 5, "DeformConv"),
    (3, 6, "GRU LinearAttention RNN"),
    (3, 7, "Attention"),
    (3, 8, "LSTM"),
    (5, 5, "BatchNormalization MelWeightMatrix"),
    (8, 8, "QLinearMatMul"),
    (8, 9, "QLinearConv"),
];

/// Operators whose first operands may be left out by an empty name.
const OPEN: [&str; 1] = ["Loop"];

/// Refuses a node with another number of operands than its operator takes. Operands left out behind the last given one do not count.
pub fn check(node: &Node) -> Result<(), Error> {
    let op = node.op();
    let Some(&(least, most, _)) = COUNTS.iter().find(|row| row.2.split(' ').any(|name| name == op)) else {
        return Ok(());
    };
    let given = node.inputs.iter().rposition(Option::is_some).map_or(0, |at| at + 1);
    let found = if given > most { given } else { node.inputs.len().min(most) };
    if !(least..=most).contains(&found) {
        return Err(Error::Arity { kind: op.to_string(), found, least, most }.in_op(&node.place()));
    }
    // A sequence has a name and no value.
    let mut operands = node.inputs.iter().zip(&node.node.input).take(least);
    let missing = operands.position(|(id, name)| id.is_none() && name.is_empty());
    match missing.filter(|_| !OPEN.contains(&op)) {
        Some(at) => Err(node.missing(&format!("input {at}"))),
        None => Ok(()),
    }
}
