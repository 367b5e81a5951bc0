//! Plans against task after task: the same bits, in every model, in a first run and in later ones, on one thread and on two.

mod epilogues;

use crate::common;

use anemone_compile::{Options, compile};
use anemone_engine::{Fault, Level, Memory, Options as EngineOptions, Plan};
use anemone_facts::chips::CHIPS;
use anemone_facts::numerics::Model;
use anemone_net::*;
use anemone_program::hwx::Container;
use anemone_program::{Direction, Program, raw};
use common::draw::{Draw, choices, drawn};
use half::f16;
use proptest::prelude::*;
use std::sync::Arc;

/// Random networks per run; `ANE_CASES` sets another number.
const CASES: u32 = 200;

/// Elements of every port after a run, output ports that are not wholly written, and tasks.
type Left = (Vec<Vec<u16>>, Vec<String>, usize);

/// Bytes of the input ports by their base address register.
type Inputs = Vec<(u8, Vec<u8>)>;

/// Memory after each run of a plan, one after another on these inputs.
fn left(program: &Program, model: Model, level: Level, runs: &[&Inputs]) -> Result<Vec<Left>, Fault> {
    let mut plan = Plan::new(program, EngineOptions { model, level, ..EngineOptions::default() })?;
    let mut memory = plan.memory();
    let mut all = Vec::new();
    for inputs in runs {
        fill(&mut memory, inputs);
        let outcome = plan.run(&mut memory)?;
        let ports = program.ports.iter().filter_map(|port| memory.region(port.bar));
        all.push((ports.map(|region| elements(region.bytes())).collect(), outcome.incomplete, outcome.tasks));
    }
    Ok(all)
}

fn fill(memory: &mut Memory, inputs: &Inputs) {
    for (bar, bytes) in inputs {
        memory.region_mut(*bar).expect("a region").bytes_mut().copy_from_slice(bytes);
    }
}

/// Numbers around zero, one in 400 a special one.
fn drawn_inputs(program: &Program, seed: u64) -> Inputs {
    let special = [f16::NAN, f16::from_bits(0x7c01), f16::INFINITY, f16::NEG_ZERO, f16::from_bits(0x8003)];
    let mut random = common::Random::new(seed);
    let memory = Plan::new(program, EngineOptions::default()).map(|plan| plan.memory());
    let mut inputs = Inputs::new();
    for port in program.ports_of(Direction::Input) {
        let Some(region) = memory.as_ref().ok().and_then(|memory| memory.region(port.bar)) else { continue };
        let mut bytes = region.bytes().to_vec();
        for slot in bytes.chunks_exact_mut(2) {
            let x = match random.next() % 400 {
                0 => special[random.next() as usize % special.len()],
                _ => f16::from_f32(random.uniform(-2.0, 2.0)),
            };
            slot.copy_from_slice(&x.to_le_bytes());
        }
        inputs.push((port.bar, bytes));
    }
    inputs
}

/// Elements of a port. The sign and the payload of a NaN are not defined: they follow from the processor and the order of operands.
fn elements(bytes: &[u8]) -> Vec<u16> {
    let defined = |bits: u16| if f16::from_bits(bits).is_nan() { f16::NAN.to_bits() } else { bits };
    bytes.chunks_exact(2).map(|b| defined(u16::from_le_bytes([b[0], b[1]]))).collect()
}

/// The first element in which ports differ: port, index and both bit patterns.
fn difference(program: &Program, plain: &[Vec<u16>], planned: &[Vec<u16>]) -> Option<String> {
    let port = plain.iter().zip(planned).position(|(a, b)| a != b)?;
    let mut differing = plain[port].iter().zip(&planned[port]).enumerate().filter(|(_, (a, b))| a != b);
    let (at, (a, b)) = differing.next()?;
    let name = program.ports.get(port).map_or("", |port| &port.name);
    Some(format!("{} elements of port `{name}`, the first at {at}: {a:#06x} and {b:#06x}", differing.count() + 1))
}

