//! MIL text into messages. Every fault is told with its place; after one, parsing goes on behind the statement.

use super::OPSET_TAG;
use super::lex::{Lexer, Spanned, Token, float, integer};
use super::proto::*;
use crate::stored::Element;
use half::f16;
use std::collections::BTreeMap;

/// Deepest nesting of types, literals and blocks.
const DEPTH: usize = 32;

/// Most faults that are told.
const FAULTS: usize = 20;

/// Highest rank of a tensor type.
const RANK: usize = 16;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// First byte of the place.
    pub start: usize,
    /// Byte behind it.
    pub end: usize,
    /// Line, counted from one.
    pub line: usize,
    /// Column in characters, counted from one.
    pub column: usize,
    /// What was found there.
    pub found: String,
    /// What could stand there.
    pub expected: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}: found {}, expected {}", self.line, self.column, self.found, self.expected)
    }
}

/// The program that a text describes, or all that is wrong with it, at most 20 faults.
pub fn parse(text: &str) -> Result<Program, Vec<Fault>> {
    let mut lexer = Lexer::new(text);
    let now = lexer.next();
    let mut parser = Parser { text, lexer, now, faults: Vec::new(), depth: 0 };
    let program = parser.program();
    if parser.faults.is_empty() { Ok(program.unwrap_or_default()) } else { Err(parser.faults) }
}

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    now: Spanned,
    faults: Vec<Fault>,
    depth: usize,
}

/// `None`: a fault has been noted.
type Parsed<T> = Option<T>;

