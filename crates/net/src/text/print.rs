//! Printer of the text form.

use super::attributes::{Attribute, attributes};
use super::{INLINE_ELEMENTS, is_plain};
use crate::graph::{Data, Net, Op, Tensor, Value, ValueId};
use crate::ops::OpKind;
use std::fmt::{self, Display, Write};
use std::sync::Arc;

/// The text of a net, and the table of constants that the text refers to as `blob 0`, `blob 1`, ...
///
/// Every net can be printed; one that [`crate::check`] accepts parses back to an equal one, up to the order of its values and
/// unused constants.
pub fn print(net: &Net) -> (String, Vec<Arc<Tensor>>) {
    let mut printer = Printer { net, text: String::new(), blobs: Vec::new(), printed: vec![false; net.values.len()] };
    // Writing to a string does not fail.
    let _ = printer.net();
    (printer.text, printer.blobs)
}

struct Printer<'a> {
    net: &'a Net,
    text: String,
    blobs: Vec<Arc<Tensor>>,
    /// Constants that are printed already.
    printed: Vec<bool>,
}

impl Printer<'_> {
    fn net(&mut self) -> fmt::Result {
        let net = self.net;
        writeln!(self.text, "net {} {{", Quoted(&net.name))?;
        for &id in &net.inputs {
            let Some(value) = net.get(id) else { continue };
            writeln!(self.text, "  input {}", Definition(value))?;
        }
        for op in &net.ops {
            self.constants(&op.inputs)?;
            self.op(op)?;
        }
        self.constants(&net.outputs)?;
        for &id in &net.outputs {
            writeln!(self.text, "  output {}", Reference(net, id))?;
        }
        for state in &net.states {
            let (input, output) = (Reference(net, state.input), Reference(net, state.output));
            writeln!(self.text, "  state {input} {output} name={}", Quoted(&state.name))?;
        }
        for counted in &net.counted {
            let (rows, count) = (Reference(net, counted.rows), Reference(net, counted.count));
            writeln!(self.text, "  counted {rows} {count} axis={}", counted.axis)?;
        }
        writeln!(self.text, "}}")
    }

    fn constants(&mut self, ids: &[ValueId]) -> fmt::Result {
        for &id in ids {
            let Some(value) = self.net.get(id) else { continue };
            let Some(tensor) = &value.data else { continue };
            if std::mem::replace(&mut self.printed[id.0 as usize], true) {
                continue;
            }
            write!(self.text, "  const {} = ", Definition(value))?;
            if tensor.data.len() <= INLINE_ELEMENTS {
                writeln!(self.text, "[{}]", elements(&tensor.data).join(", "))?;
            } else {
                writeln!(self.text, "blob {}", self.blobs.len())?;
                self.blobs.push(tensor.clone());
            }
        }
        Ok(())
    }

    fn op(&mut self, op: &Op) -> fmt::Result {
        let net = self.net;
        self.text.push_str("  ");
        for (i, &id) in op.outputs.iter().enumerate() {
            self.text.push_str(if i == 0 { "" } else { ", " });
            match net.get(id) {
                Some(value) => write!(self.text, "{}", Definition(value))?,
                None => write!(self.text, "{}", Reference(net, id))?,
            }
        }
        write!(self.text, " = {}(", op.kind.name())?;
        for (i, &id) in op.inputs.iter().enumerate() {
            write!(self.text, "{}{}", if i == 0 { "" } else { ", " }, Reference(net, id))?;
        }
        self.text.push(')');
        for (name, attribute) in attributes(&op.kind) {
            write!(self.text, " {name}={attribute}")?;
        }
        if let OpKind::Loop(l) = &op.kind {
            let printed = vec![false; l.body.values.len()];
            let blobs = std::mem::take(&mut self.blobs);
            let mut inner = Printer { net: &l.body, text: String::new(), blobs, printed };
            inner.net()?;
            self.blobs = inner.blobs;
            write!(self.text, " body={}", Quoted(&inner.text))?;
        }
        let first = op.outputs.first().and_then(|&id| net.get(id));
        if first.is_none_or(|value| value.name != op.name) {
            write!(self.text, " name={}", Quoted(&op.name))?;
        }
        writeln!(self.text)
    }
}

/// A value's name, type and surface.
struct Definition<'a>(&'a Value);

impl Display for Definition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", Name(&self.0.name), self.0.ty)?;
        match &self.0.surface {
            None => Ok(()),
            Some(s) => write!(f, " surface=[{}, {}, {}]", s.row_bytes, s.plane_bytes, s.interleave),
        }
    }
}

/// A use of a value.
struct Reference<'a>(&'a Net, ValueId);

impl Display for Reference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.get(self.1) {
            Some(value) => write!(f, "{}", Name(&value.name)),
            // No value has this name; the text shows the error and does not parse.
            None => write!(f, "%?{}", self.1.0),
        }
    }
}

struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_empty() && self.0.chars().all(is_plain) {
            write!(f, "%{}", self.0)
        } else {
            write!(f, "%{}", Quoted(self.0))
        }
    }
}

struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                '\n' => f.write_str("\\n")?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

impl Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attribute::Word(word) => f.write_str(word),
            Attribute::Text(text) => write!(f, "{}", Quoted(text)),
            Attribute::List(items) => {
                f.write_char('[')?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
                }
                f.write_char(']')
            }
        }
    }
}

fn elements(data: &Data) -> Vec<String> {
    // The shortest text that parses to the same number.
    let floats = |values: Vec<f32>| values.iter().map(|v| format!("{v:?}").to_lowercase()).collect();
    match data {
        Data::F16(_) | Data::F32(_) => floats(data.to_f32()),
        Data::Bool(values) => values.iter().map(bool::to_string).collect(),
        Data::Stored(stored) => elements(&stored.dense()),
        _ => data.to_i32().iter().map(i32::to_string).collect(),
    }
}
