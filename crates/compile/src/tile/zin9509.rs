//! Tiles as zin 9.509 chooses them, derived from its output for single operations (`docs/evidence.md`, key `h13-oracles`).

use super::{Staging, Tile, copies, spread};
use crate::ir::*;
use crate::stream::pack::Packing;
use crate::target::ahead;
use anemone_facts::chips::Chip;
use anemone_facts::staging::*;

/// Extents as the unit computes them: channels, rows, columns, before a transpose on the way out.
pub(crate) fn computed(layer: &Layer) -> [usize; 3] {
    let r = &layer.result;
    if layer.transpose { [r.width, r.height(), r.channels()] } else { [r.channels(), r.height(), r.width] }
}

/// Source extents after broadcast.
pub(crate) fn input(layer: &Layer) -> [usize; 3] {
    match layer.kind {
        Kind::Planar { .. } | Kind::ChannelAffine { .. } => computed(layer),
        Kind::Pool { .. } if layer.repeats_rows() => computed(layer),
        Kind::Deviation { .. } => {
            let s = &layer.sources[1];
            [s.channels(), s.height(), s.width]
        }
        _ => {
            let s = &layer.sources[0];
            match layer.turned[0] {
                true => [s.width, s.height(), s.channels()],
                false => [s.channels(), s.height(), s.width],
            }
        }
    }
}

/// The tile of a source that the DMA loads.
pub(crate) fn source_tile(layer: &Layer) -> Tile {
    let [channels, height, width] = input(layer);
    // Rows that are turned: few channels, or interleaved ones, lie side by side (`env_mm_r2rb_m16_k2048_n2048_tx0_ty1`,
    // `encoder_bmm_m375_k1024_n128_ty1_b8`), else each row has its columns, half of them where those of all rows exceed a tile
    // (`bmm_r3rr_m375_k375_n128_tx0_ty1_b8`: 128 of eight rows; `bmm_r3rr_m375_k128_n749_tx0_ty1_b8`: 64 of four).
    if layer.transpose && layer.kind.is_copy() && (2..=COPY_ROWS).contains(&height) {
        if channels <= COPY_ROWS || layer.interleave > 1 {
            let columns = (COPY_COLUMNS / height.next_power_of_two()).max(COPY_COLUMNS_LEAST);
            return Tile::within(COPY_BYTES, [channels, height, width], columns, height);
        }
        let whole = Tile::within(u64::MAX, [channels, height, width], COPY_COLUMNS, height);
        // Matrices of few columns are one tile (`bmm_r3rb_m375_k128_n375_tx0_ty1_b8_idx`).
        if width <= COPY_COLUMNS && whole.row_bytes * height as u64 <= COPY_BYTES {
            return whole;
        }
        let halves = if whole.row_bytes * height as u64 > TILE_BYTES { 2 } else { 1 };
        return Tile::of(channels, height, width, COPY_COLUMNS / halves, height);
    }
    if copies(layer) {
        return Tile::within(COPY_BYTES, [channels, height, width], COPY_COLUMNS, height);
    }
    // A table of wide rows has as many columns as a copy (`binary_real_div_1x3x224x224`, `unary_sigmoid_1x1024x375`).
    if matches!(layer.kind, Kind::Neuron { .. }) && layer.interleave == 1 && !layer.transpose && width > COPY_COLUMNS {
        return Tile::within(COPY_BYTES, [channels, height, width], COPY_COLUMNS, height);
    }
    if let Some(rows) = rows_of_units(layer) {
        return Tile::of(channels, height, width, width, rows);
    }
    if layer.is_neural() {
        // Rows that are interleaved are copied as others are (`env_mm_r3rr_m256_k256_n128_tx0_ty0_b1`: 128 of 256 columns).
        // So are columns that a product of computed rows reads (`rrmm_r2rr_m64_k128_n256_tx0_ty0`: 128 of 256).
        let interleaves =
            layer.kind.is_copy() || matches!(layer.kind, Kind::Product { .. }) || layer.source_interleave > 1;
        let tile = Tile::of(channels, height, width, if interleaves { COPY_COLUMNS } else { width }, height);
        // A row that is cut has the columns of a copy (`env_mm_r2rr_m16_k4096_n4096_tx0_ty0`: 128 of 4096 channels;
        // `encoder_conv_c1024_n1024_k9x1_s1_g1024_bias0_same`: 128 of 375 columns).
        if tile.columns < width.min(if interleaves { COPY_COLUMNS } else { width }) {
            return Tile::within(COPY_BYTES, [channels, height, width], COPY_COLUMNS, tile.rows);
        }
        return tile;
    }
    // Several rows are reduced by 64 columns at a time (`reduce_probe_sum_ax3_1x1x1x512`).
    let reduces = matches!(layer.kind, Kind::Reduce { .. } | Kind::InverseRms { .. });
    if reduces && height > 1 && width > 1 << PATCH_OF_REDUCED {
        return Tile::of(channels, height, width, 1 << PATCH_OF_REDUCED, height);
    }
    Tile::of(channels, height, width, cut_columns(layer).unwrap_or(PLANAR_COLUMNS), height)
}

