//! The dispatch descriptor, the containers, the descriptor image.

use super::Fact;
use anemone_facts::Space;
use anemone_facts::enums::ELEMENT_ROWS;
use anemone_facts::formats::{Code, Word, dialects, e5, firmware, hwx};
use anemone_facts::layout::{H13, v10};
use anemone_program::task::image::CachePrimitive;

fn of_code(kind: &'static str, row: &Code, source: &'static str, also: Vec<String>) -> Fact {
    Fact {
        kind,
        name: row.name.into(),
        also,
        numbers: Vec::new(),
        lines: vec![format!("{:#x}: {}", row.code, row.meaning)],
        evidence: row.evidence.letter(),
        source,
    }
}

/// Alternative names of tables.
const OTHER_NAMES: &[(&str, &str)] = &[(e5::ROOT, "E5Serializer"), (e5::ROOT, "dispatch-descriptor")];

/// The dispatch descriptor: kinds of operations, tables, sections.
pub(super) fn descriptor(facts: &mut Vec<Fact>) {
    let kinds: Vec<String> = e5::OP_TYPES.iter().map(|k| format!("{:>2} {}: {}", k.code, k.name, k.meaning)).collect();
    facts.push(Fact {
        kind: "dispatch descriptor",
        name: "e5-op".into(),
        also: vec!["OpType".into(), "op-type".into()],
        lines: kinds,
        evidence: "C",
        source: "e5",
        ..Fact::default()
    });
    for row in e5::OP_TYPES {
        facts.push(of_code(
            "operation of a dispatch descriptor",
            row,
            "e5",
            vec![format!("{}OpT", row.name), format!("SerializeOpAttrs<{}OpT>", row.name)],
        ));
    }
    for table in e5::TABLES {
        let field = |f: &e5::FieldRow| format!("{} [{}]: {}", f.name, f.evidence.letter(), f.meaning);
        let fields = table.fields.iter().map(field);
        facts.push(Fact {
            kind: "table of a dispatch descriptor",
            name: table.name.into(),
            also: [format!("Serialize{}", table.name), format!("SerializeOp{}", table.name)]
                .into_iter()
                .chain(OTHER_NAMES.iter().filter(|(own, _)| *own == table.name).map(|(_, other)| other.to_string()))
                .collect(),
            lines: std::iter::once(table.meaning.to_string()).chain(fields).collect(),
            evidence: if table.name == e5::ROOT { "B" } else { "C" },
            source: "e5",
            ..Fact::default()
        });
    }
    facts.push(Fact {
        kind: "file of a compiled program",
        name: "anehash".into(),
        also: vec!["model.anehash".into()],
        lines: vec![
            "SHA-256 twice over a container, by which a dispatch descriptor knows it".into(),
            "the folder of a cached program has it beside descriptor and container".into(),
        ],
        evidence: "C",
        source: "e5",
        ..Fact::default()
    });
    for name in [e5::ARG_FRAME, e5::OP_ATTRS] {
        let of =
            if name == e5::ARG_FRAME { "operands and their layouts" } else { "attributes, a FlatBuffer of its own" };
        facts.push(Fact {
            kind: "section of a dispatch descriptor",
            name: name.into(),
            lines: vec![format!("follows the operation's name; {of}")],
            evidence: "C",
            source: "e5",
            ..Fact::default()
        });
    }
}

