//! Kernel streams of the tasks, and the symbols of streams and tensors.

use super::{Part, Plan};
use crate::hwx::defs::{Symbol, Symtab};
use crate::hwx::lift::type_of;
use crate::hwx::options::{BuildError, Options};
use crate::hwx::symbols::TensorSymbol;
use crate::{Direction, Program, Task};
use anemone_facts::Field;
use anemone_facts::formats::hwx as rows;
use sha2::{Digest, Sha256};
use std::collections::HashMap;

/// Text before the engine's number in the name of a kernel symbol.
const ENGINE_MARK: &str = "_ne_";

/// Enabled kernel streams of a task; empty if the kernel base refers to a tensor, as in products of two tensors.
pub(super) fn enabled<'a>(program: &'a Program, task: &'a Task) -> impl Iterator<Item = u32> + 'a {
    let get = |field| task.get(program.layout, field);
    let tensor = get(Field::Kbe0) == Some(1) && get(Field::KBase0) != Some(Program::KERNEL_BAR.into());
    let count = program.layout.row(Field::CoeffEn).filter(|_| !tensor).map_or(0, |r| r.count as u32);
    (0..count).filter(|&i| task.get_at(program.layout, Field::CoeffEn, i) == Some(1))
}

/// One enabled kernel stream.
pub(super) struct KernelStream {
    /// Byte offset of its base register's word in the task stream.
    pub word_offset: u32,
    /// Byte offset in the kernel data.
    pub base: u64,
    /// Default symbol name.
    name: String,
}

/// Enabled kernel streams of every task.
///
/// Errors: a stream that reaches past the kernel data.
pub(super) fn streams(program: &Program, tasks: &[Task]) -> Result<Vec<KernelStream>, BuildError> {
    let layout = program.layout;
    let mut out = Vec::new();
    // Tasks with the same coefficients, such as the steps of a recurrent layer, have the same name.
    let mut digests: HashMap<Vec<(u64, u64)>, String> = HashMap::new();
    for (index, task) in tasks.iter().enumerate() {
        let mut streams = Vec::new();
        let mut contents = Vec::new();
        for engine in enabled(program, task) {
            let base = task.bytes_at(layout, Field::CoeffBase, engine);
            let bytes = task.bytes_at(layout, Field::CoeffSize, engine);
            let data = program.kernel.get(base as usize..).and_then(|k| k.get(..bytes as usize));
            let have = program.kernel.len() as u64;
            contents.push(data.ok_or(BuildError::Kernel { task: index, engine, offset: base, bytes, have })?);
            streams.push((engine, base, bytes));
        }
        let place = streams.iter().map(|&(_, base, bytes)| (base, bytes)).collect();
        let digits = digests.entry(place).or_insert_with(|| {
            let mut hash = Sha256::new();
            contents.iter().for_each(|data| hash.update(data));
            hash.finalize().iter().map(|b| format!("{b:02X}")).collect()
        });
        let coefficients = task.get(layout, Field::KernelMode) == Some(0);
        for (engine, base, _) in streams {
            let suffix = if coefficients { format!("{ENGINE_MARK}{engine}") } else { String::new() };
            // Without a base register in the descriptor there is nothing to relocate.
            let Some(word_offset) = word_offset(task, layout.row(Field::CoeffBase).map_or(0, |r| r.addr) + 4 * engine)
            else {
                continue;
            };
            out.push(KernelStream { word_offset, base, name: format!("K{digits}{suffix}") });
        }
    }
    Ok(out)
}

/// Byte offset in the stream of the word that sets a register.
fn word_offset(task: &Task, addr: u32) -> Option<u32> {
    let mut at = task.offset + 4 * task.header.len() as u32;
    for run in &task.runs {
        at += 4;
        if addr >= run.addr && addr < run.addr + 4 * run.words.len() as u32 {
            return Some(at + addr - run.addr);
        }
        at += 4 * run.words.len() as u32;
    }
    None
}

