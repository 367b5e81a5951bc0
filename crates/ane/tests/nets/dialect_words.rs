//! Words of single tasks in the dialect of Apple's compiler of 2026, where a rule decides them, and the results of our own way.

use super::dialects::{array, both, small};
use anemone_compile::{Compat, Options, compile};
use anemone_facts::chips::CHIPS;
use anemone_facts::code::constant::TASK_PAGE_BYTES;
use anemone_facts::code::residency;
use anemone_facts::layout::H13;
use anemone_facts::{Field, Field::*};
use anemone_net::{Data, Tensor, text};
use anemone_program::Task;
use half::f16;
use std::sync::Arc;

/// Tasks of a network in that dialect.
pub(super) fn tasks(source: &str, blobs: &[Arc<Tensor>]) -> Vec<Task> {
    let net = text::parse(source, blobs).expect("the network is well formed");
    let options = Options { compat: Compat::Zin9509, ..Options::default() };
    let program = compile(&net, &CHIPS[0], &options, &mut ()).expect("it compiles");
    program.tasks().expect("tasks")
}

/// A field of every task.
pub(super) fn each(tasks: &[Task], field: Field) -> Vec<u32> {
    tasks.iter().map(|task| task.get(&H13, field).unwrap_or_default()).collect()
}

#[test]
fn second_sources_avoid_banks_and_products_read_columns_in_parts() {
    let last = |source: &str, field: Field| tasks(source, &[]).last().and_then(|task| task.get(&H13, field));
    for (channels, units) in [(96, 0x61), (200, 0xc8), (512, 0x204)] {
        let shape = format!("f16[1, {channels}, 1, 1]");
        let source = format!(
            "net \"n\" {{\n  input %x: {shape}\n  input %z: {shape}\n  %y: {shape} = sub(%x, %z)\n  output %y\n}}\n"
        );
        assert_eq!(last(&source, Src2L2Base), Some(units), "{channels} channels");
    }
    let source = "net \"n\" {\n  input %x: f16[64, 128]\n  input %w: f16[128, 256]\n  \
                  %y: f16[64, 256] = matmul(%x, %w) transpose_x=false transpose_y=false\n  output %y\n}\n";
    assert_eq!(last(source, SrcL2ChannelStride), Some(0x10), "128 of 256 columns");
    let inputs = [array("x", &[64, 128], small), array("w", &[128, 256], |i| small(i * 3 + i / 256))];
    let [own, apples] = both(source, &[], &inputs);
    assert_eq!(own.1, apples.1, "the same numbers");
}

#[test]
fn a_matrix_beyond_tile_memory_is_interleaved_in_scratch_memory_and_read_in_pairs() {
    let source = "net \"n\" {\n  input %x: f16[256, 4096]\n  const %w: f16[512, 4096] = blob 0\n  \
                  %y: f16[256, 512] = matmul(%x, %w) transpose_x=false transpose_y=true\n  output %y\n}\n";
    let value = |i: usize| if i.is_multiple_of(13) { small(i / 13) } else { 0.0 };
    let data = Data::F16((0..512 * 4096).map(|i| f16::from_f32(value(i))).collect());
    let weights = Arc::new(Tensor { shape: vec![512, 4096], data });
    let made = tasks(source, std::slice::from_ref(&weights));
    assert_eq!(each(&made, DstInterleave), [8, 1, 1, 1, 1]);
    assert_eq!(each(&made, Src1Interleave), [1, 8, 8, 8, 8]);
    assert_eq!(each(&made, Spl), [1, 1, 0, 1, 0], "groups of two");
    assert_eq!(each(&made, ShMax)[1..], [1; 4], "eight lanes");
    let blobs = [weights];
    let [own, apples] = both(source, &blobs, &[array("x", &[256, 4096], |i| small(i / 3))]);
    assert_eq!(own.1, apples.1, "the same numbers");
    // A matrix that is transposed already is read in parts by tasks of which the first one is alone.
    let transposed =
        source.replace("f16[256, 4096]", "f16[4096, 256]").replace("transpose_x=false", "transpose_x=true");
    let made = tasks(&transposed, &blobs);
    assert_eq!(each(&made, Src1Interleave), [1; 4]);
    assert_eq!(each(&made, Spl), [1, 1, 0, 1], "the first one alone, then two by two");
    assert_eq!(each(&made, ShMax), [1; 4], "128 of 256 columns");
    let [own, apples] = both(&transposed, &blobs, &[array("x", &[4096, 256], |i| small(i / 3))]);
    assert_eq!(own.1, apples.1, "the same numbers");
}

