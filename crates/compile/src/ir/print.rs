//! The text form of the layer graph.

use super::*;
use std::fmt;

/// Own tasks in the text form.
impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "own.{} {:x?}", self.tag, self.params)
    }
}

/// `%2+0x40[1x8x4x4 : 0x400 0x80 0x40]`: buffer, offset, extents, strides of all axes but the last.
fn view(f: &mut impl fmt::Write, buffer: BufferId, offset_bytes: u64, axes: &[Axis], width: usize) -> fmt::Result {
    write!(f, "%{}", buffer.0)?;
    if offset_bytes > 0 {
        write!(f, "+{offset_bytes:#x}")?;
    }
    let extents: String = axes.iter().map(|a| format!("{}x", a.extent)).collect();
    let strides: String = axes.iter().map(|a| format!(" {:#x}", a.stride_bytes)).collect();
    write!(f, "[{extents}{width} :{strides}]")
}

impl fmt::Display for View4 {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        view(f, self.buffer, self.offset_bytes, &self.axes, self.width)
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        view(f, self.buffer, self.offset_bytes, &self.lead, self.width)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let affine = |f: &mut fmt::Formatter, a: &Affine| {
            if *a == Affine::UNIT {
                return Ok(());
            }
            write!(f, " pre={} final={} scale={} bias={}", a.pre_scale, a.final_scale, a.scale, a.bias)
        };
        let window = |f: &mut fmt::Formatter, w: &Window| {
            let ([kh, kw], [sh, sw], [ph, pw]) = (w.kernel, w.stride, w.pad);
            write!(f, " kernel={kh}x{kw} stride={sh}x{sw} pad={ph}x{pw}")
        };
        let nonlinear = |f: &mut fmt::Formatter, n: &Nonlinear| match n {
            Nonlinear::None => Ok(()),
            Nonlinear::Relu => write!(f, " relu"),
            Nonlinear::Table(t) => write!(f, " lut={}", t.name),
        };
        match self {
            Kind::Conv { window: w, connect, weights, bias, post_scale, nonlinear: n } => {
                write!(f, "ne.conv")?;
                window(f, w)?;
                match &weights.form {
                    StreamForm::Fp16 => {}
                    StreamForm::Palette { bits, .. } => write!(f, " palette={bits}")?,
                    StreamForm::ZeroSkipping => write!(f, " sparse")?,
                    StreamForm::Int8 => write!(f, " int8")?,
                }
                if let Connect::Unicast { per_output } = connect {
                    write!(f, " unicast={per_output}")?;
                }
                if bias.is_some() {
                    write!(f, " bias")?;
                }
                if *post_scale != 1.0 {
                    write!(f, " post_scale={post_scale}")?;
                }
                nonlinear(f, n)
            }
            Kind::Neuron { add, post_scale, nonlinear: n } => {
                write!(f, "ne.neuron")?;
                if *add != 0.0 {
                    write!(f, " add={add}")?;
                }
                if *post_scale != 1.0 {
                    write!(f, " post_scale={post_scale}")?;
                }
                nonlinear(f, n)
            }
            Kind::Product { lanes, post_scale } => {
                write!(f, "ne.product lanes={lanes}")?;
                if *post_scale != 1.0 { write!(f, " post_scale={post_scale}") } else { Ok(()) }
            }
            Kind::MaxChannels => write!(f, "ne.max_channels"),
            Kind::SumChannels { nonlinear: n } => {
                write!(f, "ne.sum_channels")?;
                nonlinear(f, n)
            }
            Kind::MulChannels { nonlinear: n } => {
                write!(f, "ne.mul_channels")?;
                nonlinear(f, n)
            }
            Kind::Planar { op, affine: a, relu } => {
                write!(f, "pe.{op:?}")?;
                affine(f, a)?;
                if *relu { write!(f, " relu") } else { Ok(()) }
            }
            Kind::ChannelAffine { subtract, scale } => {
                write!(f, "pe.channel_affine{}", if *subtract { " subtract" } else { "" })?;
                if *scale == 1.0 { Ok(()) } else { write!(f, " scale={scale}") }
            }
            Kind::Deviation { epsilon, scale } => {
                write!(f, "pe.deviation epsilon={epsilon}")?;
                if *scale == 1.0 { Ok(()) } else { write!(f, " scale={scale}") }
            }
            Kind::InverseRms { epsilon } => write!(f, "pe.inverse_rms epsilon={epsilon}"),
            Kind::Pool { op, window: w, abs, affine: a, relu } => {
                write!(f, "pe.pool.{op:?}")?;
                if *w != Window::UNIT {
                    window(f, w)?;
                }
                if *abs {
                    write!(f, " abs")?;
                }
                affine(f, a)?;
                if *relu { write!(f, " relu") } else { Ok(()) }
            }
            Kind::Own(own) => own.fmt(f),
            Kind::Reduce { op, abs, affine: a, reciprocal } => {
                write!(f, "pe.reduce.{op:?}")?;
                if *abs {
                    write!(f, " abs")?;
                }
                affine(f, a)?;
                if *reciprocal { write!(f, " reciprocal") } else { Ok(()) }
            }
        }
    }
}

