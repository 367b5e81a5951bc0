//! Parser of the layer graph's text form.

use super::*;
use anemone_facts::native as rows;
use anemone_net::native::MIL_PREFIX;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

type Parsed<T> = Result<T, String>;

impl Graph {
    /// Parses the text of [`Graph::print`]. Errors name the line.
    pub fn parse(text: &str, data: &[Datum]) -> Parsed<Graph> {
        let mut lines = text.lines().enumerate();
        let name =
            lines.next().and_then(|(_, line)| line.strip_prefix("anec ")).ok_or("line 1: `anec NAME` expected")?;
        let (buffers, layers, inputs, outputs) = Default::default();
        let mut graph = Graph { name: name.into(), buffers, layers, inputs, outputs, ..Graph::default() };
        for (number, line) in lines {
            graph.line(line, data).map_err(|e| format!("line {}: {e}", number + 1))?;
        }
        Ok(graph)
    }

    fn line(&mut self, line: &str, data: &[Datum]) -> Parsed<()> {
        let (line, name) = line.split_once(" ; ").unwrap_or((line, ""));
        let words = words(line);
        match words.as_slice() {
            ["inputs", ids @ ..] => self.inputs = ids.iter().map(|id| buffer(id)).collect::<Parsed<_>>()?,
            ["outputs", ids @ ..] => self.outputs = ids.iter().map(|id| buffer(id)).collect::<Parsed<_>>()?,
            [_, "=", role @ ("input" | "output" | "scratch" | "constant"), bytes, "bytes", rest @ ..] => {
                let mut rest = Rest::of(rest, data)?;
                let role = match *role {
                    "input" => Role::Input,
                    "output" => Role::Output,
                    "scratch" => Role::Scratch,
                    _ => Role::Constant(rest.constant()?),
                };
                let [port, constant] = ["port", "elements"].map(|what| rest.values.remove(what).map(view));
                let (port, constant) = (port.transpose()?, constant.transpose()?);
                let element_bytes = rest.value("each", ELEMENT_BYTES)?;
                rest.nothing_left()?;
                let (name, bytes) = (name.into(), hex(bytes)?);
                self.buffers.push(Buffer { name, role, bytes, port, element_bytes, constant });
            }
            [result, "=", named, kind, rest @ ..] if named.starts_with(MIL_PREFIX) => {
                let layer = layer(name, result, kind, Rest::of(rest, data)?)?;
                if layer.dialect() != *named {
                    return Err(format!("`{named}` for a layer that is `{}`", layer.dialect()));
                }
                self.layers.push(layer);
            }
            _ => return Err("a buffer, `inputs`, `outputs` or a layer expected".into()),
        }
        Ok(())
    }
}

/// Words of a line; brackets group their contents.
fn words(line: &str) -> Vec<&str> {
    let (mut all, mut rest) = (Vec::new(), line.trim_start());
    while !rest.is_empty() {
        let blank = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let end = match rest[..blank].find('[') {
            Some(open) => rest[open..].find(']').map_or(rest.len(), |close| {
                let after = open + close;
                rest[after..].find(char::is_whitespace).map_or(rest.len(), |n| after + n)
            }),
            None => blank,
        };
        all.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    all
}

/// Rest of a line behind its first words.
#[derive(Default)]
struct Rest<'a> {
    sources: Vec<&'a str>,
    values: BTreeMap<&'a str, &'a str>,
    flags: BTreeSet<&'a str>,
    list: Option<&'a str>,
    data: std::collections::VecDeque<&'a Datum>,
}

impl<'a> Rest<'a> {
    fn of(words: &[&'a str], data: &'a [Datum]) -> Parsed<Rest<'a>> {
        let mut rest = Rest::default();
        for word in words {
            if word.starts_with('%') {
                rest.sources.push(word);
            } else if let Some(at) = word.strip_prefix('@') {
                rest.data.push_back(data.get(number::<usize>(at)?).ok_or_else(|| format!("no datum {word}"))?);
            } else if word.starts_with('[') {
                rest.list = Some(word);
            } else if let Some((key, value)) = word.split_once('=') {
                rest.values.insert(key, value);
            } else {
                rest.flags.insert(word);
            }
        }
        Ok(rest)
    }

    fn flag(&mut self, name: &str) -> bool {
        self.flags.remove(name)
    }

    fn value<T: FromStr>(&mut self, name: &str, default: T) -> Parsed<T> {
        self.values.remove(name).map_or(Ok(default), number)
    }