#[test]
fn pieces_of_a_convolution_that_load_a_large_source_again_are_groups() {
    let weights = || {
        let value = |i: usize| if i.is_multiple_of(11) { small(i / 11) } else { 0.0 };
        let data = Data::F16((0..256 * 256 * 9).map(|i| f16::from_f32(value(i))).collect());
        Arc::new(Tensor { shape: vec![256, 256, 3, 3], data })
    };
    for (side, first) in [(64, [1, 1]), (16, [1, 0])] {
        let shape = format!("f16[1, 256, {side}, {side}]");
        let source = format!(
            "net \"n\" {{\n  input %x: {shape}\n  const %w: f16[256, 256, 3, 3] = blob 0\n  \
             %y: {shape} = conv(%x, %w) strides=[1, 1] pads=[[1, 1], [1, 1]] dilations=[1, 1] groups=1\n  output %y\n}}\n"
        );
        let made = tasks(&source, &[weights()]);
        assert_eq!(each(&made, Spl), first, "{side} rows");
        let reuses = [SrcAliasConvSrc, SrcAliasConvRslt, ResAliasConvSrc, ResAliasConvRslt];
        assert_eq!(reuses.map(|field| each(&made, field)[1]), [first[1]; 4], "{side} rows");
    }
}

#[test]
fn two_sources_beyond_a_tile_are_cut_to_columns_and_one_is_not_cut_to_rows() {
    let shape = [1, 8, 375, 375];
    let source = "net \"n\" {\n  input %x: f16[1, 8, 375, 375]\n  input %z: f16[1, 8, 375, 375]\n  \
                  %y: f16[1, 8, 375, 375] = add(%x, %z)\n  output %y\n}\n";
    let made = tasks(source, &[]);
    let fields = [SrcL2RowStride, ResL2RowStride, PatchWidth, PatchHeight, TileHeight];
    assert_eq!(fields.map(|field| each(&made, field)[0]), [0x21, 0x21, 5, 3, 375]);
    let inputs = [array("x", &shape, small), array("z", &shape, |i| small(i / 5))];
    let [own, apples] = both(source, &[], &inputs);
    assert_eq!(own.1, apples.1, "the same numbers");

    let row = (0..1024).map(|i| format!("{}.5", i % 7)).collect::<Vec<_>>().join(", ");
    let source = format!(
        "net \"n\" {{\n  input %x: f16[1, 375, 1024]\n  const %z: f16[1, 1, 1024] = [{row}]\n  \
         %y: f16[1, 375, 1024] = add(%x, %z)\n  output %y\n}}\n"
    );
    assert_eq!(each(&tasks(&source, &[]), TileHeight).last(), Some(&375));
    let [own, apples] = both(&source, &[], &[array("x", &[1, 375, 1024], small)]);
    assert_eq!(own.1, apples.1, "the same numbers");
}

#[test]
fn a_norm_of_channels_waits_for_its_mean_and_reads_both_numbers_turned() {
    for channels in [128, 512, 4096] {
        let shape = format!("f16[1, {channels}, 1, 1]");
        let source = format!(
            "net \"n\" {{\n  input %x: {shape}\n  %y: {shape} = layer_norm(%x) axes=[1] epsilon=1e-5\n  output %y\n}}\n"
        );
        let made = tasks(&source, &[]);
        let columns = (channels as u32).ilog2().min(9);
        assert_eq!(each(&made, Dependent), [0, 0, 2, 0, 0], "{channels}");
        assert_eq!(each(&made, Src2Transpose), [0, 0, 0, 1, 0], "{channels}");
        assert_eq!(each(&made, PatchWidth), [4, columns, columns, columns, 4], "{channels}");
    }
}

#[test]
fn single_rows_have_their_own_stride_and_wide_ones_are_not_spread() {
    let source = "net \"n\" {\n  input %x: f16[1, 64, 1, 64]\n  \
                  %y: f16[1, 64, 1, 64] = softmax(%x) axis=3\n  output %y\n}\n";
    assert_eq!(each(&tasks(source, &[]), Src1RowStride)[0], 2, "of 64 bytes");
    let source = "net \"n\" {\n  input %x: f16[1, 8, 1, 64]\n  \
                  %y: f16[1, 8, 1, 64] = layer_norm(%x) axes=[1, 2, 3] epsilon=1e-5\n  output %y\n}\n";
    let made = tasks(source, &[]);
    assert_eq!(each(&made, SrcL2RowStride)[2], 0x40);
    assert_eq!([PatchWidth, PatchHeight].map(|field| each(&made, field)[1]), [5, 3]);
}

