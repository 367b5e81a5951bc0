//! NumPy arrays: the `.npy` format, versions 1 to 3.

use crate::DType;
use half::f16;

/// First bytes of a `.npy` file.
const MAGIC: &[u8] = b"\x93NUMPY";
/// Deepest nesting of brackets in a header; headers of plain arrays have two.
const MAX_NESTING: usize = 16;
/// Most elements of an array.
const MAX_ELEMENTS: u64 = 1 << 32;

/// An array as stored in its file: extents, element type, bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Npy<'a> {
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Element type as NumPy writes it, `<f4` for fp32.
    pub descr: String,
    kind: Kind,
    big_endian: bool,
    /// True if the first axis varies fastest in the file.
    by_columns: bool,
    /// Elements as stored.
    pub bytes: &'a [u8],
}

/// Supported element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Bool,
}

impl<'a> Npy<'a> {
    /// Reads a file's header and locates its elements. Errors: the reason, worded for a diagnostic.
    pub fn read(bytes: &'a [u8]) -> Result<Npy<'a>, String> {
        let (header, data) = split(bytes)?;
        let header = Header::parse(header)?;
        let (kind, big_endian, size) = element(&header.descr)?;
        let extents = &header.shape;
        let elements = extents.iter().try_fold(1u64, |all, &n| all.checked_mul(n)).filter(|&n| n <= MAX_ELEMENTS);
        let Some(elements) = elements else {
            return Err(format!("the array's extents are {extents:?}: more elements than any file has"));
        };
        // With one axis at most, both orders are the same.
        let by_columns = header.fortran_order && extents.iter().filter(|&&n| n > 1).count() > 1;
        let length = usize::try_from(elements * size).ok();
        let Some(bytes) = length.and_then(|n| data.get(..n)) else {
            let descr = &header.descr;
            return Err(format!("truncated: {elements} elements of {descr} {extents:?} are more than the file has"));
        };
        let shape = extents.iter().map(|&n| n as usize).collect();
        Ok(Npy { shape, descr: header.descr, kind, big_endian, by_columns, bytes })
    }

    /// Elements in row-major order, each rounded to the nearest fp32 value.
    pub fn to_f32(&self) -> Vec<f32> {
        match self.kind {
            Kind::F16 => self.elements(|b| f16::from_le_bytes(b).to_f32()),
            Kind::F32 => self.elements(f32::from_le_bytes),
            Kind::F64 => self.elements(|b| f64::from_le_bytes(b) as f32),
            Kind::I8 => self.elements(|b| i8::from_le_bytes(b) as f32),
            Kind::I16 => self.elements(|b| i16::from_le_bytes(b) as f32),
            Kind::I32 => self.elements(|b| i32::from_le_bytes(b) as f32),
            Kind::I64 => self.elements(|b| i64::from_le_bytes(b) as f32),
            Kind::U8 => self.elements(|[b]| b as f32),
            Kind::U16 => self.elements(|b| u16::from_le_bytes(b) as f32),
            Kind::U32 => self.elements(|b| u32::from_le_bytes(b) as f32),
            Kind::U64 => self.elements(|b| u64::from_le_bytes(b) as f32),
            Kind::Bool => self.elements(|[b]| f32::from(b != 0)),
        }
    }

    fn elements<const N: usize>(&self, value: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        let (chunks, _) = self.bytes.as_chunks::<N>();
        let ordered = |mut b: [u8; N]| {
            if self.big_endian {
                b.reverse();
            }
            value(b)
        };
        if !self.by_columns {
            return chunks.iter().map(|&b| ordered(b)).collect();
        }
        let mut strides = Vec::with_capacity(self.shape.len());
        let mut next = 1;
        for &extent in &self.shape {
            strides.push(next);
            next *= extent;
        }
        // Iterates over positions in row-major order; `at` is the element's position in the file.
        let (mut place, mut at) = (vec![0; self.shape.len()], 0);
        let mut out = Vec::with_capacity(chunks.len());
        for _ in 0..chunks.len() {
            out.extend(chunks.get(at).map(|&b| ordered(b)));
            for ((count, &extent), &stride) in place.iter_mut().zip(&self.shape).zip(&strides).rev() {
                *count += 1;
                at += stride;
                if *count < extent {
                    break;
                }
                at -= extent * stride;
                *count = 0;
            }
        }
        out
    }
}

/// The bytes of a file with fp32 elements, as `numpy.save` writes it.
pub fn write(shape: &[usize], elements: &[f32]) -> Vec<u8> {
    write_as(shape, elements, DType::F32)
}

/// As [`write()`], with elements of a type. All elements become fp32 if the type is a float, or if one of them is not representable in
/// an integer type.
pub fn write_as(shape: &[usize], elements: &[f32], dtype: DType) -> Vec<u8> {
    let (descr, least, most) = match dtype {
        DType::I8 => ("|i1", -128.0, 127.0),
        DType::U8 => ("|u1", 0.0, 255.0),
        DType::I16 => ("<i2", -32768.0, 32767.0),
        DType::U16 => ("<u2", 0.0, 65535.0),
        // The largest fp32 number below 2^31.
        DType::I32 => ("<i4", -2147483648.0, 2147483520.0),
        DType::Bool => ("|b1", 0.0, 1.0),
        DType::F16 | DType::F32 => ("<f4", f32::NEG_INFINITY, f32::INFINITY),
    };
    let whole = |x: &f32| x.fract() == 0.0 && (least..=most).contains(x);
    let descr = if elements.iter().all(whole) { descr } else { "<f4" };
    let extents: Vec<String> = shape.iter().map(usize::to_string).collect();
    // A tuple of one needs its comma.
    let comma = if shape.len() == 1 { "," } else { "" };
    let extents = format!("({}{comma})", extents.join(", "));
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {extents}, }}");
    // A header of one line that ends where elements are aligned.
    let (version, head): (u8, usize) = if header.len() + 64 < u16::MAX as usize { (1, 10) } else { (2, 12) };
    let length = (head + header.len() + 1).next_multiple_of(64) - head;
    let mut out = Vec::with_capacity(head + length + 4 * elements.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[version, 0]);
    out.extend_from_slice(&(length as u32).to_le_bytes()[..head - 8]);
    out.extend_from_slice(header.as_bytes());
    out.resize(head + length - 1, b' ');
    out.push(b'\n');
    for &x in elements {
        match descr {
            "<f4" => out.extend_from_slice(&x.to_le_bytes()),
            "<i4" => out.extend_from_slice(&(x as i32).to_le_bytes()),
            "<i2" => out.extend_from_slice(&(x as i16).to_le_bytes()),
            "<u2" => out.extend_from_slice(&(x as u16).to_le_bytes()),
            "|i1" => out.extend_from_slice(&(x as i8).to_le_bytes()),
            _ => out.push(x as u8),
        }
    }
    out
}