/// The tile of a copy's or table's source with half the columns; `None` where the tile has all or fewer of them.
pub(crate) fn halved_tile(layer: &Layer) -> Option<Tile> {
    let [channels, height, width] = input(layer);
    let table = matches!(layer.kind, Kind::Neuron { .. }) && layer.interleave == 1 && !layer.transpose;
    let cut = table && width > COPY_COLUMNS && source_tile(layer).columns == COPY_COLUMNS;
    cut.then(|| Tile::within(COPY_BYTES, [channels, height, width], COPY_COLUMNS / 2, height))
}

/// Columns of the tiles of two sources of equal extents that a planar task reads from memory, where one does not fit a tile
/// (`env_bcast_add_1x8x375x375_runtime_1x8x375x375`, `env_bcast_mul_1x1024x375_runtime_1x1024x375`: 32 of 375, all rows), also if the first
/// one is a row for all (`candidate_select_rrb_1x1024x375_bcast_cond`), and of rows that it repeats (`tile_r_1x1x375_reps_13751`: 32 of 375).
pub(crate) fn cut_columns(layer: &Layer) -> Option<usize> {
    let [channels, height, width] = input(layer);
    let alike = layer.broadcast == [[false; 3]; 2] || layer.broadcast == [[false, true, false], [false; 3]];
    let two = matches!(layer.kind, Kind::Planar { .. }) && layer.sources.len() > 1 && alike;
    let whole = Tile::of(channels, height, width, width, height);
    if layer.repeats_rows() {
        return Some(PLANAR_COLUMNS_OF_TWO);
    }
    (two && height > 1 && whole.rows < height).then_some(PLANAR_COLUMNS_OF_TWO)
}

/// Source rows of the tiles of a convolution whose windows share no rows and whose source is larger than a tile: those of a work unit
/// (`conv_probe_k1_c256_n256_s64_st1_g1_bias1_valid`: two; `conv_probe_k1_c256_n256_s64_st2_g1_bias0_same`: eight for four).
pub(crate) fn rows_of_units(layer: &Layer) -> Option<usize> {
    let Kind::Conv { window, .. } = &layer.kind else { return None };
    let [channels, height, width] = input(layer);
    let cut = Tile::of(channels, height, width, width, height).rows < height;
    (window.kernel[0] == 1 && cut).then(|| window.stride[0] << unit_rows(layer))
}