#[test]
fn each_matrix_of_a_batch_is_loaded_once_and_its_rows_are_powers_of_two() {
    let source = "net \"n\" {\n  input %x: f16[3, 23, 64]\n  input %w: f16[3, 64, 375]\n  \
                  %y: f16[3, 23, 375] = matmul(%x, %w) transpose_x=false transpose_y=false\n  output %y\n}\n";
    let made = tasks(source, &[]);
    assert_eq!(each(&made, Cout), [1, 2, 4, 16].repeat(3));
    assert_eq!(each(&made, SrcType), [residency::DMA_KEEP, residency::L2, residency::L2, residency::L2].repeat(3));
    assert_eq!(each(&made, Spl), [1, 0, 0, 0].repeat(3), "groups");
    let depths = [Src1DepthStride, DstDepthStride].map(|field| each(&made, field)[0]);
    assert_eq!(depths, [3 * 64 * 12, 3 * 23 * 12], "of the whole tensors, in rows of 64 bytes");
    let inputs = [array("x", &[3, 23, 64], small), array("w", &[3, 64, 375], |i| small(i * 3 + i / 375))];
    let [own, apples] = both(source, &[], &inputs);
    assert_eq!(own.1, apples.1, "the same numbers");
}

/// A product `[batch, rows, depth] · [batch, depth, columns]` with either matrix transposed, its tasks, and the same numbers in both dialects.
fn batch([batch, rows, depth, columns]: [usize; 4], [turned, transposed]: [bool; 2]) -> Vec<Task> {
    let left = if turned { [batch, depth, rows] } else { [batch, rows, depth] };
    let right = if transposed { [batch, columns, depth] } else { [batch, depth, columns] };
    let source = format!(
        "net \"n\" {{\n  input %x: f16{left:?}\n  input %w: f16{right:?}\n  \
         %y: f16[{batch}, {rows}, {columns}] = matmul(%x, %w) transpose_x={turned} transpose_y={transposed}\n  output %y\n}}\n"
    );
    let inputs = [array("x", &left, small), array("w", &right, |i| small(i * 3 + i / 375))];
    let [own, apples] = both(&source, &[], &inputs);
    assert_eq!(own.1, apples.1, "the same numbers");
    tasks(&source, &[])
}

#[test]
fn one_copy_turns_all_matrices_of_a_batch() {
    let first = |tasks: &[Task], fields: &[Field]| fields.iter().map(|&f| each(tasks, f)[0]).collect::<Vec<u32>>();
    // Right matrices that stay in tile memory.
    let fields = [TileHeight, ShMax, SrcL2RowStride, ResL2RowStride];
    let made = batch([8, 5, 375, 128], [false, true]);
    assert_eq!(made.len(), 1 + 8 * 2, "the copy, then products of 1 and 4 rows");
    assert_eq!(first(&made, &fields), [8, 0, 0x800, 0x1771], "`bmm_r3rr_m375_k375_n128_tx0_ty1_b8`");
    assert_eq!(each(&made, SrcL2Base)[1], 7 * 0x1771, "the last matrix first");
    let made = batch([8, 5, 128, 749], [false, true]);
    assert_eq!(first(&made, &fields), [4, 1, 0x1768, 0x2f00], "`bmm_r3rr_m375_k128_n749_tx0_ty1_b8`");
    let whole = batch([8, 5, 128, 375], [false, true]);
    assert_eq!(first(&whole, &fields), [8, 0, 0x1770, 0x1780], "`bmm_r3rb_m375_k128_n375_tx0_ty1_b8_idx`");
    assert_eq!(each(&whole, SrcL2Base)[..2], [0xbc00, 7 * 0x1780], "behind all eight results");
    assert_eq!(each(&made, ExeCycles)[1..], [1; 16], "749 columns of one lane (`bmm_r3rb_m375_k128_n749_tx0_ty0_b2`)");
    // Left matrices, whose equal rows lie side by side in memory.
    let made = batch([8, 375, 375, 64], [true, false]);
    assert_eq!(
        first(&made, &[TileHeight, ShMax, ResL2Base]),
        [6, 1, 6 * 0xbb8],
        "`bmm_r3rr_m375_k375_n128_tx1_ty0_b8`"
    );
    assert_eq!(first(&made, &[DstRowStride, DstPlaneStride]), [12, 8 * 12], "in rows of 64 bytes");
    // Right matrices beyond tile memory.
    let made = batch([8, 5, 1024, 128], [false, true]);
    assert_eq!(first(&made, &[DstInterleave, SrcL2RowStride, DstRowStride, DstPlaneStride]), [8, 0x203, 32, 8 * 32]);
    assert_eq!(
        each(&made, SrcType)[1..],
        [residency::DMA_KEEP, residency::L2].repeat(8),
        "`encoder_bmm_m375_k1024_n128_ty1_b8`"
    );
}

