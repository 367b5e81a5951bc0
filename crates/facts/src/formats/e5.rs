//! The dispatch descriptor `.e5`: a FlatBuffer over the container. Tables, fields and codes as rows.
//!
//! Reader, writer, listing, dump and the schema file `crates/program/src/e5/e5.fbs` come from these rows. The root table
//! and the names of the other tables are decoded from Apple's serializer (B); the fields of inner tables are a
//! reconstruction (C): see `docs/evidence.md`, key `e5`.

use super::Evidence::{self, Bytes, Claimed, Own};
use super::{Code, code};

/// Value of the root's last field.
pub const FORMAT_VERSION: i32 = 4;
/// Vtable of the root, the same in every file: its size, the table's size, and the offsets of the four fields.
pub const ROOT_VTABLE: [u8; 12] = [0x0c, 0, 0x14, 0, 0x04, 0, 0x08, 0, 0x0c, 0, 0x10, 0];
/// Byte offset of the root's vtable: after the root's offset and padding to eight bytes.
pub const ROOT_VTABLE_OFFSET: usize = 8;
/// Stride of states, in bytes.
pub const STATE_STRIDE: u64 = 0x4000;
/// Suffix of the section with an operation's operands.
pub const ARG_FRAME: &str = "__arg_frame";
/// Suffix of the section with an operation's attributes.
pub const OP_ATTRS: &str = "__op_attrs";

/// Kinds of operations, numbered in the serializer's order.
pub static OP_TYPES: &[Code] = &[
    code(CAST, "Cast", Claimed, "converts between the host's layout and the engine's"),
    code(ANE_INFERENCE, "AneInference", Claimed, "one call of an engine program: a whole fused graph"),
    code(2, "EirInference", Claimed, "a call of an intermediate-representation program"),
    code(
        CPU_INFERENCE,
        "CpuInference",
        Claimed,
        "a call on the processor: a part of the graph that the engine has no way for",
    ),
    code(4, "BnnsCpuInference", Claimed, "a call of a BNNS graph"),
    code(5, "MlcCpuInference", Claimed, "a call of an ML Compute graph"),
    code(6, "MpsGraphInference", Claimed, "a call on the graphics processor"),
    code(7, "E5MinimalCpu", Claimed, "a call of the runtime's own processor code"),
    code(8, "Quant", Claimed, "quantizes"),
    code(9, "Dequant", Claimed, "dequantizes"),
    code(10, "Barrier", Claimed, "waits for what came before"),
    code(11, "JitCall", Claimed, "a call of code compiled at load"),
];
/// Number of a cast.
pub const CAST: u32 = 0;
/// Number of an engine program's call.
pub const ANE_INFERENCE: u32 = 1;
/// Number of a call on the processor.
pub const CPU_INFERENCE: u32 = 3;
/// Language of a processor call's code that this project writes: the text form of its networks.
pub const CODE_LANGUAGE: &str = "anemone-net 1";
/// Language of the two processor calls around the iterations of a counted loop, ours.
pub const LOOP_LANGUAGE: &str = "anemone-loop 1";

/// Kinds of sections; numbers are ours.
pub static SECTION_KINDS: &[Code] = &[
    code(ARG_FRAME_KIND, "arg-frame", Claimed, "operands and their layouts"),
    code(OP_ATTRS_KIND, "op-attrs", Claimed, "attributes, by the kind of operation"),
];
/// Number of an argument frame.
pub const ARG_FRAME_KIND: u32 = 0;
/// Number of an attribute blob.
pub const OP_ATTRS_KIND: u32 = 1;

