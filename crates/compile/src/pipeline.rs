//! The pass pipeline: one table that runs itself. `ane passes` lists it, `--stop-after` names and `--pass-limit` counts its rows.

use crate::error::{Error, Result};
use crate::fuse::{self, Rules};
use crate::ir::Graph;
use crate::legalize::{self, Legal};
use crate::memory::{self, Placed, Residency};
use crate::options::{Later, Options};
use crate::remarks::{Log, Remarks, Stage};
use crate::schedule::{self, Schedule};
use crate::{lower, rewrite, stream};
use anemone_facts::chips::Chip;
use anemone_net::{Net, loops};
use std::cell::Cell;

/// One step from network to program.
pub struct Pass {
    /// Name, as `--stop-after` accepts it.
    pub name: &'static str,
    /// Phase of the book's chapter 22; 0 comes before the phases.
    pub phase: u8,
    /// Effect of the pass, in one sentence.
    pub what: &'static str,
    /// Origin of the pass: a row or listing of the book's chapter, or ours.
    pub source: &'static str,
    /// Name of the text that `--dump-ir` writes after it.
    pub dump: &'static str,
    /// True if the program is correct without the pass, so that `--pass-limit` may leave it out.
    pub optional: bool,
    work: Work,
}

enum Work {
    Net(fn(&mut Net, &Options, &mut Remarks) -> Result<()>),
    /// A rewrite that depends on the chip's limits.
    Target(fn(&mut Net, &'static Chip, &Options, &mut Remarks) -> Result<()>),
    Graph(fn(&mut Graph, &Options, &mut Remarks)),
    /// Fusion rules, in addition to those of the passes before it.
    Fuse(Rules),
    /// Transition from one stage to the next; the flag is false if optional work is left out.
    Stage(fn(State, &mut Run, bool) -> Result<State>),
    /// Work that a later stage does when it makes layers or assigns addresses.
    Later(Later),
}

/// Text after the first dash.
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
    NATIVE: 0 false "0-expand-natives" Work::Net(rewrite::expand_natives), "book table 26.2",
        "native layers that known registers compute are expanded into operations";
    FOLD: 0 false "0a-fold-constants" Work::Net(rewrite::fold_constants), "book 22, IR rewriting",
        "operations on constants become constants";
    NARROW: 0 false "0aa-wrap-narrow" Work::Net(rewrite::wrap_narrow), "ours",
        "sums and products of 8-bit integers wrap, conversions to them saturate";
    DROP: 0 false "0b-drop-conversions" Work::Net(rewrite::drop_conversions), "ours",
        "conversions, identities, and reshapes and broadcasts without effect are removed";
    WHOLE: 1 true "0ba-scale-whole-sums" Work::Net(rewrite::scale_whole_sums), "ours",
        "sums of integers that are scaled directly stay floats, and addends in levels of their scale are added behind it";
    QUANTIZATION: 1 true "0bb-collapse-quant-dequant" Work::Net(rewrite::recognize_quantization),
        "book table 22.3, CollapseQuantDequant",
        "quantization that is spelled out becomes one rounding, and the operation behind it its scale";
    BOUNDS: 1 true "0bc-bound-values" Work::Net(rewrite::bound_values), "ours",
        "conversions and clips without effect are removed, results that are always zero become constants, and limits of divisors have finite inverses";
    MATMUL: 1 true "0c-replace-matmul" Work::Target(rewrite::replace_matmul), "book table 22.3, ReplaceMatmulWithConv",
        "a product with one constant matrix becomes a convolution";
    RECOGNIZE: 1 true "0ca-recognize" Work::Net(rewrite::recognize), "ours",
        "functions that converters spell out become one operation";
    NORMS: 1 true "0cb-recognize-norms" Work::Net(rewrite::recognize_norms), "ours",
        "norms that converters spell out become one operation";
    DECOMPOSE: 0 false "0d-decompose" Work::Target(rewrite::decompose), "ours",
        "norms, selections and gathers are decomposed into operations that layers compute";
    SLICES: 1 true "0da-forward-slices" Work::Net(rewrite::forward_slices), "ours",
        "slices of concatenations become slices of their parts";
    NEUTRAL: 1 true "0db-eliminate-elementwise-copies" Work::Net(fuse::eliminate_copies),
        "book table 22.1, elementwise-copy elimination", "operations that return an operand unchanged are removed";
    DEQUANTIZATIONS: 1 true "0dba-deduplicate-standalone-dequant-gocs-across-concat"
        Work::Net(fuse::deduplicate_dequantizations), "book table 22.3, DeduplicateStandaloneDequantGOCsAcrossConcat",
        "equal scales of the parts of a concatenation become one scale behind it";
    SCORES: 1 true "0dbb-transpose-scores" Work::Target(rewrite::transpose_scores), "ours",
        "a matrix of many rows and few columns between two products of computed matrices is computed transposed";
    TRANSPOSES: 1 true "0dc-collapse-transpose" Work::Net(fuse::collapse_transposes), "book table 22.3, CollapseTranspose",
        "consecutive transposes become one, or none, also around operations that work in any order of axes";
    PADDING: 4 true "0dd-fold-padding" Work::Net(fuse::fold_padding), "book table 22.1, pad optimization",
        "constant padding becomes the padding of the window behind it";
    AFFINES: 1 true "0e-absorb-affines" Work::Net(rewrite::absorb_affines), "book table 22.3, FoldWeightsWithScale, kernel_scale",
        "per-channel addends and factors are absorbed by the convolution before them";
    PORTIONS: 1 true "0ea-scale-portions" Work::Net(rewrite::scale_portions), "ours",
        "factors of some channels of a product with constant weights are absorbed by their weights";
    ADDENDS: 1 true "0eaa-join-addends" Work::Net(rewrite::join_addends), "ours",
        "two constants that are added to a value one after the other become one";
    FORWARD: 1 true "0eb-forward-affines" Work::Net(rewrite::forward_affines), "ours",
        "per-column addends and factors are absorbed by the products behind them, and factors of channels by convolutions";
    LOOKUPS: 1 true "0eba-join-lookups" Work::Net(rewrite::join_lookups), "ours",
        "rows of several tables at computed positions are gathered at once";
    COLUMNS: 1 true "0ebaa-select-columns" Work::Target(rewrite::select_columns), "ours",
        "columns of a value in another order become a product with a constant matrix, unless they begin at rows of memory";
    PARTS: 1 true "0ebb-join-parts" Work::Net(rewrite::join_parts), "ours",
        "operations alike on slices of one value, and sines of several values, become one operation";
    CONVOLVED: 1 true "0ebc-convolve-affines" Work::Target(rewrite::convolve_affines), "ours",
        "a factor and an addend per channel that nothing absorbs, and a mean of windows before them, become a depthwise convolution";
    MEANS: 1 true "0ebca-convolve-means" Work::Target(rewrite::convolve_means), "ours",
        "means over windows become depthwise convolutions where the neural engine computes them in less time";
    SUMMED: 1 true "0ebd-sum-convolutions" Work::Net(rewrite::sum_convolutions), "ours",
        "convolutions of one value whose results are added become one convolution";
    TOKENS: 1 true "0ebe-convolve-tokens" Work::Net(rewrite::convolve_tokens), "ours",
        "linear layers of tokens that planes become, or that become planes, are convolutions of the planes";
    HEADS: 1 true "0ec-align-heads" Work::Net(rewrite::align_heads), "ours",
        "attention heads, and equal parts of columns, are padded to boundaries of memory rows";
    WINDOWS: 0 false "0ed-fit-windows" Work::Target(rewrite::fit_windows), "ours; book table 22.3, patch and kernel decompositions",
        "convolutions and poolings beyond the chip's window limits become ones within them";
    ORDER: 1 true "0eda-order-channels" Work::Net(rewrite::order_channels), "ours",
        "a product computes its channels in the order that transposes behind it give them";
    SMALL: 1 true "0ee-scale-small-terms" Work::Net(rewrite::scale_small_terms), "ours",
        "weights of products with small terms grow by powers of two, which the gains divide by";
    DEAD: 0 false "0f-remove-dead" Work::Net(rewrite::remove_dead), "ours",
        "operations whose results are not read are removed";
    JOIN: 4 true "0g-width-concat" Work::Later(Later::Concatenations), "book table 22.1, width-concat; book table 22.3, IsFusableConcat",
        "parts of a concatenation are computed in place, parts of its columns too if each begins at a memory row";
    LOWER: 0 false "1-lowered" Work::Stage(lower_net), "ours", "operations become layers, one task each";
    FUNCTIONS: 1 true "2-functions-into-tables" Work::Graph(fuse::functions_into_tables),
        "book table 22.3, transcendentals", "chains of layers that compute a function of one operand become one table, if its error is within the tolerance";
    COPIES: 1 true "2a-copies-into-producer" Work::Fuse(Rules::COPIES),
        "book table 22.1, elementwise-copy elimination", "a copy is removed if the layer before it can write its result";
    FOLD_SCALE: 1 true "2b-fold-scale" Work::Fuse(Rules::SCALES), "book table 22.3, FoldScale",
        "a constant factor becomes the gain of the layer before it";
    GOC: 1 true "2c-scaled-ew-or-ew-with-const-in-to-goc" Work::Fuse(Rules::OFFSETS),
        "book table 22.3, ScaledEWOrEWWithConstInToGOC", "a constant addend becomes the offset of the layer before it";
    ACTIVATION: 1 true "2d-simple-activation" Work::Fuse(Rules::ACTIVATIONS), "book table 22.3, SimpleActivation",
        "a ReLU or a table becomes the post-activation of the layer before it";
    PAIRS: 1 true "2e-merge-fusable-activation-pairs" Work::Fuse(Rules::PAIRS),
        "book table 22.3, MergeFusableActivationPairs", "functions behind an activation become part of its table";
    HOIST: 1 true "2f-hoist-goc-or-activation-for-conv-fusion" Work::Fuse(Rules::PARTS),
        "book table 22.1, bias and activation hoisting; book table 22.3, ZinMirHoistGOCorActivationForConvFusion",
        "an epilogue step behind layers that write parts of one result becomes part of each layer";
    TURN: 1 true "2g-ne-transpose-fusion" Work::Graph(fuse::transposes_into_producer),
        "book table 22.1, transpose fusion; book table 22.3, ZinMirNETransposeFusion", "a transposing copy becomes the transpose of the layer before it";
    SHARE: 1 true "2ga-share-copies" Work::Graph(fuse::share_copies), "ours",
        "readers of a copy read its source, if both lie alike, or an earlier copy of the same elements";
    OPERAND: 1 true "2h-scale-of-operand" Work::Graph(fuse::scale_into_reader), "ours",
        "a constant factor of an operand becomes part of its only reader, a planar layer";
    SOURCE: 1 true "2i-relu-of-source" Work::Graph(fuse::relu_into_reader),
        "ours", "a ReLU of an input becomes part of its only reader, a planar layer";
    ROUNDINGS: 1 false "2j-round-once" Work::Graph(fuse::round_once),
        "ours", "the addend of a rounding to a range moves into the factor before it, so that their result is rounded once";
    LEGALIZE: 2 false "2z-legalized" Work::Stage(legalize_layers), "book table 22.1, dimension and rank legalization, kernel-memory split",
        "kernels beyond kernel memory are split; every layer is checked against the chip's limits";
    SCHEDULE: 3 false "3-scheduled" Work::Stage(schedule_layers), "book table 22.1, greedy list scheduler", "the order of layers, and the live range of each buffer";
    CUT: 3 true "3a-partition-emission" Work::Stage(cut), "book table 22.1, partition emission",
        "the order is partitioned where live results exceed the budget; results needed in later partitions go to memory";
    CO_ISSUE: 3 true "3b-co-issue" Work::Stage(co_issue), "book table 22.1, parallel-execution discovery",
        "independent layers of the two engines become neighbours, unless that sends more bytes to memory";
    BANKS: 4 true "3x-bank-conflicts" Work::Later(Later::Banks), "book table 22.1, bank-conflict optimization",
        "rows that are read together start in different banks of tile memory";
    WEIGHTS: 4 true "3y-stream-weights" Work::Stage(stream_weights), "book table 22.1, weight packing; book table 22.3, kernel_palettized_LUT; book 25, stream-versus-fold decision",
        "weights stay compressed if the chip streams their form";
    ALLOCATE: 4 true "3ya-allocate" Work::Stage(allocate), "book table 22.2",
        "results that the next task reads are chained, elementwise results reuse the place of their source";
    RESIDE: 4 true "3z-reside" Work::Stage(reside), "book 22, memory", "results that fit and are read whole stay in tile memory";
    PLACE: 4 false "4-placed" Work::Stage(place), "book 22, memory", "addresses in tile memory, scratch and kernel section";
}

/// The pass of that name.
pub fn by_name(name: &str) -> Option<&'static Pass> {
    ALL.iter().find(|p| p.name == name)
}

