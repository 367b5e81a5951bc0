//! Field values as text, both ways.

use anemone_facts::layout::v10;
use anemone_facts::{Coding, Field, Layout, Row};

use super::lex::{TextError, Token};

/// True where a field holds a number with a sign: the DMA strides of descriptor version 10.
fn is_signed(layout: &Layout, row: &Row) -> bool {
    layout.td_version == v10::VERSION && v10::is_stride(row)
}

/// A field's value in a listing, and a comment for the reader.
pub(super) fn print(layout: &Layout, row: &Row, raw: u32) -> (String, String) {
    let info = row.field.info();
    match info.coding {
        Coding::Shifted(n) if is_signed(layout, row) && raw > row.max() / 2 => {
            (format!("-{:#x}", (row.max() as u64 + 1 - raw as u64) << n), String::new())
        }
        Coding::Shifted(n) => (format!("{:#x}", (raw as u64) << n), String::new()),
        Coding::Flag => (raw.to_string(), String::new()),
        Coding::Log2 => {
            let quantity = 1u64.checked_shl(raw).map_or("too large".to_string(), |q| format!("{q} {}", info.unit));
            (raw.to_string(), quantity)
        }
        Coding::F16 => (format!("{raw:#06x}"), half::f16::from_bits(raw as u16).to_string()),
        Coding::F32 => (format!("{raw:#010x}"), f32::from_bits(raw).to_string()),
        Coding::Names(names) => match names.get(raw as usize) {
            Some(&name) if !name.is_empty() => (name.to_string(), String::new()),
            _ => (raw.to_string(), "value without a name".to_string()),
        },
        Coding::Uint => match info.unit {
            "bytes" | "" if raw > 9 => (format!("{raw:#x}"), String::new()),
            unit => {
                let (one_less, noun) = unit.strip_suffix(" - 1").map_or((false, unit), |noun| (true, noun));
                let note = if one_less { format!("{} {noun}", raw as u64 + 1) } else { String::new() };
                (raw.to_string(), note)
            }
        },
    }
}

/// A field's raw value from the text of [`print`], or from a number. Signed fields are also read as the unsigned word.
pub(super) fn parse(layout: &Layout, row: &Row, token: &Token) -> Result<u32, TextError> {
    let max = row.max() as u64;
    match row.field.info().coding {
        Coding::Shifted(n) if is_signed(layout, row) && token.text.starts_with('-') => {
            let reach = (max + 1) << (n - 1);
            let least = || token.error(format!("a multiple of {:#x} from -{reach:#x} on", 1u64 << n));
            let value = token.strip("-").and_then(|size| size.number(reach).ok()).ok_or_else(least)?;
            if value == 0 || value & ((1 << n) - 1) != 0 {
                return Err(least());
            }
            Ok((max + 1 - (value >> n)) as u32)
        }
        Coding::Shifted(n) => {
            let value = token.number(max << n)?;
            if value & ((1 << n) - 1) != 0 {
                return Err(token.error(format!("a multiple of {:#x}", 1u64 << n)));
            }
            Ok((value >> n) as u32)
        }
        Coding::Names(names) if !token.text.starts_with(|c: char| c.is_ascii_digit()) => {
            let found = names.iter().position(|&n| !n.is_empty() && n == token.text);
            let known = || names.iter().filter(|n| !n.is_empty()).copied().collect::<Vec<_>>().join(", ");
            found.map(|i| i as u32).ok_or_else(|| token.error(format!("a number or one of {}", known())))
        }
        _ => Ok(token.number(max)? as u32),
    }
}

/// Name of a field in a word, with its index if the field is an array.
pub(super) fn name(row: &Row, index: u32) -> String {
    match row.count {
        1 => row.field.info().name.to_string(),
        _ => format!("{}[{index}]", row.field.info().name),
    }
}

/// The row and word address of a field's name, index included.
pub(super) fn resolve(layout: &Layout, token: &Token) -> Result<(&'static Row, u32), TextError> {
    let (name, index) = match token.text.split_once('[') {
        Some((name, rest)) => (name, rest.strip_suffix(']').and_then(|i| i.parse::<u32>().ok())),
        None => (token.text, Some(0)),
    };
    let row = Field::by_name(name)
        .and_then(|f| layout.row(f))
        .ok_or_else(|| token.error(format!("a field of {}, or `?`", layout.generation)))?;
    match index.filter(|&i| i < row.count as u32) {
        Some(i) => Ok((row, row.addr + 4 * i)),
        None => Err(token.error(format!("an index below {}", row.count))),
    }
}