/// Type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 8 bits; with codes, an enumeration.
    U8(&'static [Code]),
    /// 32 bits, signed; with codes, an enumeration.
    I32(&'static [Code]),
    /// 32 bits.
    U32,
    /// 64 bits.
    U64,
    /// UTF-8.
    Text,
    /// A table, by its name in [`TABLES`].
    Table(&'static str),
    /// A vector of [`Kind::U32`], [`Kind::U64`], [`Kind::Text`] or a table.
    Vector(&'static Kind),
    /// A union of tables. The byte before it (the field's first slot) is the tag: 0 none, otherwise position plus one.
    Union(&'static [&'static str]),
    /// Bytes that are a nested FlatBuffer, with one of these root tables selected by the preceding field, or unknown bytes.
    Nested(&'static [&'static str]),
}

/// One field of a table.
#[derive(Clone, Copy, Debug)]
pub struct FieldRow {
    /// Name in the schema.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Evidence.
    pub evidence: Evidence,
    /// One sentence.
    pub meaning: &'static str,
}

/// One table.
#[derive(Debug)]
pub struct TableRow {
    /// Name in the schema.
    pub name: &'static str,
    /// One sentence.
    pub meaning: &'static str,
    /// Fields in the order of their slots. A union occupies two slots.
    pub fields: &'static [FieldRow],
}

impl TableRow {
    /// Position of a field.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.name == name)
    }

    /// First slot of a field: each union before it occupies two.
    pub fn slot(&self, field: usize) -> usize {
        field + self.fields[..field].iter().filter(|f| matches!(f.kind, Kind::Union(_))).count()
    }
}

/// The table of a name.
pub fn table(name: &str) -> Option<&'static TableRow> {
    TABLES.iter().find(|t| t.name == name)
}

const fn field(name: &'static str, kind: Kind, evidence: Evidence, meaning: &'static str) -> FieldRow {
    FieldRow { name, kind, evidence, meaning }
}

/// The root table's name.
pub const ROOT: &str = "E5Program";

/// Attribute tables in the order of [`OP_TYPES`]. Fields are known for casts and engine calls; those of a processor call are ours.
pub static ATTRIBUTES: &[&str] = &[
    "CastAttrs",
    "AneInferenceAttrs",
    "EirInferenceAttrs",
    "CpuInferenceAttrs",
    "BnnsCpuInferenceAttrs",
    "MlcCpuInferenceAttrs",
    "MpsGraphInferenceAttrs",
    "E5MinimalCpuAttrs",
    "QuantAttrs",
    "DequantAttrs",
    "BarrierAttrs",
    "JitCallAttrs",
];

const fn unknown(name: &'static str) -> TableRow {
    TableRow { name, meaning: "attributes; no field is known", fields: &[] }
}

const TYPES: &[Code] = crate::enums::ELEMENTS;

