//! Templates: each native layer applied to small operands, for templates on the command line, tests and documents.

use anemone_facts::chips::Chip;
use anemone_facts::native::{Native as Row, ParamType};
use anemone_net::native::Native;
use anemone_net::{
    Binary, DType, Data, Net, Op, OpKind, PoolKind, ReduceKind, Tensor, TensorType, Unary, Value, ValueId, infer,
};
use std::sync::Arc;

/// Extents of an operand.
type Extents = [usize; 4];

/// A layer with operands: named inputs, constants, and the parameters without a default value.
struct Template {
    stem: &'static str,
    inputs: &'static [(&'static str, Extents)],
    constants: &'static [(&'static str, Extents, &'static [f32])],
    params: &'static [(&'static str, &'static str)],
}

macro_rules! templates {
    ( $( $stem:literal [ $( $input:ident $shape:expr ),* ] [ $( $constant:ident $extents:expr, $values:expr );* ]
         { $( $key:literal $value:literal ),* } )* ) => {
        static TEMPLATES: &[Template] = &[ $( Template {
            stem: $stem, inputs: &[ $( (stringify!($input), $shape) ),* ],
            constants: &[ $( (stringify!($constant), $extents, &$values) ),* ], params: &[ $( ($key, $value) ),* ],
        } ),* ];
    };
}

