//! Property lists: bounded parsing, and typed access with errors that name the place and the value found.

use crate::error::Error;
use crate::native::Raw;
use plist::{Dictionary, Value};

/// Deepest nesting of arrays and dictionaries.
const DEPTH: usize = 64;

/// Most objects of a property list, each counted as often as it is referred to.
const OBJECTS: usize = 1 << 20;

/// Parses an XML or binary property list.
///
/// Both forms are measured first: a binary list can refer to the same array many times, which expands without bound,
/// and nesting is bounded because values are freed recursively.
pub fn parse(bytes: &[u8], place: &str) -> Result<Value, Error> {
    if bytes.starts_with(b"bplist") {
        Binary::new(bytes, place)?.measure()?;
    } else {
        measure_xml(bytes, place)?;
    }
    let syntax = |e: plist::Error| Error::Syntax { place: place.to_string(), reason: e.to_string() };
    Value::from_reader(std::io::Cursor::new(bytes)).map_err(syntax)
}

fn measure_xml(bytes: &[u8], place: &str) -> Result<(), Error> {
    let mut depth = 0usize;
    for (at, _) in bytes.iter().enumerate().filter(|(_, b)| **b == b'<') {
        let tag = &bytes[at + 1..];
        if tag.starts_with(b"/dict") || tag.starts_with(b"/array") {
            depth = depth.saturating_sub(1);
        } else if tag.starts_with(b"dict>") || tag.starts_with(b"array>") {
            depth += 1;
            if depth > DEPTH {
                return Err(Error::TooDeep { place: place.to_string(), found: depth, limit: DEPTH });
            }
        }
    }
    Ok(())
}

/// The object table of a binary property list.
struct Binary<'a> {
    bytes: &'a [u8],
    place: &'a str,
    /// Width of an entry of the offset table in bytes.
    offset_width: usize,
    /// Width of a reference to an object in bytes.
    reference_width: usize,
    count: usize,
    top: usize,
    table: usize,
    /// Number of objects and depth of objects that are already measured.
    measured: Vec<Option<(usize, usize)>>,
}

impl<'a> Binary<'a> {
    fn new(bytes: &'a [u8], place: &'a str) -> Result<Self, Error> {
        let malformed = || Error::Syntax { place: place.to_string(), reason: "malformed binary trailer".to_string() };
        let trailer = bytes.last_chunk::<32>().ok_or_else(malformed)?;
        let word = |at: usize| {
            let bytes: [u8; 8] = trailer[at..at + 8].try_into().expect("eight bytes of the trailer");
            usize::try_from(u64::from_be_bytes(bytes)).map_err(|_| malformed())
        };
        let (count, top, table) = (word(8)?, word(16)?, word(24)?);
        // Every object has at least one byte, so this also bounds the memory below.
        if count > bytes.len() || table > bytes.len() {
            return Err(malformed());
        }
        let (offset_width, reference_width) = (trailer[6].into(), trailer[7].into());
        Ok(Binary { bytes, place, offset_width, reference_width, count, top, table, measured: vec![None; count] })
    }

    fn malformed(&self) -> Error {
        Error::Syntax { place: self.place.to_string(), reason: "malformed binary object".to_string() }
    }

    fn number(&self, at: usize, width: usize) -> Result<usize, Error> {
        let bytes = at.checked_add(width).and_then(|end| self.bytes.get(at..end)).ok_or_else(|| self.malformed())?;
        let value = bytes.iter().fold(0u64, |n, &b| n.checked_shl(8).unwrap_or(0) | u64::from(b));
        usize::try_from(value).ok().filter(|_| width <= 8).ok_or_else(|| self.malformed())
    }

    fn measure(mut self) -> Result<(), Error> {
        self.visit(self.top, 1).map(|_| ())
    }

    /// Number of objects below and including this one, and their nesting depth.
    fn visit(&mut self, object: usize, depth: usize) -> Result<(usize, usize), Error> {
        if object >= self.count {
            return Err(self.malformed());
        }
        let deep = |found| Error::TooDeep { place: self.place.to_string(), found, limit: DEPTH };
        if let Some((count, height)) = self.measured[object] {
            return if depth + height > DEPTH { Err(deep(depth + height)) } else { Ok((count, height)) };
        }
        if depth > DEPTH {
            return Err(deep(depth));
        }
        let entry = object.checked_mul(self.offset_width).and_then(|at| at.checked_add(self.table));
        let at = self.number(entry.ok_or_else(|| self.malformed())?, self.offset_width)?;
        let marker = self.number(at, 1)?;
        let (mut total, mut height) = (1usize, 0usize);
        if matches!(marker >> 4, 0xa | 0xc | 0xd) {
            let (length, first) = self.length(at, marker)?;
            let references = if marker >> 4 == 0xd { length.saturating_mul(2) } else { length };
            if references > self.bytes.len() {
                return Err(self.malformed());
            }
            for i in 0..references {
                let child = self.number(first + i * self.reference_width, self.reference_width)?;
                let (count, below) = self.visit(child, depth + 1)?;
                total = total.saturating_add(count);
                height = height.max(below + 1);
                if total > OBJECTS {
                    let (place, key) = (self.place.to_string(), "number of objects".to_string());
                    return Err(Error::OutOfRange { place, key, found: total as i64, least: 1, most: OBJECTS as i64 });
                }
            }
        }
        self.measured[object] = Some((total, height));
        Ok((total, height))
    }

