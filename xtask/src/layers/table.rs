//! Layers inside each crate, from the bottom up, and exceptions.
//!
//! A module may import modules of its own layer and of those below; `lib.rs` is above all. [`UPWARD`] and [`LONG`] list the
//! exceptions. Both may only shrink: a row that no longer applies is a finding.

/// The modules of a crate: one row per layer.
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
            &[
                "basis",
                "book",
                "code",
                "cost",
                "epilogue",
                "kernel",
                "numerics",
                "own",
                "placement",
                "staging",
                "tolerance",
            ],
            &["fields", "hal", "lint", "lut", "probes", "validators"],
            &["table"],
            &["driver", "enums", "layout", "weights"],
            &["chips", "formats"],
            &["legal", "silicon"],
            &["ops"],
            &["native"],
        ],
    },
    Crate {
        name: "net",
        layers: &[
            &["order", "types"],
            &["error", "opset"],
            &["native", "tensor"],
            &["ops"],
            &["compress", "infer", "mil", "netplist", "proof", "text"],
            &["check", "draw", "outline"],
            &["eval"],
            &["build"],
            &["loops"],
            &["read"],
        ],
    },
    Crate {
        name: "program",
        layers: &[
            &["bytes", "order", "task"],
            &["program"],
            &["hwx", "images", "patch", "raw"],
            &["cost", "coverage", "e5", "firmware", "renumber"],
            &["text"],
        ],
    },
    Crate {
        name: "check",
        layers: &[
            &["layer"],
            &["legal"],
            &["describe"],
            &["estimate", "fix", "own", "strict", "types"],
            &["verdict"],
            &["sources"],
            &["place"],
            &["segment", "validate"],
            &["exports", "placement"],
            &["lint"],
        ],
    },
    Crate {
        name: "compile",
        layers: &[
            &["accuracy", "lut", "options", "remarks", "staged_rows"],
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
            &["arena", "arrays", "cost", "params", "registry", "tensor"],
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
            &["rows"],
            &["map"],
        ],
    },
    Crate { name: "conv", layers: &[&["convolution"], &["elementwise"]] },
    Crate {
        name: "engine",
        layers: &[
            &["fault", "fields", "field_support", "numerics"],
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
            &["aliases", "brief", "diagnostic", "host", "machine", "native", "watch", "words"],
            &["os"],
            &["files", "lut", "places", "reference"],
            &["model", "tensor"],
            &["adapter", "check", "compile", "convert", "execute", "explain", "graph", "overview", "warnings"],
            &["book", "fix", "inputs", "layers", "validate"],
            &["chain"],
            &["forms"],
            &["compiled", "executable"],
            &["procedures", "session"],
            &["runtime"],
            &["connection"],
        ],
    },
    Crate {
        name: "e5rt",
        layers: &[&["handle"], &["compiler", "validators"], &["compilation", "device", "execution"]],
    },
    Crate {
        name: "iokit",
        layers: &[
            &["os"],
            &["memory"],
            &["world"],
            &["foundation"],
            &["surfaces", "registry", "programs", "run_loop", "calls"],
        ],
    },
    Crate {
        name: "python",
        layers: &[&["arrays", "error", "travel"], &["connection", "program"], &["graph", "model"]],
    },
];

/// Existing upward imports and edges of import cycles: crate, importing module, imported module.
pub const UPWARD: &[(&str, &str, &str)] = &[];

/// Longest file without a reason, in lines, its tables excluded.
pub const FILE_LINES: usize = 500;
/// Longest function without a reason, in lines.
pub const FUNCTION_LINES: usize = 100;

/// Files and functions (`path#name`) above the limits, with the reason.
pub const LONG: &[(&str, &str)] = &[];