/// Intermediate result of a compilation between two passes.
enum State {
    Net(Net),
    Layers(Graph),
    Legal(Legal),
    Scheduled(Schedule),
    Resident(Schedule, Residency),
    Placed(Placed),
}

impl State {
    fn name(&self) -> &'static str {
        match self {
            State::Net(_) => "network",
            State::Layers(_) => "layers",
            State::Legal(_) => "legal layers",
            State::Scheduled(_) => "schedule",
            State::Resident(..) => "residency",
            State::Placed(_) => "placement",
        }
    }

    /// The layer graph, once there is one.
    fn graph(&self) -> Option<&Graph> {
        match self {
            State::Net(_) => None,
            State::Layers(graph) => Some(graph),
            State::Legal(legal) => Some(legal.graph()),
            State::Scheduled(schedule) | State::Resident(schedule, _) => Some(&schedule.graph),
            State::Placed(placed) => Some(&placed.graph),
        }
    }

    /// Defects that the verifier of this stage finds, one message each. Element types count while there are conversions: without them,
    /// operations on integers compute in fp16.
    fn verify(&self, converts: bool) -> Vec<String> {
        use anemone_net::Error::{ElementType, InOp, TypeMismatch};
        let counts = |error: &anemone_net::Error| match error {
            TypeMismatch { found, expected, .. } => converts || found.shape != expected.shape,
            InOp { source, .. } => converts || !matches!(**source, ElementType { .. }),
            _ => true,
        };
        match self {
            State::Net(net) => {
                let errors = anemone_net::check::check(net).err().into_iter().flatten();
                errors.filter(counts).map(|e| e.to_string()).collect()
            }
            _ => self.graph().map_or_else(Vec::new, Graph::verify),
        }
    }

    /// The stage after a pass, for dumps. Streamed forms of weights are recorded in the graph of the schedule, so its text is the graph's.
    fn stage(&self, pass: &Pass, remarks: Vec<String>) -> Stage {
        let (text, dot) = match self {
            State::Net(net) => (anemone_net::text::print(net).0, anemone_net::draw::dot(net)),
            State::Layers(graph) => (graph.to_string(), graph.dot()),
            State::Legal(legal) => (legal.to_string(), legal.graph().dot()),
            State::Scheduled(schedule) if pass.name == WEIGHTS.name => {
                (schedule.graph.to_string(), schedule.graph.dot())
            }
            State::Scheduled(schedule) => (schedule.to_string(), schedule.graph.dot()),
            State::Resident(schedule, residency) => {
                let text = Some(residency.to_string()).filter(|text| !text.is_empty());
                let text = text.unwrap_or_else(|| "no result stays in tile memory\n".into());
                (text + &residency.allocations().counts(), schedule.graph.dot())
            }
            State::Placed(placed) => (placed.to_string(), placed.graph.dot()),
        };
        let count = match self {
            State::Net(net) => net.ops.len(),
            _ => self.graph().map_or(0, |graph| graph.layers.len()),
        };
        Stage { name: pass.dump, count, text, dot, reasons: remarks }
    }
}

