//! Names of units: by the `Type` of a netplist, by the compiler's catalogue and by the dialect of its backend
//! (`anec.matmul`, `anec.gain_offset_control`), and the keys of units that are translated to operations of the graph.

use super::params::KeyType::{self, Axes, Entries, Flag, Half, Integer, Integers, Word};
use super::{AXIS, EXTENT, Key, MIL_PREFIX, PAD, SCHEMAS, Schema, plain};

/// A unit that is translated to operations of the graph, with the keys of its `Params`.
#[derive(Debug)]
pub struct GraphUnit {
    /// `Type` of the unit.
    pub tag: &'static str,
    /// Keys that the reader uses; those whose values it only checks are omitted.
    pub keys: &'static [Key],
}

/// The unit that a name denotes.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// `Type` of the unit.
    pub tag: &'static str,
    /// Keys of its parameters.
    pub keys: &'static [Key],
    /// The schema, if the unit is a native layer of the graph.
    pub schema: Option<&'static Schema>,
    /// Parameters that the name implies.
    pub implied: &'static [(&'static str, &'static str)],
}

impl Named {
    /// The key that equals a word except for case and underscores.
    pub fn key_of_word(&self, word: &str) -> Option<&'static str> {
        self.keys.iter().map(|k| k.name).find(|name| plain(name) == plain(word))
    }

    /// The unit that the name denotes with these operands, `true` for a constant: gains and offsets computed at run time belong to
    /// the dynamic unit.
    pub fn with(self, constants: &[bool]) -> Named {
        let computed = constants.iter().skip(1).any(|constant| !constant);
        match self.tag {
            "GOC" if computed => named("DynamicGOC").unwrap_or(self),
            _ => self,
        }
    }

    /// The key of a name.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|k| k.name == name)
    }
}

const fn key(name: &'static str, ty: KeyType, default: &'static str) -> Key {
    Key { name, ty, default }
}

const STEP: Key = key("Step", Integers(1, 32), "[1, 1, 1]");
const PADS: [Key; 6] = [
    key("PadLeft", PAD, "0"),
    key("PadRight", PAD, "0"),
    key("PadTop", PAD, "0"),
    key("PadBot", PAD, "0"),
    key("PadFront", PAD, "0"),
    key("PadBack", PAD, "0"),
];
const WINDOW: [Key; 3] =
    [key("KernelWidth", EXTENT, "1"), key("KernelHeight", EXTENT, "1"), key("KernelDepth", EXTENT, "1")];
const CONV: &[Key] = &[
    key("Type", Word(&["Conv"]), "Conv"),
    WINDOW[0],
    WINDOW[1],
    WINDOW[2],
    key("KernelType", Word(&["Float16", "Float32", "Int8", "UInt8"]), ""),
    key("KernelIndex", Integer(0, 1 << 30), "0"),
    key("KernelOffset", Integer(0, 1 << 30), "0"),
    STEP,
    key("KernelDilationX", EXTENT, "1"),
    key("KernelDilationY", EXTENT, "1"),
    PADS[0],
    PADS[1],
    PADS[2],
    PADS[3],
    PADS[4],
    PADS[5],
    key("Groups", EXTENT, "1"),
    key("NumGroups", EXTENT, "1"),
];

/// Functions of the unit `Neuron`.
pub const NEURONS: &[&str] = &[
    "ReLU",
    "Sigmoid",
    "SigmoidHighPrecision",
    "Tanh",
    "Sign",
    "GELU",
    "Sqrt",
    "Rsqrt",
    "Inv",
    "Exp2",
    "Log2",
    "Sin",
    "Cos",
    "Ceil",
    "Floor",
    "RoundNearest",
    "ELU",
    "LeakyReLU",
    "ClampedReLU",
];

/// Functions of the unit `ElementWise`.
const PAIRS: &[&str] = &["Add", "Sub", "Mult", "Max", "Min", "Abs", "GreaterThan", "LessThan", "Equal", "NotEqual"];