impl Parser<'_> {
    fn advance(&mut self) -> Spanned {
        let next = self.lexer.next();
        std::mem::replace(&mut self.now, next)
    }

    fn fault_at(&mut self, start: usize, end: usize, found: String, expected: &str) {
        if self.faults.len() >= FAULTS {
            return;
        }
        let before = &self.text[..start];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        let expected = expected.to_string();
        self.faults.push(Fault { start, end: end.max(start), line, column, found, expected });
    }

    fn fault<T>(&mut self, expected: &str) -> Parsed<T> {
        let (start, end, found) = (self.now.start, self.now.end, self.now.token.describe());
        self.fault_at(start, end, found, expected);
        None
    }

    fn is(&self, mark: char) -> bool {
        self.now.token == Token::Mark(mark)
    }

    fn accept(&mut self, mark: char) -> bool {
        let found = self.is(mark);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, mark: char, expected: &str) -> Parsed<()> {
        if self.accept(mark) { Some(()) } else { self.fault(expected) }
    }

    fn word(&mut self, expected: &str) -> Parsed<String> {
        match &self.now.token {
            Token::Word(word) => {
                let word = word.clone();
                self.advance();
                Some(word)
            }
            _ => self.fault(expected),
        }
    }

    fn keyword(&mut self, word: &str) -> bool {
        let found = matches!(&self.now.token, Token::Word(w) if w == word);
        if found {
            self.advance();
        }
        found
    }

    fn deeper<T>(&mut self, what: &str, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEPTH {
            return self.fault(&format!("{what} nested at most {DEPTH} deep"));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Items between here and a closing mark, separated by commas.
    fn list<T>(&mut self, close: char, item: impl Fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        while !self.accept(close) {
            if !items.is_empty() {
                self.expect(',', &format!("`,` or `{close}`"))?;
                // A comma may stand before the closing mark.
                if self.accept(close) {
                    break;
                }
            }
            items.push(item(self)?);
        }
        Some(items)
    }

    fn program(&mut self) -> Parsed<Program> {
        let mut program = Program::default();
        if !self.keyword("program") {
            return self.fault("`program`");
        }
        self.expect('(', "`(` and the program's version")?;
        match &self.now.token {
            // The message has the whole part only; `1.0` and `1.3` are both its first version.
            Token::Number(text) => {
                program.version = text.split('.').next().and_then(|v| v.parse().ok()).unwrap_or(1);
                let version = text.clone();
                program.attributes.insert(OPSET_TAG.to_string(), text_value(&version));
                self.advance();
            }
            _ => return self.fault("the program's version"),
        }
        self.expect(')', "`)`")?;
        program.attributes.append(&mut self.attributes()?);
        self.expect('{', "`{` and the functions")?;
        loop {
            if self.accept('}') {
                break;
            }
            if !self.keyword("func") {
                return self.fault("`func` or `}`");
            }
            match self.function() {
                Some((name, function)) => {
                    program.functions.insert(name, function);
                }
                None => return None,
            }
        }
        match self.now.token {
            Token::End => Some(program),
            _ => self.fault("nothing more"),
        }
    }

    fn function(&mut self) -> Parsed<(String, Function)> {
        let name = self.word("the function's name")?;
        let opset = self.tag()?.unwrap_or_default();
        self.expect('(', "`(` and the inputs")?;
        let inputs = self.list(')', Self::named_type)?;
        let attributes = self.attributes()?;
        let block = self.block_body(vec![])?;
        self.accept(';');
        let block_specializations = BTreeMap::from([(opset.clone(), block)]);
        Some((name, Function { inputs, opset, block_specializations, attributes }))
    }

    /// `<name>` after a function or operation.
    fn tag(&mut self) -> Parsed<Option<String>> {
        if !self.accept('<') {
            return Some(None);
        }
        let tag = self.word("an opset, such as `ios18`")?;
        self.expect('>', "`>`")?;
        Some(Some(tag))
    }

    fn named_type(&mut self) -> Parsed<NamedValueType> {
        let ty = self.ty()?;
        let name = self.word("a name")?;
        Some(NamedValueType { name, ty: Some(ty) })
    }

    /// `{ operations } -> (names)`.
    fn block_body(&mut self, inputs: Vec<NamedValueType>) -> Parsed<Block> {
        self.expect('{', "`{` and the operations")?;
        let mut operations = Vec::new();
        loop {
            if self.accept('}') {
                break;
            }
            if self.now.token == Token::End {
                return self.fault("`}`");
            }
            let at = self.now.start;
            match self.operation() {
                Some(operation) => operations.push(operation),
                None if self.faults.len() >= FAULTS => return None,
                None => self.recover(at),
            }
        }
        self.expect('→', "`->` and the results")?;
        self.expect('(', "`(` and the results")?;
        let outputs = self.list(')', |p| p.word("the name of a result"))?;
        Some(Block { inputs, outputs, operations })
    }

    /// Goes behind the statement that a fault is in: to its semicolon, or before the brace that ends the block.
    fn recover(&mut self, from: usize) {
        let mut open = 0usize;
        let mut moved = self.now.start > from;
        loop {
            match self.now.token {
                Token::End => return,
                Token::Mark('{') => open += 1,
                Token::Mark('}') if open == 0 && moved => return,
                Token::Mark('}') => open = open.saturating_sub(1),
                Token::Mark(';') if open == 0 => {
                    self.advance();
                    return;
                }
                _ => {}
            }
            self.advance();
            moved = true;
        }
    }

    fn operation(&mut self) -> Parsed<Operation> {
        let mut operation = Operation::default();
        // An operation without results begins with its own name, which is followed by its arguments.
        let mut ahead = Lexer::new(&self.text[self.now.end..]);
        let bare = matches!(self.now.token, Token::Word(_)) && matches!(ahead.next().token, Token::Mark('('));
        if !bare {
            loop {
                operation.outputs.push(self.named_type()?);
                if !self.accept(',') {
                    break;
                }
            }
            self.expect('=', "`,` and a further result, or `=` and the operation")?;
        }
        operation.ty = self.word("the operation's name")?;
        if let Some(tag) = self.tag()? {
            operation.attributes.insert(OPSET_TAG.to_string(), text_value(&tag));
        }
        self.expect('(', "`(` and the arguments")?;
        let arguments = self.list(')', |p| {
            let (start, end) = (p.now.start, p.now.end);
            let name = p.word("the name of an argument, or `)`")?;
            p.expect('=', "`=` and the argument")?;
            let argument = p.argument()?;
            Some((name, argument, start, end))
        })?;
        for (name, argument, start, end) in arguments {
            if operation.inputs.contains_key(&name) {
                self.fault_at(start, end, format!("`{name}` again"), "each argument once");
                continue;
            }
            operation.inputs.insert(name, argument);
        }
        operation.attributes.append(&mut self.attributes()?);
        while self.is('{') || self.is('(') || self.is(',') {
            self.accept(',');
            let block = self.deeper("blocks", |p| {
                let inputs = if p.accept('(') { p.list(')', Self::named_type)? } else { vec![] };
                p.block_body(inputs)
            })?;
            operation.blocks.push(block);
        }
        self.expect(';', "`;`")?;
        Some(operation)
    }

    /// A name, a value, or several in parentheses.
    fn argument(&mut self) -> Parsed<Argument> {
        if self.accept('(') {
            let arguments = self.list(')', Self::binding)?;
            return Some(Argument { arguments });
        }
        Some(Argument { arguments: vec![self.binding()?] })
    }

    fn binding(&mut self) -> Parsed<Binding> {
        let bound = if self.begins_value() {
            Bound::Value(self.value()?)
        } else {
            Bound::Name(self.word("the name of a value, or a value such as `int32(1)`")?)
        };
        Some(Binding { bound: Some(bound) })
    }

    /// Whether a typed value comes next: a type's name with `(` or `<` behind it.
    fn begins_value(&self) -> bool {
        let Token::Word(word) = &self.now.token else { return false };
        let known = element_of(word).is_some() || COMPOUND.contains(&word.as_str());
        let mut ahead = Lexer::new(&self.text[self.now.end..]);
        known && matches!(ahead.next().token, Token::Mark('(' | '<'))
    }

    /// `[name = value, ...]`, if it comes next.
    fn attributes(&mut self) -> Parsed<BTreeMap<String, Value>> {
        if !self.accept('[') {
            return Some(BTreeMap::new());
        }
        let pairs = self.list(']', |p| {
            let name = p.word("the name of an attribute, or `]`")?;
            p.expect('=', "`=` and a value")?;
            Some((name, p.value()?))
        })?;
        Some(pairs.into_iter().collect())
    }

    fn ty(&mut self) -> Parsed<ValueType> {
        self.deeper("types", Self::ty_inner)
    }

    fn ty_inner(&mut self) -> Parsed<ValueType> {
        let (start, end) = (self.now.start, self.now.end);
        let word = self.word("a type, such as `tensor<fp16, [1, 3]>`")?;
        let kind = match word.as_str() {
            "tensor" => {
                self.expect('<', "`<` and an element type")?;
                let element = self.element()?;
                self.expect(',', "`,` and extents")?;
                self.expect('[', "`[` and extents")?;
                let dimensions = self.dimensions()?;
                self.expect('>', "`>`")?;
                TypeKind::Tensor(tensor_type(element, dimensions))
            }
            "tensor_buffer" => {
                self.expect('<', "`<` and an element type")?;
                let element = self.element()?;
                let mut tensor = tensor_type(element, vec![]);
                while self.accept(',') {
                    let name = self.word("`shape`, `strides` or `interleave_factors`")?;
                    self.expect('=', "`=`")?;
                    self.expect('[', "`[`")?;
                    if name == "shape" {
                        tensor.dimensions = self.dimensions()?;
                        tensor.rank = tensor.dimensions.len() as i64;
                    } else {
                        let values = self.list(']', Self::long)?;
                        tensor.attributes.insert(name, longs(values));
                    }
                }
                self.expect('>', "`,` or `>`")?;
                TypeKind::Tensor(tensor)
            }
            "list" => {
                self.expect('<', "`<` and a type")?;
                let ty = Some(Box::new(self.ty()?));
                let length = if self.accept(',') { Some(self.dimension()?) } else { None };
                self.expect('>', "`>`")?;
                TypeKind::List(Box::new(ListType { ty, length }))
            }
            "tuple" => {
                self.expect('<', "`<` and types")?;
                TypeKind::Tuple(TupleType { types: self.list('>', Self::ty)? })
            }
            "dict" | "dictionary" => {
                self.expect('<', "`<` and the type of keys")?;
                let key = Some(Box::new(self.ty()?));
                self.expect(',', "`,` and the type of values")?;
                let value = Some(Box::new(self.ty()?));
                self.expect('>', "`>`")?;
                TypeKind::Dictionary(Box::new(DictionaryType { key, value }))
            }
            "state" => {
                self.expect('<', "`<` and a type")?;
                let wrapped = Some(Box::new(self.ty()?));
                self.expect('>', "`>`")?;
                TypeKind::State(Box::new(StateType { wrapped }))
            }
            name => match element_of(name) {
                Some(element) => TypeKind::Tensor(tensor_type(element, vec![])),
                None => {
                    self.fault_at(start, end, format!("`{name}`"), "a type, such as `tensor<fp16, [1, 3]>` or `int32`");
                    return None;
                }
            },
        };
        Some(ValueType { kind: Some(kind) })
    }

    fn element(&mut self) -> Parsed<Element> {
        let (start, end) = (self.now.start, self.now.end);
        let word = self.word("an element type, such as `fp16`")?;
        if let Some(element) = element_of(&word) {
            return Some(element);
        }
        self.fault_at(start, end, format!("`{word}`"), "an element type, such as `fp16`, `int32` or `bool`");
        None
    }

    fn dimensions(&mut self) -> Parsed<Vec<Dimension>> {
        let (start, end) = (self.now.start, self.now.end);
        let dimensions = self.list(']', Self::dimension)?;
        if dimensions.len() > RANK {
            self.fault_at(start, end, format!("{} extents", dimensions.len()), &format!("at most {RANK}"));
            return None;
        }
        Some(dimensions)
    }

    fn dimension(&mut self) -> Parsed<Dimension> {
        if self.accept('?') || self.accept('*') {
            return Some(Dimension { extent: Some(Extent::Unknown(UnknownDimension { variadic: false })) });
        }
        let size = match &self.now.token {
            Token::Number(text) => integer(text).and_then(|v| u64::try_from(v).ok()),
            // A symbolic extent is one that is not known here.
            Token::Word(_) => {
                self.advance();
                return Some(Dimension { extent: Some(Extent::Unknown(UnknownDimension { variadic: false })) });
            }
            _ => None,
        };
        match size {
            Some(size) => {
                self.advance();
                Some(Dimension { extent: Some(Extent::Constant(ConstantDimension { size })) })
            }
            None => self.fault("an extent or `?`"),
        }
    }

    fn long(&mut self) -> Parsed<i64> {
        let value = match &self.now.token {
            Token::Number(text) => integer(text).and_then(|v| i64::try_from(v).ok()),
            _ => None,
        };
        match value {
            Some(value) => {
                self.advance();
                Some(value)
            }
            None => self.fault("an integer"),
        }
    }

    /// A type with its value in parentheses.
    fn value(&mut self) -> Parsed<Value> {
        let ty = self.ty()?;
        self.expect('(', "`(` and the value")?;
        let source = self.source(&ty)?;
        self.expect(')', "`)`")?;
        Some(Value { ty: Some(ty), source: Some(source) })
    }

    fn source(&mut self, ty: &ValueType) -> Parsed<Source> {
        if self.keyword("BLOBFILE") {
            return self.blob_file();
        }
        let immediate = match ty.kind.as_ref()? {
            TypeKind::Tensor(tensor) => Immediate::Tensor(self.tensor(tensor)?),
            TypeKind::List(list) => {
                self.expect('[', "`[` and elements")?;
                let element = list.ty.as_deref().cloned().unwrap_or_default();
                let values = self.list(']', |p| p.inner(&element))?;
                // Texts alone are a tensor of texts to those who read the message.
                Immediate::List(ValueList { values })
            }
            TypeKind::Tuple(tuple) => {
                self.expect('(', "`(` and elements")?;
                let mut values = Vec::new();
                for (i, ty) in tuple.types.iter().enumerate() {
                    if i > 0 {
                        self.expect(',', "`,`")?;
                    }
                    values.push(self.inner(ty)?);
                }
                self.expect(')', "`)`")?;
                Immediate::Tuple(ValueList { values })
            }
            TypeKind::Dictionary(dictionary) => {
                self.expect('{', "`{` and pairs")?;
                let key = dictionary.key.as_deref().cloned().unwrap_or_default();
                let value = dictionary.value.as_deref().cloned().unwrap_or_default();
                let pairs = self.list('}', |p| {
                    p.expect('{', "`{` and a pair")?;
                    let key = Some(p.inner(&key)?);
                    p.expect(',', "`,` and a value")?;
                    let value = Some(p.inner(&value)?);
                    p.expect('}', "`}`")?;
                    Some(Pair { key, value })
                })?;
                Immediate::Dictionary(DictionaryValue { pairs })
            }
            TypeKind::State(_) => return self.fault("a type that has values"),
        };
        Some(Source::Immediate(ImmediateValue { value: Some(immediate) }))
    }

    /// An element of a list, tuple or dictionary: with its type, or without where that is known.
    fn inner(&mut self, ty: &ValueType) -> Parsed<Value> {
        self.deeper("values", |p| {
            if p.begins_value() {
                return p.value();
            }
            let source = p.source(ty)?;
            Some(Value { ty: Some(ty.clone()), source: Some(source) })
        })
    }

    fn blob_file(&mut self) -> Parsed<Source> {
        self.expect('(', "`(` and `path`")?;
        let (mut file_name, mut offset) = (None, None);
        let parts = self.list(')', |p| {
            let (start, end) = (p.now.start, p.now.end);
            let name = p.word("`path` or `offset`")?;
            p.expect('=', "`=`")?;
            let value = p.value()?;
            Some((name, value, start, end))
        })?;
        for (name, value, start, end) in parts {
            let scalar = match value.source {
                Some(Source::Immediate(ImmediateValue { value: Some(Immediate::Tensor(t)) })) => t.elements,
                _ => None,
            };
            match (name.as_str(), scalar) {
                ("path", Some(Elements::Strings(s))) => file_name = s.values.into_iter().next(),
                ("offset", Some(Elements::LongInts(v))) => offset = v.values.first().map(|&v| v as u64),
                ("offset", Some(Elements::Ints(v))) => offset = v.values.first().and_then(|&v| u64::try_from(v).ok()),
                _ => self.fault_at(start, end, format!("`{name}`"), "`path` as string and `offset` as uint64"),
            }
        }
        match (file_name, offset) {
            (Some(file_name), Some(offset)) => Some(Source::BlobFile(BlobFileValue { file_name, offset })),
            _ => self.fault("`path` and `offset` before this"),
        }
    }

    /// Elements of a tensor: a scalar, or a list of them, nested or flat.
    fn tensor(&mut self, ty: &TensorType) -> Parsed<TensorValue> {
        let element = element(ty.data_type)?;
        let (start, end) = (self.now.start, self.now.end);
        let mut made = Made::default();
        self.elements(element, &mut made)?;
        let extents = ty.dimensions.iter().map(|d| match &d.extent {
            Some(Extent::Constant(c)) => Some(c.size),
            _ => None,
        });
        let count = extents.collect::<Option<Vec<u64>>>().map(|e| e.iter().fold(1u64, |n, &d| n.saturating_mul(d)));
        if let Some(count) = count.filter(|&count| count != made.count as u64) {
            self.fault_at(start, end, format!("{} elements", made.count), &format!("{count}, as the type has"));
            return None;
        }
        Some(TensorValue { elements: Some(made.elements(element)) })
    }

    fn elements(&mut self, element: Element, made: &mut Made) -> Parsed<()> {
        if !self.accept('[') {
            return self.scalar(element, made);
        }
        self.deeper("lists", |p| {
            let mut first = true;
            while !p.accept(']') {
                if !std::mem::take(&mut first) {
                    p.expect(',', "`,` or `]`")?;
                }
                p.elements(element, made)?;
            }
            Some(())
        })
    }

    fn scalar(&mut self, element: Element, made: &mut Made) -> Parsed<()> {
        // Some writers repeat the type at every element.
        if matches!(&self.now.token, Token::Word(word) if element_of(word) == Some(element)) {
            self.advance();
            self.expect('(', "`(` after the type of an element")?;
            self.plain_scalar(element, made)?;
            return self.expect(')', "`)` after an element with its type");
        }
        self.plain_scalar(element, made)
    }

    fn plain_scalar(&mut self, element: Element, made: &mut Made) -> Parsed<()> {
        let expected = match element {
            Element::String => "a text in quotes",
            Element::Bool => "`true` or `false`",
            Element::Int(_) | Element::UInt(_) => "an integer of that type",
            _ => "a number",
        };
        let taken = match (&self.now.token, element) {
            (Token::Text(text), Element::String) => {
                made.texts.push(text.clone());
                true
            }
            (Token::Word(word), Element::Bool) if word == "true" || word == "false" => {
                made.integers.push(i64::from(word == "true"));
                true
            }
            (Token::Number(text), Element::Bool) if text == "0" || text == "1" => {
                made.integers.push(i64::from(text == "1"));
                true
            }
            (Token::Number(text), Element::Int(bits)) => {
                let held = integer(text).filter(|v| (-(1i128 << (bits - 1))..1i128 << (bits - 1)).contains(v));
                held.map(|v| made.integers.push(v as i64)).is_some()
            }
            (Token::Number(text), Element::UInt(bits)) => {
                let held = integer(text).filter(|v| (0..1i128 << bits).contains(v));
                held.map(|v| made.integers.push(v as u64 as i64)).is_some()
            }
            (Token::Number(text), Element::Float16 | Element::Float32 | Element::Float64 | Element::BFloat16) => {
                float(text).map(|v| made.floats.push(v)).is_some()
            }
            _ => false,
        };
        if !taken {
            return self.fault(expected);
        }
        made.count += 1;
        self.advance();
        Some(())
    }
}

/// Elements as they are read.
#[derive(Default)]
struct Made {
    count: usize,
    texts: Vec<String>,
    integers: Vec<i64>,
    floats: Vec<f64>,
}

impl Made {
    /// In the field of the message that the format uses for this type.
    fn elements(self, element: Element) -> Elements {
        let packed = |bytes: Vec<u8>| Elements::Bytes(Bytes { values: bytes.into() });
        match element {
            Element::String => Elements::Strings(Strings { values: self.texts }),
            Element::Bool => Elements::Bools(Bools { values: self.integers.iter().map(|&v| v != 0).collect() }),
            Element::Float32 => Elements::Floats(Floats { values: self.floats.iter().map(|&v| v as f32).collect() }),
            Element::Float64 => Elements::Doubles(Doubles { values: self.floats }),
            Element::Float16 => packed(self.floats.iter().flat_map(|&v| f16::from_f64(v).to_le_bytes()).collect()),
            Element::BFloat16 => {
                packed(self.floats.iter().flat_map(|&v| half::bf16::from_f64(v).to_le_bytes()).collect())
            }
            Element::Int(32) => Elements::Ints(Ints { values: self.integers.iter().map(|&v| v as i32).collect() }),
            Element::Int(64) | Element::UInt(64) => Elements::LongInts(LongInts { values: self.integers }),
            Element::UInt(32) => packed(self.integers.iter().flat_map(|&v| (v as u32).to_le_bytes()).collect()),
            Element::Int(16) | Element::UInt(16) => {
                packed(self.integers.iter().flat_map(|&v| (v as u16).to_le_bytes()).collect())
            }
            Element::Int(bits) | Element::UInt(bits) => {
                let bytes: Vec<u8> = self.integers.iter().map(|&v| v as u8).collect();
                packed(if bits >= 8 { bytes } else { crate::stored::pack(&bytes, bits as usize) })
            }
        }
    }
}

/// Types that are not elements.
const COMPOUND: [&str; 7] = ["tensor", "tensor_buffer", "list", "tuple", "dict", "dictionary", "state"];

/// The element type of that name.
fn element_of(name: &str) -> Option<Element> {
    ELEMENTS.iter().find(|(_, _, n)| *n == name).map(|row| row.1)
}

fn tensor_type(element: Element, dimensions: Vec<Dimension>) -> TensorType {
    let number = ELEMENTS.iter().find(|(_, e, _)| *e == element).map_or(0, |row| row.0);
    TensorType { data_type: number, rank: dimensions.len() as i64, dimensions, attributes: BTreeMap::new() }
}

/// A text as a value.
pub fn text_value(text: &str) -> Value {
    let elements = Elements::Strings(Strings { values: vec![text.to_string()] });
    let ty = ValueType { kind: Some(TypeKind::Tensor(tensor_type(Element::String, vec![]))) };
    immediate(ty, elements)
}

fn longs(values: Vec<i64>) -> Value {
    let size = values.len() as u64;
    let dimension = Dimension { extent: Some(Extent::Constant(ConstantDimension { size })) };
    let ty = ValueType { kind: Some(TypeKind::Tensor(tensor_type(Element::Int(64), vec![dimension]))) };
    immediate(ty, Elements::LongInts(LongInts { values }))
}

fn immediate(ty: ValueType, elements: Elements) -> Value {
    let tensor = Immediate::Tensor(TensorValue { elements: Some(elements) });
    Value { ty: Some(ty), source: Some(Source::Immediate(ImmediateValue { value: Some(tensor) })) }
}