/// State of a compilation that passes share.
struct Run {
    chip: &'static Chip,
    options: Options,
    remarks: Remarks,
    /// Fusion rules of the passes so far.
    rules: Rules,
}

type Verify = fn(&State, bool) -> Vec<String>;

thread_local! {
    /// Verifier of each stage. It is set and not called by name, so that programs that never set it do not contain it.
    static VERIFY: Cell<Option<Verify>> = const { Cell::new(None) };
}

/// Verification of every pass in compilations of this thread, until it is dropped.
#[doc(hidden)]
pub struct Verified(());

/// Verifies the result of every pass, as builds with debug assertions do.
#[doc(hidden)]
pub fn verify_passes() -> Verified {
    VERIFY.set(Some(State::verify));
    Verified(())
}

impl Drop for Verified {
    fn drop(&mut self) {
        VERIFY.set(None);
    }
}

/// Runs the passes in order, up to `last` if given. Returns the placed layers, or `None` if it stopped before placement.
#[doc(hidden)]
pub fn run(
    net: &Net,
    chip: &'static Chip,
    options: &Options,
    log: &mut dyn Log,
    last: Option<&Pass>,
) -> Result<Option<Placed>> {
    let wanted = log.wants();
    let verify = if cfg!(debug_assertions) { Some(State::verify as Verify) } else { VERIFY.get() };
    let remarks = Remarks { wanted, lines: Vec::new() };
    let mut run = Run { chip, options: *options, remarks, rules: Rules::default() };
    let unrolled = loops::any(net).then(|| loops::unrolled(net)).transpose().map_err(|e| Error::Net(e.to_string()))?;
    let mut state = State::Net(unrolled.unwrap_or_else(|| net.clone()));
    let (mut optional, mut converts) = (0, true);
    for (position, pass) in ALL.iter().enumerate() {
        let wanted_pass =
            options.pass_limit.is_none_or(|limit| optional < limit) && !options.disabled.contains(position);
        let taken = !pass.optional || wanted_pass;
        optional += usize::from(pass.optional);
        if log.stopped() {
            return Err(Error::Stopped);
        }
        state = pass.apply(state, &mut run, taken)?;
        log.pass();
        converts &= pass.name != DROP.name;
        if let Some(wrong) = verify.and_then(|verify| verify(&state, converts).into_iter().next()) {
            return Err(Error::Net(format!("after {}: {wrong}", pass.name)));
        }
        if wanted {
            log.stage(state.stage(pass, std::mem::take(&mut run.remarks.lines)));
        }
        if last.is_some_and(|last| last.name == pass.name) {
            return Ok(None);
        }
    }
    match state {
        State::Placed(placed) => Ok(Some(placed)),
        other => Err(out_of_order("emission", &other)),
    }
}

