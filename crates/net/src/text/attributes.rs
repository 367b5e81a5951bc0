//! Attributes of operations as named values: one table for printing, one for parsing.

use crate::error::TextFault;
use crate::graph::Net;
use crate::native::{Native, Param, Schema};
use crate::ops::unary::Row;
use crate::ops::{
    Binary, Coordinates, EdgeMode, GeluMode, OpKind, Outside, PoolKind, ReduceKind, ResizeMode, ScatterMode, Unary,
};
use crate::ops::{Loop, Scan};

const RESIZE_MODES: [(&str, ResizeMode); 2] = [("nearest", ResizeMode::Nearest), ("linear", ResizeMode::Linear)];

/// Value of an attribute. Numbers stay text until their type is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// A number or a word.
    Word(String),
    /// A quoted text.
    Text(String),
    List(Vec<Attribute>),
}

impl Attribute {
    fn size(value: usize) -> Attribute {
        Attribute::Word(value.to_string())
    }

    fn float(value: f32) -> Attribute {
        Attribute::Word(format!("{value:?}").to_lowercase())
    }

    fn flag(value: bool) -> Attribute {
        Attribute::Word(value.to_string())
    }

    fn word(value: &str) -> Attribute {
        Attribute::Word(value.to_string())
    }

    fn sizes(values: &[usize]) -> Attribute {
        Attribute::List(values.iter().map(|&v| Attribute::size(v)).collect())
    }