templates! {
    "SDPA" [q [1, 8, 197, 64], k [1, 8, 197, 64], v [1, 8, 197, 64]] [scale [1, 1, 1, 1], [0.125]] { "SubtractMax" "true" }
    "Sort" [x [1, 4, 1, 40]] [] { "Direction" "Ascending", "SortDimension" "Width" }
    "TopK" [x [1, 4, 1, 40]] [] { "Type" "Max", "K" "5", "SortDimension" "Width", "Indices" "true" }
    "ArgMinMax" [x [1, 6, 4, 8]] [] { "Mode" "SpatialArgMax", "KernelWidth" "8", "KernelHeight" "4" }
    "GlobalArgMinMax" [x [1, 4, 1, 40]] [] { "Type" "Max", "Dimension" "Width" }
    "PixelShuffle" [x [1, 12, 3, 5]] [] { "FactorX" "2", "FactorY" "3" }
    "PixelUnshuffle" [x [1, 3, 6, 8]] [] { "FactorX" "2", "FactorY" "3" }
    "ChannelToSpace" [x [1, 12, 3, 5]] [] { "FactorX" "2", "FactorY" "3" }
    "SpaceToChannel" [x [1, 3, 6, 8]] [] { "FactorX" "2", "FactorY" "3" }
    "SpaceToBatch" [x [2, 3, 6, 8]] [] { "FactorX" "2", "FactorY" "3" }
    "BatchToSpace" [x [12, 2, 3, 4]] [] { "FactorX" "2", "FactorY" "3" }
    "MinMaxNorm" [x [1, 3, 5, 40]] [] { "Dimension" "Width", "Epsilon" "0.001" }
    "LRN" [x [1, 8, 4, 6]] [] { "KernelChannel" "5", "Alpha" "1.0", "Beta" "0.75", "K" "1.0" }
    "DynamicGOC" [x [1, 8, 4, 6], scale [1, 8, 1, 1], bias [1, 8, 1, 1]] [] {}
    "CrossCorrelation" [x [1, 1, 8, 9], template [1, 1, 1, 6]] [] { "TemplateWidth" "3", "TemplateHeight" "2" }
    "CrossProduct" [x [1, 3, 1, 1], z [1, 3, 1, 1]] [] {}
    "FurthestPointSampling" [points [1, 3, 1, 40]] [] { "CentroidCount" "6" }
    "RadiusSearch" [centroids [1, 3, 1, 5], points [1, 3, 1, 40]] [] { "Radius" "1.5" }
    "CostVolume" [aux [1, 1, 3, 20], reference [1, 1, 3, 24]] [] { "DisparityRange" "4" }
    "DynamicSlice" [x [1, 3, 4, 20]] [start [1, 1, 1, 1], [7.0]] {
        "DynamicSliceAxisOrder" "[3]", "DynamicSliceInfo" "[3, 6]", "CoordinateInfo" "[3, 0]", "PaddingInfo" "[3, 0]"
    }
    "Tile" [x [1, 3, 4, 5]] [] { "TileHeight" "2", "TileWidth" "3" }
    "Flatten" [x [1, 3, 4, 5]] [] {}
    "Unflatten" [x [1, 1, 1, 60]] [] { "DestinationChannels" "3", "DestinationHeight" "4", "DestinationWidth" "5" }
    "Dropout" [x [1, 3, 4, 5]] [] {}
    "MatrixMult" [x [1, 9, 1, 40], z [1, 40, 1, 24]] [] {}
    "LayerNorm" [x [1, 6, 5, 40]] [] { "Dimension" "[3]", "Epsilon" "0.001" }
    "InstanceNorm" [x [1, 6, 7, 8]] [] { "Epsilon" "0.001" }
    "L2Norm" [x [1, 6, 5, 40]] [] { "Dimension" "[3]", "Epsilon" "0.001" }
    "Pad" [x [1, 3, 5, 6]] [] { "PadLeft" "3", "PadBot" "2" }
    "Gather" [x [1, 3, 4, 20]] [indices [1, 1, 1, 5], [3.0, 0.0, 19.0, 7.0, 7.0]] { "GatherNDAxes" "[3]" }
    "Resize" [x [1, 3, 5, 6]] [] { "Height" "10", "Width" "18" }
    "ResizeAs" [x [1, 3, 5, 6], like [1, 1, 10, 12]] [] {}
    "CropResize" [x [1, 3, 9, 12]] [boxes [1, 4, 1, 2], [0.0, 1.5, 0.0, 3.0, 4.0, 8.5, 5.0, 10.0]] {
        "CropHeight" "4", "CropWidth" "5"
    }
    "Resample" [x [1, 3, 5, 6], warp [1, 2, 4, 7]] [] {}
    "AffineTransform" [x [1, 3, 8, 9]] [matrix [1, 1, 1, 6], [0.75, 0.25, 0.5, -0.25, 0.75, 1.0]] {
        "Height" "8", "Width" "9"
    }
    "RingBufferWriter" [state [1, 3, 1, 16], x [1, 3, 1, 6]] [] { "Dimension" "Width", "Offset" "13", "Circular" "true" }
    "RingBufferReader" [state [1, 3, 1, 16]] [] { "Dimension" "Width", "Offset" "13", "Size" "6", "Circular" "true" }
    "Shape" [x [1, 3, 4, 5]] [] {}

    "Conv" [x [1, 4, 6, 7]] [weight [8, 4, 1, 1], [0.25; 32]] {}
    "Linear" [x [1, 4, 1, 7]] [weight [8, 4, 1, 1], [0.25; 32]] {}
    "Pool" [x [1, 4, 6, 8]] [] {}
    "GOC" [x [1, 4, 6, 7]] [scale [1, 1, 1, 1], [1.5]] {}
    "Neuron" [x [1, 4, 6, 7]] [] {}
    "ElementWise" [x [1, 4, 6, 7]] [] {}
    "ScaledElementWise" [x [1, 4, 6, 7], z [1, 4, 6, 7]] [] {}
    "Reduction" [x [1, 4, 6, 7]] [] {}
    "Softmax" [x [1, 4, 6, 7]] [] {}
    "Concat" [x [1, 4, 6, 7], z [1, 2, 6, 7]] [] {}
    "Reshape" [x [1, 4, 6, 7]] [] {}
    "Transpose" [x [1, 4, 6, 7]] [] {}
    "InputView" [x [1, 4, 6, 7]] [] {}
    "Broadcast" [x [1, 4, 1, 7]] [] {}
}