/// Data that the text refers to by number.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// Coefficients of a convolution.
    Weights(Arc<Weights>),
    /// Biases of a convolution.
    Biases(Arc<Vec<f32>>),
    /// An activation table.
    Table(Arc<Table>),
    /// Elements of a constant.
    Constant(Arc<Vec<u8>>),
}

impl Kind {
    /// Data of the layer, in the order in which its line refers to them.
    fn data(&self) -> Vec<Datum> {
        let (mut all, nonlinear) = match self {
            Kind::Conv { weights, bias, nonlinear, .. } => {
                let bias = bias.clone().map(Datum::Biases);
                ([Datum::Weights(weights.clone())].into_iter().chain(bias).collect(), Some(nonlinear))
            }
            Kind::Neuron { nonlinear, .. } | Kind::SumChannels { nonlinear } | Kind::MulChannels { nonlinear } => {
                (Vec::new(), Some(nonlinear))
            }
            _ => (Vec::new(), None),
        };
        if let Some(Nonlinear::Table(table)) = nonlinear {
            all.push(Datum::Table(table.clone()));
        }
        all
    }
}

impl Graph {
    /// The text of the graph: buffers, ports, then one line per layer; and the data that it refers to as `@0`, `@1`.
    /// [`Graph::parse`] reads both back.
    pub fn print(&self) -> (String, Vec<Datum>) {
        let (mut text, mut data) = (format!("anec {}\n", self.name), Vec::new());
        for (i, buffer) in self.buffers.iter().enumerate() {
            text += &buffer_line(i, buffer, &mut data);
        }
        for (what, ids) in [("inputs", &self.inputs), ("outputs", &self.outputs)] {
            let ids: String = ids.iter().map(|id| format!(" %{}", id.0)).collect();
            text += &format!("  {what}{ids}\n");
        }
        for layer in &self.layers {
            text += &layer_line(layer, &mut data);
        }
        (text, data)
    }
}

fn buffer_line(i: usize, buffer: &Buffer, data: &mut Vec<Datum>) -> String {
    let role = match buffer.role {
        Role::Input => "input",
        Role::Output => "output",
        Role::Scratch => "scratch",
        Role::Constant(_) => "constant",
    };
    let mut line = format!("  %{i} = {role} {:#x} bytes", buffer.bytes);
    for (what, view) in [("port", &buffer.port), ("elements", &buffer.constant)] {
        if let Some(view) = view {
            line += &format!(" {what}={view}");
        }
    }
    if buffer.element_bytes != ELEMENT_BYTES {
        line += &format!(" each={}", buffer.element_bytes);
    }
    if let Role::Constant(bytes) = &buffer.role {
        line += &format!(" @{}", data.len());
        data.push(Datum::Constant(bytes.clone()));
    }
    line + &format!(" ; {}\n", buffer.name)
}

fn layer_line(layer: &Layer, data: &mut Vec<Datum>) -> String {
    let mut line = format!("  {} = {} {}", layer.result, layer.dialect(), layer.kind);
    for (i, source) in layer.sources.iter().enumerate() {
        line += &format!(" {source}");
        let [c, h, w] = layer.broadcast.get(i).copied().unwrap_or_default();
        let axes: String = [(c, 'C'), (h, 'H'), (w, 'W')].iter().filter(|(on, _)| *on).map(|(_, a)| *a).collect();
        if !axes.is_empty() {
            line += &format!("*{axes}");
        }
    }
    let [first, second] = layer.turned;
    let flags = [
        (layer.transpose, "transpose"),
        (first, "first_turned"),
        (second, "second_turned"),
        (layer.second_relu, "second_relu"),
    ];
    line.extend(flags.iter().filter(|(on, _)| *on).map(|(_, flag)| format!(" {flag}")));
    for (what, by) in [("interleave", layer.interleave), ("source_interleave", layer.source_interleave)] {
        if by > 1 {
            line += &format!(" {what}={by}");
        }
    }
    for datum in layer.kind.data() {
        line += &format!(" @{}", data.len());
        data.push(datum);
    }
    line + &format!(" ; {}\n", layer.name)
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.print().0)
    }
}
