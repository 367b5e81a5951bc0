//! The neural engine around its sums as the exact models have it: what it makes of a source without coefficients, and the
//! stages behind a sum. The steps are those of `ne.rs`; the numbers are [`Exact`].

use crate::fault::FaultKind;
use crate::lut::Table;
use crate::machine::Machine;
use crate::number;
use crate::number::packed::{Columns, Weights, product};
use crate::number::planar;
use crate::number::wide::{Exact, PER_THREAD, Wide};
use crate::tensor::{Extents, Tensor};
use anemone_facts::Field::*;
use anemone_facts::code::{neural, nonlinear, residency};
use anemone_facts::lut::RECORD_BYTES;
use anemone_facts::numerics::{self, Mac, Planar};
use anemone_program::Direction;
use rayon::prelude::*;

/// From this many elements on, a table is expanded to one value per fp16 argument.
const EXPAND_FROM: usize = 1 << 16;

impl Machine<'_> {
    /// A source as a unit without coefficients sees it.
    pub(crate) fn admitted(&self, mut x: Tensor) -> Tensor {
        if self.model.planar().is_some() {
            each(&mut x, planar::admit);
        }
        x
    }

    /// The source of a copy, after the gain of the crop where it goes through one.
    pub(crate) fn cropped(&self, mut x: Tensor) -> Tensor {
        if let Some(gain) = self.crop_gain_log2() {
            each(&mut x, |v| planar::crop(gain, v));
        }
        x
    }

    /// The gain of the crop, where a plain copy begins inside the rows of a port. No known word says that a task crops, so
    /// the place of its source does: see `docs/numerics.md`, section crop.
    fn crop_gain_log2(&self) -> Option<u32> {
        self.model.planar()?;
        let plain =
            self.get(NonlinearMode) == nonlinear::NONE && self.half(AccBias) == 0.0 && self.half(PostScale) == 1.0;
        let gain = numerics::generation(self.layout.generation)?.crop_gain_log2.filter(|_| plain)?;
        let bar = self.bar(RBase0, Rbe0).ok().filter(|_| self.get(SrcType) == residency::DMA)?;
        let port = self.ports.iter().find(|p| p.bar == bar && p.direction == Direction::Input)?;
        (!self.bytes(Src1Base).is_multiple_of(port.strides.row_bytes.max(1))).then_some(gain)
    }

    /// `NL((y + AccBias) * PostScale)`, rounded once; the argument of a table is rounded too.
    pub(crate) fn finish_exact(&self, rules: &'static Planar, mut y: Tensor) -> Result<Tensor, FaultKind> {
        let (bias, scale) = (self.half(AccBias), self.half(PostScale));
        let plain = bias == 0.0 && scale == 1.0 && self.get(NeOpMode) == neural::BYPASS;
        let (bias, scale) = (Exact::admit(bias), Exact::admit(scale));
        let affine = move |v: f32| Exact::admit(v).add(bias).mul(scale);
        match self.get(NonlinearMode) {
            // A copy keeps the sign of a zero, which an addition does not.
            nonlinear::NONE if plain => each(&mut y, planar::admit),
            nonlinear::NONE => each(&mut y, |v| affine(v).settle(rules)),
            nonlinear::RELU => each(&mut y, |v| affine(v).relu().settle(rules)),
            _ => {
                let table = Table::read(self.table_record(RECORD_BYTES as u64)?)?;
                let value = |x: f32| if table.is_defined(x) { Exact::wide(table.value(x)).settle(rules) } else { 0.0 };
                if y.data.len() >= EXPAND_FROM {
                    let values: Vec<f32> = number::every_f16().map(value).collect();
                    each(&mut y, |v| values[number::bits(affine(v).settle(rules))]);
                } else {
                    each(&mut y, |v| value(affine(v).settle(rules)));
                }
            }
        }
        Ok(y)
    }
}

/// The sum of all channels, through the array.
pub(crate) fn sum_of_channels(mac: &'static Mac, x: &Tensor, output: Extents) -> Result<Tensor, FaultKind> {
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
    y.data.par_iter_mut().with_min_len(PER_THREAD).for_each(|v| *v = f(*v));
}
