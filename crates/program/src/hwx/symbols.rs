//! The text of tensor symbols: name, type number, and extents and strides of four axes.
//!
//! `NAME:tK=ar1;0;N;K+1=sBn:ar1;0;C;K+2=sPc:ar1;0;H;K+3=sRh:ar1;0;W;K+4=sEw:5`, where K numbers types, B, P, R, E are
//! the batch, plane, row and element strides in bytes, and the last number is the element type. Upper bounds are the
//! extent itself, not the extent minus one.

use crate::{Nchw, Strides};

/// A tensor described by its symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSymbol {
    /// Tensor name.
    pub name: String,
    /// Type number K; the axes have the next four.
    pub number: u32,
    /// Extents.
    pub shape: Nchw,
    /// Byte strides of batch, plane and row.
    pub strides: Strides,
    /// Byte stride of columns.
    pub element_bytes: u64,
    /// Number of the element type.
    pub element_type: u32,
}

/// Error for a symbol text that does not describe a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at} of the tensor symbol: expected {expected}")]
pub struct SymbolError {
    /// Byte offset in the text.
    pub at: usize,
    /// Expected text.
    pub expected: &'static str,
}

/// Axis letters in order.
const AXES: [&str; 4] = ["n", "c", "h", "w"];

impl std::fmt::Display for TensorSymbol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let extents = [self.shape.n, self.shape.c, self.shape.h, self.shape.w];
        let s = &self.strides;
        let strides = [s.batch_bytes, s.plane_bytes, s.row_bytes, self.element_bytes];
        write!(f, "{}:t{}=", self.name, self.number)?;
        for (i, axis) in AXES.iter().enumerate() {
            let number = self.number.wrapping_add(1 + i as u32);
            write!(f, "ar1;0;{};{}=s{}{axis}:", extents[i], number, strides[i])?;
        }
        write!(f, "{}", self.element_type)
    }
}

impl std::str::FromStr for TensorSymbol {
    type Err = SymbolError;

    fn from_str(text: &str) -> Result<TensorSymbol, SymbolError> {
        let colon = text.find(":t").ok_or(SymbolError { at: 0, expected: "a name, then ':t'" })?;
        let mut p = Reader { text, at: colon + 2 };
        let number = p.number()? as u32;
        p.literal("=")?;
        let mut extents = [0u32; 4];
        let mut strides = [0u64; 4];
        for (i, axis) in AXES.into_iter().enumerate() {
            p.literal("ar1;0;")?;
            extents[i] = u32::try_from(p.number()?).map_err(|_| p.error("an extent below 2^32"))?;
            p.literal(";")?;
            if p.number()? != number as u64 + 1 + i as u64 {
                return Err(p.error("the next type number"));
            }
            p.literal("=s")?;
            strides[i] = p.number()?;
            p.literal(axis)?;
            p.literal(":")?;
        }
        let element_type = p.number()? as u32;
        if p.at != text.len() {
            return Err(p.error("the end"));
        }
        Ok(TensorSymbol {
            name: text[..colon].to_string(),
            number,
            shape: Nchw { n: extents[0], c: extents[1], h: extents[2], w: extents[3] },
            strides: Strides { batch_bytes: strides[0], plane_bytes: strides[1], row_bytes: strides[2] },
            element_bytes: strides[3],
            element_type,
        })
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn error(&self, expected: &'static str) -> SymbolError {
        SymbolError { at: self.at, expected }
    }

    fn literal(&mut self, what: &'static str) -> Result<(), SymbolError> {
        if !self.text[self.at..].starts_with(what) {
            return Err(self.error(what));
        }
        self.at += what.len();
        Ok(())
    }

    fn number(&mut self) -> Result<u64, SymbolError> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let value = rest[..end].parse().map_err(|_| self.error("a number"))?;
        self.at += end;
        Ok(value)
    }
}