    /// The word for a variant.
    fn choose<T: PartialEq>(choices: &[(&'static str, T)], value: &T) -> Attribute {
        Attribute::word(choices.iter().find(|(_, v)| v == value).map_or("", |(word, _)| word))
    }

    fn param(value: &Param) -> Attribute {
        match value {
            Param::List(list) => Attribute::List(list.iter().map(|v| Attribute::Word(v.to_string())).collect()),
            other => Attribute::Word(other.text()),
        }
    }

    /// The value in the text form, without quotes.
    fn plain(&self) -> String {
        match self {
            Attribute::Word(text) | Attribute::Text(text) => text.clone(),
            Attribute::List(items) => {
                format!("[{}]", items.iter().map(Attribute::plain).collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn pairs(values: &[(usize, usize)]) -> Attribute {
        Attribute::List(values.iter().map(|&(a, b)| Attribute::sizes(&[a, b])).collect())
    }
}

fn suppression(kind: &OpKind) -> Vec<(&'static str, Attribute)> {
    let OpKind::Suppress { overlap, score_threshold, most, per_class } = kind else { return Vec::new() };
    vec![
        ("overlap", Attribute::float(*overlap)),
        ("score_threshold", Attribute::float(*score_threshold)),
        ("most", Attribute::size(*most)),
        ("per_class", Attribute::flag(*per_class)),
    ]
}

/// Attributes of a loop, except its body, which the printer writes because its constants are in the table of the whole text.
fn looped(l: &Loop) -> Vec<(&'static str, Attribute)> {
    let scans = |all: &[Scan]| {
        Attribute::List(all.iter().map(|s| Attribute::sizes(&[s.axis, usize::from(s.backwards)])).collect())
    };
    vec![
        ("turns", Attribute::size(l.turns)),
        ("carried", Attribute::size(l.carried)),
        ("scanned", scans(&l.scanned)),
        ("collected", scans(&l.collected)),
    ]
}

/// Attributes of an operation in printing order.
pub fn attributes(kind: &OpKind) -> Vec<(&'static str, Attribute)> {
    match kind {
        OpKind::Conv { strides, pads, dilations, groups } => vec![
            ("strides", Attribute::sizes(strides)),
            ("pads", Attribute::pairs(pads)),
            ("dilations", Attribute::sizes(dilations)),
            ("groups", Attribute::size(*groups)),
        ],
        OpKind::ConvTranspose { strides, pads, output_pads, dilations, groups } => vec![
            ("strides", Attribute::sizes(strides)),
            ("pads", Attribute::pairs(pads)),
            ("output_pads", Attribute::sizes(output_pads)),
            ("dilations", Attribute::sizes(dilations)),
            ("groups", Attribute::size(*groups)),
        ],
        OpKind::MatMul { transpose_x, transpose_y } => {
            vec![("transpose_x", Attribute::flag(*transpose_x)), ("transpose_y", Attribute::flag(*transpose_y))]
        }
        OpKind::Unary(unary) => unary_attributes(unary),
        OpKind::Pool { kind, kernel, strides, pads, ceil_mode } => {
            let mut list = vec![
                ("kernel", Attribute::sizes(kernel)),
                ("strides", Attribute::sizes(strides)),
                ("pads", Attribute::pairs(pads)),
                ("ceil_mode", Attribute::flag(*ceil_mode)),
            ];
            if let PoolKind::Average { exclude_padding } = kind {
                list.push(("exclude_padding", Attribute::flag(*exclude_padding)));
            }
            list
        }
        OpKind::Reduce { axes, keep_dims, .. } => {
            vec![("axes", Attribute::sizes(axes)), ("keep_dims", Attribute::flag(*keep_dims))]
        }
        OpKind::Softmax { axis } | OpKind::Concat { axis } | OpKind::Gather { axis } => {
            vec![("axis", Attribute::size(*axis))]
        }
        OpKind::GatherAlong { axis } => vec![("axis", Attribute::size(*axis))],
        OpKind::GatherNd { batch_dims } => vec![("batch_dims", Attribute::size(*batch_dims))],
        OpKind::ScatterAlong { axis, mode } => {
            vec![("axis", Attribute::size(*axis)), ("mode", Attribute::choose(&ScatterMode::ALL, mode))]
        }
        OpKind::ScatterNd { mode } => vec![("mode", Attribute::choose(&ScatterMode::ALL, mode))],
        OpKind::ArgReduce { last, axis, keep_dims, .. } => vec![
            ("last", Attribute::flag(*last)),
            ("axis", Attribute::size(*axis)),
            ("keep_dims", Attribute::flag(*keep_dims)),
        ],
        OpKind::ArgSort { axis, descending } => {
            vec![("axis", Attribute::size(*axis)), ("descending", Attribute::flag(*descending))]
        }
        OpKind::Suppress { .. } => suppression(kind),
        OpKind::Sample { mode, outside } => {
            let mut list =
                vec![("mode", Attribute::choose(&RESIZE_MODES, mode)), ("outside", Attribute::word(outside.name()))];
            if let Outside::Value(value) = outside {
                list.push(("value", Attribute::float(*value)));
            }
            list
        }
        OpKind::Transpose { perm } => vec![("perm", Attribute::sizes(perm))],
        OpKind::Slice { begin, end, stride } => vec![
            ("begin", Attribute::sizes(begin)),
            ("end", Attribute::sizes(end)),
            ("stride", Attribute::sizes(stride)),
        ],
        OpKind::BatchNorm { epsilon } | OpKind::InstanceNorm { epsilon } => {
            vec![("epsilon", Attribute::float(*epsilon))]
        }
        OpKind::Native(native) => native.params().map(|(key, value)| (key.name, Attribute::param(value))).collect(),
        OpKind::LayerNorm { axes, epsilon } => {
            vec![("axes", Attribute::sizes(axes)), ("epsilon", Attribute::float(*epsilon))]
        }
        OpKind::Pad { pads, value } => vec![("pads", Attribute::pairs(pads)), ("value", Attribute::float(*value))],
        OpKind::PadEdge { pads, mode } => {
            let mode = match mode {
                EdgeMode::Reflect => "reflect",
                EdgeMode::Replicate => "replicate",
            };
            vec![("pads", Attribute::pairs(pads)), ("mode", Attribute::word(mode))]
        }
        OpKind::Resize { mode, coordinates } => {
            let mode = Attribute::choose(&RESIZE_MODES, mode);
            let coordinates = match coordinates {
                Coordinates::Asymmetric => "asymmetric",
                Coordinates::HalfPixel => "half_pixel",
                Coordinates::AlignCorners => "align_corners",
            };
            vec![("mode", mode), ("coordinates", Attribute::word(coordinates))]
        }
        OpKind::Loop(l) => looped(l),
        OpKind::Linear
        | OpKind::Combine
        | OpKind::Binary(_)
        | OpKind::Select
        | OpKind::Reshape
        | OpKind::Broadcast
        | OpKind::Cast => vec![],
    }
}

fn unary_attributes(unary: &Unary) -> Vec<(&'static str, Attribute)> {
    let Some(row) = unary.row() else {
        let Unary::Gelu(mode) = unary else { return vec![] };
        let mode = match mode {
            GeluMode::Exact => "exact",
            GeluMode::Tanh => "tanh",
            GeluMode::Sigmoid => "sigmoid",
        };
        return vec![("mode", Attribute::word(mode))];
    };
    row.params.iter().zip(unary.params()).map(|(param, value)| (param.name, Attribute::float(value))).collect()
}

/// Attributes of an operation during parsing; each is consumed once.
pub struct Attributes<'a> {
    pub op: &'a str,
    pub list: Vec<(String, Attribute)>,
}

impl Attributes<'_> {
    pub fn take(&mut self, name: &str) -> Option<Attribute> {
        let at = self.list.iter().position(|(n, _)| n == name)?;
        Some(self.list.swap_remove(at).1)
    }

    fn need(&mut self, name: &str) -> Result<Attribute, TextFault> {
        let missing = || TextFault::MissingAttribute { op: self.op.to_string(), name: name.to_string() };
        self.list.iter().position(|(n, _)| n == name).map(|at| self.list.swap_remove(at).1).ok_or_else(missing)
    }

    fn size(&mut self, name: &str) -> Result<usize, TextFault> {
        as_size(&self.need(name)?, name)
    }

    fn sizes(&mut self, name: &str) -> Result<Vec<usize>, TextFault> {
        as_sizes(&self.need(name)?, name)
    }

    fn pairs(&mut self, name: &str) -> Result<Vec<(usize, usize)>, TextFault> {
        let wrong = || TextFault::AttributeType { name: name.to_string(), expected: "a list of pairs of sizes" };
        let Attribute::List(items) = self.need(name)? else { return Err(wrong()) };
        let pair = |item: &Attribute| match as_sizes(item, name)?[..] {
            [a, b] => Ok((a, b)),
            _ => Err(wrong()),
        };
        items.iter().map(pair).collect()
    }

    fn float(&mut self, name: &str) -> Result<f32, TextFault> {
        let wrong = || TextFault::AttributeType { name: name.to_string(), expected: "a number" };
        match self.need(name)? {
            Attribute::Word(word) => word.parse().map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }

    fn choice<T: Copy>(&mut self, name: &str, expected: &'static str, choices: &[(&str, T)]) -> Result<T, TextFault> {
        let found = self.need(name)?;
        let choice = choices.iter().find(|(word, _)| found == Attribute::word(word));
        choice.map(|c| c.1).ok_or(TextFault::AttributeType { name: name.to_string(), expected })
    }

    fn scatter_mode(&mut self) -> Result<ScatterMode, TextFault> {
        self.choice("mode", "update, add, sub, mul, div, max or min", &ScatterMode::ALL)
    }

    fn flag(&mut self, name: &str) -> Result<bool, TextFault> {
        self.choice(name, "true or false", &[("true", true), ("false", false)])
    }

    /// A loop with this body.
    pub fn looped(&mut self, body: Net) -> Result<OpKind, TextFault> {
        let mut scans = |name: &str| -> Result<Vec<Scan>, TextFault> {
            let wrong =
                || TextFault::AttributeType { name: name.to_string(), expected: "a list of axes, each with 0 or 1" };
            let scan = |(axis, backwards)| match backwards {
                0 | 1 => Ok(Scan { axis, backwards: backwards == 1 }),
                _ => Err(wrong()),
            };
            self.pairs(name)?.into_iter().map(scan).collect()
        };
        let (scanned, collected) = (scans("scanned")?, scans("collected")?);
        let l = Loop { body, turns: self.size("turns")?, carried: self.size("carried")?, scanned, collected };
        match self.list.first() {
            None => Ok(OpKind::Loop(Box::new(l))),
            Some((name, _)) => Err(TextFault::UnknownAttribute { op: self.op.to_string(), name: name.clone() }),
        }
    }

    /// The operation with that name, which must consume all attributes.
    pub fn kind(&mut self) -> Result<OpKind, TextFault> {
        let kind = self.find()?;
        match self.list.first() {
            None => Ok(kind),
            Some((name, _)) => Err(TextFault::UnknownAttribute { op: self.op.to_string(), name: name.clone() }),
        }
    }

    fn find(&mut self) -> Result<OpKind, TextFault> {
        if let Some(&binary) = Binary::ALL.iter().find(|b| b.name() == self.op) {
            return Ok(OpKind::Binary(binary));
        }
        if let Some(&kind) = ReduceKind::ALL.iter().find(|r| r.name() == self.op) {
            return Ok(OpKind::Reduce { kind, axes: self.sizes("axes")?, keep_dims: self.flag("keep_dims")? });
        }
        if let Some(unary) = self.unary()? {
            return Ok(OpKind::Unary(unary));
        }
        Ok(match self.op {
            "conv" => OpKind::Conv {
                strides: self.sizes("strides")?,
                pads: self.pairs("pads")?,
                dilations: self.sizes("dilations")?,
                groups: self.size("groups")?,
            },
            "conv_transpose" => OpKind::ConvTranspose {
                strides: self.sizes("strides")?,
                pads: self.pairs("pads")?,
                output_pads: self.sizes("output_pads")?,
                dilations: self.sizes("dilations")?,
                groups: self.size("groups")?,
            },
            "matmul" => {
                OpKind::MatMul { transpose_x: self.flag("transpose_x")?, transpose_y: self.flag("transpose_y")? }
            }
            "linear" => OpKind::Linear,
            "combine" => OpKind::Combine,
            "select" => OpKind::Select,
            "max_pool" => self.pool(PoolKind::Max)?,
            "l2_pool" => self.pool(PoolKind::L2)?,
            "avg_pool" => {
                let exclude_padding = self.flag("exclude_padding")?;
                self.pool(PoolKind::Average { exclude_padding })?
            }
            "softmax" => OpKind::Softmax { axis: self.size("axis")? },
            "concat" => OpKind::Concat { axis: self.size("axis")? },
            "gather" => OpKind::Gather { axis: self.size("axis")? },
            "gather_along" => OpKind::GatherAlong { axis: self.size("axis")? },
            "gather_nd" => OpKind::GatherNd { batch_dims: self.size("batch_dims")? },
            "scatter_along" => OpKind::ScatterAlong { axis: self.size("axis")?, mode: self.scatter_mode()? },
            "scatter_nd" => OpKind::ScatterNd { mode: self.scatter_mode()? },
            "arg_max" | "arg_min" => OpKind::ArgReduce {
                greatest: self.op == "arg_max",
                last: self.flag("last")?,
                axis: self.size("axis")?,
                keep_dims: self.flag("keep_dims")?,
            },
            "arg_sort" => OpKind::ArgSort { axis: self.size("axis")?, descending: self.flag("descending")? },
            "suppress" => OpKind::Suppress {
                overlap: self.float("overlap")?,
                score_threshold: self.float("score_threshold")?,
                most: self.size("most")?,
                per_class: self.flag("per_class")?,
            },
            "sample" => {
                let mode = self.choice("mode", "nearest or linear", &RESIZE_MODES)?;
                let all = [Outside::Value(0.0), Outside::Border, Outside::Reflect, Outside::Symmetric];
                let all = all.map(|o| (o.name(), o));
                let outside = match self.choice("outside", "value, border, reflect or symmetric", &all)? {
                    Outside::Value(_) => Outside::Value(self.float("value")?),
                    other => other,
                };
                OpKind::Sample { mode, outside }
            }
            "reshape" => OpKind::Reshape,
            "broadcast" => OpKind::Broadcast,
            "transpose" => OpKind::Transpose { perm: self.sizes("perm")? },
            "slice" => {
                let (begin, end) = (self.sizes("begin")?, self.sizes("end")?);
                OpKind::Slice { begin, end, stride: self.sizes("stride")? }
            }
            "batch_norm" => OpKind::BatchNorm { epsilon: self.float("epsilon")? },
            "instance_norm" => OpKind::InstanceNorm { epsilon: self.float("epsilon")? },
            "layer_norm" => OpKind::LayerNorm { axes: self.sizes("axes")?, epsilon: self.float("epsilon")? },
            "pad" => OpKind::Pad { pads: self.pairs("pads")?, value: self.float("value")? },
            "pad_edge" => {
                let modes = [("reflect", EdgeMode::Reflect), ("replicate", EdgeMode::Replicate)];
                let mode = self.choice("mode", "reflect or replicate", &modes)?;
                OpKind::PadEdge { pads: self.pairs("pads")?, mode }
            }
            "resize" => {
                let coordinates = [
                    ("asymmetric", Coordinates::Asymmetric),
                    ("half_pixel", Coordinates::HalfPixel),
                    ("align_corners", Coordinates::AlignCorners),
                ];
                OpKind::Resize {
                    mode: self.choice("mode", "nearest or linear", &RESIZE_MODES)?,
                    coordinates: self.choice("coordinates", "asymmetric, half_pixel or align_corners", &coordinates)?,
                }
            }
            "cast" => OpKind::Cast,
            name => {
                let schema = Schema::of_tag(name).ok_or_else(|| TextFault::UnknownOp { name: name.to_string() })?;
                return self.native(schema);
            }
        })
    }

    /// All parameters are given, defaults included.
    fn native(&mut self, schema: &'static Schema) -> Result<OpKind, TextFault> {
        let mut params = Vec::with_capacity(schema.keys.len());
        for key in schema.keys {
            let text = self.need(key.name)?.plain();
            let wrong =
                || TextFault::AttributeType { name: key.name.to_string(), expected: "a value that the layer accepts" };
            params.push(Param::parse(key, &text).ok_or_else(wrong)?);
        }
        Ok(OpKind::Native(Box::new(Native::of(schema, params))))
    }

    fn pool(&mut self, kind: PoolKind) -> Result<OpKind, TextFault> {
        Ok(OpKind::Pool {
            kind,
            kernel: self.sizes("kernel")?,
            strides: self.sizes("strides")?,
            pads: self.pairs("pads")?,
            ceil_mode: self.flag("ceil_mode")?,
        })
    }

    fn unary(&mut self) -> Result<Option<Unary>, TextFault> {
        if self.op == "gelu" {
            let modes = [("exact", GeluMode::Exact), ("tanh", GeluMode::Tanh), ("sigmoid", GeluMode::Sigmoid)];
            return Ok(Some(Unary::Gelu(self.choice("mode", "exact, tanh or sigmoid", &modes)?)));
        }
        Row::named(self.op).map(|row| row.make(|param| self.float(param.name))).transpose()
    }
}

/// A size from its text.
pub fn as_size(attribute: &Attribute, name: &str) -> Result<usize, TextFault> {
    let wrong = || TextFault::AttributeType { name: name.to_string(), expected: "a size" };
    match attribute {
        Attribute::Word(word) => word.parse().map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}

/// A list of sizes from its text.
pub fn as_sizes(attribute: &Attribute, name: &str) -> Result<Vec<usize>, TextFault> {
    match attribute {
        Attribute::List(items) => items.iter().map(|item| as_size(item, name)).collect(),
        _ => Err(TextFault::AttributeType { name: name.to_string(), expected: "a list of sizes" }),
    }
}