/// A program runs the same at both levels, or faults alike, when these of its inputs follow each other. Task after task, all run once: it takes
/// most of the time.
fn same(name: &str, program: &Program, models: &[Model], inputs: &[Inputs], runs: &[usize]) {
    for &model in models {
        let of = |level, runs: &[&Inputs]| left(program, model, level, runs).map_err(|fault| fault.to_string());
        let plain = of(Level::Unoptimized, &inputs.iter().collect::<Vec<_>>());
        let planned = of(Level::Optimized, &runs.iter().map(|&at| &inputs[at]).collect::<Vec<_>>());
        match (plain, planned) {
            (Ok(plain), Ok(planned)) => {
                for (run, (a, b)) in runs.iter().map(|&at| &plain[at]).zip(&planned).enumerate() {
                    let (ports, told) = (difference(program, &a.0, &b.0), model.name());
                    assert!(a == b, "{name}, {told}, run {run}: {ports:?}");
                }
            }
            (plain, planned) => assert_eq!(plain.err(), planned.err(), "{name}, {}", model.name()),
        }
    }
}

/// These inputs, one after another; where sums of tiles are added, which is slow, the last one alone.
fn same_in_models(name: &str, program: &Program, runs: &[usize]) {
    let inputs = [1, 2].map(|seed| drawn_inputs(program, seed));
    same(name, program, &[Model::Fast, Model::Fixed], &inputs, runs);
    same(name, program, &[Model::Tiled], &inputs[1..], &[0]);
}

/// On one thread, and on two: two inputs, the second with the first before and behind it.
fn same_on_threads(name: &str, program: &Program) {
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        let inputs = [1, 2].map(|seed| drawn_inputs(program, seed));
        pool.install(|| same(&format!("{name}, {threads} threads"), program, &Model::ALL, &inputs, &[0, 1, 0]));
    }
}

#[test]
fn golden_programs_run_the_same_planned() {
    let Some(dir) = common::golden_dir() else { return };
    let mut found = 0;
    for path in
        common::entries(&dir.join("h13/programs")).into_iter().filter(|p| p.extension().is_some_and(|e| e == "bin"))
    {
        let program = std::fs::read(&path).ok().and_then(|bytes| raw::read_bin(&bytes).ok());
        let Some(program) = program else { continue };
        same_in_models(&common::stem(&path), &program, &[0, 1, 0]);
        found += 1;
    }
    for folder in common::entries(&dir.join("h13/pairs")) {
        let container = std::fs::read(folder.join("model.hwx")).ok().and_then(|bytes| Container::read(&bytes).ok());
        let Some(Ok(program)) = container.map(|container| container.program()) else { continue };
        same_in_models(&common::stem(&folder), &program, &[0, 1, 0]);
        found += 1;
    }
    assert!(found > 0, "programs are read");
    println!("{found} programs");
}

#[test]
fn packages_run_the_same_planned() {
    let Some(dir) = common::models_dir() else { return };
    for folder in common::entries(&dir).into_iter().filter(|p| p.join("model.mlpackage").is_dir()) {
        let compiled = anemone::Model::load(&folder.join("model.mlpackage"))
            .and_then(|model| model.compile(&CHIPS[0], &Options::default(), &mut ()));
        if let Ok(compiled) = compiled {
            // On threads are the smaller ones below.
            same_in_models(&common::stem(&folder), &compiled.program, &[0, 1]);
        }
    }
}

proptest! {
    // Fails where more networks are refused than compile.
    #![proptest_config(ProptestConfig { max_global_rejects: drawn(CASES).cases, ..drawn(CASES) })]

    #[test]
    fn random_networks_run_the_same_planned(choices in choices()) {
        let net = LayerSequence::of(Draw::choosing(choices));
        prop_assume!(net.is_some());
        let net = net.expect("assumed");
        let program = compile(&net, &CHIPS[0], &Options::default(), &mut ());
        prop_assume!(program.is_ok());
        let name = net.ops.iter().map(|op| op.kind.name()).collect::<Vec<_>>().join(", ");
        same_on_threads(&name, &program.expect("assumed"));
    }
}

/// A first run that is foreseen runs on memory that lacks what the program reads, and says so as task after task would.
#[test]
fn what_is_missing_is_found_before_a_planned_run() {
    let net = LayerSequence::draw(3).expect("a network");
    let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("it compiles");
    let faults = [Level::Unoptimized, Level::Optimized].map(|level| {
        let mut plan = Plan::new(&program, EngineOptions { level, ..EngineOptions::default() }).expect("a plan");
        let mut memory = plan.memory();
        plan.run(&mut memory).map(|outcome| outcome.tasks).map_err(|fault| fault.to_string())
    });
    assert!(faults[0].is_err(), "inputs are not written");
    assert_eq!(faults[0], faults[1]);
}

