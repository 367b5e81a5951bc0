//! The listing of a dispatch descriptor: every table with its fields by name.
//!
//! If our writing order does not reproduce the file, the differing bytes follow the tables.

use anemone_facts::formats::by_code;
use anemone_facts::formats::e5::{self as rows, Kind, TableRow};

use super::block::{self, print_differences};
use super::lex::{Lines, TextError, Token, quote};
use crate::e5::{Descriptor, Record, Value};

/// Lists a descriptor. `assemble_descriptor(&list_descriptor(d))` has the same bytes.
pub fn list_descriptor(d: &Descriptor) -> String {
    let mut out = String::from("e5\n");
    record(&mut out, "root", "table", &d.root, 0);
    if !d.is_canonical() {
        let (bytes, mut image) = (d.write(), d.canonical());
        image.resize(bytes.len(), 0);
        out += &format!(
            "image bytes={:#x} ; bytes in which the file differs from the tables written in order\n",
            bytes.len()
        );
        print_differences(&mut out, &bytes, &image);
    }
    out + "end\n"
}

fn record(out: &mut String, name: &str, word: &str, r: &Record, depth: usize) {
    let indent = "  ".repeat(depth);
    *out += &format!("{indent}{name} {word} {}\n", r.table.name);
    for (row, value) in r.table.fields.iter().zip(&r.fields) {
        field(out, row.name, row.kind, value, depth + 1);
    }
    *out += &format!("{indent}end\n");
}

fn field(out: &mut String, name: &str, kind: Kind, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Absent => {}
        Value::Number(n) => *out += &format!("{indent}{name} = {}\n", number(kind, *n)),
        Value::Text(text) => *out += &format!("{indent}{name} = {}\n", quote(text.as_bytes())),
        Value::Record(inner) => record(out, name, "table", inner, depth),
        Value::Nested(inner) => record(out, name, "nested", inner, depth),
        Value::Bytes(data) => {
            *out += &format!("{indent}{name} bytes={}\n", block::size(data));
            block::print(out, data, None);
            *out += &format!("{indent}end\n");
        }
        Value::List(all) => {
            *out += &format!("{indent}{name} list\n");
            let inner = if let Kind::Vector(inner) = kind { *inner } else { kind };
            for value in all {
                field(out, "-", inner, value, depth + 1);
            }
            *out += &format!("{indent}end\n");
        }
    }
}

/// A number in decimal, signed if its kind is. Its name follows as a comment.
fn number(kind: Kind, n: u64) -> String {
    let (codes, signed) = match kind {
        Kind::U8(codes) => (codes, false),
        Kind::I32(codes) => (codes, true),
        _ => (&[][..], false),
    };
    let text = match signed {
        true if (n as i64) < 0 => format!("{:#x}", n as u32),
        _ => n.to_string(),
    };
    match by_code(codes, n as u32).filter(|_| n <= u32::MAX as u64) {
        Some(row) => format!("{text} ; {}", row.name),
        None => text,
    }
}

/// Assembles a descriptor from its listing.
pub fn assemble_descriptor(text: &str) -> Result<Descriptor, TextError> {
    let mut lines = Lines::of(text)?;
    lines.expect("e5")?.ends_at(1)?;
    let head = lines.expect("root")?;
    head.at(1).expect("table")?;
    head.at(2).expect(rows::ROOT)?;
    head.ends_at(3)?;
    let root = rows::table(rows::ROOT).unwrap_or(&rows::TABLES[0]);
    let root = parse_record(&mut lines, root)?;
    let descriptor = Descriptor::of(root.clone());
    let descriptor = match lines.next_if("image") {
        Some(line) => {
            let mut bytes: Vec<u8> = lines.zeros(&line.keyed(1, "bytes")?)?;
            line.ends_at(2)?;
            let canonical = descriptor.canonical();
            let shared = canonical.len().min(bytes.len());
            bytes[..shared].copy_from_slice(&canonical[..shared]);
            block::parse_over(&mut lines, &mut bytes, None)?;
            Descriptor::with_bytes(root, bytes)
        }
        None => descriptor,
    };
    lines.expect("end")?.ends_at(1)?;
    lines.next().map_or(Ok(descriptor), |line| Err(line.at(0).error("the end of the text")))
}

fn parse_record(lines: &mut Lines, table: &'static TableRow) -> Result<Record, TextError> {
    let mut out = Record::empty(table);
    loop {
        let Some(line) = lines.next() else { return Err(lines.missing("end")) };
        if line.word() == "end" {
            line.ends_at(1)?;
            return Ok(out);
        }
        let name = line.at(0);
        let i = table.field(name.text).ok_or_else(|| {
            let known: Vec<&str> = table.fields.iter().map(|f| f.name).collect();
            name.error(format!("`end` or a field of {}: {}", table.name, known.join(", ")))
        })?;
        if out.fields[i] != Value::Absent {
            return Err(name.error("each field once"));
        }
        out.fields[i] = parse_field(lines, &line, table.fields[i].kind)?;
    }
}

fn parse_field(lines: &mut Lines, line: &super::lex::Line, kind: Kind) -> Result<Value, TextError> {
    let word = line.at(1);
    let of = |tables: &[&'static str], token: Token| {
        let found = tables.iter().find(|t| **t == token.text).and_then(|t| rows::table(t));
        found.ok_or_else(|| token.error(format!("a table: {}", tables.join(", "))))
    };
    Ok(match (kind, word.text) {
        (Kind::Table(name), "table") => {
            line.ends_at(3)?;
            Value::Record(Box::new(parse_record(lines, of(&[name], line.at(2))?)?))
        }
        (Kind::Union(tables), "table") => {
            line.ends_at(3)?;
            Value::Record(Box::new(parse_record(lines, of(tables, line.at(2))?)?))
        }
        (Kind::Nested(tables), "nested") => {
            line.ends_at(3)?;
            Value::Nested(Box::new(parse_record(lines, of(tables, line.at(2))?)?))
        }
        (Kind::Nested(_), _) if word.strip("bytes=").is_some() => {
            line.ends_at(2)?;
            let data = block::parse(lines, &line.keyed(1, "bytes")?, None)?;
            lines.expect("end")?.ends_at(1)?;
            Value::Bytes(data)
        }
        (Kind::Vector(inner), "list") => {
            line.ends_at(2)?;
            let mut all = Vec::new();
            loop {
                let Some(line) = lines.next() else { return Err(lines.missing("end")) };
                match line.word() {
                    "end" => break line.ends_at(1)?,
                    "-" => all.push(parse_field(lines, &line, *inner)?),
                    _ => return Err(line.at(0).error("`-` or `end`")),
                }
            }
            Value::List(all)
        }
        (_, "=") => {
            line.ends_at(3)?;
            let value = line.at(2);
            match kind {
                Kind::Text => Value::Text(value.string()?),
                Kind::U8(_) => Value::Number(value.number(u8::MAX as u64)?),
                Kind::I32(_) => Value::Number(value.u32()? as i32 as i64 as u64),
                Kind::U32 => Value::Number(value.number(u32::MAX as u64)?),
                Kind::U64 => Value::Number(value.number(u64::MAX)?),
                _ => return Err(word.error("`table`, `nested`, `list` or `bytes=...`, as the field needs")),
            }
        }
        _ => return Err(word.error("`=`, `table`, `nested`, `list` or `bytes=...`, as the field needs")),
    })
}