#[test]
fn a_row_that_several_tasks_read_is_kept_whole() {
    let source = "net \"n\" {\n  input %x: f16[1, 1024, 1, 375]\n  const %w: f16[1024, 1024, 1, 1] = blob 0\n  \
                  %y: f16[1, 1024, 1, 375] = conv(%x, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1\n  output %y\n}\n";
    let data = Data::F16((0..1 << 20).map(|i| f16::from_f32(if i % 13 == 0 { small(i / 13) } else { 0.0 })).collect());
    let blobs = [Arc::new(Tensor { shape: vec![1024, 1024, 1, 1], data })];
    let made = tasks(source, &blobs);
    assert_eq!(
        each(&made, SrcL2ChannelStride),
        [0x2f; 2],
        "375 columns (`encoder_conv_c1024_n1024_k1x1_s1_g1_bias0_valid`)"
    );
    assert_eq!(each(&made, SrcType), [residency::DMA_KEEP, residency::L2]);
    let [own, apples] = both(source, &blobs, &[array("x", &[1, 1024, 1, 375], small)]);
    assert_eq!(own.1, apples.1, "the same numbers");
}

#[test]
fn tiles_of_windows_fit_with_the_rows_that_they_read() {
    let weights = |shape: &[usize], value: fn(usize) -> f32| {
        let data = Data::F16((0..shape.iter().product()).map(|i| f16::from_f32(value(i))).collect());
        Arc::new(Tensor { shape: shape.to_vec(), data })
    };
    let source = "net \"n\" {\n  input %x: f16[1, 256, 100, 64]\n  const %w: f16[256, 1, 3, 3] = blob 0\n  const %b: f16[256] = blob 1\n  \
                  %y: f16[1, 256, 50, 32] = conv(%x, %w, %b) strides=[2, 2] pads=[[0, 1], [0, 1]] dilations=[1, 1] groups=256\n  output %y\n}\n";
    let blobs = [weights(&[256, 1, 3, 3], small), weights(&[256], |_| 0.25)];
    let made = tasks(source, &blobs);
    assert_eq!([TileHeight, SrcL2RowStride, ResL2Base].map(|field| each(&made, field)[0]), [24, 0x803, 50 * 0x803]);
    assert_eq!([BiasMode, AccBias].map(|field| each(&made, field)[0]), [0, 0x3400], "equal biases are a number");
    let [own, apples] = both(source, &blobs, &[array("x", &[1, 256, 100, 64], small)]);
    assert_eq!(own.1, apples.1, "the same numbers");

    let source = "net \"n\" {\n  input %x: f16[1, 1024, 1, 375]\n  const %w: f16[1024, 1, 1, 9] = blob 0\n  \
                  %y: f16[1, 1024, 1, 375] = conv(%x, %w) strides=[1, 1] pads=[[0, 0], [4, 4]] dilations=[1, 1] groups=1024\n  output %y\n}\n";
    let blobs = [weights(&[1024, 1, 1, 9], small)];
    assert_eq!(each(&tasks(source, &blobs), SrcL2ChannelStride), [0x10], "128 of 375 columns");
    let [own, apples] = both(source, &blobs, &[array("x", &[1, 1024, 1, 375], small)]);
    assert_eq!(own.1, apples.1, "the same numbers");
}

#[test]
fn tasks_do_not_cross_pages() {
    let source = "net \"n\" {\n  input %x: f16[1, 375, 64]\n  input %w: f16[1, 64, 64]\n  \
                  %y: f16[1, 375, 64] = matmul(%x, %w) transpose_x=false transpose_y=false\n  output %y\n}\n";
    let made = tasks(source, &[]);
    let pages = |task: &Task| [task.offset, task.offset + 4 * task.word_count() - 1].map(|at| at / TASK_PAGE_BYTES);
    assert!(made.iter().all(|task| pages(task)[0] == pages(task)[1]));
    assert_eq!(made[21].offset, TASK_PAGE_BYTES, "21 tasks of 768 bytes leave 256");
}

