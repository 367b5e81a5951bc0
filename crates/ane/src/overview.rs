//! Overview of a compiled file: its target, its tensors, and one line for each task.

use crate::model::Model;
use anemone_facts::chips::{SUBTYPES, Subtype};
use anemone_facts::{Field, Layout};
use anemone_program::Task;
use std::fmt::Write;

/// One line for each task; `None` as in [`of`].
pub fn tasks(model: &Model) -> Option<Vec<String>> {
    let (layout, tasks) = match model {
        Model::Container(container) => {
            container.tasks().filter(|(.., error)| error.is_none()).map(|(l, t, _)| (l, t))?
        }
        Model::Program(program) => (program.layout, program.tasks().ok()?),
        Model::Net { .. } | Model::Descriptor(_) | Model::Package(_) => return None,
    };
    Some(tasks.iter().map(|task| line(layout, task)).collect())
}

/// The overview; `None` for files without a task stream that decodes.
pub fn of(model: &Model) -> Option<String> {
    let (head, layout, tasks) = match model {
        Model::Container(container) => {
            let (layout, tasks, error) = container.tasks()?;
            if error.is_some() {
                return None;
            }
            let subtype = SUBTYPES.iter().find(|s| s.subtype == container.header.cpu_subtype);
            let target = subtype.map(Subtype::describe).unwrap_or_default();
            let compiler = container.compiler_version().unwrap_or_else(|| "unknown".into());
            let windows: Vec<String> = container.windows().map(|(_, w)| w.name()).collect();
            let head = format!(
                "container for {target}; compiler {compiler}; {} bytes; tensors: {}",
                container.file_bytes,
                windows.join(", ")
            );
            (head, layout, tasks)
        }
        Model::Program(program) => {
            let ports: Vec<&str> = program.ports.iter().map(|p| p.name.as_str()).collect();
            let bytes = program.stream.len() + program.kernel.len();
            let head =
                format!("stream for {}; {bytes} bytes; tensors: {}", program.layout.generation, ports.join(", "));
            (head, program.layout, program.tasks().ok()?)
        }
        Model::Net { .. } | Model::Descriptor(_) | Model::Package(_) => return None,
    };
    let mut out = format!("{head}\n");
    match procedures(model) {
        Some(procedures) => {
            for (number, (name, tasks)) in procedures.iter().enumerate() {
                let _ = writeln!(out, "procedure {number}, {name}: {}:", counted(tasks.len(), "task"));
                out += &lines(layout, tasks);
            }
        }
        None => {
            let _ = writeln!(out, "{}:", counted(tasks.len(), "task"));
            out += &lines(layout, &tasks);
        }
    }
    if out.contains('?') {
        out.push_str("?: not stated in the file\n");
    }
    out.push_str("-v shows every field, --td N one task, --part NAMES some parts\n");
    Some(out)
}

/// Procedures with their tasks, if a container has several.
fn procedures(model: &Model) -> Option<Vec<(String, Vec<Task>)>> {
    let Model::Container(container) = model else { return None };
    let all = container.procedure_tasks().filter(|all| all.len() > 1)?;
    Some(all.into_iter().map(|part| (part.name, part.tasks)).collect())
}

/// A line for each task; equal neighbours share one.
fn lines(layout: &Layout, tasks: &[Task]) -> String {
    let lines: Vec<String> = tasks.iter().map(|task| line(layout, task)).collect();
    let (mut out, mut at) = (String::new(), 0);
    while at < lines.len() {
        let same = lines[at..].iter().take_while(|l| **l == lines[at]).count();
        let number = if same > 1 { format!("td{at}..{}", at + same - 1) } else { format!("td{at}") };
        let _ = writeln!(out, "{number:>10}  {}", lines[at]);
        at += same;
    }
    out
}

