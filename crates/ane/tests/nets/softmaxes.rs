//! Softmax in the dialect of Apple's compiler of 2026: words of tasks, and the same numbers as without it.

use super::dialect_words::{each, tasks};
use super::dialects::{array, both, small};
use anemone_facts::Field::*;
use anemone_facts::code::residency;

#[test]
fn a_softmax_over_one_element_keeps_few_numbers_in_rows() {
    let source =
        "net \"n\" {\n  input %x: f16[1, 64, 1, 1]\n  %y: f16[1, 64, 1, 1] = softmax(%x) axis=3\n  output %y\n}\n";
    let made = tasks(source, &[]);
    // `norm_softmax_a3_1x64x1x1`; 256 channels stay in columns (`norm_softmax_an1_1x256x1x1`).
    let turned = [ResultTranspose, Src1Transpose, Src2Transpose].map(|field| each(&made, field));
    assert_eq!(turned, [[1, 1, 0, 1, 0], [0, 0, 0, 1, 1], [0, 1, 0, 0, 1]].map(Vec::from));
    assert_eq!(each(&made, SrcL2Base), [0x10, 0x10, 0x8, 0, 0x8]);
    assert_eq!(each(&made, ResL2Base), [0, 0x8, 0, 0x8, 0x10]);
    assert_eq!(each(&tasks(&source.replace("64", "256"), &[]), Src1Transpose), [0; 5]);
    let [own, apples] = both(source, &[], &[array("x", &[1, 64, 1, 1], small)]);
    assert!(own.1 == [1.0; 64] && apples.1 == [1.0; 64]);
}

#[test]
fn the_maximum_of_a_single_row_is_a_unit_of_one_row() {
    let source = |rows: usize| {
        let shape = format!("f16[1, 8, {rows}, 64]");
        format!("net \"n\" {{\n  input %x: {shape}\n  %y: {shape} = softmax(%x) axis=1\n  output %y\n}}\n")
    };
    // `norm_softmax_a1_1x8x1x64`; several rows have units of two (`norm_softmax_a1_1x64x8x8`).
    let units = [1, 2].map(|rows| each(&tasks(&source(rows), &[]), ShMax)[0]);
    assert!(units[0] == 0 && units[1] > 0, "{units:?}");
    let [own, apples] = both(&source(1), &[], &[array("x", &[1, 8, 1, 64], small)]);
    let off = own.1.iter().zip(&apples.1).map(|(own, apples)| (own - apples).abs()).fold(0.0, f32::max);
    assert!(off < 2e-3, "{off}");
}

#[test]
fn a_softmax_of_one_channel_repeats_it() {
    for columns in [64, 512] {
        let shape = format!("f16[1, 1, 1, {columns}]");
        let source =
            format!("net \"n\" {{\n  input %x: {shape}\n  %y: {shape} = softmax(%x) axis=1\n  output %y\n}}\n");
        let made = tasks(&source, &[]);
        assert_eq!([Src2BroadcastC, Src1BroadcastC].map(|field| each(&made, field)), [[1, 0, 0, 0], [0, 0, 0, 1]]);
        assert_eq!(each(&made, SmallSourceMode), [0; 4]);
        assert_eq!(each(&made, SrcL2ChannelStride)[0], columns.min(128) / 8, "columns of a patch");
        let [own, apples] = both(&source, &[], &[array("x", &[1, 1, 1, columns as usize], small)]);
        assert_eq!(own.1, apples.1, "ones");
    }
}

#[test]
fn differences_that_do_not_fit_go_through_memory_with_channels_in_sets() {
    // `env_chain_softmax_h12_s256` and `env_chain_softmax_h8_s256`: the copy stays, in tiles of 64 columns beside 1.5 MiB.
    for (heads, sets, columns, row) in [(12, 4, 0x8, 0x60), (8, 8, 0x10, 0x80)] {
        let shape = format!("f16[1, {heads}, 256, 256]");
        let source =
            format!("net \"n\" {{\n  input %x: {shape}\n  %y: {shape} = softmax(%x) axis=3\n  output %y\n}}\n");
        let made = tasks(&source, &[]);
        assert_eq!(each(&made, DstInterleave), [1, 1, sets, 1, 1, 1], "{heads} heads");
        assert_eq!(each(&made, Src1Interleave), [1, 1, 1, sets, 1, 1]);
        assert_eq!(
            each(&made, ResType),
            [0, 0, 2, 0, 0, 2].map(|at| if at > 0 { residency::DMA } else { residency::L2 })
        );
        let rows = [SrcL2ChannelStride, SrcL2RowStride].map(|field| each(&made, field)[3]);
        assert_eq!(rows, [columns, row], "of the table's tile");
        assert_eq!([Spl, Tsr].map(|field| each(&made, field)), [[1, 0, 0, 1, 0, 0], [0, 0, 1, 0, 0, 1]], "groups");
        let maximum = heads * 0x2000;
        assert_eq!(each(&made, Src2L2Base)[2], maximum, "the maxima behind the copy");
        assert_eq!(each(&made, ResL2Base)[3], heads * 0x100, "the exponentials behind their sums");
        let [own, apples] = both(&source, &[], &[array("x", &[1, heads as usize, 256, 256], small)]);
        let off = own.1.iter().zip(&apples.1).map(|(own, apples)| (own - apples).abs()).fold(0.0, f32::max);
        assert!(off < 2e-4, "{off}");
    }
}