    /// Number of entries of a collection, and the position of its references.
    fn length(&self, at: usize, marker: usize) -> Result<(usize, usize), Error> {
        if marker & 0xf != 0xf {
            return Ok((marker & 0xf, at + 1));
        }
        let width = 1 << (self.number(at + 1, 1)? & 0xf).min(4);
        Ok((self.number(at + 2, width)?, at + 2 + width))
    }
}

/// A dictionary with its place in the file.
#[derive(Clone)]
pub struct Dict<'a> {
    pub place: String,
    map: &'a Dictionary,
}

impl<'a> Dict<'a> {
    pub fn new(value: &'a Value, place: &str, key: &str) -> Result<Dict<'a>, Error> {
        let map = value.as_dictionary().ok_or_else(|| wrong(place, key, value, "a dictionary"))?;
        Ok(Dict { place: place.to_string(), map })
    }

    /// The same dictionary, under another place.
    pub fn at(self, place: String) -> Dict<'a> {
        Dict { place, map: self.map }
    }

    pub fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.map.keys().map(String::as_str)
    }

    pub fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    /// Value of a key, of any type.
    pub fn value(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key)
    }

    pub fn missing(&self, key: &str) -> Error {
        Error::Missing { place: self.place.clone(), key: key.to_string() }
    }

    /// The dictionary under a key; its place is this one's followed by the key.
    pub fn dict(&self, key: &str) -> Result<Option<Dict<'a>>, Error> {
        let place = format!("{}, `{key}`", self.place);
        self.map.get(key).map(|value| Dict::new(value, &place, key)).transpose()
    }

    pub fn string(&self, key: &str) -> Result<Option<&'a str>, Error> {
        let value = self.map.get(key);
        value.map(|v| v.as_string().ok_or_else(|| wrong(&self.place, key, v, "a string"))).transpose()
    }

    pub fn integer(&self, key: &str) -> Result<Option<i64>, Error> {
        let integer = |v: &Value| v.as_signed_integer().ok_or_else(|| wrong(&self.place, key, v, "an integer"));
        self.map.get(key).map(integer).transpose()
    }

    /// A non-negative integer below 2^31; `default` if it is absent.
    pub fn size(&self, key: &str, default: usize) -> Result<usize, Error> {
        let Some(found) = self.integer(key)? else { return Ok(default) };
        let most = i64::from(i32::MAX);
        let size = usize::try_from(found).ok().filter(|_| found <= most);
        let error = || Error::OutOfRange { place: self.place.clone(), key: key.to_string(), found, least: 0, most };
        size.ok_or_else(error)
    }

    /// As [`Dict::size`], but not zero.
    pub fn extent(&self, key: &str, default: usize) -> Result<usize, Error> {
        match self.size(key, default)? {
            0 => Err(Error::OutOfRange {
                place: self.place.clone(),
                key: key.to_string(),
                found: 0,
                least: 1,
                most: i64::from(i32::MAX),
            }),
            size => Ok(size),
        }
    }

    pub fn flag(&self, key: &str) -> Result<bool, Error> {
        match self.map.get(key) {
            None => Ok(false),
            Some(Value::Boolean(flag)) => Ok(*flag),
            Some(other) => Err(wrong(&self.place, key, other, "true or false")),
        }
    }

    /// The strings under a key: an array of them, or a single one.
    pub fn strings(&self, key: &str) -> Result<Option<Vec<&'a str>>, Error> {
        let string = |v: &'a Value| v.as_string().ok_or_else(|| wrong(&self.place, key, v, "strings"));
        Ok(match self.map.get(key) {
            None => None,
            Some(Value::Array(list)) => Some(list.iter().map(string).collect::<Result<_, _>>()?),
            Some(other) => Some(vec![string(other)?]),
        })
    }

    /// Every entry, before validation against a schema.
    pub fn raw(&self) -> Vec<(String, Raw)> {
        entries(self.map)
    }

    pub fn array(&self, key: &str) -> Result<Option<&'a [Value]>, Error> {
        let array = |v: &'a Value| v.as_array().ok_or_else(|| wrong(&self.place, key, v, "an array"));
        Ok(self.map.get(key).map(array).transpose()?.map(Vec::as_slice))
    }
}

fn entries(map: &Dictionary) -> Vec<(String, Raw)> {
    map.iter().map(|(key, value)| (key.clone(), raw(value))).collect()
}

fn raw(value: &Value) -> Raw {
    match value {
        Value::Boolean(flag) => Raw::Flag(*flag),
        Value::Integer(integer) => integer.as_signed().map_or(Raw::Other("a huge integer".into()), Raw::Integer),
        Value::Real(real) => Raw::Real(*real),
        Value::String(text) => Raw::Text(text.clone()),
        Value::Array(list) => Raw::List(list.iter().map(raw).collect()),
        Value::Dictionary(map) => Raw::Table(entries(map)),
        Value::Data(data) => Raw::Other(format!("data of {} bytes", data.len())),
        _ => Raw::Other("a value of another type".into()),
    }
}

/// The error for a value of another type than expected.
pub fn wrong(place: &str, key: &str, found: &Value, expected: &'static str) -> Error {
    let found = match found {
        Value::Array(_) => "an array".to_string(),
        Value::Dictionary(_) => "a dictionary".to_string(),
        Value::Boolean(flag) => flag.to_string(),
        Value::Data(data) => format!("data of {} bytes", data.len()),
        Value::Date(_) => "a date".to_string(),
        Value::Real(real) => real.to_string(),
        Value::Integer(integer) => integer.to_string(),
        Value::String(text) => format!("`{}`", text.chars().take(40).collect::<String>()),
        _ => "of another type".to_string(),
    };
    Error::WrongType { place: place.to_string(), key: key.to_string(), found, expected }
}