/// Symbols: kernel streams (in later dialects after the windows), inputs, outputs, element types, tensors.
pub(super) fn symtab(parts: &[Part], options: &Options, plan: &Plan) -> Symtab {
    let dialect = options.dialect;
    let mut table =
        Symtab { symbols_offset: 0, strings_offset: 0, symbols: Vec::new(), strings: vec![0], tail: Vec::new() };
    let mut add = |name: &str, kind, section, desc, value| {
        table.symbols.push(Symbol { name_offset: table.strings.len() as u32, kind, section, desc, value });
        table.strings.extend_from_slice(name.as_bytes());
        table.strings.push(0);
    };
    let kernels = kernel_symbols(parts, options);
    let add_kernels = |add: &mut dyn FnMut(&str, u8, u8, u16, u64)| {
        for (part, name, desc, value) in &kernels {
            let last = (part.program.kernel.len() as u64).saturating_sub(1);
            let section = plan.section_of_kernel(part, (value - part.kernel_address).min(last));
            add(name, rows::SYMBOL_DEFINED, section, *desc, *value);
        }
    };
    if !dialect.windows_first {
        add_kernels(&mut add);
    }
    for part in parts {
        for direction in [Direction::Input, Direction::Output] {
            let desc = if direction == Direction::Input { rows::DESC_READ_ONLY } else { 0 };
            for (i, port) in part.program.ports.iter().enumerate().filter(|(_, p)| p.direction == direction) {
                add(&port.name, rows::SYMBOL_DEFINED, part.first_window + i as u8, desc, part.windows[i]);
            }
        }
    }
    if dialect.windows_first {
        add_kernels(&mut add);
    }
    let types = rows::TYPES[..dialect.types].iter().copied().chain(options.more_types.iter().map(String::as_str));
    let mut number = 1;
    for text in types {
        add(text, rows::SYMBOL_TYPE, 0, 0, 0);
        number += 1;
    }
    number = options.first_tensor_number.unwrap_or(number);
    for port in parts.iter().flat_map(|part| &part.program.ports) {
        let symbol = TensorSymbol {
            name: port.name.clone(),
            number,
            shape: port.shape,
            strides: port.strides,
            element_bytes: port.element.bytes(),
            element_type: type_of(port.element),
        };
        add(&symbol.to_string(), rows::SYMBOL_TENSOR, 0, (number % rows::TENSOR_DESC_MODULUS) as u16, 0);
        number = number.wrapping_add(rows::TENSOR_TYPE_STEP);
    }
    table
}

/// Part, name, description and address of every kernel symbol.
fn kernel_symbols<'a, 'p>(parts: &'a [Part<'p>], options: &Options) -> Vec<(&'a Part<'p>, String, u16, u64)> {
    let mut out: Vec<(&Part, String, u16, u64)> = Vec::new();
    let mut names = options.kernel_names.iter();
    for part in parts.iter().filter(|part| part.own_kernel) {
        // Tasks that share kernel data share its symbols.
        let mut seen = std::collections::HashSet::new();
        let mut engine_of: Vec<(String, u32)> = Vec::new();
        for stream in part.streams.iter().filter(|s| seen.insert(s.base)) {
            let name = names.next().unwrap_or(&stream.name);
            let split = name.rsplit_once(ENGINE_MARK).and_then(|(s, n)| Some((s, n.parse().ok()?)));
            if let Some((stem, engine)) = split {
                engine_of.push((stem.to_string(), engine));
            }
            out.push((part, name.clone(), rows::DESC_READ_ONLY, part.kernel_address + stream.base));
        }
        if !options.dialect.idle_symbols {
            continue;
        }
        let end = part.kernel_address + part.program.kernel.len() as u64;
        let mut stems: Vec<&String> = engine_of.iter().map(|(stem, _)| stem).collect();
        stems.dedup();
        for stem in stems {
            let used = |engine: u32| engine_of.iter().any(|(s, e)| s == stem && *e == engine);
            for engine in (0..anemone_facts::kernel::ENGINES as u32).filter(|&e| !used(e)) {
                out.push((part, format!("{stem}{ENGINE_MARK}{engine}"), 0, end));
            }
        }
    }
    out
}
