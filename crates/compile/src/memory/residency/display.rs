//! Text form of the residency: the results in tile memory and their addresses, layer by layer.

use super::Residency;
use std::fmt;

impl fmt::Display for Residency {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, resident) in self.residents.iter().enumerate() {
            let Some(r) = resident else { continue };
            let end = r.base_bytes + r.bytes;
            write!(f, "  %{i} L2 {:#x} .. {end:#x}, layers {} to {}", r.base_bytes, r.writer, r.last)?;
            writeln!(f, "{}", if r.crosses { ", saved at a switch" } else { "" })?;
        }
        // Memory map while each layer runs.
        for (i, top) in self.top.iter().enumerate().filter(|(_, top)| **top > 0) {
            write!(f, "  layer {i} L2 to {top:#x}:")?;
            for (buffer, resident) in self.residents.iter().enumerate() {
                let Some(r) = resident.as_ref().filter(|r| r.writer <= i && i <= r.last) else { continue };
                write!(f, " %{buffer} {:#x}..{:#x}", r.base_bytes, r.base_bytes + r.bytes)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