/// Every operation names a kernel of its registry, in every model, and one that is not the first of it says why.
#[test]
fn operations_name_their_kernels_and_why_not_others() {
    let (mut rows, mut reasons) = (0, 0);
    for net in (0..40).filter_map(LayerSequence::draw) {
        let Ok(program) = compile(&net, &CHIPS[0], &Options::default(), &mut ()) else { continue };
        for model in Model::ALL {
            let plan = Plan::new(&program, EngineOptions { model, ..EngineOptions::default() }).expect("a plan");
            let selection = plan.selection();
            assert!(selection.lines().all(|line| !line.contains("its unit")), "{selection}");
            let by_rows = selection.lines().filter(|line| line.contains(": rows with prologue and epilogue"));
            by_rows.for_each(|line| {
                rows += 1;
                reasons += usize::from(line.contains("(not rows of two: ") && line.contains("; pooling windows: "));
            });
        }
    }
    assert!(rows > 0 && reasons == rows, "{reasons} of {rows}");
}

/// Coefficients that every run packs, and sums of the exact array, are selected with the reason against what is faster.
#[test]
fn run_time_packing_and_the_exact_array_give_their_reasons() {
    let product = r#"net "main" {
  input %a: f16[1, 2, 8, 16]
  input %b: f16[1, 2, 16, 8]
  %y: f16[1, 2, 8, 8] = matmul(%a, %b) transpose_x=false transpose_y=false
  output %y
}
"#;
    let convolution = r#"net "main" {
  input %x: f16[1, 2, 6, 6]
  const %w: f16[2, 2, 2, 1] = [1.0, 0.5, 0.0, 2.0, 1.0, -0.5, 0.25, 3.0]
  %y: f16[1, 2, 5, 6] = conv(%x, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1
  output %y
}
"#;
    for (source, model, wanted) in [
        (product, Model::Fast, "(not coefficients packed at planning: they are results of other tasks, or inputs"),
        (
            convolution,
            Model::Fixed,
            "predicted on one thread (not blocks of channels: it is not fused, and not a matrix by a vector",
        ),
    ] {
        let net = text::parse(source, &[]).expect("a network");
        let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("it compiles");
        let plan = Plan::new(&program, EngineOptions { model, ..EngineOptions::default() }).expect("a plan");
        let selection = plan.selection();
        assert!(selection.contains(wanted), "{selection}");
    }
}

/// Attention over a long sequence runs in blocks of rows, in every model, on one thread and on two, with the bits of whole results.
#[test]
fn attention_runs_in_blocks_of_rows() {
    attention_in_blocks(|source| source);
}

/// The same where the weights are copied for the second product, whose results overwrite them.
#[test]
fn attention_whose_results_overwrite_its_weights_runs_in_blocks() {
    let made = |source: String, operand: &str, function: &str| {
        let line = format!("  %{operand}m: f16[1, 600, 384] = {function}(%{operand})\n");
        source
            .replacen("  %qs", &format!("{line}  %qs"), 1)
            .replace(&format!("reshape(%{operand})"), &format!("reshape(%{operand}m)"))
    };
    attention_in_blocks(|source| {
        let source = [("x", "tanh"), ("z", "sin"), ("u", "relu")]
            .into_iter()
            .fold(source, |source, (operand, function)| made(source, operand, function));
        let sum = "  %r: f16[1, 600, 384] = reshape(%ot)\n  %y: f16[1, 600, 384] = add(%r, %x)\n";
        source.replace("  %y: f16[1, 600, 384] = reshape(%ot)\n", sum).replace("600", "1004")
    });
}