/// The containers: magics, load commands, segments, dialects, records.
pub(super) fn container(facts: &mut Vec<Fact>) {
    for (name, magic, what) in [
        ("hwx-magic", hwx::MAGIC, "first word of the compiler's container and of a loaded image; bytes ce fa ef be"),
        ("ANEH", firmware::PACKAGE_MAGIC, "first word of a firmware container: a package of programs"),
        ("ANEP", firmware::PROGRAM_MAGIC, "first word of a program record in a firmware container"),
        ("ANES", firmware::SECTION_MAGIC, "first word of a section record in a firmware container"),
    ] {
        facts.push(Fact {
            kind: "magic",
            name: name.into(),
            also: vec![format!("{magic:x}")],
            numbers: vec![u64::from(magic)],
            lines: vec![format!("{magic:#x}: {what}")],
            evidence: if magic == hwx::MAGIC { "B" } else { "C" },
            source: if magic == hwx::MAGIC { "hwx" } else { "firmware" },
        });
    }
    for row in hwx::COMMANDS {
        let vendor = match row.code {
            hwx::SEGMENT => Some("LC_SEGMENT_64"),
            hwx::SYMTAB => Some("LC_SYMTAB"),
            hwx::THREAD => Some("LC_THREAD"),
            hwx::NOTE => Some("LC_NOTE"),
            hwx::PORT => Some("LC_LOADFVMLIB"),
            hwx::IDENT => Some("LC_IDENT"),
            _ => None,
        };
        facts.push(of_code("load command", row, "hwx", vendor.map(str::to_string).into_iter().collect()));
    }
    for row in hwx::SYMBOL_TYPES {
        let also = match row.code as u8 {
            hwx::SYMBOL_TENSOR => vec!["stab".to_string(), "N_GSYM".into()],
            hwx::SYMBOL_TYPE => vec!["N_LSYM".into()],
            _ => Vec::new(),
        };
        facts.push(of_code("type of a symbol", row, "hwx", also));
    }
    for row in hwx::FLAVORS {
        facts.push(of_code("flavor of LC_THREAD", row, "hwx", Vec::new()));
    }
    for row in hwx::SECTIONS {
        let section = if row.section.is_empty() { String::new() } else { format!(",{}", row.section) };
        facts.push(Fact {
            kind: "segment of a container",
            name: format!("{}{section}", row.segment),
            also: [row.segment, row.section].iter().filter(|n| !n.is_empty()).map(|n| n.to_string()).collect(),
            lines: vec![
                row.meaning.to_string(),
                format!("protection {}, aligned to {:#x}", row.protection, 1u64 << row.align_log2),
            ],
            evidence: "B",
            source: "hwx",
            ..Fact::default()
        });
    }
    for row in hwx::OTHER_SECTIONS {
        facts.push(Fact {
            kind: "segment of a container",
            name: format!("{},{}", row.segment, row.section),
            also: vec![row.segment.into(), row.section.into()],
            lines: vec![row.meaning.to_string()],
            evidence: row.evidence.letter(),
            source: "m6-containers",
            ..Fact::default()
        });
    }
    for (kind, rows) in [
        ("word of the run state", hwx::run_state::ROWS),
        ("word of a tensor record", hwx::tensor::ROWS),
        ("word of a firmware package", firmware::PACKAGE),
        ("word of a firmware program", firmware::PROGRAM),
        ("word of a firmware section", firmware::SECTION),
    ] {
        let source = if kind.contains("firmware") { "firmware" } else { "hwx" };
        let fact = |w: &Word| Fact {
            kind,
            name: w.name.into(),
            lines: vec![format!("word {:#x}, {} words: {}", w.at, w.words, w.meaning)],
            evidence: w.evidence.letter(),
            source,
            ..Fact::default()
        };
        facts.extend(rows.iter().map(fact));
    }
    for row in firmware::SECTION_KINDS {
        facts.push(of_code("section of a firmware container", row, "firmware", Vec::new()));
    }
}

/// Words of a task that the book takes for operation codes; in samples they are in the window register.
const WINDOWS: [u32; 3] = [0x5042_a063, 0x5000_a021, 0x5000_b021];
/// The window register of descriptor version 7.
const WINDOW_REGISTER: u32 = 0x1c;