/// Rows of the tiles of a convolution whose windows share rows, with all columns, where a source from memory is cut and the result goes to
/// memory: as many rows of its work units as fit tile memory, and the source rows that they read
/// (`encoder_conv_c256_n256_k3x3_s2_g256_bias1_same`: 24 and 50; `conv_probe_k3_c256_n256_s64_st1_g1_bias0_same`: 32 and 33 for 224 outputs).
pub(crate) fn rows_of_windows(layer: &Layer, row_bytes: u64, capacity: u64) -> Option<(usize, usize)> {
    let Kind::Conv { window: Window { kernel: [kernel, _], stride: [stride, _], pad: [pad, _] }, .. } = layer.kind
    else {
        return None;
    };
    let ([_, height, _], [_, rows, _]) = (input(layer), computed(layer));
    let result = result_tile(layer);
    let cut = source_tile(layer).rows < height && source_tile(layer).columns == input(layer)[2] && !layer.transpose;
    let unit = 1 << unit_rows(layer);
    let read = |own: usize| {
        let edges = if 2 * own >= rows { pad } else { 0 };
        ((own - 1) * stride + kernel.next_multiple_of(stride)).saturating_sub(edges).clamp(1, height)
    };
    let row = Tile::within(u64::MAX, [layer.result.channels(), 1, layer.result.width], result.columns, 1).row_bytes;
    let fits = |own: &usize| read(*own) as u64 * row_bytes + *own as u64 * row <= capacity;
    let most = (1..=rows / unit).map(|units| units * unit).take_while(fits).last();
    most.filter(|_| kernel > 1 && cut).map(|own| (own, read(own)))
}

/// Rows that a task computes and reads at a time, and the distance of those that it reads, where its source is larger than tile memory: of a
/// convolution, as many pairs of its units, or sixteen rows, as fit beside one of the result
/// (`encoder_conv_c256_n256_k1x1_s1_g1_bias1_valid`: 120 and eight of 32 columns;
/// `encoder_conv_idx_c1024_n1024_k9x1_s1_g1024_bias1_same_hmaj`: 96, which read 104, and sixteen of one column); of a copy that exchanges
/// channels and rows, those that fit beside one row of the result (`encoder_transpose_r4_0213_1x375x256x16`: 255 of 375). Windows that share
/// rows read a source whole that fits so (`encoder_conv_idx_c1_n256_k3x3_s2_g1_bias1_same_stem`).
pub(crate) fn rows_that_fill(layer: &Layer, capacity: u64) -> Option<(usize, usize, u64)> {
    let ([channels, height, width], [_, rows, _]) = (input(layer), computed(layer));
    let row_of = |channels, width| Tile::within(u64::MAX, [channels, 1, width], width, 1).row_bytes;
    let row = row_of(channels, width);
    let result = row_of(layer.result.channels(), layer.result.width);
    let beside = |rows: usize, row: u64| (capacity.saturating_sub(rows as u64 * result) / row) as usize;
    let exceeds = row * height as u64 > capacity;
    match &layer.kind {
        Kind::Conv { window, .. } if !layer.transpose && height > 1 => {
            let ([kernel, _], [stride, _]) = (window.kernel, window.stride);
            let pair = (2 << unit_rows(layer)).min(LARGEST_UNIT);
            if !exceeds {
                let cut = source_tile(layer).rows < height;
                let whole = kernel > 1 && cut && beside(pair, row) >= height;
                return whole.then_some((rows, height, row));
            }
            let shared = shared_rows(layer);
            let own = |row| (beside(pair, row).saturating_sub(shared) / stride) / pair * pair;
            // Rows of a unit are in different banks where as many fit.
            let apart = match 1 << unit_rows(layer).min(4) {
                LARGEST_UNIT => spread(row / UNIT_BYTES, stride as u64, PLANAR_BANKS),
                _ => apart_in_unit(layer, row / UNIT_BYTES, stride as u64),
            } * UNIT_BYTES;
            let (most, row) = if own(apart) == own(row) { (own(apart), apart) } else { (own(row), row) };
            (most > 0 && most < rows).then_some((most, most * stride + shared, row))
        }
        _ if exceeds && copies(layer) && !layer.transpose && width <= COPY_COLUMNS && exchanges_rows(layer) => {
            Some(beside(1, row).min(rows)).filter(|own| *own > 0).map(|own| (own, own, row))
        }
        _ => None,
    }
}

/// Rows that two neighbouring tiles of a convolution read both.
pub(crate) fn shared_rows(layer: &Layer) -> usize {
    let Kind::Conv { window: Window { kernel: [kernel, _], stride: [stride, _], .. }, .. } = layer.kind else {
        return 0;
    };
    kernel.next_multiple_of(stride) - stride
}

