//! Fusion of consecutive pointwise convolutions of one source whose results are consecutive channels of one transposed result: the tasks
//! into which a layer is split that has more coefficients than one task may have. The source is then packed once. Results have
//! the same bits.

use super::pair::kernels_of;
use super::{Step, Work};
use crate::direct::{Span, views};
use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::ne::Neural;
use anemone_conv::{BatchMember, Packing, convolve_pointwise};
use anemone_facts::Field::*;
use anemone_facts::code::residency;
use anemone_kernels::epilogue::{Activation, Epilogue};
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{TensorView, TensorViewMut, nested, reach};

/// A possible member of a batch, with its coefficients and epilogue.
struct Candidate<'a> {
    neural: &'a Neural,
    /// Taps per output.
    taps: usize,
    member: BatchMember<'a>,
}

impl Candidate<'_> {
    /// Returns true if input extents and taps are equal, and the results differ at most in their channels.
    fn is_like(&self, other: &Candidate) -> bool {
        let of = |one: &Candidate| (one.neural.input, one.taps, Extents { c: 0, ..one.neural.output });
        of(self) == of(other)
    }
}

/// A batch: pointwise convolutions of one source that produce consecutive channels of one result.
#[derive(Clone)]
pub struct TaskBatch {
    from: Span,
    to: Span,
    /// Extents of the result before it is transposed.
    ext: Extents,
    /// Number of tasks.
    pub(super) tasks: usize,
}

impl Machine<'_> {
    /// Batch that starts at each task, if any.
    pub(crate) fn task_batches(&mut self, steps: &[Step]) -> Vec<Option<TaskBatch>> {
        let mut counts = vec![1; steps.len()];
        for (i, [one, next]) in steps.array_windows().enumerate().rev() {
            let both = self.at(one).candidate(one).zip(self.at(next).candidate(next));
            if both.is_some_and(|(one, next)| one.is_like(&next)) {
                counts[i] = counts[i + 1] + 1;
            }
        }
        (0..steps.len()).map(|i| TaskBatch::of(&steps[i..][..counts[i]])).collect()
    }

    /// The current task as a candidate; `None` if it has any other form.
    fn candidate<'a>(&self, step: &'a Step) -> Option<Candidate<'a>> {
        let Work::Neural(neural) = &step.work else { return None };
        let (convolution, kernels) = kernels_of(&step.work)?;
        let known = !matches!(neural.activation, Activation::Unread);
        let plain = [InputRelu, PostScaleMode].iter().all(|&field| self.get(field) == 0)
            && self.depth_window().is_none()
            && self.depths() == (0..1)
            && [residency::DMA, residency::L2].contains(&self.get(SrcType));
        let suits = convolution.staging.is_pointwise() && kernels.packing() != Packing::Blocks16 && neural.output.w > 1;
        if self.mac.is_some() || self.get(NeTranspose) != 1 || !known || !plain || !suits || neural.operands.is_err() {
            return None;
        }
        let finish = Epilogue { bias: self.added(), scale: self.factor(), activation: &neural.activation };
        Some(Candidate { neural, taps: convolution.taps(), member: BatchMember { kernels, finish } })
    }

    /// Executes a batch; `steps` are its tasks.
    pub(crate) fn run_batch(&mut self, steps: &[Step], of: &TaskBatch) -> Result<(), FaultKind> {
        let mut members = Vec::with_capacity(steps.len());
        for step in steps {
            let unsuited = self.inconsistent(KernelMode, "coefficients are not in panels");
            members.push(self.at(step).candidate(step).ok_or(unsuited)?.member);
        }
        let mut aside = self.workers.aside();
        let ([data], target) = views(self.memory, self.l2, [&of.from], &of.to, &mut aside)?;
        let source = TensorView { data, strides: of.from.strides };
        let target = TensorViewMut { data: target, strides: of.to.strides, transposed: true };
        convolve_pointwise(self.workers, &members, source, None, target, of.ext);
        Ok(())
    }
}

impl TaskBatch {
    /// The longest prefix of tasks that reads one source and produces consecutive channels of one result; `None` if shorter than two.
    fn of(steps: &[Step]) -> Option<TaskBatch> {
        let mut batch: Option<TaskBatch> = None;
        for step in steps {
            let Work::Neural(neural) = &step.work else { break };
            let (Ok(operands), ext) = (&neural.operands, neural.output) else { break };
            if !operands.goes_once() {
                break;
            }
            let Some(whole) = &mut batch else {
                batch = Some(TaskBatch { from: operands.from.clone(), to: operands.to.clone(), ext, tasks: 1 });
                continue;
            };
            // The channels are columns of the transposed result.
            let goes_on = (operands.to.home, operands.to.strides, operands.to.range.start)
                == (whole.to.home, whole.to.strides, whole.to.range.start + whole.ext.c);
            let longer = Extents { c: whole.ext.c + ext.c, ..whole.ext };
            let mut to = whole.to.clone();
            to.range.end = to.range.start + reach(longer.transposed(), to.strides);
            // Otherwise a later task would read what an earlier one wrote.
            let apart = nested(longer.transposed(), to.strides) && !whole.from.overlaps(&to);
            if !goes_on || !apart || !operands.from.is_that_of(&whole.from, neural.input) {
                break;
            }
            (whole.to, whole.ext, whole.tasks) = (to, longer, whole.tasks + 1);
        }
        batch.filter(|batch| batch.tasks > 1)
    }
}
