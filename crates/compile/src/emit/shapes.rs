//! Shapes of the neural engine's work units as zin 9.509 chooses them (`docs/evidence.md`, key `h13-staging`).

use super::Emitter;
use crate::ir::*;
use crate::stream::pack::Packing;
use crate::tile::{
    Tile, computed, copies, fitting_rows, input, rows_turned, small_source, source_tile, turned_rows,
    turns_few_channels, unit_rows,
};
use anemone_facts::Field::*;
use anemone_facts::staging::*;
use anemone_program::FieldError;

impl Emitter<'_> {
    /// Returns true for a convolution that takes longer to compute than to move its bytes; its work units then have a fixed shape.
    fn computes_longest(&self) -> bool {
        let moved = self.moved() + Packing::of(self.layer).total_bytes();
        let rows = 1 << unit_rows(self.layer).min(3);
        self.macs() * rows >= moved * UNIT_MACS
    }

    /// Returns true for a table of a single element in tile memory that the neural engine has not just written.
    fn reads_element(&self) -> bool {
        let element = self.layer.is_table() && input(self.layer) == [1; 3] && self.source_place(0).is_some();
        self.conventions().places_by_use && element && self.waits_on(self.index) != Some(1)
    }

    /// Returns true for a task whose unit has a single row: of one column, or maxima of a single row (`norm_softmax_a1_1x8x1x64`).
    fn has_single_rows(&self, rows: u32) -> bool {
        let maxima = matches!(self.layer.kind, Kind::MaxChannels) && self.conventions().places_by_use;
        computed(self.layer)[2] == 1 || rows == 0 && maxima
    }

    /// Returns true for a convolution of a single row from memory that does not fit its tile.
    fn reads_row_in_parts(&self) -> bool {
        let [_, rows, columns] = input(self.layer);
        rows == 1 && self.source_place(0).is_none() && source_tile(self.layer).columns < columns
    }

    /// Rows, as a power of two, of a unit of rows that are turned, and of a tile of half the columns (`env_chain_softmax_h12_s256`: two of
    /// 64).
    fn rows_of_unit(&self) -> Option<u32> {
        let halved = || self.halved(self.index).filter(|_| matches!(self.layer.kind, Kind::Neuron { .. }));
        let columns = |tile: Tile| tile.columns.next_power_of_two().ilog2();
        rows_turned(self.layer).or_else(|| halved().map(|tile| NEURAL_UNIT.saturating_sub(columns(tile))))
    }

    /// Shape codes of a convolution whose source is not small, with two to the power of `rows` rows.
    fn shapes_of_conv(&self, rows: u32) -> [u32; 3] {
        let layer = self.layer;
        if self.computes_longest() {
            return [unit_rows(layer).min(3); 3];
        }
        // Rows that the planar engine has just computed (`chain_pair_mul_mm_d256_s64`).
        if self.index > 0 && self.waits_on(self.index) == Some(2) {
            return [fitting_rows(layer).min(1); 3];
        }
        // Rows of a matrix that were folded to a square.
        if layer.transpose && computed(layer)[1] > 1 {
            return [rows.min(3); 3];
        }
        // A unit is no wider than the tile of a matrix from memory (`env_mm_r2rb_m512_k8192_n2048_tx0_ty1`: 64 columns of four lanes), and
        // half as wide where engines have eight lanes (`env_mm_r2rb_m512_k4096_n2048_tx0_ty1`), a quarter where some of eight are idle
        // (`chain_ffn_d1024_s375_matmul_silu`: six). The same holds for a row that is read in parts
        // (`env_mm_r2rb_m256_k4096_n4096_tx1_ty1`: 128 of 256 columns).
        if layer.source_interleave > 1 || self.reads_row_in_parts() {
            let columns = source_tile(layer).columns.next_power_of_two().ilog2();
            let least = NEURAL_UNIT.saturating_sub(columns);
            let unit = least.max(match Packing::of(layer).lanes {
                LANES.. => 0,
                lanes if lanes.is_power_of_two() => 1,
                _ => 2,
            });
            return [unit, least, unit];
        }
        // Rows that fill tile memory have the largest units (`encoder_conv_idx_c1024_n1024_k9x1_s1_g1024_bias1_same_hmaj`: sixteen of a
        // column).
        let streamed = self.rows_streamed(self.index, &source_tile(layer)).is_some();
        [0, 0, unit_rows(layer).min(if streamed { LARGEST_UNIT.ilog2() } else { 3 })]
    }

    /// Shape codes: rows of a work unit, as powers of two.
    pub(super) fn shapes(&mut self) -> Result<(), FieldError> {
        let layer = self.layer;
        let rows = computed(layer)[1].next_power_of_two().ilog2();
        let (preferred, least, most) = match &layer.kind {
            // A sum of one channel is a table of its row (`norm_softmax_a1_1x1x1x128`, `norm_softmax_a1_1x1x1x512`).
            Kind::SumChannels { .. } if layer.sources[0].channels() == 1 => (0, 0, unit_rows(layer).min(3)),
            Kind::SumChannels { .. } => {
                self.set(SmallSourceMode, 1)?;
                (4, 4, 4)
            }
            _ if small_source(layer, self.chip) => {
                self.set(SmallSourceMode, 1)?;
                (4, 4, 4)
            }
            Kind::Conv { .. } => self.shapes_of_conv(rows).into(),
            // Units of two rows at least where they fit (`binary_pow_1x64x8x8`, `binary_pow_1x3x224x224`).
            Kind::MulChannels { .. } => {
                let least = fitting_rows(layer).min(1);
                (least, least, rows.clamp(1, if least == 0 { 2 } else { 3 }))
            }
            // A task that reads a kept source or another task's rows has a unit of twice its rows
            // (`norm_softmax_a1_1x32x4x4`, `norm_softmax_a1_1x64x8x8`, `chain_attn_s64_dh64`).
            Kind::Product { .. } | Kind::MaxChannels
                if self.reads_rows() && !self.follows_constants(self.index) && !self.has_single_rows(rows) =>
            {
                let unit = (rows + 1).min(fitting_rows(layer));
                (unit, unit, unit)
            }
            Kind::Product { .. } | Kind::MaxChannels => (0, 0, rows.min(3)),
            _ if self.rows_of_unit().is_some() => {
                let unit = self.rows_of_unit().unwrap_or(0);
                (unit, unit, unit)
            }
            // Rows that a unit has, though there is one (`rrmm_r2rr_m64_k128_n256_tx1_ty1`: 64 columns).
            Kind::Neuron { .. } if layer.interleave > 1 && layer.transpose => {
                (3, rows.max(fitting_rows(layer)).min(3), 3)
            }
            // Weights that the planar engine has just computed (`chain_stack4_d256_s64_proj1`: two rows of 64 columns).
            Kind::Neuron { .. } if self.copies_weights(self.index) => {
                let unit = fitting_rows(layer).min(1);
                (unit, unit, unit)
            }
            // Few channels in tile memory are turned as they are (`chain_resffn_d512_s64`, `env_chain_ln_matmul_m1_k2048_n2048`).
            Kind::Neuron { .. }
                if turns_few_channels(layer) && self.source_place(0).is_some() && turned_rows(layer) <= 3 =>
            {
                (0, 0, 0)
            }
            // Rows that stay in tile memory are processed together; those of sixteen columns fill a unit by eight
            // (`norm_softmax_a3_1x128x16x16`).
            Kind::Neuron { .. } if self.resides() && computed(layer)[1] > 1 => {
                let narrow = computed(layer)[2] <= 1 << PATCH_REWRITTEN;
                let unit = if narrow { fitting_rows(layer).min(PATCH_REWRITTEN) } else { PATCH_REWRITTEN };
                (unit, unit, unit)
            }
            // A table of an element in tile memory has a square, unless it reads it as the neural engine writes it; a task that need not wait
            // for it has a mark (`floor_r_1`, `floor_div_comp_1_s2`, `floor_div_native_1_rr`).
            Kind::Neuron { .. } if self.reads_element() => {
                self.set(Unk34Bit23, u32::from(self.waits_on(self.index).is_none()))?;
                (4, 4, 4)
            }
            // A single row that replaces a planar result has the rows of its patch (`chain_attn_s64_dh64`).
            Kind::Neuron { .. } if self.resides() && !layer.transpose && self.follows_planar(self.index) => {
                let unit = fitting_rows(layer).min(1);
                (unit, unit, unit)
            }
            Kind::Neuron { .. } if turns_few_channels(layer) => {
                let unit = turned_rows(layer);
                // Rows that a unit has, though there is one (`reduce_probe_sum_ax1_1x8x1x64`).
                (unit, rows.max(fitting_rows(layer)).min(unit), unit)
            }
            // A tile of some of the columns has units of four rows (`binary_pow_1x3x224x224`), where tiles fill the columns, of one
            // (`chain_base_softmax_d256_s64`).
            Kind::Neuron { .. } if self.cut_in_columns() => {
                let whole = input(layer)[2].is_multiple_of(source_tile(layer).columns);
                (0, 0, if whole { 0 } else { 2 })
            }
            // Copies to tile memory are processed in work units, and so are those that fill it
            // (`encoder_transpose_r4_0213_1x375x256x16`: eight rows of 16 columns).
            _ if copies(layer)
                && (self.result_place().is_some() || self.rows_streamed(self.index, &source_tile(layer)).is_some()) =>
            {
                (0, 0, unit_rows(layer).min(4))
            }
            // A table has units of the rows that fit (`env_act_gelu_1x256x32x32_exact`).
            Kind::Neuron { .. } if !copies(layer) => (0, 0, unit_rows(layer).min(4)),
            _ => (0, 0, rows.min(4)),
        };
        self.set_all(&[(ShPref, preferred), (ShMin, least), (ShMax, most)])
    }
}