/// The text of the header, and the bytes after it.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), String> {
    if !bytes.starts_with(MAGIC) {
        let found = bytes.get(..MAGIC.len()).unwrap_or(bytes);
        return Err(format!("not a .npy file: begins with {found:02x?}, expected {MAGIC:02x?}"));
    }
    let at = |i: usize| bytes.get(i).copied().unwrap_or(0) as usize;
    let (start, length) = match at(6) {
        1 => (10, at(8) | at(9) << 8),
        2 | 3 => (12, at(8) | at(9) << 8 | at(10) << 16 | at(11) << 24),
        other => return Err(format!("version {other} of the .npy format; supported are 1 to 3")),
    };
    let end = start + length;
    match (bytes.get(start..end), bytes.get(end..)) {
        (Some(header), Some(data)) => Ok((header, data)),
        _ => Err(format!("truncated: the header needs bytes {start}..{end}, the file has {}", bytes.len())),
    }
}

/// Parses an element type: kind, true for big endian, bytes of an element.
fn element(descr: &str) -> Result<(Kind, bool, u64), String> {
    let (order, name) = descr.split_at_checked(1).unwrap_or_default();
    let kind = match name {
        "f2" => (Kind::F16, 2),
        "f4" => (Kind::F32, 4),
        "f8" => (Kind::F64, 8),
        "i1" => (Kind::I8, 1),
        "i2" => (Kind::I16, 2),
        "i4" => (Kind::I32, 4),
        "i8" => (Kind::I64, 8),
        "u1" => (Kind::U8, 1),
        "u2" => (Kind::U16, 2),
        "u4" => (Kind::U32, 4),
        "u8" => (Kind::U64, 8),
        "b1" => (Kind::Bool, 1),
        _ => (Kind::Bool, 0),
    };
    match (kind, order) {
        ((kind, size @ 1..), "<" | ">") | ((kind, size @ 1), "|" | "=") => Ok((kind, order == ">", size)),
        _ => {
            // A hostile header may have megabytes here.
            let shown: String = descr.chars().take(64).collect();
            Err(format!("the array has element type {shown}; supported are floats, integers and bool of up to 8 bytes"))
        }
    }
}

