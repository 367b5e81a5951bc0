//! Words in reports, each explained in a sentence or two: `ane explain WORD`.

/// A word.
#[derive(Debug)]
pub struct Word {
    /// The word as printed in reports.
    pub word: &'static str,
    /// Synonyms: in JSON documents, in other tools.
    pub also: &'static [&'static str],
    /// Meaning.
    pub meaning: &'static str,
}

/// The word with this name or synonym.
pub fn find(text: &str) -> Option<&'static Word> {
    let is = |known: &str| known.eq_ignore_ascii_case(text);
    WORDS.iter().find(|w| is(w.word) || w.also.iter().any(|a| is(a)))
}

/// Every word.
pub static WORDS: &[Word] = &[
    Word {
        word: "supported",
        also: &["native", "ane"],
        meaning: "The Neural Engine has a layer for the operation and takes it in this form. In JSON: native.",
    },
    Word {
        word: "fused",
        also: &["folded"],
        meaning: "The operation needs no layer of its own: it is part of its neighbour (an activation, a bias, a scale), an \
                  address of what follows (a reshape, a slice), or a constant computed beforehand. In JSON: folded.",
    },
    Word {
        word: "decomposed",
        also: &["decomposition"],
        meaning: "The operation runs on the Neural Engine as several layers, or by a route through others. It costs more than \
                  a supported one.",
    },
    Word {
        word: "graph break",
        also: &["cut", "break", "graph-break"],
        meaning: "The operation runs on the Neural Engine in a segment of its own: the program is split before and after \
                  it, and each start of a segment costs a dispatch. In JSON: cut.",
    },
    Word {
        word: "falls back to CPU",
        also: &["fallback", "host", "rejected", "cpu", "falls back", "off the engine"],
        meaning: "The operation does not run on the Neural Engine: no source knows a path (in JSON: host), or the engine has \
                  the operation and does not take this form of it (rejected). Core ML runs it on the CPU or GPU.",
    },
    Word {
        word: "transfer",
        also: &["transfers", "hand-over", "hand-overs", "handover"],
        meaning: "A place where data passes between CPU and Neural Engine, or from one segment to the next: a copy and a \
                  dispatch each. In JSON: hand_overs.",
    },
    Word {
        word: "segment",
        also: &["segments", "partition", "subgraph"],
        meaning: "Operations that run together in one program on the Neural Engine, between two transfers.",
    },
    Word {
        word: "work",
        also: &["macs", "multiply-accumulates", "mac"],
        meaning: "Multiply-accumulates: of a convolution or matrix product, the number of weights that meet an element, over \
                  all elements. The share of work on the engine says more about speed than the share of operations.",
    },
    Word {
        word: "direct",
        also: &["can run", "direct route"],
        meaning: "The answer of the engine's own compiler to the whole model: what can run there. `ane compile` and programs \
                  that use the engine without Core ML take this route.",
    },
    Word {
        word: "framework",
        also: &["core ml", "coreml", "segmenter", "framework route", "as the segmenter counts"],
        meaning: "The answer of Core ML: its segmenter gives each operation to the CPU or to the Neural Engine by what it \
                  estimates as cheapest, so that small models stay on the CPU although the engine supports them. The \
                  estimate is modelled from recorded decisions of an M4 and an M6; the GPU is left out.",
    },
    Word {
        word: "baseline",
        also: &["--baseline"],
        meaning: "An earlier report (`ane check --json`): operations that it lists as off the engine do not fail again, only \
                  new ones do.",
    },
    Word {
        word: "tolerance",
        also: &["admitted", "--expect"],
        meaning: "The largest error that `ane run --expect` accepts: four times what a simulation of fp16 differs from exact \
                  arithmetic on this model, and for outputs that are probabilities at most a hundredth.",
    },
    Word {
        word: "evidence",
        also: &["measured", "decoded", "inferred", "compiler answer"],
        meaning: "How a verdict is known. measured: on silicon, and published. compiler: Apple's compiler or segmenter \
                  answered so. decoded: read from Apple's binaries. inferred: by a rule of ours. See docs/evidence.md.",
    },
    Word {
        word: "family",
        also: &["tier", "compiler family", "generation"],
        meaning: "The book's name for a capability tier (A13 to A18). Its number is that of the compiler target: family A14 is \
                  H14, the A15 and M2. It names no silicon. See docs/conflicts.md.",
    },
    Word {
        word: "task",
        also: &["task descriptor", "td"],
        meaning: "One step of the engine: a convolution, a pooling, an elementwise operation. A program is a chain of task \
                  descriptors, each a set of register values.",
    },
    Word {
        word: "palette",
        also: &["palettized", "lut", "palettization"],
        meaning: "Weights stored as indices of 1 to 8 bits into a table of values. The engine expands them as it reads, where \
                  the chip supports the form.",
    },
];