/// Every unit that is translated to operations of the graph.
pub static GRAPH_UNITS: &[GraphUnit] = &[
    GraphUnit { tag: "Conv", keys: CONV },
    GraphUnit { tag: "Linear", keys: CONV },
    GraphUnit {
        tag: "Pooling",
        keys: &[
            key("Type", Word(&["Max", "Avg"]), ""),
            WINDOW[0],
            WINDOW[1],
            WINDOW[2],
            STEP,
            PADS[0],
            PADS[1],
            PADS[2],
            PADS[3],
            PADS[4],
            PADS[5],
            key("PaddingMode", Word(&["Zero", "Negative"]), "Zero"),
            key("AverageCountExcludePadding", Flag, "false"),
        ],
    },
    GraphUnit {
        tag: "GOC",
        keys: &[
            key("ScaleScalar", Half, "1.0"),
            key("BiasScalar", Half, "0.0"),
            key("BiasScaleGroupData", Entries("counts, types, files and offsets of scales and biases"), "[]"),
        ],
    },
    GraphUnit {
        tag: "Neuron",
        keys: &[
            key("Type", Word(NEURONS), ""),
            key("EluAlpha", Half, "1.0"),
            key("ReluSlope", Half, "0.0"),
            key("ReluOffset", Half, "0.0"),
            key("ReluMin", Half, "0.0"),
            key("ReluMax", Half, "6.0"),
        ],
    },
    GraphUnit { tag: "ElementWise", keys: &[key("Type", Word(PAIRS), ""), key("Scale", Half, "1.0")] },
    GraphUnit { tag: "ScaledElementWise", keys: &[key("Type", Word(PAIRS), ""), key("Scale", Half, "1.0")] },
    GraphUnit {
        tag: "Reduction",
        keys: &[key("Type", Word(&["Sum", "Avg", "Max", "Min"]), ""), key("Dimension", Axes, "")],
    },
    GraphUnit { tag: "Softmax", keys: &[key("Dimension", AXIS, "")] },
    GraphUnit { tag: "Concat", keys: &[key("Dimension", AXIS, "Channel")] },
    GraphUnit {
        tag: "Reshape",
        keys: &[
            key("ReshapedBatch", EXTENT, "1"),
            key("ReshapedChannel", EXTENT, "1"),
            key("ReshapedDepth", EXTENT, "1"),
            key("ReshapedHeight", EXTENT, "1"),
            key("ReshapedWidth", EXTENT, "1"),
        ],
    },
    GraphUnit {
        tag: "Transpose",
        keys: &[key(
            "TransposeDimensions",
            Entries("list of {TransposeDestinationDimension, TransposeSourceDimension}"),
            "",
        )],
    },
    GraphUnit {
        tag: "InputView",
        keys: &[key("Dimension", AXIS, ""), key("Offset", PAD, "0"), key("Size", EXTENT, ""), key("Step", EXTENT, "1")],
    },
    GraphUnit { tag: "Broadcast", keys: &[key("BroadcastInfo", Entries("list of {Dimension, Size}"), "")] },
];

