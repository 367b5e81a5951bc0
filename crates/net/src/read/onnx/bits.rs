//! Bitwise operators on integers.

use super::element;
use super::node::Node;
use crate::error::Error;
use crate::graph::{DType, ValueId};
use crate::ops::Binary;
use crate::stored::Element;

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    let id = match n.op() {
        "BitwiseAnd" => two(n, Binary::BitAnd)?,
        "BitwiseOr" => two(n, Binary::BitOr)?,
        "BitwiseXor" => two(n, Binary::BitXor)?,
        "BitwiseNot" => {
            let x = n.need(0)?;
            narrow(n, x, true)?;
            // All bits set: the greatest unsigned integer, or -1.
            let most = n.dtype(x).narrow_range().filter(|&(least, _)| least == 0).map_or(-1, |(_, most)| most);
            let all = n.build().scalar(most as f32, x);
            n.build().binary(Binary::BitXor, x, all)?
        }
        "BitShift" => {
            let x = n.need(0)?;
            let up = match n.text("direction").as_deref() {
                Some("LEFT") => true,
                Some("RIGHT") => false,
                other => return Err(n.unsupported(format!("direction `{}`", other.unwrap_or_default()))),
            };
            if up {
                narrow(n, x, false)?;
            }
            two(n, if up { Binary::ShiftLeft } else { Binary::ShiftRight })?
        }
        "BitCast" => cast(n)?,
        _ => return Ok(false),
    };
    n.done(id)
}

fn two(n: &mut Node, binary: Binary) -> Result<ValueId, Error> {
    let (x, y) = (n.need(0)?, n.need(1)?);
    n.build().binary(binary, x, y)
}

/// Refuses integers whose bits `i32` does not hold: unsigned ones, and 64-bit ones unless `signed`, where the upper bits repeat the sign.
fn narrow(n: &Node, x: ValueId, signed: bool) -> Result<(), Error> {
    match n.t.wide_element(x) {
        None => Ok(()),
        Some(Element::Int(64)) if signed => Ok(()),
        Some(_) => Err(n.unsupported("bits beyond 31 of integers that are held as int32. Cast to int32 before it")),
    }
}

/// Reinterprets integers as others of the same width.
fn cast(n: &mut Node) -> Result<ValueId, Error> {
    let x = n.need(0)?;
    let number = n.int("to", 0);
    let to = i32::try_from(number).ok().and_then(element);
    let from = n.dtype(x);
    let dtype = to.and_then(|e| e.dtype()).ok_or_else(|| n.unsupported(format!("element type {number}")))?;
    if from.is_float() || dtype.is_float() {
        return Err(n.unsupported("bit patterns of floats are not part of the graph. Do this on the host"));
    }
    if n.t.wide_element(x).is_some() || to.is_some_and(|e| e != Element::of(dtype)) {
        return Err(n.unsupported("bits beyond 31 of integers that are held as int32. Cast to int32 before it"));
    }
    if from.bytes() != dtype.bytes() {
        return Err(n.unsupported(format!("elements of another width, {from} as {dtype}")));
    }
    if dtype == DType::Bool {
        return Err(n.unsupported("bytes that are not truth values. Compare them with zero"));
    }
    n.build().cast(x, dtype)
}
