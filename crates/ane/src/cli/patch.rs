//! `ane patch`: replaces weights, biases or table knots in a compiled file; all other bytes are unchanged.

mod stored;

use super::{Verbosity, print};
use anemone::adapter::{Found, edits, find, fp16};
use anemone::tensor::read_npy;
use anemone::{Code, Diagnostic, Model, Result, files};
use anemone_facts::formats::{firmware, hwx, raw};
use anemone_facts::layout::H13;
use anemone_program::hwx::{Container, KernelData};
use anemone_program::patch::{Edits, Kernel, Part, apply, kernels};
use anemone_program::{Program, text};
use clap::Args;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane patch model.hwx
  ane patch model.hwx --weights td0=w.npy -o new.hwx
  ane patch model.hwx --weights K596A=w.npy --weights td0.bias=b.npy -o new.hwx
  ane patch model.hwx --weights td0=conv.npy --weights td2=product.npy --transposed=td2 -o new.hwx

Without --weights it lists what can be changed. NAME is a task (td0, td1, ...) or the beginning of its kernel symbol, then \
.bias or .lut for the biases or the 33 knots of the activation table. Weights have the extents [out, in, rows, columns], \
those of products [out, in]; --transposed takes [in, out], --transposed=NAME for one array alone. Values are rounded to fp16; \
what it cannot hold is refused. The task stream is not touched.

Containers of generations that are listed only (M2 to M6) take the values of a task in the order in which they are stored, stream \
after stream: [streams, values] or flat. Which output channel and place each value has is not known for them.")]
pub struct Flags {
    /// Compiled file: .hwx, .anec, .bin or .anefw
    file: PathBuf,
    /// Kernel to change, and the file with its new values
    #[arg(long, value_name = "NAME=FILE.npy")]
    weights: Vec<String>,
    /// Two-dimensional weights are [in, out]: all of them, or those with the given names
    #[arg(long, value_name = "NAME", num_args = 0.., require_equals = true, value_delimiter = ',')]
    transposed: Option<Vec<String>>,
    /// Procedure whose kernels are listed or changed, if the container has several [default: the first]
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// Saturate values beyond fp16; they are refused otherwise
    #[arg(long)]
    saturate: bool,
    /// File to write
    #[arg(short, long)]
    output: Option<PathBuf>,
}

/// A program with the position of its kernel data in the file.
struct Target {
    program: Program,
    /// First byte of each section of the kernel data: in it, and in the file.
    places: Vec<(u64, u64)>,
    /// First symbol of each kernel: byte offset in the kernel data, name.
    symbols: Vec<(u64, String)>,
}

pub fn run(flags: Flags, verbosity: Verbosity) -> Result<u8> {
    if let Model::Container(container) = Model::load(&flags.file)?
        && container.layout().is_some_and(|layout| layout.generation != H13.generation)
    {
        let kernels = text::stored_kernels(&container);
        if !kernels.is_empty() {
            return stored::run(&flags, &container, &kernels, verbosity);
        }
        let generation = container.layout().map_or("", |layout| layout.generation);
        let message = format!("no task of this program for {generation} has coefficients: nothing can be changed");
        return Err(Diagnostic::new(Code::Usage, message).at(flags.file.display()));
    }
    let target = target(&flags)?;
    let found = kernels(&target.program).map_err(|e| malformed(&flags.file, e))?;
    if flags.weights.is_empty() {
        return list(&target, &found, verbosity).map(|()| 0);
    }
    let Some(output) = &flags.output else {
        return Err(Diagnostic::new(Code::Usage, "--weights needs a file to write: -o FILE"));
    };
    let mut bytes = files::read(&flags.file)?;
    let mut changed = Vec::new();
    let given = |name: &String| flags.weights.iter().any(|w| w.split_once('=').is_some_and(|(n, _)| n == name));
    if let Some(name) = flags.transposed.iter().flatten().find(|name| !given(name)) {
        let message = format!("--transposed={name}: no --weights {name}=FILE is given");
        return Err(Diagnostic::new(Code::Usage, message));
    }
    for argument in &flags.weights {
        let (name, file) = argument
            .split_once('=')
            .ok_or_else(|| Diagnostic::new(Code::Usage, format!("--weights {argument}: NAME=FILE expected")))?;
        let (kernel, part) = find(name, &target.symbols, &found)?;
        let array = read_npy(Path::new(file))?;
        let transposed =
            flags.transposed.as_ref().is_some_and(|names| names.is_empty() || names.iter().any(|n| n == name));
        let array = fp16(array, flags.saturate).map_err(|d| d.or_at(file))?;
        let (edits, rounded) = edits(&target.program, kernel, part, &array, transposed).map_err(|d| d.or_at(file))?;
        let here = KernelData { bytes: Cow::default(), places: target.places.clone() };
        let in_file: Edits = edits.iter().map(|&(at, bits)| (here.file_offset(at), bits)).collect();
        apply(&mut bytes, 0, &in_file);
        let others: Vec<usize> =
            found.iter().flatten().filter(|k| k.task != kernel.task && k.reads(&edits)).map(|k| k.task).collect();
        changed.push(Changed { name: name.to_string(), task: kernel.task, part, edits: edits.len(), rounded, others });
    }
    files::write(output, &bytes)?;
    if verbosity.json {
        let all: Vec<Value> = changed.iter().map(Changed::document).collect();
        let document = json!({ "schema": "anemone.patch/1", "path": output.display().to_string(), "changes": all });
        return print(&format!("{document}\n")).map(|()| 0);
    }
    for c in &changed {
        verbosity.note(c.line());
    }
    Ok(0)
}