/// Returns true for a task whose source has its channels nearer to each other than its rows.
fn exchanges_rows(layer: &Layer) -> bool {
    let [_, channels, rows] = layer.sources[0].axes;
    channels.extent > 1 && rows.extent > 1 && channels.stride_bytes < rows.stride_bytes
}

/// The tile of a source that is kept for a later task: a single row is kept whole (`env_chain_ln_matmul_m1_k2048_n2048`,
/// `chain_pair_add_ln_d256_s64`), also one wider than a tile (`bmm_r3rr_m375_k128_n375_tx0_ty0_b8`,
/// `encoder_conv_c1024_n1024_k1x1_s1_g1_bias0_valid`: 375 columns; no record has a wider matrix with interleaved channels).
pub(crate) fn kept_tile(layer: &Layer) -> Tile {
    let [channels, height, width] = input(layer);
    if height == 1 { Tile::within(u64::MAX, [channels, height, width], width, height) } else { source_tile(layer) }
}

/// Bytes and strides of a table's source of bytes that is kept for a later task: whole rows as they fall (`select_rrb_1x8x375x375`:
/// 0xc00 for eight channels of 375).
pub(crate) fn kept_bytes(layer: &Layer) -> Option<(u64, [u64; 4])> {
    let [channels, height, width] = input(layer);
    let channel = (width as u64).next_multiple_of(UNIT_BYTES);
    let row = channel * channels as u64;
    let table = matches!(layer.kind, Kind::Neuron { .. }) && layer.sources[0].groups() == 1;
    table.then_some((row * height as u64, [channel, row, row, 0]))
}

/// Returns true for a copy that transposes several matrices of many rows, which are its channels.
pub(crate) fn turns_matrices(layer: &Layer) -> bool {
    let [channels, height, _] = input(layer);
    copies(layer) && layer.transpose && channels > COPY_ROWS && (2..=COPY_ROWS).contains(&height)
}

/// Rows of a work unit, as a power of two, of matrices that a copy transposes in tiles of some of the columns
/// (`bmm_r3rr_m375_k128_n749_tx0_ty1_b8`: two of 64 columns).
pub(crate) fn rows_turned(layer: &Layer) -> Option<u32> {
    let tile = source_tile(layer);
    let cut = turns_matrices(layer) && tile.columns < input(layer)[2];
    cut.then(|| NEURAL_UNIT.saturating_sub(tile.columns.next_power_of_two().ilog2()))
}

/// The tile of a result that is stored to memory.
pub(crate) fn result_tile(layer: &Layer) -> Tile {
    let r = &layer.result;
    let columns = if layer.transpose || !copies(layer) { r.width } else { source_tile(layer).columns };
    let most = if copies(layer) { COPY_BYTES } else { TILE_BYTES };
    Tile::within(most, [r.channels(), r.height(), r.width], columns, r.height())
}

/// Elements of a patch of the planar engine, as a power of two.
fn patch(layer: &Layer) -> u32 {
    match layer.sources.len() {
        _ if layer.interleave > 1 => PATCH_OF_REDUCED,
        1 => PATCH_OF_ONE,
        _ => PATCH_OF_TWO,
    }
}

