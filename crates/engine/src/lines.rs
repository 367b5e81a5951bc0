//! Planar tasks executed row by row, from memory to memory, in the number type of the model: elementwise operations of one or two
//! sources, per-channel scale and shift, reductions. `pe.rs` executes every form, and reports what is wrong with a task.

use crate::direct::{Operands, Span, views};
use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::numerics::Parameters;
use anemone_facts::Field::{self, *};
use anemone_facts::code::{class, planar, second};
use anemone_kernels::arrays::MapEach;
use anemone_kernels::axes::{Elementwise, OperandAxes, part_of_row};
use anemone_kernels::rows::{Form, Operand, RowKernel, RowNumber};
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{Strides, TensorView};

/// Broadcast and transpose flags of source 1.
pub(crate) const FIRST: [Field; 4] = [Src1BroadcastW, Src1BroadcastH, Src1BroadcastC, Src1Transpose];
pub(crate) const SECOND: [Field; 4] = [Src2BroadcastW, Src2BroadcastH, Src2BroadcastC, Src2Transpose];

impl Machine<'_> {
    /// Executes the current task, which the registry's row accepted.
    pub(crate) fn lines_in_place<N: RowNumber>(&mut self, operands: &Operands) -> Result<(), FaultKind> {
        let (ext, form, reduces) = (self.input_extents(), self.operand_form()?, self.reduces());
        let abs = self.takes_magnitude()?;
        let operation = self.operation(form == Form::One)?;
        let fold = reduces.then(|| self.fold()).transpose()?;
        let ending = self.ending::<N>()?;
        let pairs_turned = form == Form::Affine && self.get(Src2Transpose) == 1;
        let result_transposed = self.get(ResultTranspose) == 1;
        let flags = [FIRST, SECOND].map_each(|of| [of[0], of[1], of[2]].map_each(|f| self.get(f) == 1));
        let relus = [InputRelu, Src2InputRelu].map_each(|f| self.get(f) == 1);
        let pre = self.half(PePreScale);
        let pre = (pre != 1.0 || abs).then(|| (N::canonicalize(pre), abs));
        let transposed = [Src1Transpose, Src2Transpose].map_each(|f| self.get(f) == 1);
        let (rules, workers) = (self.model.rounding(), self.workers);
        let bound = self.bind(operands)?;
        let (from, to) = (&bound.from, &bound.to);
        let second = bound.second.as_ref().unwrap_or(from);
        let mut aside = workers.aside();
        let ([x, y], target) = views(self.memory, self.l2, [from, second], to, &mut aside)?;
        let operand = |data, span: &Span, [w, h, c]: [bool; 3], relu, transposed: bool, pairs_turned: bool| {
            // Transposed pairs have their channels on the column axis.
            let mut strides = span.repeated(h, c && !pairs_turned);
            if transposed && !pairs_turned {
                strides[1] = usize::from(!c);
            }
            let source = TensorView { data, strides };
            Operand { source, one_column: w, relu, pairs_turned, one_pair: c }
        };
        let (mut rows, mut strides) = (ext, to.strides);
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
        self.done(&bound)
    }

    /// Number and kind of operands of the current task.
    ///
    /// # Errors
    /// The number of sources does not match the task's class.
    pub(crate) fn operand_form(&self) -> Result<Form, FaultKind> {
        match (self.get(TaskClass), self.get(PeSecond)) {
            (class::PLANAR_ONE | class::PLANAR_REDUCE, second::NONE) => Ok(Form::One),
            (class::PLANAR_TWO | class::PLANAR_REDUCE_TWO, second::SOURCE | second::NEGATED) => Ok(Form::Two),
            (class::PLANAR_AFFINE, second::SOURCE | second::NEGATED) if self.get(PeOp) == planar::ADD => {
                Ok(Form::Affine)
            }
            _ => Err(self.inconsistent(PeSecond, "another number of sources expected")),
        }
    }

    /// Returns true for a reduction over rows and columns.
    pub(crate) fn reduces(&self) -> bool {
        [class::PLANAR_REDUCE, class::PLANAR_REDUCE_TWO].contains(&self.get(TaskClass))
    }

    /// Returns true if every transposed operand has one column: a source that is broadcast along columns, pairs of factors, or the
    /// result of a reduction.
    pub(crate) fn transposes_columns_alone(&self, reduces: bool) -> bool {
        let set = |field| self.get(field) == 1;
        let pairs = self.get(TaskClass) == class::PLANAR_AFFINE;
        (!set(FIRST[3]) || set(FIRST[0]))
            && (!set(SECOND[3]) || set(SECOND[0]) || pairs)
            && (!set(ResultTranspose) || reduces)
    }
}

/// Merges short contiguous rows of the result and of the operands to long ones. Returns the new extents and strides.
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
        // Contiguous planes.
        let plane = ext.h * ext.w;
        let part = part_of_row(plane).unwrap_or(plane);
        (rows.h, rows.w) = (plane / part, part);
        (strides[2], operands[0].source.strides[2]) = (part, part);
    }
    (rows, strides)
}