struct Changed {
    name: String,
    task: usize,
    part: Part,
    edits: usize,
    rounded: usize,
    others: Vec<usize>,
}

impl Changed {
    fn line(&self) -> String {
        let mut line = format!("{}: task {}, {} values changed", self.name, self.task, self.edits);
        if self.rounded > 0 {
            line += &format!(", {} rounded to fp16", self.rounded);
        }
        if !self.others.is_empty() {
            line += &format!("; tasks {:?} read the same bytes", self.others);
        }
        line
    }

    fn document(&self) -> Value {
        json!({
            "name": self.name,
            "task": self.task,
            "part": format!("{:?}", self.part).to_lowercase(),
            "values_changed": self.edits,
            "values_rounded": self.rounded,
            "other_tasks": self.others,
        })
    }
}

fn malformed(file: &Path, e: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(Code::Malformed, e.to_string()).at(file.display())
}

fn target(flags: &Flags) -> Result<Target> {
    let file = &flags.file;
    let plain =
        |program: Program, kernel_at: u64| Target { program, places: vec![(0, kernel_at)], symbols: Vec::new() };
    match Model::load(file)? {
        Model::Container(container) => {
            let program = match &flags.function {
                Some(name) => container.program_of(name),
                None => container.program(),
            };
            let program = program.map_err(|e| malformed(file, e))?;
            let run = container.run_states().map(|(_, run)| run).find(|run| run.name() == program.name);
            let address = container.kernel_sections_of(run).first().map_or(0, |s| s.address);
            let places = container.kernel_data(run).places;
            Ok(Target { symbols: symbols(&container, address), program, places })
        }
        Model::Program(program) => {
            let stream = (program.stream.len() as u64).next_multiple_of(raw::KERNEL_ALIGN);
            let bytes = files::read(file)?;
            // A raw stream begins with its first task; a model file has a header first.
            let start = if bytes.starts_with(&program.stream) {
                0
            } else {
                let places = [raw::anec::DATA, raw::anec::DATA_FIRST];
                let at = places.into_iter().find(|&at| bytes.get(at..).is_some_and(|b| b.starts_with(&program.stream)));
                at.unwrap_or(raw::anec::DATA) as u64
            };
            Ok(plain(*program, start + stream))
        }
        Model::Package(package) => {
            let [entry] = package.programs.as_slice() else {
                return Err(malformed(file, format!("{} programs, one is expected", package.programs.len())));
            };
            let program = entry.program().map_err(|e| malformed(file, e))?;
            Ok(plain(program, entry.section(firmware::KERNEL).map_or(0, |s| s.offset)))
        }
        Model::Net { .. } | Model::Descriptor(_) => {
            Err(Diagnostic::new(Code::Usage, "the file holds no kernel data").at(file.display()))
        }
    }
}

fn symbols(container: &Container, address: u64) -> Vec<(u64, String)> {
    let Some(table) = container.symtab() else { return Vec::new() };
    let kernels = table.symbols.iter().filter(|s| s.kind == hwx::SYMBOL_DEFINED && s.value >= address);
    kernels.map(|s| (s.value - address, table.name(s))).filter(|(_, name)| name.starts_with('K')).collect()
}

fn list(target: &Target, found: &Found, verbosity: Verbosity) -> Result<()> {
    let symbol = |k: &Kernel| {
        let first = k.streams.iter().flatten().next().map(|s| s.0);
        target.symbols.iter().find(|(at, _)| Some(*at) == first).map(|(_, name)| name.clone())
    };
    let entry = |k: &Kernel| {
        json!({
            "name": format!("td{}", k.task),
            "symbol": symbol(k),
            "weights": k.weights,
            "bias": k.bias,
            "lut": k.table,
            "streams": k.streams.iter().flatten().count(),
            "stride_bytes": k.stride(),
        })
    };
    if verbosity.json {
        let all: Vec<Value> = found
            .iter()
            .map(|f| match f {
                Ok(k) => entry(k),
                Err(e) => json!({ "refused": e.to_string() }),
            })
            .collect();
        return print(&format!("{}\n", json!({ "schema": "anemone.patch/1", "kernels": all })));
    }
    let mut text = String::new();
    for kernel in found {
        match kernel {
            Ok(k) => {
                let weights = k.weights.map_or(String::new(), |w| format!(" weights {w:?}"));
                let bias = if k.bias { " bias" } else { "" };
                let table = if k.table { " lut" } else { "" };
                let streams = k.streams.iter().flatten().count();
                let stride = k.stride().map_or(String::new(), |s| format!(" {s:#x} bytes apart"));
                let name = symbol(k).map_or(String::new(), |s| format!(" {s}"));
                text += &format!("td{}{weights}{bias}{table}, {streams} streams{stride}{name}\n", k.task);
            }
            Err(e) => text += &format!("{e}\n"),
        }
    }
    print(&text)
}
