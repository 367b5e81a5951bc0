//! Parser of MIL text to messages. Every syntax error has its position; after one, parsing continues behind the statement.

mod types;
mod values;

use super::OPSET_TAG;
use super::lex::{Lexer, Spanned, Token};
use super::proto::*;
use std::collections::BTreeMap;
use types::{COMPOUND, element_of};
pub(super) use values::text_value;

/// Deepest nesting of types, literals and blocks.
const DEPTH: usize = 32;

/// Most syntax errors that are reported.
const FAULTS: usize = 20;

/// Highest rank of a tensor type.
const RANK: usize = 16;

/// Syntax error of a text, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Offset of its first byte.
    pub start: usize,
    /// Offset behind its last byte.
    pub end: usize,
    /// Line, counted from one.
    pub line: usize,
    /// Column in characters, counted from one.
    pub column: usize,
    /// Token found there.
    pub found: String,
    /// Token expected there.
    pub expected: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}: found {}, expected {}", self.line, self.column, self.found, self.expected)
    }
}

/// Parses the text of a program. Errors: all syntax errors, at most 20.
pub fn parse(text: &str) -> Result<Program, Vec<Fault>> {
    let mut lexer = Lexer::new(text);
    let now = lexer.take();
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

/// Result of a rule; `None` after a recorded error.
type Parsed<T> = Option<T>;

impl Parser<'_> {
    fn advance(&mut self) -> Spanned {
        let next = self.lexer.take();
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

    /// Items up to a closing mark, separated by commas.
    fn list<T>(&mut self, close: char, item: impl Fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        while !self.accept(close) {
            if !items.is_empty() {
                self.expect(',', &format!("`,` or `{close}`"))?;
                // A trailing comma is allowed.
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
            // The message has the integer part only; `1.0` and `1.3` are both its first version.
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
        let inputs = match self.list(')', Self::named_type) {
            Some(inputs) => inputs,
            None => {
                // The operations may have errors of their own.
                while !self.is('{') && self.now.token != Token::End {
                    self.advance();
                }
                vec![]
            }
        };
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

    /// Skips the statement with an error: to its semicolon, or to the brace that ends the block.
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
        let bare = matches!(self.now.token, Token::Word(_)) && matches!(ahead.take().token, Token::Mark('('));
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

    /// Returns true if a typed value follows: a type's name with `(` or `<` behind it.
    fn begins_value(&self) -> bool {
        let Token::Word(word) = &self.now.token else { return false };
        let known = element_of(word).is_some() || COMPOUND.contains(&word.as_str());
        let mut ahead = Lexer::new(&self.text[self.now.end..]);
        known && matches!(ahead.take().token, Token::Mark('(' | '<'))
    }

    /// `[name = value, ...]`, if present.
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
}