/// An alias, its unit, and the parameter that it implies with its value.
type Other = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Aliases: the names of the catalogue's constructors and of the backend's dialect, with the parameters they imply.
static OTHERS: &[Other] = &[
    ("convolution", "Conv", &[]),
    ("ne_conv", "Conv", &[]),
    ("pool", "Pooling", &[]),
    ("average_pool", "Pooling", &[("Type", "Avg")]),
    ("avg_pool", "Pooling", &[("Type", "Avg")]),
    ("max_pool", "Pooling", &[("Type", "Max")]),
    ("gain_offset_control", "GOC", &[]),
    ("dynamic_gain_offset_control", "DynamicGOC", &[]),
    ("matmul", "MatrixMultiplication", &[]),
    ("matrix_mult", "MatrixMultiplication", &[]),
    ("scaled_dot_product_attention", "SDPA", &[]),
    ("add", "ElementWise", &[("Type", "Add")]),
    ("sub", "ElementWise", &[("Type", "Sub")]),
    ("mult", "ElementWise", &[("Type", "Mult")]),
    ("mul", "ElementWise", &[("Type", "Mult")]),
    ("max", "ElementWise", &[("Type", "Max")]),
    ("min", "ElementWise", &[("Type", "Min")]),
    ("abs", "ElementWise", &[("Type", "Abs")]),
    ("greater_than", "ElementWise", &[("Type", "GreaterThan")]),
    ("less_than", "ElementWise", &[("Type", "LessThan")]),
    ("equal", "ElementWise", &[("Type", "Equal")]),
    ("not_equal", "ElementWise", &[("Type", "NotEqual")]),
    ("reduce_sum", "Reduction", &[("Type", "Sum")]),
    ("reduce_avg", "Reduction", &[("Type", "Avg")]),
    ("reduce_mean", "Reduction", &[("Type", "Avg")]),
    ("reduce_max", "Reduction", &[("Type", "Max")]),
    ("reduce_min", "Reduction", &[("Type", "Min")]),
    ("relu", "Neuron", &[("Type", "ReLU")]),
    ("sigmoid", "Neuron", &[("Type", "Sigmoid")]),
    ("tanh", "Neuron", &[("Type", "Tanh")]),
    ("sign", "Neuron", &[("Type", "Sign")]),
    ("gelu", "Neuron", &[("Type", "GELU")]),
    ("sqrt", "Neuron", &[("Type", "Sqrt")]),
    ("rsqrt", "Neuron", &[("Type", "Rsqrt")]),
    ("inv", "Neuron", &[("Type", "Inv")]),
    ("exp2", "Neuron", &[("Type", "Exp2")]),
    ("log2", "Neuron", &[("Type", "Log2")]),
    ("ceil", "Neuron", &[("Type", "Ceil")]),
    ("floor", "Neuron", &[("Type", "Floor")]),
    ("round_nearest", "Neuron", &[("Type", "RoundNearest")]),
    ("elu", "Neuron", &[("Type", "ELU")]),
    ("leaky_relu", "Neuron", &[("Type", "LeakyReLU")]),
    ("clamped_relu", "Neuron", &[("Type", "ClampedReLU")]),
    ("min_max_norm", "MinMaxNormalization", &[]),
    ("range_norm", "MinMaxNormalization", &[]),
    ("lrn", "LocalResponseNormalization", &[]),
    ("layer_norm", "LayerNormalization", &[]),
    ("instance_norm", "InstanceNormalization", &[]),
    ("l2_norm", "L2Normalization", &[]),
    ("pad", "Padding", &[]),
];

/// The unit that a word denotes, independent of case and underscores, with or without the prefix `anec.`.
pub fn named(word: &str) -> Option<Named> {
    let word = plain(word.strip_prefix(MIL_PREFIX).unwrap_or(word));
    let exact = |tag: &str| -> Option<Named> {
        if let Some(schema) = SCHEMAS.iter().find(|s| plain(s.tag) == tag) {
            return Some(Named { tag: schema.tag, keys: schema.keys, schema: Some(schema), implied: &[] });
        }
        let unit = GRAPH_UNITS.iter().find(|u| plain(u.tag) == tag)?;
        Some(Named { tag: unit.tag, keys: unit.keys, schema: None, implied: &[] })
    };
    exact(&word).or_else(|| {
        let (_, tag, implied) = OTHERS.iter().find(|(other, ..)| plain(other) == word)?;
        Some(Named { implied, ..exact(&plain(tag))? })
    })
}

/// Every name that [`named`] accepts.
pub fn names() -> impl Iterator<Item = &'static str> {
    let tags = SCHEMAS.iter().map(|s| s.tag).chain(GRAPH_UNITS.iter().map(|u| u.tag));
    tags.chain(OTHERS.iter().map(|(other, ..)| *other))
}

/// The known name that is closest to a word.
pub fn nearest(word: &str) -> Option<&'static str> {
    super::params::nearest(word, names())
}
