//! Parameters of native layers, validated against the schema and never corrected.

use super::{AXES, Key, Schema};
use crate::error::Error;
use crate::opset::edits;
use half::f16;

/// Type and range of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyType {
    /// True or false.
    Flag,
    /// An integer within bounds.
    Integer(i64, i64),
    /// A half-precision number, written as the integer of its 16 bits.
    Half,
    /// A number.
    Real,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Names of axes.
    Axes,
    /// Integers within bounds.
    Integers(i64, i64),
    /// One entry per axis, `Coordinate` naming it and this key the value: one of the words, or a size if there are no words.
    PerAxis(&'static str, &'static [&'static str]),
    /// Dictionaries of another form, described in words; of units that are translated to operations of the graph.
    Entries(&'static str),
}

impl KeyType {
    /// Description for messages.
    pub fn describe(&self) -> String {
        match self {
            KeyType::Flag => "true or false".into(),
            KeyType::Integer(least, most) if least == most => format!("integer, only {least}"),
            KeyType::Integer(least, most) => format!("integer from {least} to {most}"),
            KeyType::Half => "fp16, as the integer of its bits".into(),
            KeyType::Real => "number".into(),
            KeyType::Word(words) => words.join(" or "),
            KeyType::Axes => "list of Batch, Channel, Height, Width".into(),
            KeyType::Integers(least, most) => format!("list of integers from {least} to {most}"),
            KeyType::PerAxis(key, []) => format!("list of {{Coordinate, {key}}}, integers"),
            KeyType::PerAxis(key, words) => format!("list of {{Coordinate, {key}}}, {}", words.join(" or ")),
            KeyType::Entries(what) => (*what).to_string(),
        }
    }
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Param {
    Flag(bool),
    Integer(i64),
    Real(f32),
    Word(&'static str),
    /// Axes as positions; entries by axis as pairs of position and value.
    List(Vec<i64>),
}

/// A value as a file gives it, before validation against a schema.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Raw {
    Flag(bool),
    Integer(i64),
    Real(f64),
    /// A half-precision number itself, not the integer of its bits.
    Half(f32),
    Text(String),
    List(Vec<Raw>),
    /// A list in the text form: axes as positions, entries by axis as pairs.
    Positions(Vec<i64>),
    Table(Vec<(String, Raw)>),
    /// Another value, described in words.
    Other(String),
}

impl Raw {
    pub(crate) fn describe(&self) -> String {
        match self {
            Raw::Flag(value) => value.to_string(),
            Raw::Integer(value) => value.to_string(),
            Raw::Real(value) => format!("the number {value}"),
            Raw::Half(value) => format!("the number {value}"),
            Raw::Text(text) => format!("`{}`", text.chars().take(40).collect::<String>()),
            Raw::List(list) => format!("a list of {}", list.len()),
            Raw::Positions(list) => format!("{list:?}"),
            Raw::Table(_) => "a dictionary".to_string(),
            Raw::Other(what) => what.clone(),
        }
    }
}

/// Dictionary in a list of parameters, which must be its only entry. Errors: any other form.
pub fn entry<'a>(
    schema: &'static Schema,
    list: &str,
    unit: &str,
    given: &'a [(String, Raw)],
) -> Result<&'a [(String, Raw)], Error> {
    let found = match given {
        [(key, Raw::List(items))] if key == list => match items.as_slice() {
            [Raw::Table(entry)] => return Ok(entry),
            items => format!("a list of {}, one dictionary is carried", items.len()),
        },
        [(key, other)] if key == list => format!("{} where a list of one dictionary is expected", other.describe()),
        others => match others.iter().find(|(key, _)| key != list) {
            Some((key, _)) => format!("missing or not alone: found `{}`", key.chars().take(60).collect::<String>()),
            None => "missing; it is a list of one dictionary".to_string(),
        },
    };
    Err(Error::InvalidParam { unit: unit.to_string(), layer: schema.tag, key: list.to_string(), reason: found })
}

/// Values of all keys in the schema's order.
pub fn read(schema: &'static Schema, unit: &str, given: &[(String, Raw)]) -> Result<Vec<Param>, Error> {
    let invalid = |key: &str, reason: String| Error::InvalidParam {
        unit: unit.to_string(),
        layer: schema.tag,
        key: key.chars().take(60).collect(),
        reason,
    };
    for (at, (key, _)) in given.iter().enumerate() {
        if schema.keys.iter().all(|k| k.name != key) {
            let help = match nearest(key, schema.keys.iter().map(|k| k.name)) {
                Some(near) => format!("no parameter of this layer, the nearest is `{near}`"),
                None => "no parameter of this layer, which has none".to_string(),
            };
            return Err(invalid(key, help));
        }
        if given[..at].iter().any(|(k, _)| k == key) {
            return Err(invalid(key, "given twice".to_string()));
        }
    }
    schema
        .keys
        .iter()
        .map(|key| match given.iter().find(|(k, _)| k == key.name) {
            Some((_, raw)) => value(key, raw).ok_or_else(|| {
                invalid(key.name, format!("{} where {} is expected", raw.describe(), key.ty.describe()))
            }),
            None if key.default.is_empty() => Err(invalid(key.name, format!("missing; it is {}", key.ty.describe()))),
            None => default(key).ok_or_else(|| invalid(key.name, "its default is not of its type".to_string())),
        })
        .collect()
}

/// The word with the smallest edit distance.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    known.min_by_key(|name| edits(&name.to_lowercase(), &word))
}