/// `NE conv 3x3 s1 p1 1>16ch 8x8>8x8 fp16, 1 KB coefficients, bar4 -> L2`.
fn line(layout: &Layout, task: &Task) -> String {
    let get = |field| task.get(layout, field);
    let named = |field| task.name(layout, field);
    let class = named(Field::TaskClass).unwrap_or("");
    let planar = class.starts_with("pe");
    let mut text = format!("{} {}", if planar { "PE" } else { "NE" }, operation(layout, task, planar));
    if let (Some(w), Some(h)) = (get(Field::Kw), get(Field::Kh))
        && (!planar || w * h > 1)
        && w * h > 0
    {
        let _ = write!(text, " {h}x{w}");
        let pair = |a: Option<u32>, b: Option<u32>, name: &str, plain: u32| match (a, b) {
            (Some(a), Some(b)) if a == b && a == plain => String::new(),
            (Some(a), Some(b)) if a == b => format!(" {name}{a}"),
            (Some(a), Some(b)) => format!(" {name}{a}x{b}"),
            _ => String::new(),
        };
        text += &pair(get(Field::Sy), get(Field::Sx), "s", 1);
        text += &pair(get(Field::Py), get(Field::Px), "p", 0);
    }
    let change = |from: Option<u32>, to: Option<u32>| match (from, to) {
        (Some(a), Some(b)) if a == b => a.to_string(),
        (Some(a), Some(b)) => format!("{a}>{b}"),
        _ => "?".into(),
    };
    let _ = write!(text, " {}ch", change(get(Field::Cin), get(Field::Cout)));
    if let Some(groups) = get(Field::NumGroups).filter(|&n| n > 1) {
        let _ = write!(text, " x{groups} groups");
    }
    let size = |h: Field, w: Field| Some(format!("{}x{}", get(h)?, get(w)?));
    match (size(Field::Hin, Field::Win), size(Field::Hout, Field::Wout)) {
        (Some(a), Some(b)) if a == b => text += &format!(" {a}"),
        (Some(a), Some(b)) => text += &format!(" {a}>{b}"),
        _ => {}
    }
    let formats = (named(Field::InFmt), named(Field::OutFmt));
    match formats {
        (Some(a), Some(b)) if a == b => text += &format!(" {a}"),
        (Some(a), Some(b)) => text += &format!(" {a}>{b}"),
        _ => {}
    }
    text += &functions(layout, task, planar);
    let streams = layout.row(Field::CoeffSize).map_or(0, |row| u32::from(row.count));
    let enabled = |i: u32| task.get_at(layout, Field::CoeffEn, i).is_some_and(|on| on != 0);
    let bytes: u64 = (0..streams).filter(|&i| enabled(i)).map(|i| task.bytes_at(layout, Field::CoeffSize, i)).sum();
    if bytes > 0 {
        let _ = write!(text, ", {} coefficients", quantity(bytes));
    }
    let _ = write!(text, ", {} -> {}", sources(layout, task), result(layout, task));
    text
}

fn operation(layout: &Layout, task: &Task, planar: bool) -> String {
    let named = |field| task.name(layout, field).unwrap_or("");
    if planar {
        return match named(Field::TaskClass) {
            "pe-reduce" | "pe-reduce2" => format!("reduce {}", named(Field::PePool)).trim_end().into(),
            "pe1" if task.get(layout, Field::Kw).is_some_and(|w| w > 1) => {
                format!("pool {}", named(Field::PePool)).trim_end().into()
            }
            "pe2" => named(Field::PeOp).to_string(),
            other => other.strip_prefix("pe-").unwrap_or("elementwise").to_string(),
        };
    }
    let unity = named(Field::KernelMode) == "unity";
    match named(Field::NeOpMode) {
        "mac" if task.get(layout, Field::RuntimeWeights) == Some(1) => "product".into(),
        "mac" if unity => "sum".into(),
        "mac" if task.get(layout, Field::UnicastEn) == Some(1) => "depthwise".into(),
        "mac" => "conv".into(),
        "max" => "max".into(),
        "bypass" => "copy".into(),
        _ => "task".into(),
    }
}

/// Functions of a task in addition to its operation: bias, activation, transposition, coefficient compression.
fn functions(layout: &Layout, task: &Task, planar: bool) -> String {
    let get = |field| task.get(layout, field).is_some_and(|v| v != 0);
    let mut all: Vec<&str> = Vec::new();
    if !planar {
        all.extend(get(Field::BiasMode).then_some("bias"));
        all.extend(task.name(layout, Field::NonlinearMode).filter(|n| *n != "none"));
        all.extend(get(Field::NeTranspose).then_some("transposed"));
        all.extend(get(Field::PalettizedEn).then_some("palette"));
        all.extend(get(Field::SparseFmt).then_some("sparse"));
    } else {
        all.extend(get(Field::PeReluEn).then_some("relu"));
        all.extend(task.name(layout, Field::PeNonlinear).filter(|n| *n != "none"));
        all.extend(get(Field::ResultTranspose).then_some("transposed"));
    }
    if all.is_empty() { String::new() } else { format!(" {}", all.join("+")) }
}

fn place(residency: &str, base: Option<u32>) -> String {
    match (residency, base) {
        ("l2", _) => "L2".into(),
        ("chain", _) => "the task before".into(),
        (_, Some(base)) => format!("bar{base}"),
        (other, None) => {
            if other.is_empty() {
                "?".into()
            } else {
                other.to_string()
            }
        }
    }
}

fn sources(layout: &Layout, task: &Task) -> String {
    let base = |used: Field, base: Field| task.get(layout, used).filter(|&on| on == 1).and(task.get(layout, base));
    let first = place(task.name(layout, Field::SrcType).unwrap_or(""), base(Field::Rbe0, Field::RBase0));
    let second = match task.name(layout, Field::TaskClass) {
        Some("pe2" | "pe-reduce2") => {
            let from = task.name(layout, Field::Src2Type).unwrap_or("");
            Some(place(from, base(Field::Rbe1, Field::RBase1)))
        }
        _ => None,
    };
    [Some(first), second].into_iter().flatten().collect::<Vec<_>>().join(" + ")
}

fn result(layout: &Layout, task: &Task) -> String {
    let base = task.get(layout, Field::Wbe).filter(|&on| on == 1).and(task.get(layout, Field::WBase));
    place(task.name(layout, Field::ResType).unwrap_or(""), base)
}

/// A number with its noun: `1 task`, `14 tasks`.
pub fn counted(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

fn quantity(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MB", bytes as f64 / 1_048_576.0),
    }
}