#[test]
fn pieces_that_skip_zeros_state_the_lanes_of_the_widest() {
    let source = "net \"n\" {\n  input %x: f16[1, 256, 32, 32]\n  const %w: f16[256, 256, 3, 3] = blob 0\n  \
                  %y: f16[1, 256, 15, 15] = conv(%x, %w) strides=[2, 2] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1\n  output %y\n}\n";
    let value = |i: usize| if i.is_multiple_of(31) { small(i / 31) } else { 0.0 };
    let data = Data::F16((0..256 * 256 * 9).map(|i| f16::from_f32(value(i))).collect());
    let weights = Arc::new(Tensor { shape: vec![256, 256, 3, 3], data });
    let made = tasks(source, std::slice::from_ref(&weights));
    assert_eq!(each(&made, SparseFmt), [1, 1]);
    assert_eq!(each(&made, Cout), [64, 192]);
    assert_eq!(each(&made, OcgSize), [4, 4]);
    let [own, apples] = both(source, &[weights], &[array("x", &[1, 256, 32, 32], |i| small(i / 7))]);
    assert_eq!(own.1, apples.1, "the same numbers");
}

/// A constant tensor of small whole numbers, most of them zero.
fn sparse(shape: &[usize], apart: usize) -> Arc<Tensor> {
    let value = |i: usize| if i.is_multiple_of(apart) { small(i / apart) } else { 0.0 };
    let data = Data::F16((0..shape.iter().product()).map(|i| f16::from_f32(value(i))).collect());
    Arc::new(Tensor { shape: shape.to_vec(), data })
}

#[test]
fn parts_of_a_norm_overlap_and_are_turned_by_eight() {
    for (rows, turned) in [(375_usize, 0), (512, 1)] {
        let shape = format!("f16[1, {rows}, 1024]");
        let source = format!(
            "net \"n\" {{\n  input %x: {shape}\n  %y: {shape} = layer_norm(%x) axes=[2] epsilon=1e-5\n  output %y\n}}\n"
        );
        let made = tasks(&source, &[]);
        let parts = rows.div_ceil(192);
        assert_eq!(made.len(), 2 * parts + 1, "{rows} rows");
        assert_eq!(each(&made, ResultTranspose)[..2 * parts], vec![turned; 2 * parts], "{rows} rows");
        assert_eq!(each(&made, OverlapFirst)[..2 * parts], vec![1; 2 * parts], "{rows} rows");
        // Rows of the deviations: the larger parts first, in the order of their means.
        let sizes: &[u32] = if parts == 2 { &[183, 192, 192, 183, 375] } else { &[128, 192, 192, 192, 192, 128, 512] };
        assert_eq!(each(&made, Cout), sizes, "{rows} rows");
        let [own, apples] = both(&source, &[], &[array("x", &[1, rows, 1024], |i| small(i / 3))]);
        let apart = own.1.iter().zip(&apples.1).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart < 0.01, "{rows} rows: {apart}");
    }
}

#[test]
fn a_matrix_added_to_products_is_read_beside_them_and_replaced_in_place() {
    let source = "net \"n\" {\n  input %x: f16[1, 128, 256]\n  const %v: f16[1024, 256] = blob 0\n  const %b: f16[1, 128, 1024] = blob 1\n  \
                  const %w: f16[256, 1024] = blob 2\n  const %c: f16[1, 128, 256] = blob 3\n  \
                  %m: f16[1, 128, 1024] = matmul(%x, %v) transpose_x=false transpose_y=true\n  %a: f16[1, 128, 1024] = add(%m, %b)\n  \
                  %g: f16[1, 128, 1024] = sigmoid(%a)\n  %n: f16[1, 128, 256] = matmul(%g, %w) transpose_x=false transpose_y=true\n  \
                  %y: f16[1, 128, 256] = add(%n, %c)\n  output %y\n}\n";
    let blobs =
        [sparse(&[1024, 256], 13), sparse(&[1, 128, 1024], 3), sparse(&[256, 1024], 17), sparse(&[1, 128, 256], 1)];
    let made = tasks(source, &blobs);
    assert_eq!(each(&made, Src1En), [1, 0, 1, 0, 0, 0, 1], "the DMA of the first source is on for the second");
    assert_eq!(each(&made, SourceMask)[2], 2);
    let place = each(&made, ResL2Base);
    assert_eq!(place[1..4], [place[1]; 3], "the sum and its table replace the product");
    assert_eq!(each(&made, Src2L2RowStride)[2], 4, "32 columns of 1024");
    assert_eq!(each(&made, TileHeight)[2], 128, "all rows");
    let [own, apples] = both(source, &blobs, &[array("x", &[1, 128, 256], small)]);
    let apart = own.1.iter().zip(&apples.1).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart < 0.5, "{apart}");
}