impl Pass {
    /// Disables the pass. Errors: its name, if programs are not correct without it.
    pub fn disable(&self, options: &mut Options) -> std::result::Result<(), &'static str> {
        let position = ALL.iter().position(|p| p.name == self.name).filter(|_| self.optional);
        options.disabled.insert(position.ok_or(self.name)?);
        Ok(())
    }

    fn apply(&self, mut state: State, run: &mut Run, taken: bool) -> Result<State> {
        match (&self.work, &mut state) {
            (Work::Net(work), State::Net(net)) if taken => work(net, &run.options, &mut run.remarks)?,
            (Work::Target(work), State::Net(net)) if taken => work(net, run.chip, &run.options, &mut run.remarks)?,
            (Work::Graph(work), State::Layers(graph)) if taken => work(graph, &run.options, &mut run.remarks),
            (Work::Later(later), _) if !taken => run.options.disabled.leave(*later),
            (Work::Later(_), _) => {}
            (Work::Fuse(rules), State::Layers(graph)) => {
                let conventions = run.options.conventions();
                run.rules = if taken { run.rules.and(*rules) } else { run.rules };
                // Apple's compilers apply the rules once.
                if taken && conventions.whole_epilogues || self.name == HOIST.name {
                    fuse::steps_into_producer(graph, run.rules, conventions, &mut run.remarks);
                }
            }
            (Work::Net(_) | Work::Target(_), State::Net(_)) | (Work::Graph(_), State::Layers(_)) => {}
            (Work::Stage(work), _) => return work(state, run, taken),
            (_, other) => return Err(out_of_order(self.name, other)),
        }
        Ok(state)
    }
}

