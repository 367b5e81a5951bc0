//! Floors and floor divisions as Apple's compiler of 2026 computes them, words and results, and the digests of its tables.

use super::dialect_words::{each, tasks};
use super::dialects::{array, both};
use anemone::execute;
use anemone_compile::lut::Table;
use anemone_compile::{Compat, Options, compile};
use anemone_facts::Field::*;
use anemone_facts::chips::CHIPS;
use anemone_net::text;
use sha2::{Digest, Sha256};

#[test]
fn a_floor_is_the_truncation_less_one_for_a_negative_fraction() {
    let source =
        |shape: &str| format!("net \"n\" {{\n  input %x: {shape}\n  %y: {shape} = floor(%x)\n  output %y\n}}\n");
    // `floor_r_1x64x1x1`: tables of a column are rows, which the last task transposes back.
    let column = tasks(&source("f16[1, 64, 1, 1]"), &[]);
    assert_eq!(each(&column, NeTranspose), [1, 0, 1, 0]);
    assert_eq!(each(&column, ResL2Base)[..2], [0x8, 0], "units of 16 bytes");
    assert_eq!(each(&column, SrcL2Base)[..3], [0x10, 0x8, 0x10]);
    assert_eq!([Src1Transpose, Src2Transpose].map(|field| each(&column, field)[3]), [1, 1]);
    for shape in [vec![1, 64, 1, 1], vec![1, 3, 8, 24], vec![7]] {
        let text = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let numbers = [-2.5, -2.0, -0.25, 0.0, 0.25, 1.0, 1.75, -1000.5, 2047.0, f32::INFINITY, f32::NEG_INFINITY];
        let value = |i: usize| numbers[i % numbers.len()];
        let [own, apples] = both(&source(&format!("f16[{text}]")), &[], &[array("x", &shape, value)]);
        let wanted: Vec<f32> = (0..shape.iter().product()).map(|i| value(i).floor()).collect();
        assert_eq!((own.0, &own.1, apples.0, &apples.1), (4, &wanted, 4, &wanted), "{shape:?}");
    }
}

#[test]
fn a_floor_division_of_floats_is_the_floor_of_a_quotient() {
    let source = "net \"n\" {\n  input %x: f16[1, 64, 1, 1]\n  input %y: f16[1, 64, 1, 1]\n  \
                  %z: f16[1, 64, 1, 1] = floor_div(%x, %y)\n  output %z\n}\n";
    let net = text::parse(source, &[]).expect("the network is well formed");
    let refused = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect_err("a reciprocal is not exact");
    assert!(refused.to_string().contains("floor_div of floats"), "{refused}");
    let options = Options { compat: Compat::Zin9509, ..Options::default() };
    let program = compile(&net, &CHIPS[0], &options, &mut ()).expect("it compiles");
    // `floor_div_native_1x64x1x1_rr`: the quotient is a row, with its tables.
    let made = program.tasks().expect("tasks");
    assert_eq!(each(&made, NeTranspose), [1, 0, 0, 0, 0, 0]);
    assert_eq!(each(&made, ResultTranspose), [0, 1, 0, 0, 0, 0]);
    assert_eq!([Src1Transpose, Src2Transpose].map(|field| each(&made, field)[5]), [1, 1]);
    // The place of the reciprocal stays taken while the quotient is read.
    assert_eq!(each(&made, ResL2Base), [0, 0x8, 0x18, 0x10, 0x18, 0x20], "units of 16 bytes");
    let (x, y) = (|i: usize| (i * 5 % 37) as f32 / 4.0 - 4.0, |i: usize| [0.5, 1.0, -2.0, 4.0][i % 4]);
    let inputs = [array("x", &[1, 64, 1, 1], x), array("y", &[1, 64, 1, 1], y)];
    let run = execute(&program, &inputs, Default::default()).expect("it runs");
    let wanted: Vec<f32> = (0..64).map(|i| (x(i) / y(i)).floor()).collect();
    assert_eq!(run.outputs[0].1.data, wanted);
}

