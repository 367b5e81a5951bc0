//! Casts around an inference: from dense tensors of the network's types to strided fp16 tensors of the machine, and back.

use crate::cache::PortInfo;
use crate::error::{Error, Result};
use anemone_facts::driver::IO_TYPES;
use anemone_program::{Element, Port};
use half::f16;

/// Size of an element type in bytes; `None` for unknown codes, and types without whole bytes.
pub fn element_bytes(dtype: u8) -> Option<usize> {
    let bits = IO_TYPES.get(usize::from(dtype))?.1 as usize;
    (bits >= 8).then_some(bits / 8)
}

/// Size of a dense tensor in bytes.
pub fn dense_bytes(info: &PortInfo) -> Option<u64> {
    let elements = info.shape.iter().try_fold(1u64, |all, &n| all.checked_mul(n))?;
    elements.checked_mul(element_bytes(info.dtype)? as u64)
}

/// Refuses a pair of tensors that the casts do not support.
pub fn check(info: &PortInfo, port: &Port) -> Result<()> {
    let found = dense_bytes(info).unwrap_or(0);
    let elements = port.shape.elements();
    let expected = elements.saturating_mul(element_bytes(info.dtype).unwrap_or(1) as u64);
    let fits = port.strides.tight_bytes(port.shape, port.element.bytes()) <= port.bytes;
    if found == expected && found > 0 && port.element == Element::Float16 && fits {
        Ok(())
    } else {
        Err(Error::Size { what: format!("port {}", info.name), found, expected })
    }
}

/// Returns true if a dense tensor has the layout of the port: fp16, without gaps between rows, planes and batches.
pub fn lies_alike(info: &PortInfo, port: &Port) -> bool {
    let (shape, strides) = (port.shape, port.strides);
    let row = u64::from(shape.w) * 2;
    let plane = row * u64::from(shape.h);
    let axes = [
        (shape.h, strides.row_bytes, row),
        (shape.c, strides.plane_bytes, plane),
        (shape.n, strides.batch_bytes, plane * u64::from(shape.c)),
    ];
    let tight = axes.iter().all(|&(extent, stride, dense)| extent <= 1 || stride == dense);
    info.dtype == 3 && port.element == Element::Float16 && tight && dense_bytes(info) == Some(port.bytes)
}

/// Calls `row` with the byte offset and elements of every row of a port, until it returns `None`.
fn each_row(port: &Port, mut row: impl FnMut(usize, usize) -> Option<()>) -> Option<()> {
    let (strides, shape) = (port.strides, port.shape);
    for n in 0..u64::from(shape.n) {
        for c in 0..u64::from(shape.c) {
            let plane = n * strides.batch_bytes + c * strides.plane_bytes;
            for h in 0..u64::from(shape.h) {
                row((plane + h * strides.row_bytes) as usize, shape.w as usize)?;
            }
        }
    }
    Some(())
}

/// Dense to strided. Elements beyond either tensor are skipped; [`check`] is called before.
pub fn to_device(dense: &[u8], dtype: u8, port: &Port, device: &mut [u8]) {
    let size = element_bytes(dtype).unwrap_or(1);
    let mut from = dense;
    each_row(port, |start, width| {
        let slot = device.get_mut(start..start + 2 * width)?;
        let (row, rest) = from.split_at_checked(size * width)?;
        from = rest;
        if dtype == 3 {
            slot.copy_from_slice(row);
            return Some(());
        }
        for (to, value) in slot.chunks_exact_mut(2).zip(row.chunks_exact(size)) {
            to.copy_from_slice(&f16::from_f32(number(value, dtype)).to_le_bytes());
        }
        Some(())
    });
}

/// Strided to dense.
pub fn to_host(device: &[u8], port: &Port, dtype: u8, dense: &mut [u8]) {
    let size = element_bytes(dtype).unwrap_or(1);
    let mut to = dense;
    each_row(port, |start, width| {
        let row = device.get(start..start + 2 * width)?;
        let (slot, rest) = std::mem::take(&mut to).split_at_mut_checked(size * width)?;
        to = rest;
        if dtype == 3 {
            slot.copy_from_slice(row);
            return Some(());
        }
        for (to, value) in slot.chunks_exact_mut(size).zip(row.chunks_exact(2)) {
            put(f16::from_le_bytes([value[0], value[1]]).to_f32(), dtype, to);
        }
        Some(())
    });
}

/// Number of infinite or NaN elements of a dense tensor, number of all its elements, and the position of the first; `None`
/// if there is none. Integers have none.
pub fn not_finite(dense: &[u8], dtype: u8) -> Option<[usize; 3]> {
    let size = element_bytes(dtype).filter(|_| matches!(dtype, 3 | 4))?;
    let value = |bytes: &[u8]| match dtype {
        3 => f16::from_bits(wide(bytes) as u16).to_f32(),
        _ => number(bytes, dtype),
    };
    let mut found = dense.chunks_exact(size).enumerate().filter(|(_, bytes)| !value(bytes).is_finite());
    let (first, _) = found.next()?;
    Some([1 + found.count(), dense.len() / size, first])
}

fn wide(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |all, &b| all << 8 | u64::from(b))
}

fn number(bytes: &[u8], dtype: u8) -> f32 {
    let raw = wide(bytes);
    match dtype {
        4 => f32::from_bits(raw as u32),
        2 => f32::from(raw as i8),
        5 => f32::from(raw as i16),
        7 => raw as i32 as f32,
        9 => raw as i64 as f32,
        _ => raw as f32,
    }
}

/// Stores a number; integers are rounded to nearest, ties to even, and saturate.
fn put(value: f32, dtype: u8, to: &mut [u8]) {
    let whole = value.round_ties_even();
    let raw = match dtype {
        4 => u64::from(value.to_bits()),
        1 => u64::from(whole as u8),
        2 => whole as i8 as u64,
        5 => whole as i16 as u64,
        6 => u64::from(whole as u16),
        7 => whole as i32 as u64,
        8 => u64::from(whole as u32),
        9 => whole as i64 as u64,
        _ => whole as u64,
    };
    let n = to.len().min(8);
    to[..n].copy_from_slice(&raw.to_le_bytes()[..n]);
}