/// Compares attention of 600 tokens, changed by `edit`, in blocks with whole results.
fn attention_in_blocks(edit: impl Fn(String) -> String) {
    let source = r#"net "main" {
  input %x: f16[1, 600, 384]
  input %z: f16[1, 600, 384]
  input %u: f16[1, 600, 384]
  %qs: f16[1, 600, 6, 64] = reshape(%x)
  %q: f16[1, 6, 600, 64] = transpose(%qs) perm=[0, 2, 1, 3]
  %ks: f16[1, 600, 6, 64] = reshape(%z)
  %k: f16[1, 6, 64, 600] = transpose(%ks) perm=[0, 2, 3, 1]
  %vs: f16[1, 600, 6, 64] = reshape(%u)
  %v: f16[1, 6, 600, 64] = transpose(%vs) perm=[0, 2, 1, 3]
  %s: f16[1, 6, 600, 600] = matmul(%q, %k) transpose_x=false transpose_y=false
  %p: f16[1, 6, 600, 600] = softmax(%s) axis=3
  %o: f16[1, 6, 600, 64] = matmul(%p, %v) transpose_x=false transpose_y=false
  %ot: f16[1, 600, 6, 64] = transpose(%o) perm=[0, 2, 1, 3]
  %y: f16[1, 600, 384] = reshape(%ot)
  output %y
}
"#;
    let net = text::parse(&edit(source.to_owned()), &[]).expect("a network");
    let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("it compiles");
    let run = |level, model| {
        let mut plan = Plan::new(&program, EngineOptions { level, model, ..EngineOptions::default() }).expect("a plan");
        let mut memory = plan.memory();
        let mut results = Vec::new();
        for seed in [1, 2] {
            fill(&mut memory, &drawn_inputs(&program, seed));
            for port in program.ports_of(Direction::Input) {
                let halves = memory.region_mut(port.bar).expect("an input").bytes_mut().chunks_exact_mut(2);
                // One number that is none reaches every result.
                halves.filter(|x| x[1] & 0x7c == 0x7c).for_each(|x| x.fill(0));
            }
            plan.run(&mut memory).expect("it runs");
            let port = program.ports_of(Direction::Output).next().expect("an output");
            results.push(memory.region(port.bar).expect("a region").bytes().to_vec());
        }
        (results, plan.selection().matches("product of two operands").count())
    };
    for (threads, model) in [(1, Model::Fast), (2, Model::Fast), (2, Model::Fixed), (2, Model::Tiled)] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        let levels = [Level::Unoptimized, Level::Optimized];
        let [(whole, _), (blocks, products)] = pool.install(|| levels.map(|level| run(level, model)));
        // The adders of the tiled model determine the order of its sums, which keeps them from blocks.
        assert!(products > 4 || model == Model::Tiled, "{model:?}: {products} products");
        assert!(whole[0] != whole[1] && whole == blocks, "{model:?}, {threads} threads");
    }
}

/// Attention weights that the planar engine stores interleaved for the second product, whose heads alternate in the rows of its result: no task
/// of either goes through tensors.
#[test]
fn interleaved_weights_and_alternating_heads_run_in_place() {
    for (heads, tokens, width) in [(12, 128, 32), (2, 16, 8), (3, 24, 16), (5, 64, 4)] {
        let all = heads * width;
        let source = format!(
            r#"net "n" {{
  input %x: f16[1, {tokens}, {all}]
  input %mask: f16[1, 1, 1, {tokens}]
  %h: f16[1, {tokens}, {heads}, {width}] = reshape(%x)
  %q: f16[1, {heads}, {tokens}, {width}] = transpose(%h) perm=[0, 2, 1, 3]
  %k: f16[1, {heads}, {width}, {tokens}] = transpose(%h) perm=[0, 2, 3, 1]
  %s: f16[1, {heads}, {tokens}, {tokens}] = matmul(%q, %k) transpose_x=false transpose_y=false
  %m: f16[1, {heads}, {tokens}, {tokens}] = add(%s, %mask)
  %p: f16[1, {heads}, {tokens}, {tokens}] = softmax(%m) axis=3
  %o: f16[1, {heads}, {tokens}, {width}] = matmul(%p, %q) transpose_x=false transpose_y=false
  %ot: f16[1, {tokens}, {heads}, {width}] = transpose(%o) perm=[0, 2, 1, 3]
  %y: f16[1, {tokens}, {all}] = reshape(%ot)
  output %y
}}
"#
        );
        let net = text::parse(&source, &[]).expect("a network");
        let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("it compiles");
        let name = format!("{heads} heads, {tokens} tokens");
        same_on_threads(&name, &program);
        let plan = Plan::new(&program, EngineOptions::default()).expect("a plan");
        assert!(!plan.selection().contains(": tensors"), "{name}: {}", plan.selection());
    }
}

/// A network of layers one after another, most of which move elements.
struct LayerSequence {
    draw: Draw,
    net: Net,
}

impl LayerSequence {
    fn draw(seed: u64) -> Option<Net> {
        LayerSequence::of(Draw::new(seed + 77))
    }

    fn of(draw: Draw) -> Option<Net> {
        let mut chain = LayerSequence { draw, net: Net { name: "chain".into(), ..Net::default() } };
        let shape: Vec<usize> = match chain.draw.below(3) {
            0 => vec![1, chain.draw.size(9), chain.draw.size(40), chain.draw.size(40)],
            1 => vec![1, chain.draw.size(70), chain.draw.size(70)],
            _ => vec![1, 4 * chain.draw.size(12), 2 * chain.draw.size(8), 2 * chain.draw.size(8)],
        };
        let x = chain.value(TensorType::new(DType::F16, shape), None);
        chain.net.inputs.push(x);
        let mut last = x;
        let mut before = x;
        for _ in 0..3 + chain.draw.below(6) {
            let next = chain.layer(last, before)?;
            before = last;
            last = next;
        }
        chain.net.outputs.push(last);
        Some(chain.net)
    }