#[test]
fn single_elements_have_squares_and_banks_of_their_own() {
    let one = |body: &str| format!("net \"n\" {{\n  input %x: f16[1]\n{body}  output %z\n}}\n");
    let floor = one("  %z: f16[1] = floor(%x)\n");
    let halved = one("  const %two: f16[1] = [2]\n  %q: f16[1] = div(%x, %two)\n  %z: f16[1] = floor(%q)\n");
    let quotient = one("  input %y: f16[1]\n  %z: f16[1] = floor_div(%x, %y)\n");
    // Addresses in units of 16 bytes: `floor_r_1`, `floor_div_comp_1_s2`, `floor_div_native_1_rr`.
    let records: [(&str, [&[u32]; 3]); 3] = [
        (&floor, [&[1, 0, 4, 6], &[0, 0, 4, 0], &[0, 0, 1, 0]]),
        (&halved, [&[0, 1, 2, 6, 7], &[0, 4, 0, 4, 0], &[0, 0, 0, 1, 0]]),
        (&quotient, [&[1, 0, 2, 3, 7, 8], &[0, 0, 4, 0, 4, 0], &[0, 0, 0, 0, 1, 0]]),
    ];
    for (source, expected) in records {
        let made = tasks(source, &[]);
        let fields = [ResL2Base, ShMax, Unk34Bit23].map(|field| each(&made, field));
        assert_eq!(fields, expected.map(<[u32]>::to_vec), "{source}");
        assert_eq!(each(&made, PatchHeight).last(), Some(&4), "{source}");
    }
    let made = tasks(&quotient, &[]);
    assert_eq!((each(&made, Src2Dependent)[1], each(&made, SrcL2Base)[1]), (1, 5));
    assert_eq!(each(&tasks(&halved, &[]), PeScale)[0], 0x3800, "half, in fp16");
    for (x, down) in [(-2.5, -3.0), (-0.25, -1.0), (7.0, 7.0), (1000.5, 1000.0)] {
        let [own, apples] = both(&floor, &[], &[array("x", &[1], |_| x)]);
        assert_eq!((own.1, apples.1), (vec![down], vec![down]), "{x}");
        let [own, apples] = both(&halved, &[], &[array("x", &[1], |_| x)]);
        assert_eq!((own.1, apples.1), (vec![(x / 2.0).floor()], vec![(x / 2.0).floor()]), "{x}");
    }
}

#[test]
fn rows_are_repeated_by_one_task_that_reads_them_once() {
    for channels in [1, 8] {
        let source = format!(
            "net \"n\" {{\n  input %x: f16[1, {channels}, 1, 375]\n  %t: f16[1, {channels}, 375, 375] = broadcast(%x)\n  \
             %y: f16[1, {channels}, 375, 375] = relu(%t)\n  output %y\n}}\n"
        );
        // `tile_r_1x1x375_reps_13751`, `tile_r_1x8x1x375_reps_113751`.
        let made = tasks(&source, &[]);
        let fields =
            [Src1BroadcastH, SrcType, PatchWidth, PatchHeight, SrcL2RowStride, ResL2ChannelStride, ResL2RowStride];
        let row = if channels == 1 { 0x4 } else { 0x21 };
        assert_eq!(fields.map(|field| each(&made, field)), [1, 1, 5, 4, 0x2f, 0x4, row].map(|word| vec![word]));
        let value = |i: usize| (i % 11) as f32 - 5.0;
        let [own, apples] = both(&source, &[], &[array("x", &[1, channels, 1, 375], value)]);
        let row = |c: usize| (0..375).map(move |i| value(c * 375 + i).max(0.0));
        let wanted: Vec<f32> = (0..channels).flat_map(|c| (0..375).flat_map(move |_| row(c))).collect();
        assert!(own.1 == wanted && apples.1 == wanted, "{channels} channels");
    }
}

#[test]
fn tables_have_the_digests_of_the_records() {
    let digest = |tables: &[Table]| {
        let bytes: Vec<u8> = tables.iter().flat_map(Table::stream).collect();
        Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    assert_eq!(digest(&[Table::gelu()]), "34540958c4c19289", "`env_act_gelu_1x768x1x1_exact`");
    assert_eq!(digest(&[Table::silu()]), "0d48f9b9a9a791fc", "`env_chain_residual_silu_1x64x8x8`");
    let name = "`env_act_gelu_1x768x1x1_sigmoid_approximation`";
    assert_eq!(digest(&[Table::gelu_by_sigmoid()]), "2d42a6d5c643896e", "{name}");
    assert_eq!(digest(&[Table::negative()]), "7e690e6a168e558e", "`less_bool_rr_1x64x1x1`");
    let floor = [Table::fraction(), Table::negative(), Table::truncate()];
    assert_eq!(digest(&floor), "6880d0f577b489d4", "`floor_r_1`");
}