#[test]
fn a_product_reads_rows_as_they_are_written_by_a_task_of_its_extents() {
    // Rows, inputs, hidden units: equal rows and inputs, or equal inputs and hidden units.
    for (rows, inputs, hidden, waits) in
        [(256, 256, 512, [0, 1, 0]), (128, 256, 512, [0, 0, 0]), (64, 256, 256, [0, 0, 1])]
    {
        let source = format!(
            "net \"n\" {{\n  input %x: f16[1, {rows}, {inputs}]\n  const %v: f16[{hidden}, {inputs}] = blob 0\n  \
             const %w: f16[{inputs}, {hidden}] = blob 1\n  \
             %a: f16[1, {rows}, {hidden}] = matmul(%x, %v) transpose_x=false transpose_y=true\n  \
             %r: f16[1, {rows}, {hidden}] = relu(%a)\n  \
             %y: f16[1, {rows}, {inputs}] = matmul(%r, %w) transpose_x=false transpose_y=true\n  output %y\n}}\n"
        );
        let blobs = [sparse(&[hidden, inputs], 13), sparse(&[inputs, hidden], 17)];
        assert_eq!(each(&tasks(&source, &blobs), Dependent)[..3], waits, "{rows} rows");
        let [own, apples] = both(&source, &blobs, &[array("x", &[1, rows, inputs], small)]);
        assert_eq!(own.1, apples.1, "the same numbers");
    }
}

#[test]
fn units_of_transposed_rows_and_rows_that_are_kept_fill_what_they_have() {
    let transposed = |rows: usize| {
        format!(
            "net \"n\" {{\n  input %x: f16[128, {rows}]\n  input %w: f16[256, 128]\n  \
             %y: f16[{rows}, 256] = matmul(%x, %w) transpose_x=true transpose_y=true\n  output %y\n}}\n"
        )
    };
    assert_eq!(each(&tasks(&transposed(64), &[]), ShMin)[0], 1, "two rows of 64 columns");
    assert_eq!(each(&tasks(&transposed(128), &[]), ShMin)[0], 0);
    let shape = "f16[1, 128, 16, 16]";
    let source = format!(
        "net \"n\" {{\n  input %x: {shape}\n  %y: {shape} = layer_norm(%x) axes=[1] epsilon=1e-5\n  output %y\n}}\n"
    );
    let made = tasks(&source, &[]);
    assert_eq!([0, 2].map(|at| each(&made, SrcL2RowStride)[at]), [0x102; 2]);
}

#[test]
fn a_product_declares_what_two_of_its_tiles_reach() {
    for (rows, products) in [(128, vec![1]), (512, vec![0; 4])] {
        let source = format!(
            "net \"n\" {{\n  input %q: f16[1, {rows}, 64]\n  input %k: f16[1, {rows}, 64]\n  input %v: f16[1, {rows}, 64]\n  \
             %p: f16[1, {rows}, {rows}] = matmul(%q, %k) transpose_x=false transpose_y=true\n  \
             %s: f16[1, {rows}, {rows}] = softmax(%p) axis=2\n  \
             %y: f16[1, {rows}, 64] = matmul(%s, %v) transpose_x=false transpose_y=false\n  output %y\n}}\n"
        );
        let made = each(&tasks(&source, &[]), ResAliasPlanarRslt);
        assert_eq!(made[made.len() - products.len()..], products, "{rows} rows");
    }
}

