//! Execution of operations on memory whose accesses are known to be valid.

use super::gemv::Gemv;
use super::maps::Map;
use super::ops::{Kind, Move, Op};
use super::product::Product;
use super::reduction::{Reduction, Rule};
use super::{Common, Step};
use crate::fault::{Fault, FaultKind};
use crate::machine::ChainedResults;
use crate::memory::{self, Home, Memory, Region};
use anemone_conv::exact::{self, Exact, Groups, Sets};
use anemone_conv::{Kernels, convolve, convolve_gemv, convolve_rows, takes_rows};
use anemone_kernels::copy::{self, CopyAxis, NanRule};
use anemone_kernels::cost;
use anemone_kernels::epilogue::Epilogue;
use anemone_kernels::exact::Weights;
use anemone_kernels::map::{self, Combination, MOST_OPERANDS};
use anemone_kernels::num::elementwise::admit_half;
use anemone_kernels::params::Rounding;
use anemone_kernels::reduce::Operation;
use anemone_kernels::rows::{Form, Operand, RowKernel, RowNumber};
use anemone_kernels::view::{TensorView, TensorViewMut, dense, nested};
use anemone_kernels::workers::{BounceBuffers, Workers, chunks, scratch_slice};
use half::f16;

/// Plan state that operations are executed with.
pub(super) struct Schedule<'a> {
    pub(super) common: &'a Common,
    pub(super) steps: &'a [Step],
}