/// All tables.
pub static TABLES: &[TableRow] = &[
    TableRow {
        name: ROOT,
        meaning: "a chain of operations over engine programs",
        fields: &[
            field("symbol_names", Kind::Vector(&Kind::Text), Bytes, "names of operations, tensors and sections"),
            field("build_info", Kind::Table("BuildInfo"), Bytes, "compiler versions and paths"),
            field("sections", Kind::Vector(&Kind::Table("Section")), Bytes, "two for each operation"),
            field("format_version", Kind::I32(&[]), Bytes, "4 in every sample"),
        ],
    },
    TableRow {
        name: "BuildInfo",
        meaning: "keys and values",
        fields: &[field("entries", Kind::Vector(&Kind::Table("BuildInfoEntry")), Claimed, "seven in the sample")],
    },
    TableRow {
        name: "BuildInfoEntry",
        meaning: "a key and its value",
        fields: &[field("key", Kind::Text, Claimed, "key"), field("value", Kind::Text, Claimed, "value")],
    },
    TableRow {
        name: "Section",
        meaning: "a named part of an operation",
        fields: &[
            field("name", Kind::Text, Claimed, "operation, then `__arg_frame` or `__op_attrs`"),
            field("kind", Kind::I32(SECTION_KINDS), Claimed, "kind of the data"),
            field("data", Kind::Nested(&["ArgFrame", "OpAttrs"]), Claimed, "a FlatBuffer of its own"),
        ],
    },
    TableRow {
        name: "ArgFrame",
        meaning: "operands of an operation and the buffers bound to them",
        fields: &[
            field(
                "function",
                Kind::Table("Function"),
                Claimed,
                "the function, in the frame of its first operation only",
            ),
            field("operation", Kind::Table("Operation"), Claimed, "the operation"),
            field("operands", Kind::Vector(&Kind::Table("Operand")), Claimed, "inputs, then outputs"),
            field("ports", Kind::Vector(&Kind::Table("IOPort")), Claimed, "windows of bound tensors"),
            field(
                "aliases",
                Kind::Vector(&Kind::Table("AliasSymbol")),
                Claimed,
                "names that share memory: held states",
            ),
        ],
    },
    TableRow {
        name: "Function",
        meaning: "an entry of the program",
        fields: &[
            field("name", Kind::Text, Claimed, "name that callers use"),
            field("anehash_path", Kind::Text, Claimed, "path of the hash of the engine program"),
            field("blocks", Kind::Vector(&Kind::Table("Block")), Claimed, "runs of operations"),
            field("inputs", Kind::Vector(&Kind::Text), Own, "inputs from the caller, in programs with processor calls"),
            field("outputs", Kind::Vector(&Kind::Text), Own, "outputs to the caller, in programs with processor calls"),
            field(
                "counted",
                Kind::Vector(&Kind::Table("CountedOutput")),
                Own,
                "outputs of which another output has the number of real rows",
            ),
        ],
    },
    TableRow {
        name: "CountedOutput",
        meaning: "an output with as many rows as there can be: the first ones are real",
        fields: &[
            field("rows", Kind::Text, Own, "name of the output with rows"),
            field("count", Kind::Text, Own, "name of the output with their number"),
            field("axis", Kind::U32, Own, "axis of the rows in the model"),
        ],
    },
    TableRow {
        name: "Block",
        meaning: "operations in order",
        fields: &[
            field("name", Kind::Text, Claimed, "name"),
            field("operations", Kind::Vector(&Kind::U32), Claimed, "positions in the symbol names"),
        ],
    },
    TableRow {
        name: "Operation",
        meaning: "one dispatch",
        fields: &[
            field("name", Kind::Text, Claimed, "`Op`, number, `_`, kind"),
            field("op_type", Kind::U8(OP_TYPES), Claimed, "kind"),
            field("inputs", Kind::Vector(&Kind::U32), Claimed, "positions in the symbol names"),
            field("outputs", Kind::Vector(&Kind::U32), Claimed, "positions in the symbol names"),
            field("arg_frame", Kind::Text, Claimed, "name of the section with operands"),
            field("attrs_section", Kind::Text, Claimed, "name of the section with attributes"),
        ],
    },
    TableRow {
        name: "Operand",
        meaning: "a tensor of an operation",
        fields: &[field("descriptor", Kind::Table("TensorDescriptor"), Claimed, "extents and strides")],
    },
    TableRow {
        name: "TensorDescriptor",
        meaning: "extents in elements and strides in bytes",
        fields: &[
            field("dim", Kind::Vector(&Kind::U64), Bytes, "four extents: batch, channels, height, width"),
            field("stride", Kind::Vector(&Kind::U64), Bytes, "four strides in the same order"),
            field("width", Kind::U64, Bytes, "columns"),
            field("height", Kind::U64, Bytes, "rows"),
            field("channels", Kind::U64, Bytes, "channels"),
            field("batch_number", Kind::U64, Bytes, "batch"),
            field("sequence_length", Kind::U64, Bytes, "steps of a sequence, 1 without one"),
            field("stride_width", Kind::U64, Bytes, "bytes between columns"),
            field("stride_height", Kind::U64, Bytes, "bytes between rows"),
            field("stride_channels", Kind::U64, Bytes, "bytes between channels"),
            field("stride_batch_number", Kind::U64, Bytes, "bytes between batches"),
            field("stride_sequence_length", Kind::U64, Bytes, "bytes between steps"),
            field("storage_type", Kind::I32(TYPES), Bytes, "element type"),
            field("component_pack", Kind::I32(&[]), Claimed, "channels interleaved"),
        ],
    },
    TableRow {
        name: "IOPort",
        meaning: "window of a bound tensor",
        fields: &[
            field("name", Kind::Text, Claimed, "tensor"),
            field("byte_size", Kind::U64, Claimed, "bytes of the buffer"),
            field("aperture_va", Kind::U64, Claimed, "address in the engine's address space"),
        ],
    },
    TableRow {
        name: "AliasSymbol",
        meaning: "a name for a place in another tensor",
        fields: &[
            field("name", Kind::Text, Bytes, "the name"),
            field("symbol_index", Kind::U32, Bytes, "position of the tensor in the symbol names"),
            field("addr_offset", Kind::U32, Bytes, "byte offset in it"),
        ],
    },
    TableRow {
        name: "OpAttrs",
        meaning: "attributes by the kind of operation",
        fields: &[field("attrs", Kind::Union(ATTRIBUTES), Bytes, "one of twelve tables")],
    },
    TableRow {
        name: "CastAttrs",
        meaning: "a conversion",
        fields: &[
            field("src_dtype", Kind::I32(TYPES), Claimed, "element type read"),
            field("dst_dtype", Kind::I32(TYPES), Claimed, "element type written"),
            field("component_pack", Kind::I32(&[]), Claimed, "channels interleaved"),
        ],
    },
    TableRow {
        name: "AneInferenceAttrs",
        meaning: "a call of an engine program",
        fields: &[
            field("procedure_name", Kind::Text, Claimed, "procedure of the container"),
            field("anehash", Kind::Text, Claimed, "SHA-256 of the SHA-256 of the container, hexadecimal"),
            field("program_symbol", Kind::Text, Claimed, "name of the program among several"),
            field("intermediate_buffer_handle", Kind::U32, Claimed, "position of the intermediate buffer"),
            field("compiler_options", Kind::Text, Claimed, "options as text"),
        ],
    },
    unknown("EirInferenceAttrs"),
    TableRow {
        name: "CpuInferenceAttrs",
        meaning: "a call on the processor; Apple's fields are not known",
        fields: &[
            field("function_name", Kind::Text, Own, "name of the part of the graph"),
            field("language", Kind::Text, Own, "language of the code"),
            field("code", Kind::Text, Own, "operations with the types of what goes in and out"),
            field("constants", Kind::Nested(&[]), Own, "tables that the code refers to, by their number"),
        ],
    },
    unknown("BnnsCpuInferenceAttrs"),
    unknown("MlcCpuInferenceAttrs"),
    unknown("MpsGraphInferenceAttrs"),
    unknown("E5MinimalCpuAttrs"),
    unknown("QuantAttrs"),
    unknown("DequantAttrs"),
    unknown("BarrierAttrs"),
    unknown("JitCallAttrs"),
];

