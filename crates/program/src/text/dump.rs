//! The explanation of a container or program: a tree of named values with offsets, and unexplained data.

use serde::Serialize;

use super::{dump_file, dump_forms, dump_tasks};
use crate::Program;
use crate::e5::Descriptor;
use crate::firmware::Package;
use crate::hwx::KernelData;
use crate::hwx::{Container, Image};

/// Version of the JSON form.
const SCHEMA: &str = "anemone.dump/1";

/// A part of the explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// File header and the list of load commands.
    Header,
    /// Segments and sections.
    Segments,
    /// Symbols.
    Symbols,
    /// Relocations.
    Relocs,
    /// Compiler banner.
    Ident,
    /// Bound tensors: windows and tensor records.
    Ports,
    /// Run state and headers of task descriptors.
    Td,
    /// Registers that the tasks write.
    Regs,
    /// Activation tables.
    Lut,
    /// Kernel streams.
    Weights,
}

/// Error for a word that names no part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {found:?} is not a part; parts: {known}")]
pub struct UnknownPart {
    /// Byte offset in the list.
    pub at: usize,
    /// The word.
    pub found: String,
    /// All parts.
    pub known: String,
}

impl Part {
    /// All parts in the order in which they are shown.
    pub const ALL: [Part; 10] = [
        Part::Header,
        Part::Segments,
        Part::Symbols,
        Part::Relocs,
        Part::Ident,
        Part::Ports,
        Part::Td,
        Part::Regs,
        Part::Lut,
        Part::Weights,
    ];

    /// Name on the command line and in the JSON form.
    pub fn name(self) -> &'static str {
        match self {
            Part::Header => "header",
            Part::Segments => "segments",
            Part::Symbols => "symbols",
            Part::Relocs => "relocs",
            Part::Ident => "ident",
            Part::Ports => "ports",
            Part::Td => "td",
            Part::Regs => "regs",
            Part::Lut => "lut",
            Part::Weights => "weights",
        }
    }

    /// Parts from a comma-separated list.
    pub fn list(text: &str) -> Result<Vec<Part>, UnknownPart> {
        let mut at = 0;
        let mut parts = Vec::new();
        for word in text.split(',') {
            let part = Part::ALL.into_iter().find(|p| p.name() == word.trim());
            parts.push(part.ok_or_else(|| UnknownPart {
                at,
                found: word.to_string(),
                known: Part::ALL.map(Part::name).join(", "),
            })?);
            at += word.len() + 1;
        }
        Ok(parts)
    }
}

/// Parts and tasks to explain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Parts; printed in the order of [`Part::ALL`].
    pub parts: Vec<Part>,
    /// The only task to explain, if given.
    pub task: Option<usize>,
}

impl Default for Selection {
    fn default() -> Selection {
        Selection { parts: Part::ALL.to_vec(), task: None }
    }
}

/// An explanation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dump {
    /// Version of this form.
    pub schema: &'static str,
    /// One chapter per selected part.
    pub chapters: Vec<Chapter>,
    /// Data without a row, over all parts, selected or not.
    pub anomalies: Vec<Anomaly>,
}

/// Explanation of one part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chapter {
    /// The part.
    pub part: Part,
    /// Its content.
    pub nodes: Vec<Node>,
}

/// A structure with its values and sub-structures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Node {
    /// Title.
    pub title: String,
    /// Byte offset in the file, or in the stream or kernel data if there is no file.
    pub offset: Option<u64>,
    /// Values.
    pub entries: Vec<Entry>,
    /// Sub-structures.
    pub nodes: Vec<Node>,
}

/// A named value.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Entry {
    /// Byte offset of the word that holds it.
    pub offset: Option<u64>,
    /// Register address, for registers.
    pub address: Option<u32>,
    /// Name.
    pub name: String,
    /// Value as text.
    pub value: String,
    /// The number in the file, if the value is one.
    pub raw: Option<u64>,
    /// Another form of the value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Meaning, in one sentence.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub meaning: &'static str,
    /// Letter of the evidence for position and meaning.
    pub evidence: Option<&'static str>,
}

/// Data without a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Anomaly {
    /// Part that it belongs to.
    pub part: Part,
    /// Byte offset.
    pub offset: Option<u64>,
    /// Position.
    pub place: String,
    /// Description.
    pub what: String,
    /// Unexplained bits of a word.
    pub bits: Option<u32>,
}

impl Dump {
    /// Explains a container. Never fails: unexplained data become an [`Anomaly`].
    pub fn of_container(container: &Container, selection: &Selection) -> Dump {
        let mut b = Builder::new(selection);
        dump_file::explain(&mut b, container);
        b.finish()
    }

    /// Explains a dispatch descriptor. Never fails.
    pub fn of_descriptor(descriptor: &Descriptor, selection: &Selection) -> Dump {
        let mut b = Builder::new(selection);
        dump_forms::descriptor(&mut b, descriptor);
        b.finish()
    }