/// The operation of a layer that readers translate into one of the graph, and its result type where it cannot be inferred.
fn of_graph(stem: &str) -> Option<(OpKind, Option<Extents>)> {
    let plain = |kind| Some((kind, None));
    match stem {
        "Conv" | "Linear" => {
            plain(OpKind::Conv { strides: vec![1; 2], pads: vec![(0, 0); 2], dilations: vec![1; 2], groups: 1 })
        }
        "Pool" => plain(OpKind::Pool {
            kind: PoolKind::Max,
            kernel: vec![2; 2],
            strides: vec![2; 2],
            pads: vec![(0, 0); 2],
            ceil_mode: false,
        }),
        "GOC" => plain(OpKind::Binary(Binary::Mul)),
        "Neuron" => plain(OpKind::Unary(Unary::Relu)),
        "ElementWise" => plain(OpKind::Unary(Unary::Abs)),
        "ScaledElementWise" => plain(OpKind::Binary(Binary::Add)),
        "Reduction" => plain(OpKind::Reduce { kind: ReduceKind::Max, axes: vec![3], keep_dims: true }),
        "Softmax" => plain(OpKind::Softmax { axis: 3 }),
        "Concat" => plain(OpKind::Concat { axis: 1 }),
        "Reshape" => Some((OpKind::Reshape, Some([1, 4, 42, 1]))),
        "Transpose" => plain(OpKind::Transpose { perm: vec![0, 1, 3, 2] }),
        "InputView" => plain(OpKind::Slice { begin: vec![0, 0, 0, 2], end: vec![1, 4, 6, 6], stride: vec![1; 4] }),
        "Broadcast" => Some((OpKind::Broadcast, Some([1, 4, 6, 7]))),
        _ => None,
    }
}

/// A network of the layer alone, with operands of small extents. `None` for rows that no format can express.
pub fn network(row: &Row) -> Option<Net> {
    let template = TEMPLATES.iter().find(|t| t.stem == row.stem)?;
    let (kind, declared) = match of_graph(row.stem) {
        Some(found) => found,
        None => (OpKind::Native(Box::new(Native::named(row.tag, template.params).ok()?)), None),
    };
    let mut net = Net { name: row.stem.to_string(), ..Net::default() };
    let mut operands: Vec<ValueId> = Vec::new();
    let value = |name: &str, ty, data| Value { name: name.to_string(), ty, data, surface: None };
    for &(name, shape) in template.inputs {
        let id = net.add_value(value(name, TensorType::new(DType::F16, shape), None));
        net.inputs.push(id);
        operands.push(id);
    }
    for &(name, shape, values) in template.constants {
        let tensor = Tensor { shape: shape.to_vec(), data: Data::from_f32(DType::F16, values) };
        operands.push(net.add_value(value(name, tensor.ty(), Some(Arc::new(tensor)))));
    }
    let types: Vec<&TensorType> = operands.iter().map(|&id| &net.value(id).ty).collect();
    let declared = declared.map(|shape| TensorType::new(DType::F16, shape));
    let ty = infer::infer(&kind, &types, declared.as_ref()).ok()?.swap_remove(0);
    let result = net.add_value(value("y", ty, None));
    net.ops.push(Op { name: "y".to_string(), kind, inputs: operands, outputs: vec![result] });
    net.outputs.push(result);
    Some(net)
}

/// The first chip that accepts the layer as its template has it.
pub fn first_chip(row: &Row) -> Option<&'static Chip> {
    super::first_chip(&network(row)?)
}

/// Text of a parameter's type and range.
pub fn type_text(ty: &ParamType) -> String {
    match ty {
        ParamType::Flag => "true or false".into(),
        ParamType::Integer(least, most) if least == most => format!("integer, only {least}"),
        ParamType::Integer(least, most) => format!("integer, {least} to {most}"),
        ParamType::Half => "fp16, as the integer of its bits".into(),
        ParamType::Real => "number".into(),
        ParamType::Word(words) => words.join(" | "),
        ParamType::Axes => "list of Batch, Channel, Height, Width".into(),
        ParamType::Integers(least, most) => format!("list of integers, {least} to {most}"),
        ParamType::PerAxis(key, []) => format!("list of {{Coordinate, {key}: integer}}"),
        ParamType::PerAxis(key, words) => format!("list of {{Coordinate, {key}: {}}}", words.join(" | ")),
    }
}
