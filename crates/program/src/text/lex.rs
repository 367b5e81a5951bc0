//! Lexer of the listings: lines and tokens with positions.

/// Error for a listing that does not assemble.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: expected {expected}, found {found}")]
pub struct TextError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Expected text.
    pub expected: String,
    /// Text found.
    pub found: String,
}

/// Largest total size in bytes of the blocks of a listing.
pub(super) const MAX_BLOCK_BYTES: u64 = 1 << 30;
/// Total size in bytes of blocks without the mark for sparse ones that every listing may have.
const PLAIN_BYTES: u64 = 1 << 26;
/// Additional bytes of such blocks per byte of the listing: every data line in a block that is not sparse
/// stands for at most 16 lines of zeros.
const PLAIN_FACTOR: u64 = 16;
/// Mark behind the size of a block that is mostly zeros.
pub(super) const SPARSE: &str = ",sparse";

/// A token with its position.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    pub line: usize,
    pub column: usize,
    pub text: &'a str,
}

impl<'a> Token<'a> {
    pub fn error(&self, expected: impl Into<String>) -> TextError {
        let found = if self.text.is_empty() { "the end of the line".to_string() } else { format!("`{}`", self.text) };
        TextError { line: self.line, column: self.column, expected: expected.into(), found }
    }

    /// A part of the token from a byte offset, which must lie on a character boundary.
    fn from(&self, at: usize) -> Token<'a> {
        let column = self.column + self.text[..at].chars().count();
        Token { line: self.line, column, text: &self.text[at..] }
    }

    /// The token without a prefix.
    pub fn strip(&self, prefix: &str) -> Option<Token<'a>> {
        self.text.starts_with(prefix).then(|| self.from(prefix.len()))
    }

    pub fn expect(&self, text: &str) -> Result<(), TextError> {
        if self.text == text { Ok(()) } else { Err(self.error(format!("`{text}`"))) }
    }

    /// An unsigned number of at most `max`.
    pub fn number(&self, max: u64) -> Result<u64, TextError> {
        let value = match self.text.strip_prefix("0x") {
            Some(hex) if !hex.starts_with('+') => u64::from_str_radix(hex, 16).ok(),
            None if !self.text.starts_with('+') => self.text.parse().ok(),
            _ => None,
        };
        value.filter(|&v| v <= max).ok_or_else(|| self.error(format!("a number of at most {max:#x}")))
    }

    pub fn u32(&self) -> Result<u32, TextError> {
        Ok(self.number(u32::MAX as u64)? as u32)
    }

    /// The bytes of a text in double quotes.
    pub fn quoted(&self) -> Result<Vec<u8>, TextError> {
        let inner = self.text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).filter(|_| self.text.len() >= 2);
        let inner = inner.ok_or_else(|| self.error("a text in double quotes"))?;
        let mut out = Vec::with_capacity(inner.len());
        let mut chars = inner.char_indices();
        while let Some((i, c)) = chars.next() {
            if c != '\\' {
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            let mut digit = || chars.next().and_then(|(_, c)| c.to_digit(16));
            match inner[i + 1..].chars().next() {
                Some('x') => {
                    digit();
                    let (high, low) = (digit(), digit());
                    match (high, low) {
                        (Some(h), Some(l)) => out.push((16 * h + l) as u8),
                        _ => return Err(self.from(i + 1).error("two hexadecimal digits after `\\x`")),
                    }
                    continue;
                }
                Some('n') => out.push(b'\n'),
                Some('t') => out.push(b'\t'),
                Some('"') => out.push(b'"'),
                Some('\\') => out.push(b'\\'),
                _ => return Err(self.from(i + 1).error("an escape: \\n \\t \\\" \\\\ \\x00")),
            }
            chars.next();
        }
        Ok(out)
    }

    /// A text in double quotes that is valid UTF-8.
    pub fn string(&self) -> Result<String, TextError> {
        String::from_utf8(self.quoted()?).map_err(|_| self.error("a text in UTF-8"))
    }

    /// Pairs of hexadecimal digits.
    pub fn hex(&self) -> Result<Vec<u8>, TextError> {
        let digits: Option<Vec<u32>> = self.text.chars().map(|c| c.to_digit(16)).collect();
        match digits {
            Some(d) if d.len() % 2 == 0 => Ok(d.chunks_exact(2).map(|p| (16 * p[0] + p[1]) as u8).collect()),
            _ => Err(self.error("pairs of hexadecimal digits")),
        }
    }
}

/// A text in double quotes. Bytes that are not valid UTF-8 and control characters are escaped.
pub fn quote(bytes: &[u8]) -> String {
    let mut out = String::from('"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => out += "\\\"",
                '\\' => out += "\\\\",
                '\n' => out += "\\n",
                '\t' => out += "\\t",
                c if c.is_control() => {
                    for b in c.encode_utf8(&mut [0; 4]).bytes() {
                        out += &format!("\\x{b:02x}");
                    }
                }
                c => out.push(c),
            }
        }
        for b in chunk.invalid() {
            out += &format!("\\x{b:02x}");
        }
    }
    out.push('"');
    out
}

/// A line that holds at least one token.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    pub tokens: Vec<Token<'a>>,
    /// Position after the last token.
    pub end: Token<'a>,
}