fn axis(raw: &Raw) -> Option<i64> {
    let Raw::Text(text) = raw else { return None };
    AXES.iter().position(|a| a == text).map(|i| i as i64)
}

fn value(key: &Key, raw: &Raw) -> Option<Param> {
    let within = |least: i64, most: i64, raw: &Raw| match raw {
        Raw::Integer(value) if (least..=most).contains(value) => Some(*value),
        _ => None,
    };
    // A single element may be given without a list.
    let items = || match raw {
        Raw::List(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    if let Raw::Positions(list) = raw {
        return parse(key, &format!("{list:?}"));
    }
    Some(match key.ty {
        KeyType::Flag => match raw {
            Raw::Flag(flag) => Param::Flag(*flag),
            _ => return None,
        },
        KeyType::Integer(least, most) => Param::Integer(within(least, most, raw)?),
        KeyType::Half => match raw {
            // Patterns with the sign bit set may be written as negative 16-bit numbers.
            Raw::Integer(bits) if (i64::from(i16::MIN)..=i64::from(u16::MAX)).contains(bits) => {
                Param::Real(f16::from_bits(*bits as u16).to_f32()).finite()?
            }
            Raw::Half(value) => Param::Real(f16::from_f32(*value).to_f32()).finite()?,
            _ => return None,
        },
        KeyType::Real => match raw {
            Raw::Integer(value) => Param::Real(*value as f32),
            Raw::Real(value) => Param::Real(*value as f32).finite()?,
            Raw::Half(value) => Param::Real(*value).finite()?,
            _ => return None,
        },
        KeyType::Word(words) => match raw {
            Raw::Text(text) => Param::Word(words.iter().find(|w| *w == text)?),
            _ => return None,
        },
        KeyType::Axes => {
            let list = items().iter().map(axis).collect::<Option<Vec<i64>>>()?;
            let twice = list.iter().enumerate().any(|(i, a)| list[..i].contains(a));
            Param::List(list).filled(!twice)?
        }
        KeyType::Integers(least, most) => {
            let list = items().iter().map(|raw| within(least, most, raw)).collect::<Option<Vec<i64>>>()?;
            Param::List(list).filled(true)?
        }
        KeyType::PerAxis(entry, words) => {
            let mut list = Vec::new();
            for item in items() {
                let Raw::Table(table) = item else { return None };
                let find = |name: &str| table.iter().find(|(k, _)| k == name).map(|(_, v)| v);
                let at = axis(find("Coordinate")?)?;
                let known = list.chunks(2).all(|pair: &[i64]| pair[0] != at);
                let found = match (words, find(entry)?) {
                    ([], raw) => within(1, 1 << 20, raw)?,
                    (words, Raw::Text(text)) => words.iter().position(|w| w == text)? as i64,
                    _ => return None,
                };
                if table.len() != 2 || !known {
                    return None;
                }
                list.extend([at, found]);
            }
            Param::List(list).filled(true)?
        }
        KeyType::Entries(_) => return None,
    })
}

impl Param {
    fn finite(self) -> Option<Param> {
        match self {
            Param::Real(value) if !value.is_finite() => None,
            other => Some(other),
        }
    }

    fn filled(self, also: bool) -> Option<Param> {
        match &self {
            Param::List(list) if list.is_empty() || list.len() > 64 || !also => None,
            _ => Some(self),
        }
    }

    /// The parameter in the text form.
    pub fn text(&self) -> String {
        match self {
            Param::Flag(value) => value.to_string(),
            Param::Integer(value) => value.to_string(),
            Param::Real(value) => format!("{value:?}").to_lowercase(),
            Param::Word(word) => word.to_string(),
            Param::List(list) => format!("{list:?}"),
        }
    }
}

fn default(key: &Key) -> Option<Param> {
    parse(key, key.default)
}

impl Param {
    /// A parameter from its text form.
    pub(crate) fn parse(key: &Key, text: &str) -> Option<Param> {
        parse(key, text)
    }
}

fn parse(key: &Key, text: &str) -> Option<Param> {
    let list = || {
        let inner = text.strip_prefix('[')?.strip_suffix(']')?.trim();
        if inner.is_empty() {
            return Some(Vec::new());
        }
        inner.split(',').map(|n| n.trim().parse().ok()).collect::<Option<Vec<i64>>>()
    };
    Some(match key.ty {
        KeyType::Flag => Param::Flag(text.parse().ok()?),
        KeyType::Integer(least, most) => Param::Integer(text.parse().ok().filter(|v| (least..=most).contains(v))?),
        KeyType::Half | KeyType::Real => Param::Real(text.parse().ok()?).finite()?,
        KeyType::Word(words) => Param::Word(words.iter().find(|w| **w == text)?),
        KeyType::Axes => {
            let list = list()?;
            let known = list.iter().all(|&a| (0..AXES.len() as i64).contains(&a));
            Param::List(list).filled(known)?
        }
        KeyType::Integers(least, most) => {
            let list = list()?;
            let within = list.iter().all(|v| (least..=most).contains(v));
            Param::List(list).filled(within)?
        }
        KeyType::PerAxis(_, words) => {
            let list = list()?;
            let most = if words.is_empty() { 1 << 20 } else { words.len() as i64 - 1 };
            let least = i64::from(words.is_empty());
            let fits = |p: &[i64]| p.len() == 2 && (0..4).contains(&p[0]) && (least..=most).contains(&p[1]);
            if list.len() > 64 || !list.chunks(2).all(fits) {
                return None;
            }
            Param::List(list)
        }
        KeyType::Entries(_) => return None,
    })
}