/// The rows as a schema in the FlatBuffers schema language.
pub fn schema() -> String {
    fn kind(k: &Kind) -> String {
        match k {
            Kind::U8([]) => "ubyte".into(),
            Kind::U8(_) => "OpType".into(),
            Kind::I32(c) if c.len() == TYPES.len() => "StorageType".into(),
            Kind::I32(c) if !c.is_empty() => "SectionKind".into(),
            Kind::I32(_) => "int".into(),
            Kind::U32 => "uint".into(),
            Kind::U64 => "ulong".into(),
            Kind::Text => "string".into(),
            Kind::Table(t) => t.to_string(),
            Kind::Vector(inner) => format!("[{}]", kind(inner)),
            Kind::Union(_) => "Attributes".into(),
            Kind::Nested(_) => "[ubyte]".into(),
        }
    }
    let mut out = String::from(
        "// The dispatch descriptor. Made by `cargo xtask docs` from crates/facts/src/formats/e5.rs: change it there.\n\
         // Letters: B the bytes or symbols of Apple's files show it, C a reconstruction, O this project's own.\n\n",
    );
    for (name, base, codes) in
        [("OpType", "ubyte", OP_TYPES), ("SectionKind", "int", SECTION_KINDS), ("StorageType", "int", TYPES)]
    {
        out += &format!("enum {name} : {base} {{\n");
        for c in codes {
            out += &format!("  {} = {},\n", c.name.replace('-', "_"), c.code);
        }
        out += "}\n\n";
    }
    for t in TABLES {
        if t.name == "OpAttrs" {
            out += &format!("union Attributes {{ {} }}\n\n", ATTRIBUTES.join(", "));
        }
        out += &format!("/// {}.\ntable {} {{\n", t.meaning, t.name);
        for f in t.fields {
            out += &format!("  {}: {}; // {} {}\n", f.name, kind(&f.kind), f.evidence.letter(), f.meaning);
        }
        out += "}\n\n";
    }
    out + &format!("root_type {ROOT};\n")
}