/// Row stride of a tile that puts rows read together into different banks: those of this layer, or of any that reads a source that is
/// kept (`conv_probe_k3_c256_n256_s32_st1_g1_bias0_same` has 0x4030, kept; `conv_probe_k3_c64_n64_s32_st1_g1_bias0_same` 0x1050).
pub(crate) fn row_bytes(layer: &Layer, tile: &Tile, height: usize, kept: bool, chip: &Chip) -> u64 {
    let units = tile.row_bytes / UNIT_BYTES;
    let spread = match &layer.kind {
        // Rows that are turned and interleaved are apart as eight (`encoder_bmm_m375_k1024_n128_ty1_b8`: 0x203 for 0x200).
        _ if layer.interleave > 1 && layer.transpose && height > 1 => spread(units, 1, NEURAL_BANKS),
        _ if layer.interleave > 1 && layer.is_neural() => units,
        // A table's source in sets is left as it falls (`env_chain_softmax_h8_s256`: 0x800 for 128 columns of eight channels).
        Kind::Neuron { .. } if layer.source_interleave > 1 && !layer.kind.is_copy() => units,
        // Rows as wide as a patch are read one by one (`chain_base_bias_d256_s64`: 256 columns of two sources;
        // `rrmm_r2rr_m32_k64_n64_tx0_ty0`: 64 of an interleaved result).
        // Two rows of a patch need no distance (`chain_base_mul_scalar_d256_s64`: 256 columns of one source).
        _ if !layer.is_neural()
            && layer.interleave == 1
            && layer.sources.len() == 1
            && tile.columns >= 1 << (PATCH_OF_ONE - 1) =>
        {
            units
        }
        // Nor do two of two sources (`env_bcast_add_1x8x375x128_blob_1x8x1x128`: 128 columns).
        Kind::Planar { .. }
            if layer.interleave == 1 && height > 1 && !kept && tile.columns >= 1 << (PATCH_OF_TWO - 1) =>
        {
            units
        }
        _ if !layer.is_neural() && tile.columns >= 1 << patch(layer) => units,
        // A single row of a norm's last step, too (`norm_layer_norm_ax1_2_3_1x8x1x64`: 64 columns).
        Kind::ChannelAffine { .. } if height == 1 && tile.columns >= 1 << PATCH_OF_REDUCED => units,
        // A single row of one channel meets no other (`reduce_probe_max_ax3_1x1x1x64`), unless it is an element, whose patch has several
        // rows (`floor_div_comp_1_s2`: 0x20).
        _ if !layer.is_neural() && height == 1 && input(layer)[0] == 1 && tile.columns > 1 => units,
        // Fewer rows than are read together have more distances to choose from (`reduce_probe_sum_ax3_1x1x1x512`: four rows, 0x8).
        _ if !layer.is_neural() => {
            // A single row is apart from others as eight are (`env_bcast_mul_1x200x1x1_runtime_1x200x1x1`: 0xc80; sixteen would be 0xca0).
            let (most, gap) = PLANAR_BANKS;
            spread(units, 1, (if height > 1 { most.min(height as u64) } else { NEURAL_BANKS.0 }, gap))
        }
        _ if height == 1 && !small_source(layer, chip) => units,
        // Few rows are left as they fall (`reduce_probe_max_ax1_1x32x4x4`: four of 32 channels).
        _ if (copies(layer) || matches!(layer.kind, Kind::MaxChannels) && !kept) && height < COPY_ROWS => units,
        // A tile of some of the columns has four rows in a unit (`encoder_slice_lastdim`: 0x85 for 0x80).
        // Rows that are turned without units of their own are left as they fall (`bmm_r3rr_m375_k375_n128_tx0_ty1_b8`: 0x800 for 128 channels).
        _ if copies(layer) && layer.transpose && tile.columns == COPY_COLUMNS => units,
        _ if tile.columns < input(layer)[2] && tile.columns == COPY_COLUMNS => spread(units, 1, FEW_NEURAL_BANKS),
        Kind::Conv { window, .. } if kept || small_source(layer, chip) => {
            spread(units, window.stride[0] as u64, NEURAL_BANKS)
        }
        Kind::Conv { window, .. } => apart_in_unit(layer, units, window.stride[0] as u64),
        // A table's source that is kept is laid out as its result (`env_chain_residual_gelu_1x64x8x8`: 0x420 for 0x400).
        Kind::Neuron { .. } if kept && !copies(layer) && unit_banks(layer).0 > 1 => spread(units, 1, unit_banks(layer)),
        Kind::Neuron { .. } if !copies(layer) => apart_in_unit(layer, units, 1),
        // An operand that the planar engine reads next has its distances (`norm_softmax_a1_1x64x8x8`: 0x420 for 0x400).
        // Sixteen rows of one unit have half of them (`norm_softmax_a2_1x64x8x8`: 0x90 for 0x80; `norm_layer_norm_ax1_1x128x16x16`, of
        // two units: 0x1020 for 0x1000).
        Kind::MaxChannels | Kind::Neuron { .. }
            if kept && (copies(layer) || matches!(layer.kind, Kind::MaxChannels)) =>
        {
            let (most, gap) = PLANAR_BANKS;
            let rows = most.min(height as u64);
            spread(units, 1, (rows, gap.min(most / rows * (tile.channel_bytes / UNIT_BYTES))))
        }
        // Rows as wide as a unit are left as they fall (`encoder_transpose_r4_0213`: eight of 128 columns, 0x1770).
        _ if copies(layer) && !layer.transpose => apart_in_unit(layer, units, 1),
        _ => spread(units, 1, NEURAL_BANKS),
    };
    spread * UNIT_BYTES
}