/// Error for a pass whose input stage does not exist at its place in the table: a defect.
fn out_of_order(pass: &str, state: &State) -> Error {
    Error::Net(format!("{pass} does not start from a {}", state.name()))
}

fn lower_net(state: State, run: &mut Run, _: bool) -> Result<State> {
    let State::Net(net) = state else { return Err(out_of_order(LOWER.name, &state)) };
    lower::lower(&net, run.chip, &run.options).map(State::Layers)
}

fn legalize_layers(state: State, run: &mut Run, _: bool) -> Result<State> {
    let State::Layers(graph) = state else { return Err(out_of_order(LEGALIZE.name, &state)) };
    legalize::legalize(graph, run.chip, &run.options, &mut run.remarks).map(State::Legal)
}

fn schedule_layers(state: State, run: &mut Run, _: bool) -> Result<State> {
    let State::Legal(legal) = state else { return Err(out_of_order(SCHEDULE.name, &state)) };
    Ok(State::Scheduled(schedule::schedule(legal, run.chip, &run.options, &mut run.remarks)))
}

fn cut(state: State, run: &mut Run, taken: bool) -> Result<State> {
    let State::Scheduled(schedule) = state else { return Err(out_of_order(CUT.name, &state)) };
    Ok(State::Scheduled(if taken { schedule.cut(run.chip, &run.options, &mut run.remarks) } else { schedule }))
}