impl Schedule<'_> {
    /// Executes one operation.
    pub(super) fn run(
        &self,
        op: &Op,
        memory: &mut Memory,
        l2: &mut Region,
        chain: &mut ChainedResults,
    ) -> Result<(), Fault> {
        let done = match &op.kind {
            Kind::Move(of) => self.copy(of, memory, l2),
            Kind::Map(of) => self.map(of, memory, l2),
            Kind::Product(of) => self.product(of, memory, l2),
            Kind::Reduction(of) => self.reduction(of, memory, l2),
            Kind::Gemv(of) => self.gemv(of, memory, l2),
            Kind::Fused(_) | Kind::TaskBatch(_) | Kind::Task(_) | Kind::Placed(..) => {
                return self.tasks(op, memory, l2, chain);
            }
        };
        done.ok_or_else(|| self.outside(op, memory, l2))
    }

    /// Executes an elementwise chain; `None` if a region lacks an operand.
    fn map(&self, of: &Map, memory: &mut Memory, l2: &mut Region) -> Option<()> {
        let workers = &self.common.workers;
        let mut ranges = [const { (Home::Tile, 0..0) }; MOST_OPERANDS];
        let target = (of.to.home, of.to.base..of.to.end(of.ext));
        let mut gathered = workers.aside();
        let mut strides = [None; MOST_OPERANDS];
        for (i, (source, _)) in of.sources.iter().zip(of.in_place()).enumerate().filter(|(_, (_, in_place))| !in_place)
        {
            let range = source.base..source.end(of.ext);
            let overlaps = source.home == target.0 && range.start < target.1.end && target.1.start < range.end;
            if overlaps {
                // Only the elements are copied: the gaps between them may be much larger.
                let region = match source.home {
                    Home::Bar(bar) => memory.region(bar)?,
                    Home::Tile => &*l2,
                };
                strides[i] = Some(source.gather(region.halfwords(), of.ext, &mut gathered[i])?);
            } else {
                ranges[i] = (source.home, range);
            }
        }
        let mut unused = BounceBuffers::default();
        let (data, to) = memory::views(memory, l2, ranges, target, &mut unused)?;
        let mut operands = [None; MOST_OPERANDS];
        for (i, (source, _)) in of.sources.iter().zip(of.in_place()).enumerate().filter(|(_, (_, in_place))| !in_place)
        {
            let view = match strides[i] {
                Some(strides) => TensorView { data: &gathered[i], strides },
                None => TensorView { data: data[i], strides: source.axes.strides },
            };
            operands[i] = Some((view, source.axes.one_column));
        }
        let chain = map::Map { stages: &of.stages, operands: &operands };
        map::map(workers, chain, to, of.ext, of.to.axes.strides);
        Some(())
    }

    /// Executes a product; `None` if a region lacks an operand.
    fn product(&self, of: &Product, memory: &mut Memory, l2: &mut Region) -> Option<()> {
        let workers = &self.common.workers;
        let stored = if of.transposed { of.output.transposed() } else { of.output };
        let operands = [
            (of.coefficients.home, of.coefficients.range()),
            (of.source.home, of.source.base..of.source.end(of.input)),
        ];
        let mut aside = workers.aside();
        let target = (of.to.home, of.to.base..of.to.end(stored));
        let ([coefficients, source], to) = memory::views(memory, l2, operands, target, &mut aside)?;
        let admitted = of.admits.then(|| admitted(coefficients)).flatten();
        let coefficients = admitted.as_deref().unwrap_or(coefficients);
        let source = TensorView { data: source, strides: of.source.axes.strides };
        // Rows of several groups may alternate in memory: kernels write these to dense rows, which are copied.
        let strides = of.to.axes.strides;
        let alternate = !nested(stored, strides);
        let mut blocks = workers.blocks();
        let rows = if alternate { scratch_slice(&mut blocks, stored.elements().ok()?) } else { &mut [] };
        let (data, at) = if alternate { (&mut *rows, dense(stored)) } else { (&mut *to, strides) };
        let target = TensorViewMut { data, strides: at, transposed: of.transposed };
        let (taps, staging) = (of.coefficients.taps, &of.staging);
        let finish = Epilogue { bias: of.bias, scale: of.scale, activation: &of.activation };
        if let (Some(mac), Some(exactly)) = (self.common.mac, &of.exactly) {
            let groups = of.coefficients.of(coefficients, of.output.c);
            let mut sets = vec![Sets::default(); groups.len()];
            let nanos = cost::one_by_one(groups.len() * of.output.c * taps);
            chunks(&mut sets, 1, nanos, |g, sets| {
                for (sets, _) in sets.iter_mut() {
                    sets.push(Weights::of_rows(mac, &groups[g], taps));
                }
            });
            let (window, groups) = (&of.window, Groups::Sets(&sets));
            let of_array = Exact { mac, window, channels: taps, unicast: false, staging, groups, exactly };
            exact::convolve(workers, &of_array, source, target, of.output);
        } else if takes_rows(staging, of.transposed, of.output) {
            convolve_rows(
                workers,
                of.coefficients.matrix(coefficients, of.output.c),
                &finish,
                source,
                target,
                of.output,
            );
        } else {
            let groups = of.coefficients.of(coefficients, of.output.c);
            let groups = groups.into_iter().map(|rows| (rows, None)).collect();
            let kernels = Kernels::pack_rows(staging, of.transposed, of.output.c, groups);
            convolve(workers, staging, &kernels, &finish, source, target, of.output);
        }
        if alternate {
            let axis = |i: usize, count: usize| CopyAxis { count, to: strides[i], from: dense(stored)[i] };
            let row = CopyAxis { count: stored.w, to: 1, from: 1 };
            let axes = [axis(0, stored.g), axis(1, stored.c), axis(2, stored.h), row];
            copy::strided(workers, NanRule::Quiet, rows, to, &copy::normalized(&axes));
        }
        Some(())
    }

    /// Executes a reduction; `None` if a region lacks an operand.
    fn reduction(&self, of: &Reduction, memory: &mut Memory, l2: &mut Region) -> Option<()> {
        let (workers, ext) = (&self.common.workers, of.ext);
        let source = (of.source.home, of.source.base..of.source.end(ext));
        let target = (of.to.home, of.to.base..of.to.end(of.result()));
        let mut aside = workers.aside();
        let ([data], to) = memory::views(memory, l2, [source], target, &mut aside)?;
        let source = TensorView { data, strides: of.source.axes.strides };
        let results = match &of.of {
            Rule::Fast(rule) => reduced(workers, of, rule, None, source),
            Rule::Exact(rules, rule) => reduced(workers, of, rule, Some(rules), source),
        };
        let [group, channel, _] = of.to.axes.strides;
        for (i, result) in results.into_iter().enumerate() {
            to[i / ext.c * group + i % ext.c * channel] = result;
        }
        Some(())
    }

    /// Executes a matrix-vector product; `None` if a region lacks an operand.
    fn gemv(&self, of: &Gemv, memory: &mut Memory, l2: &mut Region) -> Option<()> {
        let workers = &self.common.workers;
        let source = (of.source.home, of.source.base..of.source.end(of.input));
        let target = (of.to.home, of.to.base..of.to.end(of.stored));
        let mut aside = workers.aside();
        let ([data], to) = memory::views(memory, l2, [source], target, &mut aside)?;
        let finish = Epilogue { bias: of.bias, scale: of.scale, activation: &of.activation };
        let source = TensorView { data, strides: of.source.axes.strides };
        let target = TensorViewMut { data: to, strides: of.strides(), transposed: false };
        convolve_gemv(workers, &of.kernels, finish, source, target, of.output);
        Some(())
    }

    /// Executes a copy; `None` if a region lacks an operand.
    fn copy(&self, of: &Move, memory: &mut Memory, l2: &mut Region) -> Option<()> {
        let workers = &self.common.workers;
        let [from, to] = of.ranges();
        let mut aside = workers.aside();
        let ([from], to) = memory::views(memory, l2, [(of.from.0, from)], (of.to.0, to), &mut aside)?;
        copy::strided(workers, of.rule, from, to, &of.axes);
        Some(())
    }

    /// Fault of an operation with an operand outside of its region. Executing the tasks instead might read memory that no operation wrote.
    fn outside(&self, op: &Op, memory: &Memory, l2: &Region) -> Fault {
        let bytes = |home| match home {
            Home::Bar(bar) => memory.region(bar).map_or(0, Region::len),
            Home::Tile => l2.len(),
        };
        let operands = op.accesses();
        let outside =
            operands.map(|operand| (operand, bytes(operand.home) as u64)).find(|(of, limit)| of.end() > *limit);
        let (operand, limit) = outside.map_or((String::new(), 0), |(of, limit)| (of.to_string(), limit));
        let offset = self.steps.get(op.tasks.start).map_or(0, |step| step.task.offset);
        Fault { task: Some(op.tasks.start), offset, kind: FaultKind::Outside { operation: op.class(), operand, limit } }
    }

    fn tasks(&self, op: &Op, memory: &mut Memory, l2: &mut Region, chain: &mut ChainedResults) -> Result<(), Fault> {
        let steps = self.steps.get(op.tasks.clone()).unwrap_or(&[]);
        let Some(step) = steps.first() else { return Ok(()) };
        let mut machine = self.common.machine(memory, l2, chain, &step.task, &step.fields);
        let done = match &op.kind {
            Kind::Fused(of) => machine.run_fused(steps, of),
            Kind::TaskBatch(of) => machine.run_batch(steps, of),
            Kind::Placed(of) => machine.execute_placed(&step.work, &of.operands, of.beside()),
            _ => machine.execute(&step.work),
        };
        done.map_err(|kind| Fault { task: Some(op.tasks.start), offset: step.task.offset, kind })
    }
}

/// The results of a reduction.
fn reduced<N: RowNumber>(
    workers: &Workers,
    of: &Reduction,
    rule: &Combination<N>,
    rules: Option<&'static Rounding>,
    source: TensorView,
) -> Vec<f16> {
    let operand = Operand { source, one_column: false, relu: of.relu, pairs_turned: false, one_pair: false };
    let Operation { op, first, sign } = rule.operation;
    let lines = RowKernel {
        form: Form::One,
        operands: [operand; 2],
        pre: rule.pre,
        operation: Operation { op, first, sign },
        ending: &rule.ending,
        rules,
        columns: of.ext.w,
    };
    N::reduce(workers, &lines, &of.fold(), of.ext)
}

/// The numbers with NaN replaced by infinity; `None` if there is no NaN.
fn admitted(from: &[f16]) -> Option<Vec<f16>> {
    let most = from.iter().fold(0, |most, x| most.max(x.to_bits() & 0x7fff));
    (most > f16::INFINITY.to_bits()).then(|| from.iter().map(|x| admit_half(*x)).collect())
}