    /// Explains a firmware container. Never fails.
    pub fn of_package(package: &Package, selection: &Selection) -> Dump {
        let mut b = Builder::new(selection);
        dump_forms::package(&mut b, package);
        b.finish()
    }

    /// Explains a loaded image: apertures and resolved relocations, then the container at its addresses.
    pub fn of_image(image: &Image, selection: &Selection) -> Dump {
        let mut b = Builder::new(selection);
        dump_forms::image(&mut b, image);
        dump_file::explain(&mut b, &image.container);
        b.finish()
    }

    /// Explains a program without a container; offsets count in the stream and in the kernel data.
    pub fn of_program(program: &Program, selection: &Selection) -> Dump {
        let mut b = Builder::new(selection);
        for port in &program.ports {
            b.add(Part::Ports, dump_file::port(port));
        }
        let source = dump_tasks::Source {
            layout: program.layout,
            stream: &program.stream,
            stream_offset: 0,
            first_task_words: program.first_task_words,
            kernel: KernelData::whole(&program.kernel, 0),
            kernel_links: Vec::new(),
            procedure: None,
        };
        dump_tasks::explain(&mut b, &source);
        b.finish()
    }

    /// The explanation as text, one line per value.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for chapter in &self.chapters {
            out += &format!("== {}\n", chapter.part.name());
            for node in &chapter.nodes {
                render(&mut out, node, 0);
            }
        }
        out += &format!("== anomalies: {}\n", self.anomalies.len());
        for a in &self.anomalies {
            let offset = a.offset.map_or("-".to_string(), |o| format!("{o:#x}"));
            let bits = a.bits.map_or(String::new(), |b| format!(" {b:#x}"));
            out += &format!("{offset} {}: {}: {}{bits}\n", a.part.name(), a.place, a.what);
        }
        out
    }
}

fn render(out: &mut String, node: &Node, depth: usize) {
    let indent = "  ".repeat(depth);
    let offset = node.offset.map_or(String::new(), |o| format!(" @{o:#x}"));
    *out += &format!("{indent}{}{offset}\n", node.title);
    for e in &node.entries {
        *out += &indent;
        *out += "  ";
        if let Some(offset) = e.offset {
            *out += &format!("{offset:#07x} ");
        }
        if let Some(address) = e.address {
            *out += &format!("[{address:#07x}] ");
        }
        *out += &format!("{} = {}", e.name, e.value);
        let notes: Vec<&str> = [e.note.as_str(), e.meaning].into_iter().filter(|n| !n.is_empty()).collect();
        if !notes.is_empty() {
            *out += &format!(" ; {}", notes.join("; "));
        }
        if let Some(letter) = e.evidence {
            *out += &format!(" [{letter}]");
        }
        out.push('\n');
    }
    for child in &node.nodes {
        render(out, child, depth + 1);
    }
}

/// Collects chapters and anomalies.
pub(super) struct Builder<'a> {
    pub selection: &'a Selection,
    chapters: Vec<Chapter>,
    anomalies: Vec<Anomaly>,
}

impl<'a> Builder<'a> {
    fn new(selection: &'a Selection) -> Builder<'a> {
        let parts = Part::ALL.into_iter().filter(|p| selection.parts.contains(p));
        let chapters = parts.map(|part| Chapter { part, nodes: Vec::new() }).collect();
        Builder { selection, chapters, anomalies: Vec::new() }
    }

    /// Returns true if a part is selected.
    pub fn wants(&self, part: Part) -> bool {
        self.selection.parts.contains(&part)
    }

    /// Adds to a part, if it is selected.
    pub fn add(&mut self, part: Part, node: Node) {
        if let Some(chapter) = self.chapters.iter_mut().find(|c| c.part == part) {
            chapter.nodes.push(node);
        }
    }

    pub fn anomaly(&mut self, part: Part, offset: Option<u64>, place: impl Into<String>, what: impl Into<String>) {
        self.anomalies.push(Anomaly { part, offset, place: place.into(), what: what.into(), bits: None });
    }

    pub fn bits(&mut self, part: Part, offset: u64, place: impl Into<String>, bits: u32) {
        let (offset, place) = (Some(offset), place.into());
        let what = "bits without a field".to_string();
        self.anomalies.push(Anomaly { part, offset, place, what, bits: Some(bits) });
    }

    fn finish(self) -> Dump {
        Dump { schema: SCHEMA, chapters: self.chapters, anomalies: self.anomalies }
    }
}

/// A hexadecimal number.
pub(super) fn number(offset: u64, name: &str, raw: u64) -> Entry {
    Entry {
        offset: Some(offset),
        name: name.to_string(),
        value: format!("{raw:#x}"),
        raw: Some(raw),
        ..Entry::default()
    }
}

/// A text.
pub(super) fn text(offset: Option<u64>, name: &str, value: impl Into<String>) -> Entry {
    Entry { offset, name: name.to_string(), value: value.into(), ..Entry::default() }
}

impl Entry {
    pub(super) fn note(mut self, note: impl Into<String>) -> Entry {
        self.note = note.into();
        self
    }
}
