//! Lexer of MIL text: tokens with their positions.

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A name or keyword.
    Word(String),
    /// A number as written, with its sign: decimal, hexadecimal, `nan`, `inf`.
    Number(String),
    /// A string literal, escapes resolved.
    Text(String),
    /// A single mark; `->` is `>` with the word before it `-`, joined here as `→`.
    Mark(char),
    /// A character that begins no token.
    Strange(char),
    /// A string literal without its closing quote.
    Unclosed,
    End,
}

impl Token {
    /// Description for messages.
    pub fn describe(&self) -> String {
        match self {
            Token::Word(word) => format!("`{word}`"),
            Token::Number(number) => format!("`{number}`"),
            Token::Text(_) => "a text".to_string(),
            Token::Mark('→') => "`->`".to_string(),
            Token::Mark(c) | Token::Strange(c) => format!("`{c}`"),
            Token::Unclosed => "a text without its closing quote".to_string(),
            Token::End => "the end of the text".to_string(),
        }
    }
}

/// A token with its position: bytes `start..end`.
#[derive(Clone, Debug)]
pub struct Spanned {
    pub token: Token,
    pub start: usize,
    pub end: usize,
}

/// Produces tokens one by one.
pub struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Self {
        // A byte order mark is not part of the text.
        Lexer { text, at: if text.starts_with('\u{feff}') { 3 } else { 0 } }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip(&mut self) {
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start().len();
            let rest = self.rest();
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                self.at += rest.find("*/").map_or(rest.len(), |end| end + 2);
            } else {
                return;
            }
        }
    }

    pub fn take(&mut self) -> Spanned {
        self.skip();
        let (start, rest) = (self.at, self.rest());
        let Some(first) = rest.chars().next() else { return Spanned { token: Token::End, start, end: start } };
        let signed = matches!(first, '-' | '+');
        let second = rest.chars().nth(1).unwrap_or(' ');
        let token = if rest.starts_with("->") {
            self.at += 2;
            Token::Mark('→')
        } else if first.is_ascii_digit()
            || first == '.' && second.is_ascii_digit()
            || signed && (second.is_ascii_digit() || second == '.' || second.is_ascii_alphabetic())
        {
            Token::Number(self.number())
        } else if first.is_alphabetic() || first == '_' || first == '@' {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || "_.@$".contains(c))).unwrap_or(rest.len());
            self.at += end;
            match &rest[..end] {
                word @ ("nan" | "inf" | "infinity") => Token::Number(word.to_string()),
                word => Token::Word(word.to_string()),
            }
        } else if first == '"' {
            self.text()
        } else {
            self.at += first.len_utf8();
            if "()[]{}<>,;=?:*".contains(first) { Token::Mark(first) } else { Token::Strange(first) }
        };
        Spanned { token, start, end: self.at }
    }

    /// The longest prefix that can be a number, the sign of an exponent included.
    fn number(&mut self) -> String {
        let rest = self.rest();
        // Only a prefix is inspected: the rest may be the whole file.
        let digits = rest.trim_start_matches(['-', '+']);
        let hex = digits.starts_with("0x") || digits.starts_with("0X");
        let mut end = 1;
        for (at, c) in rest.char_indices().skip(1) {
            let before = rest[..at].chars().next_back().unwrap_or(' ').to_ascii_lowercase();
            let exponent = if hex { before == 'p' } else { before == 'e' };
            if c.is_ascii_alphanumeric() || c == '.' || matches!(c, '-' | '+') && exponent {
                end = at + 1;
            } else {
                break;
            }
        }
        self.at += end;
        rest[..end].to_string()
    }

    fn text(&mut self) -> Token {
        let rest = self.rest();
        let (mut out, mut chars) = (String::new(), rest.char_indices().skip(1));
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += at + 1;
                    return Token::Text(out);
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => out.push('\n'),
                    Some((_, 't')) => out.push('\t'),
                    Some((_, 'r')) => out.push('\r'),
                    Some((_, '0')) => out.push('\0'),
                    Some((_, 'x')) => {
                        let digits: String = chars.by_ref().take(2).map(|(_, c)| c).collect();
                        let code = u8::from_str_radix(&digits, 16).map_or('\u{fffd}', char::from);
                        out.push(code);
                    }
                    Some((_, other)) => out.push(other),
                    None => break,
                },
                c => out.push(c),
            }
        }
        self.at = self.text.len();
        Token::Unclosed
    }
}

/// A number in decimal or hexadecimal form, with `p` exponents, `nan` and infinities.
pub fn float(text: &str) -> Option<f64> {
    let (negative, body) = match text.strip_prefix('-') {
        Some(body) => (true, body),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = body.to_ascii_lowercase();
    let value = match lower.strip_prefix("0x") {
        Some(hex) => {
            let (digits, exponent) = hex.split_once('p').unwrap_or((hex, "0"));
            let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
            if whole.is_empty() && part.is_empty() {
                return None;
            }
            let mut value = 0f64;
            for c in whole.chars().chain(part.chars()) {
                value = value * 16.0 + f64::from(c.to_digit(16)?);
            }
            let exponent: i32 = exponent.parse().ok()?;
            let shift = exponent.saturating_sub(i32::try_from(part.len()).ok()?.saturating_mul(4));
            // In two steps, so that neither factor leaves the range if the product does not.
            let half = shift / 2;
            value * 2f64.powi(half.clamp(-1200, 1200)) * 2f64.powi((shift - half).clamp(-1200, 1200))
        }
        None => match lower.as_str() {
            "nan" => f64::NAN,
            "inf" | "infinity" => f64::INFINITY,
            other => other.parse().ok()?,
        },
    };
    Some(if negative { -value } else { value })
}

/// An integer in decimal or hexadecimal form.
pub fn integer(text: &str) -> Option<i128> {
    let (negative, body) = match text.strip_prefix('-') {
        Some(body) => (true, body),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let value = match body.strip_prefix("0x").or(body.strip_prefix("0X")) {
        Some(hex) if !hex.contains(['.', 'p']) => i128::from_str_radix(hex, 16).ok()?,
        _ => body.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}

/// A float as hexadecimal text that gives the same value back.
pub fn hex_float(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_infinite() {
        return format!("{sign}inf");
    }
    if value == 0.0 {
        return format!("{sign}0x0p+0");
    }
    let bits = value.abs().to_bits();
    let (exponent, mantissa) = ((bits >> 52) as i64, bits & ((1 << 52) - 1));
    // Subnormal doubles never come from narrower floats; they are scaled up first.
    if exponent == 0 {
        let scaled = hex_float(value * 2f64.powi(200));
        let (digits, power) = scaled.split_once('p').unwrap_or((&scaled, "0"));
        return format!("{digits}p{:+}", power.parse::<i64>().unwrap_or(0) - 200);
    }
    let digits = format!("{mantissa:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("{sign}0x1{point}{digits}p{:+}", exponent - 1023)
}
