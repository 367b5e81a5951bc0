//! Planar tasks row by row where their operands lie, in the numbers of the model: elementwise operations of one or two
//! sources, addends and factors of channels, reductions. `pe.rs` has every form, and says what is wrong with a task.

use crate::direct::{Direct, Span};
use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::memory;
use crate::numerics::Parameters;
use anemone_facts::Field::{self, *};
use anemone_facts::code::{class, condition, planar, residency, second};
use anemone_kernels::axes::{Elementwise, OperandAxes, part_of_row};
use anemone_kernels::rows::{Form, Operand, RowKernel, RowNumber};
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{Strides, TensorView};

/// Broadcast flags and exchange of each source.
pub(crate) const FIRST: [Field; 4] = [Src1BroadcastW, Src1BroadcastH, Src1BroadcastC, Src1Transpose];
pub(crate) const SECOND: [Field; 4] = [Src2BroadcastW, Src2BroadcastH, Src2BroadcastC, Src2Transpose];

impl Machine<'_> {
    /// False where the task is of another form.
    pub(crate) fn lines_in_place<N: RowNumber>(&mut self) -> Result<bool, FaultKind> {
        let class = self.get(TaskClass);
        let ext = self.input_extents();
        let form = match (class, self.get(PeSecond)) {
            (class::PLANAR_ONE | class::PLANAR_REDUCE, second::NONE) => Form::One,
            (class::PLANAR_TWO | class::PLANAR_REDUCE_TWO, second::SOURCE | second::NEGATED) => Form::Two,
            (class::PLANAR_AFFINE, second::SOURCE | second::NEGATED) if self.get(PeOp) == planar::ADD => Form::Affine,
            _ => return Ok(false),
        };
        let reduces = [class::PLANAR_REDUCE, class::PLANAR_REDUCE_TWO].contains(&class);
        let alike = [(Cout, Cin), (Wout, Win), (Hout, Hin)].iter().all(|&(out, of)| self.get(out) == self.get(of));
        // A source that is kept may be where the second one is read.
        let pairs_turned = form == Form::Affine && self.get(Src2Transpose) == 1;
        let in_order =
            self.transposes_columns_alone(reduces) && (form == Form::One || self.get(SrcType) != residency::DMA_KEEP);
        let windowed = class == class::PLANAR_ONE && !self.pooling_window().is_trivial();
        if !alike || !in_order || windowed || ext.array().contains(&0) {
            return Ok(false);
        }
        let abs = match self.get(PeCond) {
            condition::NONE => false,
            condition::ABS => true,
            _ => return Ok(false),
        };
        let Ok(operation) = self.operation(form == Form::One) else { return Ok(false) };
        let fold = match reduces.then(|| self.fold()) {
            Some(Ok(fold)) if fold.goes_on() => Some(fold),
            Some(_) => return Ok(false),
            None => None,
        };
        let ending = self.ending::<N>()?;
        let (stored, second) = self.planar_sources();
        let b = match second {
            Some(stored) => match self.direct_second(stored)? {
                Some(span) => Some(span),
                None => return Ok(false),
            },
            None => None,
        };
        let result = if reduces { Extents { h: 1, w: 1, ..ext } } else { ext };
        let result_transposed = self.get(ResultTranspose) == 1;
        let result = if result_transposed { result.transposed() } else { result };
        let Some(direct) = self.direct(stored, result)? else { return Ok(false) };
        let flags = [FIRST, SECOND].map(|of| [of[0], of[1], of[2]].map(|f| self.get(f) == 1));
        let relus = [InputRelu, Src2InputRelu].map(|f| self.get(f) == 1);
        let pre = self.half(PePreScale);
        let pre = (pre != 1.0 || abs).then(|| (N::admit(pre), abs));
        let transposed = [Src1Transpose, Src2Transpose].map(|f| self.get(f) == 1);
        let (rules, workers) = (self.model.rounding(), self.workers);
        let Direct { from, to, .. } = &direct;
        let parts = [from.part(), b.as_ref().unwrap_or(from).part()];
        let mut aside = self.workers.aside();
        let Some(([x, y], target)) = memory::views(self.memory, self.l2, parts, to.part(), &mut aside) else {
            return Ok(false);
        };
        let operand = |data, span: &Span, [w, h, c]: [bool; 3], relu, transposed: bool, pairs_turned: bool| {
            // Of turned pairs the channels are columns.
            let mut strides = span.repeated(h, c && !pairs_turned);
            if transposed && !pairs_turned {
                strides[1] = usize::from(!c);
            }
            let source = TensorView { data, strides };
            Operand { source, one_column: w, relu, pairs_turned, one_pair: c }
        };
        let (mut rows, mut strides) = (ext, to.strides);
        let second = b.as_ref().unwrap_or(from);
        let mut operands = [
            operand(x, from, flags[0], relus[0], transposed[0], false),
            operand(y, second, flags[1], relus[1], transposed[1], pairs_turned),
        ];
        if !reduces && Elementwise::<2>::is_worth_joining(ext) {
            (rows, strides) = joined(form, ext, strides, &mut operands);
        }
        let lines = RowKernel { form, operands, pre, operation, ending: &ending, rules, columns: rows.w };
        if let Some(fold) = &fold {
            let channel = if result_transposed { 1 } else { to.strides[1] };
            for (i, result) in N::reduce(workers, &lines, fold, ext).into_iter().enumerate() {
                target[i / ext.c * to.strides[0] + i % ext.c * channel] = result;
            }
        } else {
            N::elements(workers, &lines, target, rows, strides);
        }
        self.done(&direct, result);
        Ok(true)
    }

    /// Returns true if what the task transposes has one column: a source that is broadcast along columns, pairs of factors, or the result
    /// of a reduction.
    pub(crate) fn transposes_columns_alone(&self, reduces: bool) -> bool {
        let set = |field| self.get(field) == 1;
        let pairs = self.get(TaskClass) == class::PLANAR_AFFINE;
        (!set(FIRST[3]) || set(FIRST[0]))
            && (!set(SECOND[3]) || set(SECOND[0]) || pairs)
            && (!set(ResultTranspose) || reduces)
    }
}

/// Extents and strides of the result with long rows in place of short ones that follow each other, in operands too.
fn joined(form: Form, ext: Extents, to: Strides, operands: &mut [Operand; 2]) -> (Extents, Strides) {
    let (mut rows, mut strides) = (ext, to);
    if form != Form::Affine {
        let axes = operands.each_ref().map(|o| OperandAxes { strides: o.source.strides, one_column: o.one_column });
        let joined = Elementwise { ext, to, operands: axes }.joined();
        (rows, strides) = (joined.ext, joined.to);
        for (operand, axes) in operands.iter_mut().zip(joined.operands) {
            (operand.source.strides, operand.one_column) = (axes.strides, axes.one_column);
        }
    } else if !operands[0].one_column && [to, operands[0].source.strides].iter().all(|s| s[2] == ext.w) {
        // Planes without gaps.
        let plane = ext.h * ext.w;
        let part = part_of_row(plane).unwrap_or(plane);
        (rows.h, rows.w) = (plane / part, part);
        (strides[2], operands[0].source.strides[2]) = (part, part);
    }
    (rows, strides)
}
