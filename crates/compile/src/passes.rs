//! The passes of the compiler in their order: what `ane passes` lists, `--stop-after` names and `--pass-limit` counts.

use crate::anec::Graph;
use crate::error::Result;
use crate::{Log, Options, Stage, fuse, prepare};
use anemone_net::Net;

/// One step from network to program.
pub struct Pass {
    /// Name, by which it can be stopped after.
    pub name: &'static str,
    /// Phase of the book's chapter 22; 0 comes before the phases.
    pub phase: u8,
    /// What it does, in one sentence.
    pub what: &'static str,
    /// Where it is from: a row or listing of the seed's chapter, or ours.
    pub source: &'static str,
    /// Name of the text that `--dump-ir` writes after it.
    pub dump: &'static str,
    /// Whether the program is right without it, so that `--pass-limit` may leave it out.
    pub optional: bool,
    work: Work,
}

enum Work {
    Net(fn(&mut Net, &Options, &mut Reasons) -> Result<()>),
    Graph(fn(&mut Graph, &mut Reasons)),
    /// A stage of its own: `lib.rs` calls it.
    Stage,
}

/// What follows the first dash.
const fn after_dash(dump: &'static str) -> &'static str {
    let bytes = dump.as_bytes();
    let mut at = 0;
    while bytes[at] != b'-' {
        at += 1;
    }
    dump.split_at(at + 1).1
}

macro_rules! passes {
    ( $( $name:ident : $phase:literal $optional:literal $dump:literal $work:expr, $source:literal, $what:literal; )* ) => {
        $(
            /// A pass; see [`ALL`].
            pub const $name: Pass = Pass {
                name: after_dash($dump),
                phase: $phase,
                what: $what,
                source: $source,
                dump: $dump,
                optional: $optional,
                work: $work,
            };
        )*
        /// Every pass, in order.
        pub static ALL: &[Pass] = &[ $( $name ),* ];
    };
}

passes! {
    NATIVE: 0 false "0-expand-natives" Work::Net(prepare::expand_natives), "book table 26.2",
        "native layers that known registers compute become the operations that are lowered to them";
    FOLD: 0 false "0a-fold-constants" Work::Net(prepare::fold_constants), "book 22, IR rewriting",
        "operations on constants become constants";
    DROP: 0 false "0b-drop-conversions" Work::Net(prepare::drop_conversions), "ours",
        "conversions, identities and reshapes that change nothing disappear";
    MATMUL: 1 true "0c-replace-matmul" Work::Net(prepare::replace_matmul), "book table 22.3, ReplaceMatmulWithConv",
        "a product with one constant matrix becomes a convolution";
    DECOMPOSE: 0 false "0d-decompose" Work::Net(prepare::decompose), "ours",
        "norms, choices and gathers become operations that layers are made of";
    AFFINES: 1 true "0e-absorb-affines" Work::Net(prepare::absorb_affines), "book table 22.3, gain and offset",
        "constants added or multiplied per channel go into the convolution before them";
    DEAD: 0 false "0f-remove-dead" Work::Net(prepare::remove_dead), "ours",
        "operations whose results nobody reads disappear";
    LOWER: 0 false "1-lowered" Work::Stage, "ours", "operations become layers, one task each";
    RELU: 1 true "2-fused" Work::Graph(fuse::functions_into_producer),
        "book table 22.3, post-activation slot", "a ReLU, a table or a factor becomes part of the layers before it";
    SOURCE: 1 true "2a-relu-of-source" Work::Graph(fuse::relu_into_reader),
        "ours", "a ReLU of an input becomes part of the planar layer that alone reads it";
    LEGALIZE: 2 false "2z-legalized" Work::Stage, "book 22, legalization",
        "kernels beyond kernel memory are split; every layer is held to the chip's limits";
    SCHEDULE: 3 false "3-scheduled" Work::Stage, "book 22, scheduling", "one order, and when each buffer lives";
    WEIGHTS: 4 true "3y-stream-weights" Work::Stage, "book 25, stream-versus-fold decision; book 22, weight packing",
        "compressed weights stay so where the chip streams their form";
    RESIDE: 4 true "3z-reside" Work::Stage, "book 22, memory", "results that fit and are read whole stay in tile memory";
    PLACE: 4 false "4-placed" Work::Stage, "book 22, memory", "addresses in tile memory, scratch and kernel section";
}

/// The pass of that name.
pub fn by_name(name: &str) -> Option<&'static Pass> {
    ALL.iter().find(|p| p.name == name)
}

/// Why a pass decided as it did: one line for each fusion, split, change of order and cut. Kept only where somebody reads
/// them.
#[derive(Default)]
pub struct Reasons {
    wanted: bool,
    lines: Vec<String>,
}

impl Reasons {
    /// One line.
    pub fn say(&mut self, line: impl FnOnce() -> String) {
        if self.wanted {
            self.lines.push(line());
        }
    }
}

/// How far a compilation has come.
pub(crate) struct Progress<'a> {
    pub options: &'a Options,
    log: &'a mut dyn Log,
    /// Of the pass at hand.
    pub reasons: Reasons,
    stop: Option<&'a str>,
    left: usize,
}

impl<'a> Progress<'a> {
    pub fn new(options: &'a Options, log: &'a mut dyn Log, stop: Option<&'a str>) -> Self {
        let reasons = Reasons { wanted: log.wants(), lines: Vec::new() };
        Progress { options, log, reasons, stop, left: options.pass_limit.unwrap_or(usize::MAX) }
    }

    /// Whether an optional pass is within the limit, counting it.
    pub fn takes(&mut self, pass: &Pass) -> bool {
        if !pass.optional {
            return true;
        }
        let taken = self.left > 0;
        self.left = self.left.saturating_sub(1);
        taken
    }

    /// The passes of networks; whether compilation goes on.
    pub fn rewrite(&mut self, net: &mut Net) -> Result<bool> {
        for pass in ALL {
            let Work::Net(work) = pass.work else { continue };
            if self.takes(pass) {
                work(net, self.options, &mut self.reasons)?;
            }
            if !self.after(pass, net.ops.len(), &|| anemone_net::text::print(net).0, &|| anemone_net::draw::dot(net)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The passes of layer graphs; whether compilation goes on.
    pub fn fuse(&mut self, graph: &mut Graph) -> bool {
        ALL.iter().all(|pass| {
            let Work::Graph(work) = pass.work else { return true };
            if self.takes(pass) {
                work(graph, &mut self.reasons);
            }
            self.after(pass, graph.layers.len(), &|| graph.to_string(), &|| graph.dot())
        })
    }

    /// Tells the log; whether compilation goes on.
    pub fn after(&mut self, pass: &Pass, count: usize, text: &dyn Fn() -> String, dot: &dyn Fn() -> String) -> bool {
        if self.reasons.wanted {
            let reasons = std::mem::take(&mut self.reasons.lines);
            self.log.stage(Stage { name: pass.dump, count, text: text(), dot: dot(), reasons });
        }
        self.stop != Some(pass.name)
    }
}