/// Number of rows that fit a work unit of the neural engine, as a power of two.
pub(crate) fn fitting_rows(layer: &Layer) -> u32 {
    let [_, _, width] = computed(layer);
    NEURAL_UNIT.saturating_sub(width.next_power_of_two().ilog2())
}

/// Returns true for a product that reads the few rows of the product before it while that is computed: no other task reads them, they do
/// not fill a work unit, and both products have as many inputs (`chain_pair_mm_mm_d256_s64`, `env_chain_mlp_m32_k4096_h4096`; not
/// `env_chain_mlp_m32_k2048_h4096`).
pub(crate) fn continues_product(graph: &Graph, index: usize) -> bool {
    let product = |layer: &&Layer| matches!(&layer.kind, Kind::Conv { window, .. } if *window == Window::UNIT);
    let layers = &graph.layers;
    let before = index.checked_sub(1).and_then(|before| layers.get(before)).filter(product);
    let Some((before, layer)) = before.zip(layers.get(index).filter(product)) else { return false };
    let row = &before.result;
    let alone = layers.iter().flat_map(|l| &l.sources).filter(|s| s.buffer == row.buffer).count() == 1;
    let narrow = row.groups() == 1 && row.width > 1 && row.height() * row.width < 1 << NEURAL_UNIT;
    alone && narrow && input(before) == input(layer) && !before.transpose && layer.sources[0].buffer == row.buffer
}

/// Rows of a work unit, as a power of two: as many as fit, but no more than are computed.
pub(crate) fn unit_rows(layer: &Layer) -> u32 {
    let [_, height, _] = computed(layer);
    height.next_power_of_two().ilog2().min(fitting_rows(layer))
}

/// Rows of a copy's work unit, and the units that each takes in tile memory: they are written together, so that no two may start in
/// one bank (`softmax_1x64x8x8`: eight of two units, 0x42 for 0x40; `norm_softmax_an1_1x8x64x64`: two of eight, 0x48 for 0x40). What is
/// turned is written by eight, whatever its rows (`reduce_probe_sum_ax1_1x32x4x4`: four rows, 0x11 for 0x10), or by sixteen where few
/// channels are (`reduce_probe_max_ax2_1x64x8x8`: 0x9 for 0x8).
pub(crate) fn unit_banks(layer: &Layer) -> (u64, u64) {
    let rows = if layer.transpose { turned_rows(layer) } else { unit_rows(layer).min(4) };
    let row_bytes = ELEMENT_BYTES << (NEURAL_UNIT - rows);
    (1 << rows, row_bytes / UNIT_BYTES)
}

/// Returns true where so few channels become columns that whole units are turned: up to eight, or sixteen of as many columns
/// (`reduce_probe_sum_ax2_1x128x16x16`, `reduce_probe_sum_ax2_1x32x4x4`, `matmul_m8_k512_n1024_ty1`).
pub(crate) fn turns_few_channels(layer: &Layer) -> bool {
    let [channels, height, width] = input(layer);
    let few = channels <= COPY_ROWS || channels <= 2 * COPY_ROWS && channels <= width;
    // A table leaves the unit to the engine (`norm_softmax_a1_1x512x1x1`).
    layer.transpose && few && layer.kind.is_copy() && (height > 1 || width >= TURNED_COLUMNS)
}

