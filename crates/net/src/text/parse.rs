//! Parser of the text form.

use super::attributes::{Attribute, Attributes, as_sizes};
use super::is_plain;
use crate::error::{Error, TextFault};
use crate::graph::{Counted, DType, Data, MAX_RANK, Net, Op, State, Surface, Tensor, TensorType, Value, ValueId};
use std::collections::HashMap;
use std::sync::Arc;

/// Deepest nesting of lists: pads are lists of pairs.
const LIST_DEPTH: usize = 4;

/// Deepest nesting of loop bodies.
const BODY_DEPTH: usize = 8;

/// Parses a text; `blobs` is the table of constants that it refers to.
///
/// The net is not checked beyond names: types are those of the text. Errors are [`Error::Text`] with line and column,
/// both counted from one.
pub fn parse(text: &str, blobs: &[Arc<Tensor>]) -> Result<Net, Error> {
    let mut parser =
        Parser { rest: text, line: 1, column: 1, blobs, net: Net::default(), names: HashMap::new(), depth: 0 };
    parser.net()?;
    Ok(parser.net)
}

struct Parser<'a> {
    rest: &'a str,
    line: usize,
    column: usize,
    blobs: &'a [Arc<Tensor>],
    net: Net,
    names: HashMap<String, ValueId>,
    /// Nesting depth of loop bodies.
    depth: usize,
}

/// A position in the text.
type Place = (usize, usize);

impl<'a> Parser<'a> {
    fn place(&self) -> Place {
        (self.line, self.column)
    }

    fn fault(&self, (line, column): Place, what: TextFault) -> Error {
        Error::Text { line, column, what }
    }

    fn advance(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        for c in taken.chars() {
            if c == '\n' {
                (self.line, self.column) = (self.line + 1, 1);
            } else {
                self.column += 1;
            }
        }
        self.rest = rest;
        taken
    }