impl<'a> Line<'a> {
    /// The token at a position; an empty one at the end.
    pub fn at(&self, i: usize) -> Token<'a> {
        self.tokens.get(i).copied().unwrap_or(self.end)
    }

    /// First word of the line.
    pub fn word(&self) -> &'a str {
        self.at(0).text
    }

    /// Requires the line to end here.
    pub fn ends_at(&self, i: usize) -> Result<(), TextError> {
        self.tokens.get(i).map_or(Ok(()), |t| Err(t.error("the end of the line")))
    }

    /// Value of `key=value` at a position.
    pub fn keyed(&self, i: usize, key: &str) -> Result<Token<'a>, TextError> {
        let token = self.at(i);
        token.strip(key).and_then(|t| t.strip("=")).ok_or_else(|| token.error(format!("`{key}=...`")))
    }

    /// Number of `key=number` at a position.
    pub fn u32(&self, i: usize, key: &str) -> Result<u32, TextError> {
        self.keyed(i, key)?.u32()
    }

    /// Number of `key=number` at a position.
    pub fn u64(&self, i: usize, key: &str) -> Result<u64, TextError> {
        self.keyed(i, key)?.number(u64::MAX)
    }
}

/// Lines of a listing, read from the front.
pub(super) struct Lines<'a> {
    lines: std::iter::Peekable<std::vec::IntoIter<Line<'a>>>,
    end: Token<'a>,
    /// Bytes that further blocks may have.
    budget: u64,
    /// Bytes that further blocks without the mark for sparse ones may have.
    plain: u64,
}

impl<'a> Lines<'a> {
    pub fn of(text: &'a str) -> Result<Lines<'a>, TextError> {
        let mut lines = Vec::new();
        let mut count = 0;
        for (i, line) in text.lines().enumerate() {
            count = i + 1;
            let line = tokens(line, i + 1)?;
            if !line.tokens.is_empty() {
                lines.push(line);
            }
        }
        let end = Token { line: count + 1, column: 1, text: "" };
        let plain = PLAIN_BYTES + PLAIN_FACTOR * text.len() as u64;
        Ok(Lines { lines: lines.into_iter().peekable(), end, budget: MAX_BLOCK_BYTES, plain })
    }

    /// A zero block with the stated number of units, counted against the limits of the listing: a short listing cannot produce a
    /// large file, unless it marks the block as sparse.
    pub fn zeros<T: Clone + Default>(&mut self, size: &Token) -> Result<Vec<T>, TextError> {
        let unit = size_of::<T>() as u64;
        let (size, sparse) = match size.text.strip_suffix(SPARSE) {
            Some(number) => (Token { text: number, ..*size }, true),
            None => (*size, false),
        };
        let count = size.number(self.budget / unit)?;
        if !sparse && count * unit > self.plain {
            let (most, length) = (self.plain / unit, PLAIN_BYTES >> 20);
            return Err(size.error(format!(
                "a number of at most {most:#x}, which is what remains of {length} MiB and {PLAIN_FACTOR} times the length of \
                 the listing, or `{SPARSE}` behind it"
            )));
        }
        self.budget -= count * unit;
        if !sparse {
            self.plain -= count * unit;
        }
        Ok(vec![T::default(); count as usize])
    }

    pub fn peek(&mut self) -> Option<&Line<'a>> {
        self.lines.peek()
    }

    /// The next line if its first word is `word`.
    pub fn next_if(&mut self, word: &str) -> Option<Line<'a>> {
        self.lines.next_if(|l| l.word() == word)
    }

    /// The next line, which must start with `word`.
    pub fn expect(&mut self, word: &str) -> Result<Line<'a>, TextError> {
        match self.lines.next() {
            Some(line) => {
                line.at(0).expect(word)?;
                Ok(line)
            }
            None => Err(self.missing(word)),
        }
    }

    /// Error for the end of the text instead of a line that begins with `word`.
    pub fn missing(&self, word: &str) -> TextError {
        TextError { found: "the end of the text".into(), ..self.end.error(format!("`{word}`")) }
    }

    pub fn next(&mut self) -> Option<Line<'a>> {
        self.lines.next()
    }
}

/// Tokens of a line without its comment; `number` is its number in the listing.
pub fn tokens(line: &str, number: usize) -> Result<Line<'_>, TextError> {
    let mut out = Vec::new();
    let mut start: Option<(usize, usize)> = None;
    let mut quoted = false;
    let mut escaped = false;
    let mut last = (0, 1);
    for (column, (i, c)) in (1..).zip(line.char_indices()) {
        if quoted {
            quoted = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if c == ';' || c.is_whitespace() {
            if let Some((from, at)) = start.take() {
                out.push(Token { line: number, column: at, text: &line[from..i] });
            }
            if c == ';' {
                let end = Token { line: number, column, text: "" };
                return Ok(Line { tokens: out, end });
            }
        } else {
            start.get_or_insert((i, column));
            quoted = c == '"';
        }
        last = (i + c.len_utf8(), column + 1);
    }
    let end = Token { line: number, column: last.1, text: "" };
    if quoted {
        return Err(end.error("a closing double quote"));
    }
    if let Some((from, at)) = start {
        out.push(Token { line: number, column: at, text: &line[from..last.0] });
    }
    Ok(Line { tokens: out, end })
}
