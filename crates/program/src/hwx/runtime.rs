//! Task streams of a container, and the runtime graph of containers that are compiled for one engine and for two.

use anemone_facts::Layout;
use anemone_facts::formats::hwx as rows;
use anemone_facts::formats::hwx::runtime;

use super::defs::Container;
use crate::StreamError;
use crate::task::{Task, decode_what_stands};

/// Longest name that is read.
const NAME_BYTES: usize = 4096;

/// The runtime graph of a container, from its symbols. The form of the graph's own bytes is unknown; they are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeGraph<'a> {
    /// Procedures: name and address.
    pub procedures: Vec<(&'a str, u64)>,
    /// Operations of the procedures: name and address.
    pub operations: Vec<(&'a str, u64)>,
    /// Task streams: name and address.
    pub streams: Vec<(&'a str, u64)>,
}

impl<'a> RuntimeGraph<'a> {
    /// Operations that start an engine.
    pub fn kicks(&self) -> impl Iterator<Item = &'a str> {
        self.operations.iter().map(|&(name, _)| name).filter(|n| n.starts_with(runtime::KICK))
    }

    /// Name of the stream that contains an address of the task section.
    pub fn stream_at(&self, address: u64) -> Option<&'a str> {
        let before = self.streams.iter().filter(|(_, at)| *at <= address);
        before.max_by_key(|(_, at)| *at).map(|&(name, _)| name)
    }
}

/// The text at an offset of the string table, up to its end; `None` if it is not text, or too long.
fn name(strings: &[u8], offset: u32) -> Option<&str> {
    let rest = strings.get(offset as usize..)?;
    let end = rest.iter().take(NAME_BYTES).position(|&b| b == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// Tasks of one procedure of a container.
pub struct ProcedureTasks {
    /// Name of the procedure; empty if the container states none.
    pub name: String,
    /// Its tasks, with their offsets in the whole section.
    pub tasks: Vec<Task>,
    /// Error that ends them early.
    pub error: Option<StreamError>,
}

impl Container {
    /// The tasks of the container's stream, procedure by procedure, up to the first error, with the layout they are read by; `None` if
    /// the descriptor version is unknown, or there is no stream.
    pub fn tasks(&self) -> Option<(&'static Layout, Vec<Task>, Option<StreamError>)> {
        let layout = self.layout()?;
        let parts = self.procedure_tasks()?;
        let error = parts.iter().find_map(|part| part.error);
        Some((layout, parts.into_iter().flat_map(|part| part.tasks).collect(), error))
    }

    /// As [`Container::tasks`], by procedure.
    pub fn procedure_tasks(&self) -> Option<Vec<ProcedureTasks>> {
        let layout = self.layout()?;
        let text = self.section(rows::TEXT.segment, rows::TEXT.section)?;
        let whole = |name: String, first: u32, part: std::ops::Range<usize>| {
            let start = part.start as u32;
            let (mut tasks, error) = decode_what_stands(layout, &text.data[part], first);
            tasks.iter_mut().for_each(|task| task.offset += start);
            ProcedureTasks { name, tasks, error }
        };
        let runs: Vec<_> = self.run_states().collect();
        Some(match runs.as_slice() {
            [] => vec![whole(String::new(), 0, 0..text.data.len())],
            [(_, run)] => vec![whole(run.name(), run.first_task_words(), 0..text.data.len())],
            several => {
                let placed = several.iter().filter_map(|(_, run)| Some((run, self.stream_of(run)?.1)));
                placed.map(|(run, part)| whole(run.name(), run.first_task_words(), part)).collect()
            }
        })
    }

    /// The runtime graph, if the container has one.
    pub fn runtime(&self) -> Option<RuntimeGraph<'_>> {
        let section = self.section(rows::RUNTIME.segment, rows::RUNTIME.section)?;
        let end = section.address.saturating_add(section.bytes);
        let mut graph = RuntimeGraph::default();
        let Some(table) = self.symtab() else { return Some(graph) };
        for symbol in table.symbols.iter().filter(|s| s.kind & runtime::KIND_BITS == runtime::KIND_BITS) {
            let Some(name) = name(&table.strings, symbol.name_offset) else { continue };
            let inside = (section.address..end).contains(&symbol.value);
            if let Some(whose) = name.strip_prefix(runtime::STREAM_START) {
                graph.streams.push((whose, symbol.value));
            } else if inside && name.starts_with(runtime::OPERATION) {
                graph.operations.push((name, symbol.value));
            } else if inside {
                graph.procedures.push((name, symbol.value));
            }
        }
        Some(graph)
    }
}