    fn value(&mut self, ty: TensorType, data: Option<Arc<Tensor>>) -> ValueId {
        let name = format!("v{}", self.net.values.len());
        self.net.add_value(Value { name, ty, data, surface: None })
    }

    fn constant(&mut self, shape: &[usize]) -> ValueId {
        let count = shape.iter().product::<usize>();
        let scale = 1.0 / (count as f32 / shape[0] as f32).sqrt();
        let mut number = || f16::from_f32((self.draw.below(2001) as f32 / 1000.0 - 1.0) * scale);
        let data = Data::F16((0..count).map(|_| number()).collect());
        let tensor = Tensor { shape: shape.to_vec(), data };
        self.value(tensor.ty(), Some(Arc::new(tensor)))
    }

    fn op(&mut self, kind: OpKind, inputs: &[ValueId], declared: Option<TensorType>) -> Option<ValueId> {
        let types: Vec<&TensorType> = inputs.iter().map(|&id| &self.net.value(id).ty).collect();
        let ty = infer::infer(&kind, &types, declared.as_ref()).ok()?.into_iter().next()?;
        if ty.shape.iter().product::<usize>() > 20_000 {
            return Some(inputs[0]);
        }
        let output = self.value(ty, None);
        let name = format!("op{}", self.net.ops.len());
        self.net.ops.push(Op { name, kind, inputs: inputs.to_vec(), outputs: vec![output] });
        Some(output)
    }

    fn layer(&mut self, x: ValueId, before: ValueId) -> Option<ValueId> {
        let shape = self.net.value(x).ty.shape.clone();
        let rank = shape.len();
        match self.draw.below(14) {
            0..=2 => {
                let mut perm: Vec<usize> = (0..rank).collect();
                for i in (1..rank).rev() {
                    perm.swap(i, self.draw.below(i + 1));
                }
                self.op(OpKind::Transpose { perm }, &[x], None)
            }
            3 | 4 => {
                let total: usize = shape.iter().product();
                let factors: Vec<usize> = (1..=total).filter(|f| total.is_multiple_of(*f)).collect();
                let a = factors[self.draw.below(factors.len())];
                let rest: Vec<usize> = factors.iter().copied().filter(|f| (total / a).is_multiple_of(*f)).collect();
                let b = rest[self.draw.below(rest.len())];
                self.op(OpKind::Reshape, &[x], Some(TensorType::new(DType::F16, [1, a, b, total / a / b])))
            }
            5 => {
                let begin: Vec<usize> = shape.iter().map(|&n| self.draw.below(n.min(4))).collect();
                let end: Vec<usize> =
                    shape.iter().zip(&begin).map(|(&n, &b)| n - self.draw.below((n - b).min(3))).collect();
                let stride = shape.iter().map(|_| self.draw.pick(&[1, 1, 1, 2, 3])).collect();
                self.op(OpKind::Slice { begin, end, stride }, &[x], None)
            }
            6 => {
                let axis = self.draw.below(rank);
                let other = if self.draw.below(2) == 0 { x } else { self.op(OpKind::Unary(Unary::Relu), &[x], None)? };
                self.op(OpKind::Concat { axis }, &[x, other], None)
            }
            7 => {
                let f = self.draw.pick(&[Unary::Relu, Unary::Silu, Unary::Sigmoid, Unary::Abs, Unary::Square]);
                self.op(OpKind::Unary(f), &[x], None)
            }
            8 if self.net.value(before).ty.shape == shape => {
                let f = self.draw.pick(&[Binary::Add, Binary::Mul, Binary::Max]);
                self.op(OpKind::Binary(f), &[x, before], None)
            }
            8 | 9 => {
                let other = self.constant(&[vec![1; rank - 1], vec![shape[rank - 1]]].concat());
                let f = self.draw.pick(&[Binary::Add, Binary::Mul, Binary::Sub]);
                self.op(OpKind::Binary(f), &[x, other], None)
            }
            10 => self.op(OpKind::Softmax { axis: rank - 1 }, &[x], None),
            11 => {
                let [gamma, beta] = [0, 1].map(|_| self.constant(&[shape[rank - 1]]));
                self.op(OpKind::LayerNorm { axes: vec![rank - 1], epsilon: 1e-3 }, &[x, gamma, beta], None)
            }
            12 if rank == 4 => {
                let (out, side) = (self.draw.size(12), self.draw.pick(&[1, 1, 3]));
                let weights = self.constant(&[out, shape[1], side, side]);
                let pads = vec![(side / 2, side / 2); 2];
                let kind = OpKind::Conv { strides: vec![1, 1], pads, dilations: vec![1, 1], groups: 1 };
                self.op(kind, &[x, weights], None)
            }
            12 => {
                let out = self.draw.size(40);
                let (weights, bias) = (self.constant(&[out, shape[rank - 1]]), self.constant(&[out]));
                self.op(OpKind::Linear, &[x, weights, bias], None)
            }
            _ => {
                let product = |transpose_y| OpKind::MatMul { transpose_x: false, transpose_y };
                let scores = self.op(product(true), &[x, x], None)?;
                let last = &self.net.value(scores).ty.shape;
                if last[last.len() - 1] != shape[rank - 2] {
                    return Some(x);
                }
                self.op(product(false), &[scores, x], None)
            }
        }
    }
}