    fn constant(&mut self) -> Parsed<Arc<Vec<u8>>> {
        match self.data.pop_front() {
            Some(Datum::Constant(bytes)) => Ok(bytes.clone()),
            other => Err(format!("the elements of a constant expected, not {other:?}")),
        }
    }

    /// Rows and columns of `AxB`.
    fn pair(&mut self, name: &str, default: [usize; 2]) -> Parsed<[usize; 2]> {
        let Some(text) = self.values.remove(name) else { return Ok(default) };
        let (rows, columns) = text.split_once('x').ok_or_else(|| format!("{name}={text}: ROWSxCOLUMNS expected"))?;
        Ok([number(rows)?, number(columns)?])
    }

    fn window(&mut self) -> Parsed<Window> {
        let unit = Window::UNIT;
        let (kernel, stride) = (self.pair("kernel", unit.kernel)?, self.pair("stride", unit.stride)?);
        Ok(Window { kernel, stride, pad: self.pair("pad", unit.pad)? })
    }

    fn affine(&mut self) -> Parsed<Affine> {
        let unit = Affine::UNIT;
        Ok(Affine {
            pre_scale: self.value("pre", unit.pre_scale)?,
            final_scale: self.value("final", unit.final_scale)?,
            scale: self.value("scale", unit.scale)?,
            bias: self.value("bias", unit.bias)?,
        })
    }

    fn nonlinear(&mut self) -> Parsed<Nonlinear> {
        match (self.values.remove("lut"), self.flag("relu")) {
            (None, false) => Ok(Nonlinear::None),
            (None, true) => Ok(Nonlinear::Relu),
            (Some(name), _) => match self.data.pop_front() {
                Some(Datum::Table(table)) if table.name == name => Ok(Nonlinear::Table(table.clone())),
                other => Err(format!("the table {name} expected, not {other:?}")),
            },
        }
    }

    fn conv(&mut self) -> Parsed<Kind> {
        let weights = match self.data.pop_front() {
            Some(Datum::Weights(weights)) => weights.clone(),
            other => return Err(format!("coefficients expected, not {other:?}")),
        };
        // The stream format is part of the referenced data.
        self.values.remove("palette");
        self.flag("sparse");
        self.flag("int8");
        let bias = match self.flag("bias") {
            false => None,
            true => match self.data.pop_front() {
                Some(Datum::Biases(biases)) => Some(biases.clone()),
                other => return Err(format!("biases expected, not {other:?}")),
            },
        };
        let connect = match self.values.remove("unicast") {
            Some(per_output) => Connect::Unicast { per_output: number(per_output)? },
            None => Connect::Dense,
        };
        let (window, post_scale) = (self.window()?, self.value("post_scale", 1.0)?);
        Ok(Kind::Conv { window, connect, weights, bias, post_scale, nonlinear: self.nonlinear()? })
    }

    fn own(&mut self, tag: &str) -> Parsed<Kind> {
        let row = rows::by_tag(tag).ok_or_else(|| format!("no native layer {tag}"))?;
        let class = row.class().ok_or_else(|| format!("{tag} has no class"))?;
        let list = self.list.take().unwrap_or("[]").trim_matches(['[', ']']);
        let words = list.split(", ").filter(|w| !w.is_empty());
        let params =
            words.map(|w| u32::from_str_radix(w, 16).map_err(|e| format!("{w}: {e}"))).collect::<Parsed<_>>()?;
        Ok(Kind::Own(Arc::new(Own { class, params, tag: row.tag })))
    }

    fn kind(&mut self, name: &str) -> Parsed<Kind> {
        Ok(match name {
            "ne.conv" => self.conv()?,
            "ne.neuron" => {
                let (add, post_scale) = (self.value("add", 0.0)?, self.value("post_scale", 1.0)?);
                Kind::Neuron { add, post_scale, nonlinear: self.nonlinear()? }
            }
            "ne.product" => {
                Kind::Product { lanes: self.value("lanes", 1)?, post_scale: self.value("post_scale", 1.0)? }
            }
            "ne.max_channels" => Kind::MaxChannels,
            "ne.sum_channels" => Kind::SumChannels { nonlinear: self.nonlinear()? },
            "ne.mul_channels" => Kind::MulChannels { nonlinear: self.nonlinear()? },
            "pe.channel_affine" => {
                Kind::ChannelAffine { subtract: self.flag("subtract"), scale: self.value("scale", 1.0)? }
            }
            "pe.inverse_rms" => Kind::InverseRms { epsilon: self.value("epsilon", 0.0)? },
            "pe.deviation" => {
                Kind::Deviation { epsilon: self.value("epsilon", 0.0)?, scale: self.value("scale", 1.0)? }
            }
            _ => return self.planar(name),
        })
    }

