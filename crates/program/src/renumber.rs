//! Renumbering of base registers: in some forms outputs come first, in others inputs.

use crate::hwx::BASES;
use crate::{Direction, Port, Program, StreamError};

/// Ports with the first base registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortOrder {
    /// Outputs, then inputs: compilers up to 5.4 and the open driver's model file.
    OutputsFirst,
    /// Inputs, then outputs: compilers from 7.6 on.
    InputsFirst,
}

impl Program {
    /// The program with ports on base registers in that order, counted from [`Program::FIRST_PORT_BAR`].
    ///
    /// Only the header fields that name base registers change. Errors: a stream that is not a chain.
    pub fn with_ports_in_order(&self, order: PortOrder) -> Result<Program, StreamError> {
        let first = match order {
            PortOrder::OutputsFirst => [Direction::Output, Direction::Input],
            PortOrder::InputsFirst => [Direction::Input, Direction::Output],
        };
        let mut bars = [0u8; crate::BAR_COUNT];
        for (bar, own) in (0..).zip(&mut bars) {
            *own = bar;
        }
        let ports: Vec<&Port> = first.into_iter().flat_map(|d| self.ports_of(d)).collect();
        for (bar, port) in (Program::FIRST_PORT_BAR..).zip(&ports) {
            if let Some(entry) = bars.get_mut(port.bar as usize) {
                *entry = bar;
            }
        }
        let mut out = self.clone();
        for mut task in self.tasks()? {
            for (field, enable) in BASES {
                let raw = task.get(self.layout, field).filter(|_| task.get(self.layout, enable) == Some(1));
                let Some(&bar) = raw.and_then(|raw| bars.get(raw as usize)) else { continue };
                // The field held a base register before and is wide enough for any.
                let _ = task.set(self.layout, field, bar as u32);
            }
            let start = task.offset as usize;
            for (word, place) in task.words().into_iter().zip(out.stream[start..].chunks_exact_mut(4)) {
                place.copy_from_slice(&word.to_le_bytes());
            }
        }
        for port in &mut out.ports {
            port.bar = bars.get(port.bar as usize).copied().unwrap_or(port.bar);
        }
        Ok(out)
    }
}
