//! How much of a task stream the rows explain.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{Program, StreamError};

/// Counts over all tasks of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Generation.
    pub generation: &'static str,
    /// Task descriptors.
    pub tasks: usize,
    /// Header words and registers.
    pub words: usize,
    /// Fields of the generation's layout.
    pub fields_known: usize,
    /// Fields that some task sets to something other than 0.
    pub fields_seen: usize,
    /// Bits that are set.
    pub set_bits: u64,
    /// Set bits that no field claims.
    pub unexplained_bits: u64,
}

impl Coverage {
    /// Counts a program's tasks.
    pub fn of(program: &Program) -> Result<Coverage, StreamError> {
        let layout = program.layout;
        let tasks = program.tasks()?;
        let mut out = Coverage {
            generation: layout.generation,
            tasks: tasks.len(),
            fields_known: layout.rows.len(),
            ..Coverage::default()
        };
        let mut seen = BTreeSet::new();
        for task in &tasks {
            let words = task.header.iter().chain(task.runs.iter().flat_map(|r| &r.words));
            for word in words {
                out.words += 1;
                out.set_bits += word.count_ones() as u64;
            }
            out.unexplained_bits += task.unexplained(layout).iter().map(|u| u.2.count_ones() as u64).sum::<u64>();
            for (i, row) in layout.rows.iter().enumerate() {
                if (0..row.count as u32).any(|n| task.get_at(layout, row.field, n).is_some_and(|v| v != 0)) {
                    seen.insert(i);
                }
            }
        }
        out.fields_seen = seen.len();
        Ok(out)
    }
}