fn co_issue(state: State, run: &mut Run, taken: bool) -> Result<State> {
    let State::Scheduled(schedule) = state else { return Err(out_of_order(CO_ISSUE.name, &state)) };
    // The records of Apple's compilers show their order.
    if !taken || !run.options.conventions().all_ready_compared {
        return Ok(State::Scheduled(schedule));
    }
    let Some(paired) = schedule.paired(&mut run.remarks) else { return Ok(State::Scheduled(schedule)) };
    let bytes =
        |schedule: &Schedule| memory::reside(schedule, run.chip, &run.options, true).memory_bytes(&schedule.graph);
    let (before, after) = (bytes(&schedule), bytes(&paired));
    if after > before {
        run.remarks
            .say(|| format!("the order stays: pairs would move {after} bytes through memory instead of {before}"));
        return Ok(State::Scheduled(schedule));
    }
    Ok(State::Scheduled(paired))
}

fn stream_weights(state: State, run: &mut Run, taken: bool) -> Result<State> {
    let State::Scheduled(mut schedule) = state else { return Err(out_of_order(WEIGHTS.name, &state)) };
    if taken && !run.options.expand_weights {
        stream::form::choose(&mut schedule.graph, run.chip, &mut run.remarks);
    }
    Ok(State::Scheduled(schedule))
}

fn allocate(state: State, _: &mut Run, taken: bool) -> Result<State> {
    let State::Scheduled(mut schedule) = state else { return Err(out_of_order(ALLOCATE.name, &state)) };
    schedule.shares = taken;
    Ok(State::Scheduled(schedule))
}

fn reside(state: State, run: &mut Run, taken: bool) -> Result<State> {
    let State::Scheduled(schedule) = state else { return Err(out_of_order(RESIDE.name, &state)) };
    let residency = memory::reside(&schedule, run.chip, &run.options, taken);
    Ok(State::Resident(schedule, residency))
}

fn place(state: State, run: &mut Run, _: bool) -> Result<State> {
    let State::Resident(schedule, residency) = state else { return Err(out_of_order(PLACE.name, &state)) };
    Ok(State::Placed(memory::place(schedule, residency, &run.options)))
}