/// The header: a dictionary in Python's notation.
#[derive(Default)]
struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<u64>,
}

/// A value of the dictionary.
enum Literal {
    Text(String),
    Bool(bool),
    Number(u64),
    List(Vec<Literal>),
}

impl Header {
    fn parse(text: &[u8]) -> Result<Header, String> {
        let text = str::from_utf8(text).map_err(|_| "not a .npy file: its header is not text".to_string())?;
        let mut cursor = Cursor { rest: text.trim_end_matches(['\n', ' ', '\0']), depth: 0 };
        let (mut header, mut seen) = (Header::default(), 0);
        cursor.expect('{')?;
        while !cursor.take('}') {
            let Literal::Text(key) = cursor.literal()? else { return Err(cursor.wrong("a key in quotes")) };
            cursor.expect(':')?;
            let value = cursor.literal()?;
            match (key.as_str(), value) {
                ("descr", Literal::Text(descr)) => header.descr = descr,
                ("descr", _) => return Err("the array has a structured element type".into()),
                ("fortran_order", Literal::Bool(order)) => header.fortran_order = order,
                ("shape", Literal::List(extents)) => header.shape = numbers(extents)?,
                ("shape" | "fortran_order", _) => {
                    return Err(format!("not a .npy file: `{key}` in its header has a value of another type"));
                }
                _ => return Err(format!("not a .npy file: its header has the unexpected key `{key}`")),
            }
            seen += 1;
            if !cursor.take(',') {
                cursor.expect('}')?;
                break;
            }
        }
        if seen != 3 || !cursor.rest.trim().is_empty() {
            return Err(cursor.wrong("`descr`, `fortran_order` and `shape`, once each, and no more"));
        }
        Ok(header)
    }
}

fn numbers(literals: Vec<Literal>) -> Result<Vec<u64>, String> {
    let number = |l| match l {
        Literal::Number(n) => Ok(n),
        _ => Err("not a .npy file: an extent in its header is not a number".to_string()),
    };
    literals.into_iter().map(number).collect()
}

/// Unread remainder of a header.
struct Cursor<'a> {
    rest: &'a str,
    depth: usize,
}

impl Cursor<'_> {
    fn wrong(&self, expected: &str) -> String {
        let found: String = self.rest.chars().take(12).collect();
        format!("not a .npy file: its header has `{found}`, expected {expected}")
    }

    fn take(&mut self, c: char) -> bool {
        self.rest = self.rest.trim_start();
        let found = self.rest.strip_prefix(c);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn expect(&mut self, c: char) -> Result<(), String> {
        if self.take(c) { Ok(()) } else { Err(self.wrong(&format!("`{c}`"))) }
    }

    fn literal(&mut self) -> Result<Literal, String> {
        for quote in ['\'', '"'] {
            if self.take(quote) {
                let (text, rest) = self.rest.split_once(quote).ok_or_else(|| self.wrong("a closing quote"))?;
                let text = text.to_string();
                self.rest = rest;
                return Ok(Literal::Text(text));
            }
        }
        for (open, close) in [('(', ')'), ('[', ']')] {
            if self.take(open) {
                return self.list(close);
            }
        }
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(Literal::Bool(value));
            }
        }
        let digits = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let number =
            self.rest[..digits].parse().map_err(|_| self.wrong("a number, a text, a truth value or a list"))?;
        // Python 2 wrote long integers with the suffix `L`.
        self.rest = self.rest[digits..].trim_start_matches('L');
        Ok(Literal::Number(number))
    }

    fn list(&mut self, close: char) -> Result<Literal, String> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(format!("not a .npy file: its header is nested more than {MAX_NESTING} deep"));
        }
        let mut all = Vec::new();
        while !self.take(close) {
            all.push(self.literal()?);
            if !self.take(',') {
                self.expect(close)?;
                break;
            }
        }
        self.depth -= 1;
        Ok(Literal::List(all))
    }
}
