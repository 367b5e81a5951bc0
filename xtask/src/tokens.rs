//! Rust source as words and punctuation: enough to distinguish code from comments, strings and tests.

/// A word or a single punctuation character, with its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    pub text: &'a str,
    pub line: usize,
}

/// The tokens of a source without comments, strings, characters and lifetimes.
pub fn lex(source: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer { source, at: 0, line: 1, tokens: Vec::new() };
    while lexer.step() {}
    lexer.tokens
}

/// The tokens outside of test-only items.
pub fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        if tokens.len() - i >= MARK.len() && (0..MARK.len()).all(|k| tokens[i + k].text == MARK[k]) {
            i = end_of_item(tokens, i + MARK.len());
        } else {
            kept.push(tokens[i]);
            i += 1;
        }
    }
    kept
}

/// One past the item that starts at `i`: its closing brace or semicolon.
fn end_of_item(tokens: &[Token], mut i: usize) -> usize {
    let mut depth = 0usize;
    while i < tokens.len() {
        match tokens[i].text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return i + 1;
                }
            }
            ";" if depth == 0 => return i + 1,
            _ => {}
        }
        i += 1;
    }
    i
}

/// Number of variants of an enum.
pub fn variants(tokens: &[Token], name: &str) -> Option<usize> {
    let start = tokens.windows(3).position(|w| w[0].text == "enum" && w[1].text == name && w[2].text == "{")?;
    let (mut depth, mut count, mut expected) = (0usize, 0, true);
    for token in &tokens[start + 3..] {
        match token.text {
            "}" if depth == 0 => return Some(count),
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            "," if depth == 0 => expected = true,
            // An attribute before the variant.
            "#" => {}
            _ if depth == 0 && expected => {
                count += 1;
                expected = false;
            }
            _ => {}
        }
    }
    None
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: usize,
    tokens: Vec<Token<'a>>,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn skip(&mut self, bytes: usize) {
        let end = (self.at + bytes).min(self.source.len());
        self.line += self.source[self.at..end].matches('\n').count();
        self.at = end;
    }

    fn step(&mut self) -> bool {
        let rest = self.rest();
        let Some(c) = rest.chars().next() else { return false };
        if rest.starts_with("//") {
            self.skip(rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("/*") {
            self.skip(block_comment(rest));
        } else if c == '"' {
            self.skip(text(rest));
        } else if c == '\'' {
            self.skip(character_or_lifetime(rest));
        } else if is_word(c) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            self.word(&rest[..end], &rest[end..]);
        } else {
            if !c.is_whitespace() {
                self.push(&rest[..c.len_utf8()]);
            }
            self.skip(c.len_utf8());
        }
        true
    }

    fn push(&mut self, text: &'a str) {
        self.tokens.push(Token { text, line: self.line });
    }

    /// A word, unless it is the prefix of a string, a character or a raw name.
    fn word(&mut self, word: &'a str, after: &str) {
        let hashes = after.len() - after.trim_start_matches('#').len();
        let quoted = after[hashes..].starts_with('"');
        match word {
            "r" | "br" | "cr" if quoted => {
                let close = format!("\"{}", "#".repeat(hashes));
                let body = &after[hashes + 1..];
                let end = body.find(&close).map_or(body.len(), |i| i + close.len());
                self.skip(word.len() + hashes + 1 + end);
            }
            "r" if hashes == 1 => self.skip(2),
            "b" | "c" if after.starts_with('"') => self.skip(1),
            "b" if after.starts_with('\'') => self.skip(1),
            _ => {
                self.push(word);
                self.skip(word.len());
            }
        }
    }
}

/// Number of bytes of a block comment, which may be nested.
fn block_comment(source: &str) -> usize {
    let (mut depth, mut i) = (0, 0);
    while i < source.len() {
        let rest = &source[i..];
        if rest.starts_with("/*") {
            depth += 1;
            i += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            i += 2;
            if depth == 0 {
                return i;
            }
        } else {
            i += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    source.len()
}

/// Number of bytes of a string in double quotes.
fn text(source: &str) -> usize {
    let mut escaped = false;
    for (i, c) in source.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return i + 1,
            _ => {}
        }
    }
    source.len()
}

fn character_or_lifetime(source: &str) -> usize {
    let mut chars = source.char_indices().skip(1);
    let (Some((_, first)), Some((next, second))) = (chars.next(), chars.next()) else { return source.len() };
    if first == '\\' {
        // The character after the backslash may itself be a quote.
        let from = next + second.len_utf8();
        return source[from..].find('\'').map_or(source.len(), |i| from + i + 1);
    }
    if second == '\'' {
        return next + 1;
    }
    1 + source[1..].find(|c| !is_word(c)).unwrap_or(source.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<&str> {
        lex(source).iter().map(|t| t.text).collect()
    }

    #[test]
    fn comments_texts_and_lifetimes_are_no_code() {
        assert_eq!(words("a // std::fs\n/* x /* y */ z */ b"), ["a", "b"]);
        assert_eq!(
            words(r##"f("unsafe \" x", r#"a " b"#, b'\'', '"', 'x', c"q")"##),
            ["f", "(", ",", ",", ",", ",", ",", ")"]
        );
        assert_eq!(words("fn f<'a>(x: &'a str)"), ["fn", "f", "<", ">", "(", "x", ":", "&", "str", ")"]);
        assert_eq!(words("r#type"), ["type"]);
    }

    #[test]
    fn lines_are_counted_through_texts_and_comments() {
        let tokens = lex("/* a\n b */ x\n\"1\n2\" y");
        assert_eq!(tokens, [Token { text: "x", line: 2 }, Token { text: "y", line: 4 }]);
    }

    #[test]
    fn test_items_are_left_out() {
        let tokens = lex("a #[cfg(test)] #[allow(x)] mod tests { fn f() { b } } c #[cfg(test)] mod d; e");
        let kept: Vec<&str> = without_tests(&tokens).iter().map(|t| t.text).collect();
        assert_eq!(kept, ["a", "c", "e"]);
    }

    #[test]
    fn variants_are_counted() {
        let tokens = lex("enum A { #[doc(x)] B, C { d: E, f: G }, H(I, J), }");
        assert_eq!(variants(&tokens, "A"), Some(3));
        assert_eq!(variants(&tokens, "Z"), None);
    }
}