/// Rows of the unit that a turned copy writes, as a power of two: eight, or sixteen where few channels have at most eight columns.
pub(crate) fn turned_rows(layer: &Layer) -> u32 {
    if turns_few_channels(layer) && input(layer)[2] <= 1 << (NEURAL_UNIT - 4) { 4 } else { 3 }
}

/// Row stride in units that puts the rows of a work unit into different banks; two rows are left as they fall.
pub(crate) fn apart_in_unit(layer: &Layer, units: u64, step: u64) -> u64 {
    match fitting_rows(layer) {
        0 | 1 => units,
        2 => spread(units, step, FEW_NEURAL_BANKS),
        _ => spread(units, step, NEURAL_BANKS),
    }
}

/// Start of a second source staged after one that occupies `first..end`: directly behind it, unless its banks are fewer than
/// [`SECOND_BYTES`] from those of the first (`env_bcast_sub_1x96x1x1_runtime_1x96x1x1`: 0x610; `binary_add_1x512x1x1`: 0x2040 for 0x2020).
pub(crate) fn apart(first: u64, end: u64) -> u64 {
    let (round, gap) = (BANKS * UNIT_BYTES, SECOND_BYTES);
    let distance = (end - first) % round;
    match (gap..=round - gap).contains(&distance) {
        true => end,
        false => end + (gap + round - distance) % round,
    }
}

/// Returns true for a convolution with computed sides up to [`SMALL_SIDE`], so that each accumulator holds more channels, whose
/// coefficients fit kernel memory beside those of the pass that is computed: dense, or by channel
/// (`conv_probe_k1_c512_n512_s16_st2_g512_bias1_same`). A result that is not transposed has no such limit
/// (`env_chain_mlp_m1_k2048_h4096`: eight passes of 128 KiB).
pub(crate) fn small_source(layer: &Layer, chip: &Chip) -> bool {
    let [_, height, width] = computed(layer);
    let Kind::Conv { connect: Connect::Dense | Connect::Unicast { per_output: 1 }, .. } = layer.kind else {
        return false;
    };
    let packing = Packing::of(layer);
    height.max(width) <= SMALL_SIDE && (!layer.transpose || ahead(packing.plane_bytes(), packing.passes(0) + 1, chip))
}

/// Bytes of tile memory that a layer's operands take when all are streamed from and to memory.
pub(crate) fn staging(layer: &Layer, spreads: bool, chip: &Chip) -> Staging {
    let tile = source_tile(layer);
    let row_of = |kept| match spreads {
        true => row_bytes(layer, &tile, layer.sources[0].height(), kept, chip),
        false => tile.row_bytes,
    };
    let [row, kept] = [false, true].map(row_of);
    // Rows that are turned have the units for which there is space.
    let rows = rows_turned(layer).map_or(tile.rows, |unit| tile.rows.min(1 << unit));
    let source = row * rows as u64;
    let result = result_tile(layer);
    let staged = source + SECOND_BYTES;
    let second = if layer.is_neural() { 0 } else { staged * (layer.sources.len() as u64 - 1) };
    let result = (result.row_bytes + 2 * UNIT_BYTES) * result.rows as u64;
    let kept_tile = kept_tile(layer);
    let row = if kept_tile.columns > tile.columns { [kept_tile.row_bytes; 2] } else { [row, kept] };
    let ([_, kept], tile) = (row, kept_tile);
    let [_, height, width] = input(layer);
    let whole = tile.rows == height && tile.columns == width && layer.sources[0].groups() == 1;
    let halved = halved_tile(layer).map(|tile| tile.row_bytes * tile.rows as u64 + SECOND_BYTES);
    Staging {
        halved,
        bytes: staged + second + result,
        each: ([staged, second], result),
        source: whole.then_some({
            // A single row that stays needs no banks of its own.
            let row = if height == 1 { tile.row_bytes } else { kept };
            (row * tile.rows as u64, [tile.channel_bytes, row, tile.row_bytes, 0])
        }),
    }
}