    fn planar(&mut self, name: &str) -> Parsed<Kind> {
        let unknown = || format!("no layer kind {name}");
        let reduction = |op: &str| match op {
            "Sum" => Ok(PoolOp::Sum),
            "Max" => Ok(PoolOp::Max),
            _ => Err(unknown()),
        };
        if let Some(tag) = name.strip_prefix("own.") {
            return self.own(tag);
        }
        if let Some(op) = name.strip_prefix("pe.pool.") {
            let (op, window, abs) = (reduction(op)?, self.window()?, self.flag("abs"));
            return Ok(Kind::Pool { op, window, abs, affine: self.affine()?, relu: self.flag("relu") });
        }
        if let Some(op) = name.strip_prefix("pe.reduce.") {
            let (op, abs) = (reduction(op)?, self.flag("abs"));
            return Ok(Kind::Reduce { op, abs, affine: self.affine()?, reciprocal: self.flag("reciprocal") });
        }
        let op = match name {
            "pe.Add" => PlanarOp::Add,
            "pe.Sub" => PlanarOp::Sub,
            "pe.Mul" => PlanarOp::Mul,
            "pe.Max" => PlanarOp::Max,
            "pe.Min" => PlanarOp::Min,
            _ => return Err(unknown()),
        };
        Ok(Kind::Planar { op, affine: self.affine()?, relu: self.flag("relu") })
    }

    fn nothing_left(&self) -> Parsed<()> {
        let left = self.flags.iter().chain(self.values.keys()).chain(&self.sources).next();
        match (left, self.data.len()) {
            (None, 0) => Ok(()),
            (Some(word), _) => Err(format!("`{word}` is not expected here")),
            (None, n) => Err(format!("{n} data too many")),
        }
    }
}

fn layer(name: &str, result: &str, kind: &str, mut rest: Rest) -> Parsed<Layer> {
    let kind = rest.kind(kind)?;
    let (mut sources, mut broadcast) = (Vec::new(), Vec::new());
    for source in std::mem::take(&mut rest.sources) {
        let (text, axes) = source.split_once('*').unwrap_or((source, ""));
        sources.push(view4(text)?);
        broadcast.push(['C', 'H', 'W'].map(|axis| axes.contains(axis)));
    }
    let layer = Layer {
        name: name.into(),
        kind,
        sources,
        broadcast,
        result: view4(result)?,
        transpose: rest.flag("transpose"),
        interleave: rest.value("interleave", 1)?,
        source_interleave: rest.value("source_interleave", 1)?,
        second_relu: rest.flag("second_relu"),
        turned: [rest.flag("first_turned"), rest.flag("second_turned")],
    };
    rest.nothing_left()?;
    Ok(layer)
}

fn number<T: FromStr>(text: &str) -> Parsed<T> {
    text.parse().map_err(|_| format!("`{text}` is not the number expected here"))
}

fn hex(text: &str) -> Parsed<u64> {
    let digits = text.strip_prefix("0x").ok_or_else(|| format!("`{text}`: hexadecimal bytes expected"))?;
    u64::from_str_radix(digits, 16).map_err(|e| format!("{text}: {e}"))
}

fn buffer(text: &str) -> Parsed<BufferId> {
    text.strip_prefix('%').ok_or_else(|| format!("`{text}`: a buffer expected")).and_then(number).map(BufferId)
}

fn view(text: &str) -> Parsed<View> {
    let malformed = || format!("`{text}` is not a view");
    let (head, body) = text.split_once('[').ok_or_else(malformed)?;
    let (extents, strides) = body.strip_suffix(']').and_then(|b| b.split_once(" :")).ok_or_else(malformed)?;
    let (id, offset) = head.split_once('+').unwrap_or((head, "0x0"));
    let mut extents = extents.split('x').map(number::<usize>).collect::<Parsed<Vec<usize>>>()?;
    let strides = strides.split_whitespace().map(hex).collect::<Parsed<Vec<u64>>>()?;
    let width = extents.pop().filter(|_| extents.len() == strides.len()).ok_or_else(malformed)?;
    let lead = extents.into_iter().zip(strides).map(|(extent, stride_bytes)| Axis { extent, stride_bytes }).collect();
    Ok(View { buffer: buffer(id)?, offset_bytes: hex(offset)?, lead, width })
}

fn view4(text: &str) -> Parsed<View4> {
    let View { buffer, offset_bytes, lead, width } = view(text)?;
    let axes = lead.try_into().map_err(|_| format!("`{text}`: four extents expected"))?;
    Ok(View4 { buffer, offset_bytes, axes, width })
}