#[test]
fn attention_between_products_is_computed_transposed_and_its_coefficients_by_the_products() {
    let (rows, width) = (64, 256);
    let x = format!("f16[1, {rows}, {width}]");
    let square = format!("f16[1, {rows}, {rows}]");
    let wide = format!("f16[1, {rows}, {}]", 4 * width);
    let weights = |name: &str, n: usize, k: usize, at: usize| format!("  const %{name}: f16[{n}, {k}] = blob {at}\n");
    let constants = [
        weights("wq", width, width, 0),
        weights("wk", width, width, 1),
        weights("wv", width, width, 2),
        weights("wo", width, width, 3),
        weights("wa", 4 * width, width, 4),
        weights("wb", width, 4 * width, 5),
    ]
    .concat();
    let product = |to: &str, shape: &str, a: &str, b: &str, turned: bool| {
        format!("  %{to}: {shape} = matmul(%{a}, %{b}) transpose_x=false transpose_y={turned}\n")
    };
    let source = format!(
        "net \"n\" {{\n  input %x: {x}\n{constants}  const %c: f16[] = [0.125]\n  %n: {x} = layer_norm(%x) axes=[2] epsilon=1e-5\n{}{}{}{}  \
         %t: {square} = mul(%s, %c)\n  %p: {square} = softmax(%t) axis=2\n{}{}  %r: {x} = add(%x, %o)\n  \
         %m: {x} = layer_norm(%r) axes=[2] epsilon=1e-5\n{}  %g: {wide} = gelu(%h) mode=exact\n{}  %y: {x} = add(%r, %f)\n  output %y\n}}\n",
        product("q", &x, "n", "wq", true),
        product("k", &x, "n", "wk", true),
        product("v", &x, "n", "wv", true),
        product("s", &square, "q", "k", true),
        product("a", &x, "p", "v", false),
        product("o", &x, "a", "wo", true),
        product("h", &wide, "m", "wa", true),
        product("f", &x, "g", "wb", true),
    );
    let blobs = [
        sparse(&[width, width], 41),
        sparse(&[width, width], 43),
        sparse(&[width, width], 13),
        sparse(&[width, width], 17),
        sparse(&[4 * width, width], 97),
        sparse(&[width, 4 * width], 101),
    ];
    let made = tasks(&source, &blobs);
    // As recorded for `chain_block_d256_s64_proj1`.
    let places = [
        0, 8, 0x910, 0x10, 0x910, 0x910, 0x1110, 0, 0x1110, 0x1110, 0, 0x1110, 0x1310, 0x1550, 0xc10, 0x810, 0x10,
        0x10, 0, 8, 0x810, 0x2828, 0x810, 0x2828, 0x3028,
    ];
    assert_eq!(each(&made, ResL2Base), places);
    let at = |field: Field, value: u32| {
        let all = each(&made, field).into_iter().enumerate();
        all.filter(|(_, v)| *v == value).map(|(i, _)| i).collect::<Vec<_>>()
    };
    assert_eq!((at(DstInterleave, 4), at(DstInterleave, 8)), (vec![4], vec![13]), "rows of q, columns of v");
    assert_eq!((at(Spl, 1), at(Tse, 1), at(Tsr, 1)), (vec![0, 14], vec![12, 24], vec![13, 24]));
    assert_eq!((at(ShMin, 1), at(PatchHeight, 1)), (vec![9], vec![8, 11]), "units of the scores are free");
    assert_eq!(at(RuntimeWeights, 1), [6, 14, 15]);
    assert_eq!([2, 20].map(|i| each(&made, PatchWidth)[i]), [7, 8], "norms of an input and of a sum");
    assert_eq!([1, 19].map(|i| each(&made, Dependent)[i]), [0, 2], "norms of an input and of a sum");
    assert_eq!(each(&made, Src1RowStride)[14], 2, "the copy has one row");
    let [own, apples] = both(&source, &blobs, &[array("x", &[1, rows, width], |i| small(i / 3))]);
    let apart = own.1.iter().zip(&apples.1).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let most = own.1.iter().fold(0.0, |most: f32, v| most.max(v.abs()));
    assert!(apart < 0.01 * most, "{apart} of {most}");
}

