//! Units: the operation of the neural or planar engine, with its scale, bias and activation.

use super::{Emitter, Set};
use crate::ir::*;
use crate::stream::pack::Packing;
use anemone_facts::Field::*;
use anemone_facts::code::*;
use anemone_facts::staging::NEURAL_UNIT;

/// Least multiply-accumulates of a product whose tasks have [`BUSY_CATEGORY`]: `chain_attn_s256_dh96` has 6.3 million and category 0,
/// `rrmm_r2rr_m64_k64_n2048_tx0_ty1` and `env_mm_r3rr_m256_k256_n128_tx0_ty0_b1` have 8.4 million.
const BUSY_MACS: u64 = 7 << 20;
/// Category of the tasks of a long product of two computed matrices.
const BUSY_CATEGORY: u32 = 7;

impl Emitter<'_> {
    pub(super) fn neural(&mut self, packing: &Packing) -> Set {
        let palette = packing.palette_bits();
        self.set_all(&[
            (Unkc804Bit20, 1),
            (PalettizedEn, u32::from(palette.is_some())),
            (PalettizedBits, palette.unwrap_or(constant::NO_PALETTE_BITS)),
        ])?;
        // A table of bytes states their format (`logical_not_1x1x375x375`).
        let bytes = self.format(&self.layer.sources[0]) != format::FP16 && !self.convolves();
        if self.conventions().format_of_kernels_stated && !bytes {
            self.set_all(&[(KernelFmt, format::FP16), (BinaryPoint, constant::BINARY_POINT_FP16)])?;
        }
        self.set_half(PostScale, 1.0)?;
        let function = match &self.layer.kind {
            Kind::Conv { weights, bias, post_scale, nonlinear, .. } => {
                let (format, point) = match weights.form {
                    StreamForm::Int8 => (format::INT8, 0),
                    _ => (format::FP16, constant::BINARY_POINT_FP16),
                };
                self.set_all(&[(KernelFmt, format), (BinaryPoint, point)])?;
                let number = self.layer.bias_number();
                self.set(BiasMode, u32::from(bias.is_some() && number.is_none()))?;
                self.set_half(PostScale, *post_scale)?;
                let add = number.unwrap_or(0.0) + nonlinear.addend();
                if add != 0.0 {
                    self.set_half(AccBias, add)?;
                }
                nonlinear
            }
            Kind::Neuron { add, post_scale, nonlinear } => {
                self.set(KernelMode, kernel::UNITY)?;
                self.set_half(PostScale, *post_scale)?;
                let add = add + nonlinear.addend();
                if add == 0.0 {
                    self.set(NeOpMode, neural::BYPASS)?;
                } else {
                    self.set_half(AccBias, add)?;
                    self.set(DpeCategory, 1)?;
                }
                nonlinear
            }
            Kind::SumChannels { nonlinear } => {
                self.set_all(&[(KernelMode, kernel::UNITY), (DpeCategory, 1)])?;
                nonlinear
            }
            Kind::MulChannels { nonlinear } => {
                self.set_all(&[
                    (NeOpMode, neural::MULTIPLY),
                    (ElemMultMode, 1),
                    (KernelMode, kernel::UNITY),
                    (DpeCategory, 2),
                ])?;
                nonlinear
            }
            Kind::Product { post_scale, .. } => {
                self.set_half(PostScale, *post_scale)?;
                let computed = u32::from(!self.constant_coefficients(self.layer));
                self.set_all(&[
                    (KernelFmt, format::FP16),
                    (BinaryPoint, constant::BINARY_POINT_FP16),
                    (RuntimeWeights, computed),
                ])?;
                &Nonlinear::None
            }
            _ => {
                self.set_all(&[
                    (NeOpMode, neural::MAX),
                    (KernelMode, kernel::UNITY),
                    (PaddingMode, padding::NEGATIVE),
                ])?;
                &Nonlinear::None
            }
        };
        let mode = match function {
            Nonlinear::None => nonlinear::NONE,
            Nonlinear::Relu => nonlinear::RELU,
            Nonlinear::Table(_) => nonlinear::LUT,
        };
        self.set(NonlinearMode, mode)
    }

    /// Returns true for a product whose rows are constant (`env_mm_r2br_m1_k2048_n2048_tx0_ty1`).
    fn constant_coefficients(&self, product: &Layer) -> bool {
        let rows = product.sources.get(1).map(|rows| &self.placed.graph.buffer(rows.buffer).role);
        matches!(rows, Some(Role::Constant(_)))
    }

    /// Category of the neural tasks of a product of two computed matrices with several lanes, and of the copies that stage its operands,
    /// from [`BUSY_MACS`] on.
    pub(super) fn category_of_products(&mut self) -> Set {
        if !self.conventions().products_of_equal_rows {
            return Ok(());
        }
        let (own, layers) = (self.layer, &self.placed.graph.layers[self.index..]);
        let several = |layer: &&Layer| {
            matches!(layer.kind, Kind::Product { lanes, .. } if lanes > 1) && !self.constant_coefficients(layer)
        };
        let staged = |layer: &Layer| layer.sources.iter().any(|source| source.buffer == own.result.buffer);
        let copies = own.kind.is_copy() && (own.transpose || own.interleave > 1);
        let product =
            if several(&own) { Some(own) } else { layers.iter().filter(several).find(|l| copies && staged(l)) };
        // Columns that do not fill a unit keep it idle in part (`rrmm_r2rr_m64_k2048_n64_tx0_ty1`, `env_mm_r3rr_m512_k512_n64_tx0_ty0_b1`).
        // Nor has a product the category whose result stays in tile memory (`chain_attn_s512_dh64`: 16.8 million and 0).
        let leaves = |p: &&Layer| self.placed.residency.resident(&p.result).is_none();
        let wide = product.filter(|p| p.result.width >= 1 << NEURAL_UNIT);
        let Some(product) = wide.filter(leaves) else { return Ok(()) };
        // Its parts read the same matrix.
        let parts = self.placed.graph.layers.iter().filter(several);
        let parts = parts.filter(|part| part.sources[0].elements() == product.sources[0].elements());
        let macs = |part: &Layer| {
            let outputs = part.result.groups() * part.result.channels() * part.result.height() * part.result.width;
            (outputs * part.sources[0].channels()) as u64
        };
        if parts.map(macs).sum::<u64>() >= BUSY_MACS {
            self.set(DpeCategory, BUSY_CATEGORY)?;
        }
        Ok(())
    }

    pub(super) fn planar(&mut self) -> Set {
        if self.conventions().planar_palette_stated {
            self.set_all(&[(Unkc804Bit20, 1), (PalettizedBits, constant::NO_PALETTE_BITS)])?;
        }
        let own;
        let (affine, relu) = match &self.layer.kind {
            Kind::Planar { op, affine, relu } => {
                let (op, operand) = match op {
                    PlanarOp::Add => (planar::ADD, second::SOURCE),
                    PlanarOp::Sub => (planar::ADD, second::NEGATED),
                    PlanarOp::Mul => (planar::MUL, second::SOURCE),
                    PlanarOp::Max => (planar::MAX, second::SOURCE),
                    PlanarOp::Min => (planar::MIN, second::SOURCE),
                };
                self.set_all(&[(PeOp, op), (PeSecond, operand)])?;
                (affine, *relu)
            }
            Kind::ChannelAffine { subtract, scale } => {
                let operand = if *subtract { second::NEGATED } else { second::SOURCE };
                self.set_all(&[(PeOp, planar::ADD), (PeSecond, operand)])?;
                own = Affine { final_scale: *scale, ..Affine::UNIT };
                (&own, false)
            }
            Kind::Deviation { epsilon, scale } => {
                self.set_all(&[(PeOp, planar::SQUARE_SUM), (PeFirst, first::NEGATED), (PeSecond, second::SOURCE)])?;
                self.set(PeNonlinear, planar_nonlinear::RSQRT)?;
                self.set_half(PeEpsilon, *epsilon)?;
                let (_, h, w) = self.input();
                own = Affine { final_scale: scale * scale / (h * w) as f32, ..Affine::UNIT };
                (&own, false)
            }
            Kind::InverseRms { epsilon } => {
                self.set_all(&[(PeOp, planar::SQUARE_SUM), (PeNonlinear, planar_nonlinear::RSQRT)])?;
                self.set_half(PeEpsilon, *epsilon)?;
                let (_, h, w) = self.input();
                own = Affine { final_scale: 1.0 / (h * w) as f32, ..Affine::UNIT };
                (&own, false)
            }
            Kind::Pool { op, abs, affine, relu, .. } => {
                self.pool_op(*op, *abs)?;
                (affine, *relu)
            }
            Kind::Reduce { op, abs, affine, reciprocal } => {
                self.pool_op(*op, *abs)?;
                self.set(PeNonlinear, u32::from(*reciprocal))?;
                (affine, false)
            }
            _ => return Ok(()),
        };
        self.set(PeReluEn, u32::from(relu))?;
        self.set_half(PePreScale, affine.pre_scale)?;
        self.set_half(PeScale, affine.scale)?;
        self.set_half(PeBias, affine.bias)?;
        self.set(PeFinalScale, affine.final_scale.to_bits())
    }

    fn pool_op(&mut self, op: PoolOp, abs: bool) -> Set {
        if op == PoolOp::Max {
            self.set_all(&[(PePool, pool::MAX), (PaddingMode, padding::NEGATIVE)])?;
        }
        self.set(PeCond, u32::from(abs))
    }
}