/// Operation codes of the book, which no task of version 7 has.
pub(super) fn windows(facts: &mut Vec<Fact>) {
    for word in WINDOWS {
        let fields = H13.rows_at(Space::Register, WINDOW_REGISTER).filter_map(|(row, _)| {
            let value = word >> row.lo & (u32::MAX >> (31 - row.hi + row.lo));
            (value != 0).then(|| format!("{} = {value}", row.field.info().name))
        });
        let window = fields.collect::<Vec<_>>().join(", ");
        facts.push(Fact {
            kind: "word that the book takes for an operation code",
            name: format!("{word:#x}"),
            also: vec!["op-config".into(), "operation-code".into()],
            numbers: vec![u64::from(word)],
            lines: vec![
                format!("a value of the window register, {WINDOW_REGISTER:#07x} of descriptor version 7: {window}"),
                "no operation code exists: task class, mode bits and planar configuration decide (docs/conflicts.md)"
                    .into(),
            ],
            evidence: "B",
            source: "h13-samples",
        });
    }
}

/// Element types in containers and dispatch descriptors.
pub(super) fn elements(facts: &mut Vec<Fact>) {
    for (at, text) in hwx::TYPES.iter().enumerate() {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let old = if at < hwx::TYPES_421 { "every compiler" } else { "later compilers than 4.2.1" };
        let mut lines = vec![format!("type {} of a container, {text}: listed by {old}", at + 1)];
        if let Some(row) = ELEMENT_ROWS.iter().find(|row| row.name == name) {
            lines.push(format!("storage type {} of a dispatch descriptor", row.code));
        }
        if name == "e4m3" {
            lines.push("on the M1 the compiler says: E4M3 is not supported on this architecture".into());
        }
        facts.push(Fact {
            kind: "element type",
            name: name.into(),
            also: vec![rest.split('=').next().unwrap_or_default().to_string()],
            lines,
            evidence: "B",
            source: "hwx",
            ..Fact::default()
        });
    }
}

/// Dialects of the container, and the options of their banners.
pub(super) fn dialects(facts: &mut Vec<Fact>) {
    for dialect in dialects::DIALECTS {
        let flags = dialect.flags.join(" ");
        facts.push(Fact {
            kind: "dialect of the container",
            name: dialect.name.into(),
            also: vec![format!("v{}", dialect.version)],
            lines: vec![dialect.meaning.to_string(), format!("options in the banner: {flags}")],
            evidence: dialect.evidence.letter(),
            source: "hwx",
            ..Fact::default()
        });
        let fresh: Vec<&str> = dialect.flags.iter().copied().filter(|flag| flag.starts_with("--")).collect();
        for flag in fresh {
            let name = flag.split('=').next().unwrap_or(flag);
            if facts.iter().all(|f| f.name != name) {
                facts.push(Fact {
                    kind: "option of Apple's compiler",
                    name: name.into(),
                    lines: vec![format!("in the banner of {}: {flag}", dialect.name)],
                    evidence: dialect.evidence.letter(),
                    source: "hwx",
                    ..Fact::default()
                });
            }
        }
    }
}

/// A fact of descriptor version 10 that the book claims.
fn claimed(kind: &'static str, name: String, also: Vec<String>, numbers: Vec<u64>, lines: Vec<String>) -> Fact {
    Fact { kind, name, also, numbers, lines, evidence: "C", source: "td-image" }
}