#[test]
fn a_norm_attends_to_itself_in_one_group() {
    let (x, square) = ("f16[1, 128, 512]", "f16[1, 128, 128]");
    let source = format!(
        "net \"n\" {{\n  input %x: {x}\n  const %wa: f16[2048, 512] = blob 0\n  const %wb: f16[512, 2048] = blob 1\n  \
         const %c: f16[] = [0.125]\n  %n: {x} = layer_norm(%x) axes=[2] epsilon=1e-5\n  \
         %s: {square} = matmul(%n, %n) transpose_x=false transpose_y=true\n  %t: {square} = mul(%s, %c)\n  \
         %p: {square} = softmax(%t) axis=2\n  %a: {x} = matmul(%p, %n) transpose_x=false transpose_y=false\n  \
         %r: {x} = add(%x, %a)\n  %m: {x} = layer_norm(%r) axes=[2] epsilon=1e-5\n  \
         %h: f16[1, 128, 2048] = matmul(%m, %wa) transpose_x=false transpose_y=true\n  \
         %g: f16[1, 128, 2048] = gelu(%h) mode=exact\n  %f: {x} = matmul(%g, %wb) transpose_x=false transpose_y=true\n  \
         %y: {x} = add(%r, %f)\n  output %y\n}}\n"
    );
    let blobs = [sparse(&[2048, 512], 97), sparse(&[512, 2048], 101)];
    let made = tasks(&source, &blobs);
    // As recorded for `chain_block_d512_s128_proj0`.
    let places = [
        0, 0x10, 0x20, 0x2020, 0x2020, 0x4220, 0, 0x4220, 0x4220, 0, 0x4a20, 0x2020, 0x2020, 0, 0x10, 0x4020, 0xc020,
        0x4020, 0xc020, 0xe0a0,
    ];
    assert_eq!(each(&made, ResL2Base), places);
    assert_eq!(each(&made, Spl).iter().sum::<u32>(), 1, "one group");
    assert_eq!(each(&made, Dependent)[2..6], [0; 4]);
    assert_eq!(each(&made, SrcAliasPlanarRslt)[3..5], [1; 2]);
    assert_eq!(
        [ResAliasPlanarRslt, SrcAliasConvSrc].map(|field| [4, 12].map(|i| each(&made, field)[i])),
        [[1, 0], [0, 0]]
    );
    assert_eq!([11, 15].map(|i| [ExeCycles, PatchWidth].map(|field| each(&made, field)[i])), [[1, 0], [1, 9]]);
    let [own, apples] = both(&source, &blobs, &[array("x", &[1, 128, 512], |i| small(i / 3))]);
    let apart = own.1.iter().zip(&apples.1).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let most = own.1.iter().fold(0.0, |most: f32, v| most.max(v.abs()));
    assert!(apart < 0.01 * most, "{apart} of {most}");
}

#[test]
fn each_of_several_heads_has_its_product() {
    let source = "net \"n\" {\n  input %q: f16[4, 128, 64]\n  input %k: f16[4, 128, 64]\n  input %v: f16[4, 128, 64]\n  \
                  %p: f16[4, 128, 128] = matmul(%q, %k) transpose_x=false transpose_y=true\n  \
                  %s: f16[4, 128, 128] = softmax(%p) axis=2\n  \
                  %y: f16[4, 128, 64] = matmul(%s, %v) transpose_x=false transpose_y=false\n  output %y\n}\n";
    assert_eq!(tasks(source, &[]).len(), 18, "as recorded for `chain_attn_s128_dh64_h4`");
    let inputs = ["q", "k", "v"].map(|name| array(name, &[4, 128, 64], |i| small(i / 5)));
    let [own, apples] = both(source, &[], &inputs);
    let apart = own.1.iter().zip(&apples.1).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart < 0.01, "{apart}");
}

#[test]
fn a_transposed_copy_of_wide_rows_waits_for_all_of_them() {
    let source = |side: usize| {
        let shape = format!("f16[1, 128, {side}, {side}]");
        format!(
            "net \"n\" {{\n  input %x: {shape}\n  %y: {shape} = layer_norm(%x) axes=[1] epsilon=1e-5\n  output %y\n}}\n"
        )
    };
    // `norm_layer_norm_ax1_1x128x16x16`: the copy after the differences.
    let made = tasks(&source(16), &[]);
    assert_eq!(
        [SrcAliasPlanarRslt, ExeCycles].map(|field| each(&made, field)),
        [[1, 0, 1, 1, 0, 1], [3, 0, 0, 0, 0, 3]]
    );
}

#[test]
fn columns_that_become_rows_of_more_than_a_unit_are_stored_from_tiles() {
    let source = "net \"n\" {\n  input %x: f16[1, 128, 16, 16]\n  %y: f16[1, 128, 1, 16] = reduce_mean(%x) axes=[2] keep_dims=true\n  \
                  output %y\n}\n";
    // `reduce_probe_mean_ax2_1x128x16x16`.
    let made = tasks(source, &[]);
    let fields = [ResL2ChannelStride, ResL2RowStride, ResBfrMode, L2BfrMode];
    assert_eq!(fields.map(|field| each(&made, field)[2]), [2, 2, 0, 0]);
    let [own, apples] = both(source, &[], &[array("x", &[1, 128, 16, 16], small)]);
    assert_eq!(own.1, apples.1);
}
