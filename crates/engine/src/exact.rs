//! Stages of the neural engine around its sums in the exact models: reading the source of an operation without coefficients, and the
//! epilogue of a sum. The steps are those of `ne.rs`; the numbers are [`Number`].

use crate::constants::Constants;
use crate::fault::FaultKind;
use crate::lut::Table;
use crate::machine::Machine;
use crate::numerics::Parameters;
use anemone_facts::Field::*;
use anemone_facts::code::{neural, nonlinear, residency};
use anemone_facts::lut::RECORD_BYTES;
use anemone_facts::numerics;
use anemone_kernels::cost;
use anemone_kernels::epilogue::ExactEpilogue;
use anemone_kernels::exact::{Columns, Weights, product};
use anemone_kernels::num;
use anemone_kernels::num::elementwise;
use anemone_kernels::num::wide::{Exact as Number, Wide};
use anemone_kernels::par::{PER_THREAD, chunks};
use anemone_kernels::params::{AccumulatorSpec, Rounding, Ties};
use anemone_kernels::tensor::{Extents, Tensor};
use anemone_program::Direction;
use half::f16;

/// Elements from which a table is expanded to one value for each fp16 argument.
const EXPAND_FROM: usize = 1 << 16;

impl Machine<'_> {
    /// Reads a source as an operation without coefficients does.
    pub(crate) fn admitted(&self, mut x: Tensor) -> Tensor {
        if self.model.rounding().is_some() {
            each(&mut x, elementwise::canonicalize);
        }
        x
    }

    /// The source of a copy, with the gain of a crop applied if there is one.
    pub(crate) fn cropped(&self, mut x: Tensor) -> Tensor {
        if let Some(gain) = self.crop_gain_log2() {
            each(&mut x, |v| elementwise::crop(gain, v));
        }
        x
    }

    /// Gain of a crop: a plain copy whose source starts inside the rows of a port. No known field marks a crop, so that the
    /// address of the source decides: see `docs/numerics.md`, section crop.
    pub(crate) fn crop_gain_log2(&self) -> Option<u32> {
        self.model.rounding()?;
        let plain = self.get(NonlinearMode) == nonlinear::NONE && self.added() == 0.0 && self.factor() == 1.0;
        let gain = numerics::generation(self.layout.generation)?.crop_gain_log2.filter(|_| plain)?;
        let bar = self.bar(RBase0, Rbe0).ok().filter(|_| self.get(SrcType) == residency::DMA)?;
        let port = self.ports.iter().find(|p| p.bar == bar && p.direction == Direction::Input)?;
        (!self.bytes(Src1Base).is_multiple_of(port.strides.row_bytes.max(1))).then_some(gain)
    }

    /// Epilogue of a sum or of a copied element; `None` in the fp32 model, and for a table that tasks may change.
    pub(crate) fn prepare_exactly(
        &self,
        constants: &mut Constants,
        sums: bool,
    ) -> Result<Option<ExactEpilogue>, FaultKind> {
        let Some(rules) = self.model.rounding() else { return Ok(None) };
        let (mode, bias, scale) = (self.get(NonlinearMode), self.added(), self.factor());
        let idle = bias == 0.0 && scale == 1.0;
        match mode {
            // The other forms would change NaN and minus zero, neither of which a sum can be.
            nonlinear::NONE if idle && (sums || self.get(NeOpMode) == neural::BYPASS) => {
                return Ok(Some(ExactEpilogue::Admit));
            }
            nonlinear::RELU if idle => return Ok(Some(ExactEpilogue::Relu)),
            nonlinear::LUT if !constants.holds(self.bar(KBase0, Kbe0)?) => return Ok(None),
            _ => {}
        }
        let record = match mode {
            nonlinear::LUT => self.table_record(RECORD_BYTES as u64)?.to_vec(),
            _ => Vec::new(),
        };
        let of_table = record.clone();
        let key = (mode, bias.to_bits(), scale.to_bits(), record);
        let exactly = constants.stages(self.model, key, || {
            let mut all = Tensor { ext: Extents { g: 1, c: 1, h: 1, w: 1 << 16 }, data: num::every_f16().collect() };
            all = self.finish_exact(rules, all)?;
            let mut map = vec![f16::ZERO; all.data.len()];
            num::round_row(&all.data, &mut map);
            // The curve describes the bare table; a bias or scale is rounded before it.
            let table = (mode == nonlinear::LUT && idle && rules.ties == Ties::Away).then_some(&of_table);
            let curve = table.map(|record| Table::read(record)).transpose()?.and_then(|table| table.curve());
            Ok(ExactEpilogue::of(map, if bias == 0.0 { scale } else { 0.0 }, curve.as_ref()))
        })?;
        Ok(Some(exactly))
    }

    /// Computes `NL((y + AccBias) * PostScale)`, rounded once; the argument of a table is rounded too.
    pub(crate) fn finish_exact(&self, rules: &'static Rounding, mut y: Tensor) -> Result<Tensor, FaultKind> {
        let idle = self.added() == 0.0 && self.factor() == 1.0 && self.get(NonlinearMode) == nonlinear::NONE;
        if idle && self.get(NeOpMode) == neural::BYPASS {
            // A copy keeps the sign of a zero, which an addition does not.
            each(&mut y, elementwise::canonicalize);
            return Ok(y);
        }
        self.finish_exact_from(rules, y, |_, v| Number::canonicalize(v))
    }

    /// [`Machine::finish_exact`] after a map over the elements and their positions.
    pub(crate) fn finish_exact_from(
        &self,
        rules: &'static Rounding,
        mut y: Tensor,
        first: impl Fn(usize, f32) -> Number + Sync,
    ) -> Result<Tensor, FaultKind> {
        let (bias, scale) = (Number::canonicalize(self.added()), Number::canonicalize(self.factor()));
        let affine = move |i: usize, v: f32| first(i, v).add(bias).mul(scale);
        match self.get(NonlinearMode) {
            nonlinear::NONE => each_at(&mut y, |i, v| affine(i, v).round_result(rules)),
            nonlinear::RELU => each_at(&mut y, |i, v| affine(i, v).relu().round_result(rules)),
            _ => {
                let table = Table::read(self.table_record(RECORD_BYTES as u64)?)?;
                let value =
                    |x: f32| if table.is_defined(x) { Number::wide(table.value(x)).round_result(rules) } else { 0.0 };
                if y.data.len() >= EXPAND_FROM {
                    let values: Vec<f32> = num::every_f16().map(value).collect();
                    each_at(&mut y, |i, v| values[num::bits(affine(i, v).round_result(rules))]);
                } else {
                    each_at(&mut y, |i, v| value(affine(i, v).round_result(rules)));
                }
            }
        }
        Ok(y)
    }
}

/// Sum over all channels by the accumulator.
pub(crate) fn sum_of_channels(mac: &'static AccumulatorSpec, x: &Tensor, output: Extents) -> Result<Tensor, FaultKind> {
    let mut y = Tensor::zeros(output)?;
    let (n, c) = (x.ext.plane(), x.ext.c);
    if n * c > 0 {
        let ones = Weights::pack(mac, 1, c, &vec![1.0; c]);
        for (y, x) in y.data.chunks_exact_mut(n).zip(x.data.chunks_exact(n * c)) {
            product(&ones, &Columns::pack(mac, c, n, x), &[], y);
        }
    }
    Ok(y)
}

fn each(y: &mut Tensor, f: impl Fn(f32) -> f32 + Sync) {
    each_at(y, |_, v| f(v));
}

/// Map over elements with their indices.
fn each_at(y: &mut Tensor, f: impl Fn(usize, f32) -> f32 + Sync) {
    let nanos = cost::one_by_one(y.data.len());
    chunks(&mut y.data, PER_THREAD, nanos, |i, row| {
        for (j, v) in row.iter_mut().enumerate() {
            *v = f(i * PER_THREAD + j, *v);
        }
    });
}