/// The register image of descriptor version 10.
pub(super) fn image(facts: &mut Vec<Fact>) {
    let groups = v10::GROUPS.iter().map(|g| {
        let from = g.aperture.map_or(String::new(), |a| format!(" from {a:#x}"));
        format!("{:#06x} v10-{}: {} registers{from}, {}", g.struct_base, g.name, g.registers, g.contents)
    });
    let lines = std::iter::once(format!("{:#x} bytes, seven groups of registers", v10::IMAGE_BYTES)).chain(groups);
    let also = vec!["ZinAneTdHw_v10".into(), "v10".into(), "descriptor-image".into()];
    facts.push(claimed("register image", "v10-image".into(), also, Vec::new(), lines.collect()));
    for g in &v10::GROUPS {
        let place = g.aperture.map_or("no aperture of its own".into(), |a| format!("registers from {a:#x}"));
        let lines = vec![
            format!("{} registers from {:#x} of the structure, {place}", g.registers, g.struct_base),
            g.contents.to_string(),
        ];
        let numbers = g.aperture.map(u64::from).into_iter().chain([u64::from(g.struct_base)]).collect();
        facts.push(claimed(
            "register group of descriptor version 10",
            format!("v10-{}", g.name),
            Vec::new(),
            numbers,
            lines,
        ));
    }
    for f in &v10::FIELDS {
        let lines = vec![format!("accessor at {:#x}, mask {:#x}", f.offset, f.mask)];
        facts.push(claimed(
            "field of descriptor version 10",
            format!("v10.{}", f.name),
            vec![f.name.into()],
            vec![u64::from(f.offset)],
            lines,
        ));
    }
    for s in &v10::RELOCATIONS {
        let lines = vec![
            "left symbolic when compiling; the loader writes a device address".into(),
            format!("{}, of {}", s.what, s.engine),
        ];
        let name = format!("{:#x}", s.register);
        facts.push(claimed(
            "relocation register of descriptor version 10",
            name,
            vec![s.what.into(), s.engine.into(), format!("v10.{}", s.engine)],
            vec![u64::from(s.register)],
            lines,
        ));
    }
    let (reach, step) = (v10::stride_bound("h13"), 1u64 << v10::STRIDE_BIT);
    let lines = vec![
        format!("{} bits, signed, from bit {} of a register's word", v10::STRIDE_BITS, v10::STRIDE_BIT),
        "row, channel, depth and group stride of each DMA engine".into(),
        format!("in bytes from -{reach} to {}, a multiple of {step}", reach - step),
        "the book names a table of bounds by chip and gives none of its numbers: the reach of the field holds for each"
            .into(),
    ];
    let also = ["Row", "Channel", "Depth", "Group"].map(|axis| format!("v10.{axis}Stride")).to_vec();
    facts.push(claimed("field of descriptor version 10", "v10-stride".into(), also, Vec::new(), lines));
    patches(facts);
}

/// Patches of the image at load, missing primitives, records.
fn patches(facts: &mut Vec<Fact>) {
    let lines = vec![
        "register, bit offset and width of a field that the loader writes".into(),
        "its value is a device address, the number of a data set in on-chip memory, or a byte offset in a buffer"
            .into(),
    ];
    facts.push(claimed("patch of a descriptor image", "custom-bar".into(), vec!["bar".into()], Vec::new(), lines));
    let lines = vec![
        "a shape or stride that is bound when the program runs, by the name of a procedure's input".into(),
        "start, stop and step say which values it takes; one program then serves several shapes".into(),
    ];
    facts.push(claimed(
        "patch of a descriptor image",
        "live-in".into(),
        vec!["live-in-parameter".into()],
        Vec::new(),
        lines,
    ));
    let names = CachePrimitive::ALL.map(|primitive| primitive.name());
    let lines = vec![
        "an engine for on-chip atomics, counters and waits, which version 10 does not have".into(),
        format!("its setters ({}) are unsupported on this architecture", names.join(", ")),
    ];
    facts.push(claimed("engine of later descriptors", "compute-cache".into(), Vec::new(), Vec::new(), lines));
    for primitive in CachePrimitive::ALL {
        let lines = vec![
            "a primitive of the compute cache, which version 10 has no DMA engine for".into(),
            "its setter is unsupported on this architecture; resident state is a shared buffer instead".into(),
        ];
        let also = vec![format!("compute-cache-{}", primitive.name())];
        facts.push(claimed("primitive of the compute cache", primitive.name().into(), also, Vec::new(), lines));
    }
    let lines = vec![
        format!("{} bytes: a count marker, the register's address, one or two addresses", v10::RECORD_BYTES),
        "only registers that differ from their default are written".into(),
    ];
    let numbers = vec![v10::RECORD_BYTES as u64];
    facts.push(claimed("record of a descriptor image", "sparse-record".into(), Vec::new(), numbers, lines));
}