/// A convolution by groups reads the channels of a depthwise one as its own groups: no triple over one set of extents.
#[test]
fn groups_behind_a_depthwise_convolution_run_the_same() {
    let kernel = |name: &str, shape: [usize; 4]| {
        let count: usize = shape.iter().product();
        let values: Vec<String> = (0..count).map(|i| format!("{}", ((i * 29 + 7) % 23) as f32 / 64.0 - 0.1)).collect();
        format!("const %{name}: f16{shape:?} = [{}] ", values.join(", "))
    };
    let conv = |to: &str, from: &str, w: &str, c: usize, pad: usize, groups: usize| {
        format!(
            "%{to}: f16[1, {c}, 4, 4] = conv(%{from}, %{w}) strides=[1, 1] pads=[[{pad}, {pad}], [{pad}, {pad}]] dilations=[1, 1] groups={groups} "
        )
    };
    let body = kernel("a", [192, 64, 1, 1])
        + &kernel("b", [192, 1, 5, 5])
        + &kernel("c", [192, 16, 1, 1])
        + &conv("q", "x", "a", 192, 0, 1)
        + &conv("d", "q", "b", 192, 2, 192)
        + &conv("y", "d", "c", 192, 0, 12);
    let net =
        text::parse(&format!("net \"n\" {{ input %x: f16[1, 64, 4, 4] {body} output %y }}"), &[]).expect("a network");
    let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("compiles");
    same_on_threads("groups", &program);
}

/// Two recurrences over one input, which read no result of each other until the end, and use the same tile memory.
#[test]
fn independent_recurrences_run_in_branches() {
    const STEPS: usize = 120;
    let values = |seed: usize| {
        let values: Vec<String> =
            (0..64 * 64).map(|i| format!("{}", ((i * seed + 7) % 23) as f32 / 256.0 - 0.04)).collect();
        values.join(", ")
    };
    let mut body = String::new();
    for (name, seed) in [("a", 29), ("b", 31)] {
        body += &format!("const %w{name}: f16[64, 64, 1, 1] = [{}] ", values(seed));
        for i in 0..STEPS {
            let last = if i == 0 { "x".to_string() } else { format!("{name}{}", i - 1) };
            body += &format!(
                "%p{name}{i}: f16[1, 64, 1, 1] = conv(%{last}, %w{name}) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1 \
                 %q{name}{i}: f16[1, 64, 1, 1] = add(%p{name}{i}, %x) %{name}{i}: f16[1, 64, 1, 1] = tanh(%q{name}{i}) "
            );
        }
    }
    let last = STEPS - 1;
    let source = format!(
        "net \"n\" {{ input %x: f16[1, 64, 1, 1] {body} %y: f16[1, 64, 1, 1] = mul(%a{last}, %b{last}) output %y output %b{} }}",
        last - 1
    );
    let net = text::parse(&source, &[]).expect("a network");
    let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("compiles");
    for (threads, forks) in [(1, 0), (2, 1)] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        let plan = pool.install(|| Plan::new(&program, EngineOptions::default())).expect("a plan");
        let text = plan.branches();
        assert_eq!(text.lines().count(), forks, "{threads} threads: {text}");
    }
    same_on_threads("recurrences", &program);
}
