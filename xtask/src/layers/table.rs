//! Layers inside each crate, from the bottom up, and what is not in order yet.
//!
//! A module may import modules of its own layer and of those below; `lib.rs` stands above all. [`UPWARD`] and [`LONG`] list the
//! exceptions. Both may only shrink: a row that no longer applies is a finding.

/// The modules of a crate: one row a layer.
pub struct Crate {
    /// Folder below `crates`.
    pub name: &'static str,
    pub layers: &'static [&'static [&'static str]],
}

/// Every crate.
pub const CRATES: &[Crate] = &[
    Crate {
        name: "facts",
        layers: &[
            &["basis", "code", "cost", "epilogue", "kernel", "numerics", "own", "placement", "staging", "tolerance"],
            &["fields", "hal", "legal", "lint", "lut", "probes", "validators"],
            &["table"],
            &["driver", "enums", "layout", "weights"],
            &["chips", "formats"],
            &["silicon"],
            &["ops"],
            &["native"],
        ],
    },
    Crate {
        name: "net",
        layers: &[
            &["types"],
            &["error", "opset"],
            &["native", "tensor"],
            &["ops"],
            &["graph"],
            &["compress", "infer", "mil", "netplist", "text"],
            &["check", "draw", "outline"],
            &["eval"],
            &["build"],
            &["read"],
        ],
    },
    Crate {
        name: "program",
        layers: &[
            &["bytes", "task"],
            &["program"],
            &["hwx", "images", "patch", "raw"],
            &["cost", "coverage", "e5", "firmware", "renumber"],
            &["text"],
        ],
    },
    Crate {
        name: "compile",
        layers: &[
            &["accuracy", "check", "lut", "options", "proof", "remarks"],
            &["error", "functions"],
            &["ir"],
            &["stream"],
            &["target"],
            &["native"],
            &["rewrite", "lower"],
            &["fuse", "legalize"],
            &["schedule"],
            &["tile"],
            &["memory"],
            &["emit"],
            &["pipeline"],
            &["compiler"],
            &["here", "segments"],
        ],
    },
    Crate {
        name: "kernels",
        layers: &[
            &["arena", "cost", "params", "tensor"],
            &["host", "isa", "par"],
            &["num"],
            &["simd"],
            &["line"],
            &["binary", "filter", "reduce"],
            &["interleave", "view"],
            &["axes", "copy", "window", "workers"],
            &["table"],
            &["epilogue"],
            &["gemm"],
            &["exact"],
            &["conv"],
            &["elementwise"],
            &["rows"],
            &["map"],
        ],
    },
    Crate {
        name: "engine",
        layers: &[
            &["fault", "fields", "honours", "numerics"],
            &["lut", "packed"],
            &["constants", "memory"],
            &["operand"],
            &["machine"],
            &["activation", "unpack"],
            &["exact"],
            &["direct", "dma", "volume", "native"],
            &["lines", "planar"],
            &["pe", "ne"],
            &["plan"],
        ],
    },
    Crate {
        name: "runtime",
        layers: &[
            &["clock", "error", "words"],
            &["dart", "firmware"],
            &["os"],
            &["cache"],
            &["driver"],
            &["e5rt"],
            &["broker"],
        ],
    },
    Crate {
        name: "ane",
        layers: &[
            &["aliases", "brief", "diagnostic", "host", "machine", "native", "words"],
            &["os"],
            &["files", "lut", "reference"],
            &["model", "tensor"],
            &["check", "compile", "convert", "execute", "explain", "graph", "overview", "warnings"],
            &["fix", "layers", "validate"],
            &["chain"],
            &["forms"],
            &["compiled", "executable"],
            &["procedures", "session"],
            &["runtime"],
        ],
    },
    Crate { name: "e5rt", layers: &[&["handle"], &["compiler", "validators"], &["execution"]] },
    Crate {
        name: "iokit",
        layers: &[&["memory"], &["world"], &["foundation"], &["surfaces", "registry", "programs", "run_loop", "calls"]],
    },
    Crate { name: "python", layers: &[&["arrays", "error", "travel"], &["program"], &["graph", "model"]] },
];

/// Upward imports and edges of import cycles that exist: crate, importing module, imported module.
pub const UPWARD: &[(&str, &str, &str)] = &[];

/// Longest file without a reason, in lines.
pub const FILE_LINES: usize = 500;
/// Longest function without a reason, in lines.
pub const FUNCTION_LINES: usize = 100;

/// A row for each thing of a kind: as long as there are things.
const ROWS: &str = "one row for each thing of a kind";
/// One arm for each operation of a format.
const ARMS: &str = "one arm for each operation of the format";
/// Written before the limit: to be divided when it is next changed in substance.
const OLD: &str = "older than the limit";

/// Files and functions (`path#name`) above the limits, with the reason.
pub const LONG: &[(&str, &str)] = &[
    ("crates/ane/src/cli/compile.rs#run", OLD),
    ("crates/ane/src/cli/run.rs#run", OLD),
    ("crates/compile/src/lower/unary.rs#unary_into", ARMS),
    ("crates/facts/src/enums.rs", ROWS),
    ("crates/facts/src/fields.rs", ROWS),
    ("crates/facts/src/layout/shared.rs", ROWS),
    ("crates/facts/src/legal.rs", ROWS),
    ("crates/net/src/infer.rs", ARMS),
    ("crates/net/src/mil/write/ops.rs#op", ARMS),
    ("crates/net/src/outline.rs#spelled", ARMS),
    ("crates/net/src/read/netplist/units.rs", ARMS),
    ("crates/net/src/read/onnx/elementwise.rs#translate", ARMS),
    ("crates/net/src/read/onnx/shape.rs", ARMS),
    ("crates/net/src/read/onnx/shape.rs#translate", ARMS),
    ("crates/net/src/read/onnx/spatial.rs", ARMS),
    ("xtask/src/agreement/cases.rs#of_definition", "one arm for each parameter of a recorded case"),
];