    fn skip_space(&mut self) {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.advance(blank);
            if !self.rest.starts_with('#') {
                return;
            }
            self.advance(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
    }

    fn unexpected(&mut self, expected: &'static str) -> Error {
        self.skip_space();
        let found: String = self.rest.chars().take_while(|c| *c != '\n').take(20).collect();
        let found = if found.is_empty() { "the end".to_string() } else { format!("`{found}`") };
        self.fault(self.place(), TextFault::Unexpected { found, expected })
    }

    /// Consumes a punctuation mark if it is next.
    fn accept(&mut self, mark: char) -> bool {
        self.skip_space();
        let found = self.rest.starts_with(mark);
        if found {
            self.advance(mark.len_utf8());
        }
        found
    }

    fn expect(&mut self, mark: char, expected: &'static str) -> Result<(), Error> {
        if self.accept(mark) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn plain(&mut self) -> &'a str {
        self.skip_space();
        let end = self.rest.find(|c| !is_plain(c)).unwrap_or(self.rest.len());
        self.advance(end)
    }

    fn word(&mut self, expected: &'static str) -> Result<&'a str, Error> {
        match self.plain() {
            "" => Err(self.unexpected(expected)),
            word => Ok(word),
        }
    }

    fn quoted(&mut self) -> Result<String, Error> {
        self.expect('"', "a quoted name")?;
        let mut text = String::new();
        let mut escaped = false;
        for (at, c) in self.rest.char_indices() {
            match (escaped, c) {
                (true, 'n') => text.push('\n'),
                (true, c) => text.push(c),
                (false, '\\') => {
                    escaped = true;
                    continue;
                }
                (false, '"') => {
                    self.advance(at + 1);
                    return Ok(text);
                }
                (false, c) => text.push(c),
            }
            escaped = false;
        }
        self.advance(self.rest.len());
        Err(self.unexpected("a closing quote"))
    }

    fn value_name(&mut self) -> Result<String, Error> {
        self.expect('%', "a value")?;
        if self.rest.starts_with('"') { self.quoted() } else { Ok(self.word("a name")?.to_string()) }
    }

    fn reference(&mut self) -> Result<ValueId, Error> {
        self.skip_space();
        let place = self.place();
        let value = self.value_name()?;
        match self.names.get(&value) {
            Some(&id) => Ok(id),
            None => Err(self.fault(place, TextFault::UnknownValue { value })),
        }
    }

    fn attribute(&mut self, depth: usize) -> Result<Attribute, Error> {
        self.skip_space();
        if self.rest.starts_with('"') {
            return Ok(Attribute::Text(self.quoted()?));
        }
        if depth < LIST_DEPTH && self.accept('[') {
            let mut items = Vec::new();
            while !self.accept(']') {
                if !items.is_empty() {
                    self.expect(',', "a comma or a closing bracket")?;
                }
                items.push(self.attribute(depth + 1)?);
            }
            return Ok(Attribute::List(items));
        }
        Ok(Attribute::Word(self.word("a number, a word or a list")?.to_string()))
    }

    fn sizes(&mut self, name: &str) -> Result<Vec<usize>, Error> {
        self.skip_space();
        let place = self.place();
        let attribute = self.attribute(0)?;
        as_sizes(&attribute, name).map_err(|what| self.fault(place, what))
    }

    fn ty(&mut self) -> Result<TensorType, Error> {
        self.skip_space();
        let place = self.place();
        let name = self.word("an element type")?;
        let dtype = DType::ALL.into_iter().find(|d| d.name() == name);
        let unexpected = || TextFault::Unexpected { found: format!("`{name}`"), expected: "an element type" };
        let dtype = dtype.ok_or_else(|| self.fault(place, unexpected()))?;
        let shape = self.sizes("extents")?;
        if shape.len() > MAX_RANK {
            let found = format!("{} extents", shape.len());
            return Err(self.fault(place, TextFault::Unexpected { found, expected: "at most 8 extents" }));
        }
        Ok(TensorType { dtype, shape })
    }

    /// A name with its type and surface, as a new value.
    fn definition(&mut self) -> Result<ValueId, Error> {
        self.skip_space();
        let place = self.place();
        let name = self.value_name()?;
        self.expect(':', "a colon and a type")?;
        let ty = self.ty()?;
        let surface = if self.keyword("surface") { Some(self.surface()?) } else { None };
        if self.names.contains_key(&name) {
            return Err(self.fault(place, TextFault::DefinedTwice { value: name }));
        }
        let id = self.net.add_value(Value { name: name.clone(), ty, data: None, surface });
        self.names.insert(name, id);
        Ok(id)
    }

    /// Consumes a word if it is next.
    fn keyword(&mut self, word: &str) -> bool {
        self.skip_space();
        let after = self.rest.strip_prefix(word);
        let found = after.is_some_and(|rest| !rest.starts_with(is_plain));
        if found {
            self.advance(word.len());
        }
        found
    }

    fn surface(&mut self) -> Result<Surface, Error> {
        self.expect('=', "an equals sign")?;
        self.skip_space();
        let place = self.place();
        let numbers = self.sizes("surface")?;
        let surface = match numbers[..] {
            [row, plane, interleave] => u32::try_from(interleave).ok().map(|interleave| Surface {
                row_bytes: row as u64,
                plane_bytes: plane as u64,
                interleave,
            }),
            _ => None,
        };
        let wrong = || TextFault::AttributeType { name: "surface".to_string(), expected: "row, plane and interleave" };
        surface.ok_or_else(|| self.fault(place, wrong()))
    }

    fn net(&mut self) -> Result<(), Error> {
        if !self.keyword("net") {
            return Err(self.unexpected("`net`"));
        }
        self.skip_space();
        self.net.name = self.quoted()?;
        self.expect('{', "an opening brace")?;
        while !self.accept('}') {
            if self.keyword("input") {
                let id = self.definition()?;
                self.net.inputs.push(id);
            } else if self.keyword("output") {
                let id = self.reference()?;
                self.net.outputs.push(id);
            } else if self.keyword("state") {
                let (input, output) = (self.reference()?, self.reference()?);
                if !self.keyword("name") {
                    return Err(self.unexpected("`name`"));
                }
                self.expect('=', "an equals sign")?;
                self.skip_space();
                let name = self.quoted()?;
                self.net.states.push(State { name, input, output });
            } else if self.keyword("counted") {
                let (rows, count) = (self.reference()?, self.reference()?);
                if !self.keyword("axis") {
                    return Err(self.unexpected("`axis`"));
                }
                self.expect('=', "an equals sign")?;
                let place = self.place();
                let axis = self.word("an axis")?;
                let axis = axis.parse().map_err(|_| {
                    self.fault(place, TextFault::Unexpected { found: format!("`{axis}`"), expected: "an axis" })
                })?;
                self.net.counted.push(Counted { rows, count, axis });
            } else if self.keyword("const") {
                self.constant()?;
            } else {
                self.op()?;
            }
        }
        self.skip_space();
        if self.rest.is_empty() { Ok(()) } else { Err(self.unexpected("the end")) }
    }

    fn constant(&mut self) -> Result<(), Error> {
        let id = self.definition()?;
        self.expect('=', "an equals sign")?;
        self.skip_space();
        let place = self.place();
        let ty = self.net.value(id).ty.clone();
        let tensor = if self.keyword("blob") {
            let index = self.word("the number of a blob")?;
            let index = index.parse().map_err(|_| {
                let found = format!("`{index}`");
                self.fault(place, TextFault::Unexpected { found, expected: "the number of a blob" })
            })?;
            let count = self.blobs.len();
            let blob = self.blobs.get(index).cloned();
            let blob = blob.ok_or_else(|| self.fault(place, TextFault::UnknownBlob { index, count }))?;
            if blob.ty() != ty || blob.data.len() != ty.elements() {
                return Err(self.fault(place, TextFault::BlobType { index, found: blob.ty(), expected: ty }));
            }
            blob
        } else {
            let data = self.elements(ty.dtype)?;
            if data.len() != ty.elements() {
                let (found, expected) = (data.len(), ty.elements());
                return Err(self.fault(place, TextFault::ElementCount { found, expected }));
            }
            Arc::new(Tensor { shape: ty.shape, data })
        };
        self.net.values[id.0 as usize].data = Some(tensor);
        Ok(())
    }

    fn elements(&mut self, dtype: DType) -> Result<Data, Error> {
        let place = self.place();
        let expected = "a list of elements of the stated type";
        let wrong = |found: String| TextFault::Unexpected { found, expected };
        let Attribute::List(items) = self.attribute(0)? else {
            return Err(self.fault(place, wrong("no list".to_string())));
        };
        let mut words = Vec::with_capacity(items.len());
        for item in &items {
            match item {
                Attribute::Word(word) => words.push(word.as_str()),
                other => return Err(self.fault(place, wrong(format!("{other}")))),
            }
        }
        fn all<T>(words: &[&str], read: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, String> {
            words.iter().map(|w| read(w).ok_or_else(|| format!("`{w}`"))).collect()
        }
        let data = if dtype.is_float() {
            all(&words, |w| w.parse::<f32>().ok()).map(|v| Data::from_f32(dtype, &v))
        } else if dtype == DType::Bool {
            all(&words, |w| w.parse().ok()).map(Data::Bool)
        } else {
            // A number out of the type's range is refused, not clamped.
            let holds = |v: &i32| Data::from_i32(dtype, &[*v]).to_i32() == [*v];
            all(&words, |w| w.parse::<i32>().ok().filter(holds)).map(|v| Data::from_i32(dtype, &v))
        };
        data.map_err(|found| self.fault(place, wrong(found)))
    }

    fn op(&mut self) -> Result<(), Error> {
        let mut outputs = vec![self.definition()?];
        while self.accept(',') {
            outputs.push(self.definition()?);
        }
        self.expect('=', "an equals sign")?;
        self.skip_space();
        let place = self.place();
        let name = self.word("an operation")?;
        self.expect('(', "an opening parenthesis")?;
        let mut inputs = vec![];
        while !self.accept(')') {
            if !inputs.is_empty() {
                self.expect(',', "a comma or a closing parenthesis")?;
            }
            inputs.push(self.reference()?);
        }
        let mut list = vec![];
        while let Some(attribute) = self.next_attribute()? {
            list.push(attribute);
        }
        let mut attributes = Attributes { op: name, list };
        let own = match attributes.take("name") {
            Some(Attribute::Text(name)) => name,
            Some(_) => {
                let what = TextFault::AttributeType { name: "name".to_string(), expected: "a quoted name" };
                return Err(self.fault(place, what));
            }
            None => self.net.value(outputs[0]).name.clone(),
        };
        let kind = match name {
            "loop" => {
                let missing = || TextFault::MissingAttribute { op: name.to_string(), name: "body".to_string() };
                let Some(Attribute::Text(body)) = attributes.take("body") else {
                    return Err(self.fault(place, missing()));
                };
                attributes.looped(self.body(place, &body)?)
            }
            _ => attributes.kind(),
        };
        let kind = kind.map_err(|what| self.fault(place, what))?;
        self.net.ops.push(Op { name: own, kind, inputs, outputs });
        Ok(())
    }

    /// Parses the body of a loop, whose text begins at `place`.
    fn body(&self, place: Place, text: &str) -> Result<Net, Error> {
        if self.depth == BODY_DEPTH {
            let (found, expected) = ("a body within a body".to_string(), "at most 8 nested bodies");
            return Err(self.fault(place, TextFault::Unexpected { found, expected }));
        }
        let depth = self.depth + 1;
        let (blobs, net, names) = (self.blobs, Net::default(), HashMap::new());
        let mut parser = Parser { rest: text, line: 1, column: 1, blobs, net, names, depth };
        // Lines of the body are not lines of the text.
        parser.net().map_err(|error| match error {
            Error::Text { what, .. } => self.fault(place, what),
            other => other,
        })?;
        Ok(parser.net)
    }

    /// The next `name=value`, if there is one before the next statement.
    fn next_attribute(&mut self) -> Result<Option<(String, Attribute)>, Error> {
        self.skip_space();
        let end = self.rest.find(|c| !is_plain(c)).unwrap_or(self.rest.len());
        if end == 0 || !self.rest[end..].trim_start().starts_with('=') {
            return Ok(None);
        }
        let name = self.advance(end).to_string();
        self.expect('=', "an equals sign")?;
        Ok(Some((name, self.attribute(0)?)))
    }
}
