//! Booleans of one byte at the ports of programs in the dialect of Apple's compiler of 2026: words, results, and the digest of its table.

use super::dialect_words::{each, tasks};
use super::dialects::{array, both};
use anemone_compile::lut::Table;
use anemone_compile::{Compat, Options, compile};
use anemone_facts::Field::*;
use anemone_facts::chips::CHIPS;
use anemone_net::text;
use anemone_program::Element;
use sha2::{Digest, Sha256};

fn elements(source: &str, compat: Compat) -> Vec<(Element, u64, u64)> {
    let net = text::parse(source, &[]).expect("the network is well formed");
    let program = compile(&net, &CHIPS[0], &Options { compat, ..Options::default() }, &mut ()).expect("it compiles");
    program.ports.iter().map(|port| (port.element, port.strides.row_bytes, port.bytes)).collect()
}

#[test]
fn a_conversion_from_bytes_is_one_planar_task() {
    for (rows, columns, distance, patch) in [(64, 1, 0x2, [4, 5]), (375, 375, 0x4, [5, 4])] {
        let source = format!(
            "net \"n\" {{\n  input %x: bool[1, 1, {rows}, {columns}]\n  %y: f16[1, 1, {rows}, {columns}] = cast(%x)\n  output %y\n}}\n"
        );
        // `cast_b_to_f16_1x1x64x1`, `cast_b_to_f16_1x1x375x375`.
        let made = tasks(&source, &[]);
        let formats = [InFmt, OutFmt, Src1FmtMode, Src1MemFmt, DstMemFmt, SrcDmaFmt, ResDmaFmt];
        assert_eq!(formats.map(|field| each(&made, field)[0]), [0, 2, 0, 0, 2, 0, 1]);
        let tiles = [SrcL2RowStride, PatchWidth, PatchHeight].map(|field| each(&made, field));
        assert_eq!(tiles, [distance, patch[0], patch[1]].map(|word| vec![word]));
        let row = (columns as u64).next_multiple_of(64);
        assert_eq!(elements(&source, Compat::Zin9509)[0], (Element::Uint8, row, row * rows as u64));
        assert_eq!(elements(&source, Compat::Own)[0].0, Element::Float16);
        let truth = |i: usize| (i * 7 % 5 % 2) as f32;
        let [own, apples] = both(&source, &[], &[array("x", &[1, 1, rows, columns], truth)]);
        let wanted: Vec<f32> = (0..rows * columns).map(truth).collect();
        assert!(own.1 == wanted && apples.1 == wanted, "{rows} x {columns}");
    }
}

#[test]
fn an_opposite_reads_and_writes_bytes() {
    let source = "net \"n\" {\n  input %x: bool[1, 1, 375, 375]\n  const %no: bool[] = [false]\n  \
                  %y: bool[1, 1, 375, 375] = equal(%x, %no)\n  output %y\n}\n";
    // `logical_not_1x1x375x375`.
    let made = tasks(source, &[]);
    let fields =
        [InFmt, OutFmt, KernelFmt, BinaryPoint, SrcDmaFmt, ResDmaFmt, DstMemFmt, SrcL2ChannelStride, NonlinearMode];
    assert_eq!(fields.map(|field| each(&made, field)), [0, 0, 0, 0, 0, 0, 0, 0x10, 2].map(|word| vec![word]));
    let digest: Vec<u8> = Sha256::digest(Table::opposite().stream()).iter().take(6).copied().collect();
    assert_eq!(digest, [0xee, 0x52, 0xb5, 0x3b, 0x5f, 0x3f]);
    let truth = |i: usize| (i % 3 % 2) as f32;
    let [own, apples] = both(source, &[], &[array("x", &[1, 1, 375, 375], truth)]);
    let wanted: Vec<f32> = (0..375 * 375).map(|i| 1.0 - truth(i)).collect();
    assert!(own.1 == wanted && apples.1 == wanted);
}

#[test]
fn tables_of_one_channel_of_bytes_take_longer() {
    // `logical_not_1x1x375x375`, `logical_not_1x1x749x375`.
    for (rows, estimate) in [(375, 12), (749, 24)] {
        let shape = format!("bool[1, 1, {rows}, 375]");
        let source = format!(
            "net \"n\" {{\n  input %x: {shape}\n  const %no: bool[] = [false]\n  %y: {shape} = equal(%x, %no)\n  output %y\n}}\n"
        );
        assert_eq!(each(&tasks(&source, &[]), ExeCycles), [estimate], "{rows} rows");
    }
}

#[test]
fn a_choice_by_bytes_is_the_sum_of_two_products() {
    let source = |shape: &str, condition: &str| {
        format!(
            "net \"n\" {{\n  input %a: f16[{shape}]\n  input %b: f16[{shape}]\n  input %c: bool[{condition}]\n  \
             %y: f16[{shape}] = select(%c, %a, %b)\n  output %y\n}}\n"
        )
    };
    // `candidate_select_rrb_1x1024x375_bcast_cond`: the opposite, its product with the second operand, the truth, its product, the sum.
    let made = tasks(&source("1, 1024, 375", "1, 1, 375"), &[]);
    let fields = [InFmt, ResL2Base, SrcL2Base, Dependent, ExeCycles, PatchWidth, Spl, SrcAliasPlanarRslt];
    let wanted = [
        [0, 2, 0, 2, 2],
        [0, 0x2f, 0, 0xbc33, 0x17833],
        [0xbc2f, 0, 0xbc2f, 0, 0xbc33],
        [0, 1, 0, 0, 0],
        [0, 23, 0, 23, 23],
        [0, 5, 0, 5, 5],
        [1, 0, 0, 0, 0],
        [1, 0, 0, 0, 1],
    ];
    assert_eq!(fields.map(|field| each(&made, field)), wanted.map(Vec::from));
    // That case and `select_rrb_1x8x375x375`.
    let cases = [
        ("1, 1024, 375", "1, 1, 375", [0x13, 0x9d, 0x94, 0xea, 0x40, 0x60]),
        ("1, 8, 375, 375", "1, 8, 375, 375", [0x6d, 0x07, 0xd3, 0x8c, 0xde, 0xb1]),
    ];
    for (shape, condition, wanted) in cases {
        let net = text::parse(&source(shape, condition), &[]).expect("the network is well formed");
        let options = Options { compat: Compat::Zin9509, ..Options::default() };
        let program = compile(&net, &CHIPS[0], &options, &mut ()).expect("it compiles");
        assert_eq!(Sha256::digest(&*program.kernel)[..6], wanted, "{shape}");
    }
    for (extents, condition) in
        [(vec![3, 5, 70], vec![3, 5, 70]), (vec![1, 20, 375], vec![1, 1, 375]), (vec![7], vec![7])]
    {
        let text = [&extents, &condition].map(|list| format!("{list:?}").trim_matches(['[', ']']).to_string());
        let truth = |i: usize| (i * 7 % 5 % 2) as f32;
        let (a, b) = (|i: usize| i as f32 / 4.0, |i: usize| -(i as f32) / 8.0 - 0.5);
        let inputs = [array("a", &extents, a), array("b", &extents, b), array("c", &condition, truth)];
        let [own, apples] = both(&source(&text[0], &text[1]), &[], &inputs);
        assert_eq!(own.1, apples.1, "{extents:?}");
    }
}

#[test]
fn products_of_a_choice_go_through_memory_with_channels_in_sets() {
    let source = |shape: &str| {
        format!(
            "net \"n\" {{\n  input %a: f16[{shape}]\n  input %b: f16[{shape}]\n  input %c: bool[{shape}]\n  \
             %y: f16[{shape}] = select(%c, %a, %b)\n  output %y\n}}\n"
        )
    };
    // `select_rrb_1x8x375x375`: the sum reads both products, each table stands beside an operand whose channels are apart.
    let made = tasks(&source("1, 8, 375, 375"), &[]);
    let fields = [
        DstInterleave,
        Src1Interleave,
        Src2Interleave,
        DstBase,
        Src1Base,
        Src2Base,
        Src2RowStride,
        ExeCycles,
        Spl,
        Tsr,
        OverlapFirst,
        SrcAliasConvSrc,
        SrcAliasConvRslt,
        L2BfrMode,
    ];
    let wanted = [
        [1, 8, 1, 8, 1],
        [1, 1, 1, 1, 8],
        [0; 5],
        [0x89b2, 0, 0x89b2, 0x11652, 0],
        [0, 0x89b2, 0, 0x89b2, 0x11652],
        [0; 5],
        [0, 0xc, 0, 0xc, 0x5e],
        [101, 201, 67, 201, 199],
        [1, 0, 0, 1, 0],
        [0, 0, 1, 0, 1],
        [0, 0, 0, 1, 0],
        [1, 0, 0, 1, 0],
        [1, 1, 0, 1, 0],
        [1, 1, 1, 1, 0],
    ];
    for (field, wanted) in fields.into_iter().zip(wanted) {
        assert_eq!(each(&made, field), wanted, "{field:?}");
    }
    // Channels that eight does not divide: twelve, six and five.
    for extents in [[1, 8, 375, 375], [1, 12, 300, 300], [1, 6, 420, 420], [1, 5, 460, 460]] {
        let text = format!("{extents:?}").trim_matches(['[', ']']).to_string();
        let (a, b) = (|i: usize| (i % 509) as f32 / 4.0, |i: usize| -((i % 1021) as f32) / 8.0 - 0.5);
        let inputs =
            [array("a", &extents, a), array("b", &extents, b), array("c", &extents, |i| (i * 7 % 5 % 2) as f32)];
        let sets = each(&tasks(&source(&text), &[]), DstInterleave)[1];
        assert_eq!(sets as usize, [8, 4, 2].into_iter().find(|by| extents[1] % by == 0).unwrap_or(1), "{extents:?}");
        let [own, apples] = both(&source(&text), &[], &inputs);
        assert_eq!(own.1, apples.1, "{extents:?}");
    }
}

#[test]
fn booleans_between_other_operations_are_widened_once_and_stored_as_bytes() {
    let shape = |dtype: &str| format!("{dtype}[1, 3, 5, 70]");
    let (bits, halves) = (shape("bool"), shape("f16"));
    let source = format!(
        "net \"n\" {{\n  input %b: {bits}\n  input %x: {halves}\n  input %y: {halves}\n  %l: {bits} = less(%x, %y)\n  \
         %s: {halves} = select(%b, %x, %y)\n  %c: {halves} = cast(%b)\n  %z: {halves} = add(%s, %c)\n  output %z\n  output %l\n}}\n"
    );
    let count = 3 * 5 * 70;
    let (b, x, y) = (|i: usize| (i % 2) as f32, |i: usize| (i % 7) as f32, |i: usize| (i % 5) as f32 + 0.5);
    let extents = [1, 3, 5, 70];
    let inputs = [array("b", &extents, b), array("x", &extents, x), array("y", &extents, y)];
    let net = text::parse(&source, &[]).expect("the network is well formed");
    let wanted: Vec<f32> = (0..count).map(|i| b(i) + if b(i) > 0.0 { x(i) } else { y(i) }).collect();
    let less: Vec<f32> = (0..count).map(|i| f32::from(x(i) < y(i))).collect();
    for compat in [Compat::Own, Compat::Zin9509] {
        let options = Options { compat, ..Options::default() };
        let program = compile(&net, &CHIPS[0], &options, &mut ()).expect("it compiles");
        let run = anemone::execute(&program, &inputs, Default::default()).expect("it runs");
        let output = |name: &str| run.outputs.iter().find(|(n, _)| n == name).map(|(_, array)| array.data.clone());
        assert!(output("z").as_ref() == Some(&wanted) && output("l").as_ref() == Some(&less), "{compat:?}");
    }
    let ports = elements(&source, Compat::Zin9509);
    assert_eq!(ports.iter().filter(|port| port.0 == Element::Uint8).count(), 2);
}

#[test]
fn a_comparison_stored_as_bytes_is_a_difference_of_channel_pairs() {
    let source = |shape: &str, f: &str| {
        format!(
            "net \"n\" {{\n  input %x: f16[{shape}]\n  input %y: f16[{shape}]\n  %z: bool[{shape}] = {f}(%x, %y)\n  output %z\n}}\n"
        )
    };
    let made = tasks(&source("750, 1, 1", "less"), &[]);
    // `less_bool_rr_750x1x1`: the second operand, then the first, and their difference.
    let fields = [Cin, UnicastCin, OutFmt, KernelFmt, ResL2Base, NonlinearMode];
    let wanted = [[750, 750, 1500], [1, 1, 2], [2, 2, 0], [2, 2, 1], [1, 0, 0x5dc], [0, 0, 2]];
    assert_eq!(fields.map(|field| each(&made, field)), wanted.map(Vec::from));
    let net = text::parse(&source("750, 1, 1", "less"), &[]).expect("the network is well formed");
    let options = Options { compat: Compat::Zin9509, ..Options::default() };
    let program = compile(&net, &CHIPS[0], &options, &mut ()).expect("it compiles");
    let digest: Vec<u8> = Sha256::digest(&*program.kernel).iter().take(6).copied().collect();
    assert_eq!(digest, [0x10, 0x28, 0x81, 0xfe, 0xd0, 0xb2]);
    let special = [0.0, -0.0, 1.0, -1.5, 6e-8, -6e-8, 65504.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.5];
    for (shape, extents) in [("121, 1, 1", vec![121, 1, 1]), ("1, 121", vec![1, 121]), ("11, 1, 11", vec![11, 1, 11])] {
        let (x, y) = (|i: usize| special[i / 11], |i: usize| special[i % 11]);
        let inputs = [array("x", &extents, x), array("y", &extents, y)];
        for (f, holds) in [("less", (|x, y| x < y) as fn(f32, f32) -> bool), ("greater", |x, y| x > y)] {
            let [own, apples] = both(&source(shape, f), &[], &inputs);
            let wanted: Vec<f32> = (0..121).map(|i| f32::from(holds(x(i), y(i)))).collect();
            assert!(own.1 == wanted && apples.1 == wanted, "{f} of {shape}");
        }
    }
}

#[test]
fn a_transpose_of_bytes_is_one_copy() {
    for (extents, perm, last) in [(vec![1, 375, 375], "[0, 2, 1]", 1), (vec![3, 5, 70], "[2, 1, 0]", 0)] {
        let mut result = extents.clone();
        result.swap(last, 2);
        let source = format!(
            "net \"n\" {{\n  input %x: bool{extents:?}\n  %y: bool{result:?} = transpose(%x) perm={perm}\n  output %y\n}}\n"
        );
        let made = tasks(&source, &[]);
        assert_eq!([InFmt, OutFmt, NeTranspose].map(|field| each(&made, field)), [0, 0, 1].map(|word| vec![word]));
        if extents[1] == 375 {
            // `candidate_transpose_bool_1x375x375_021`.
            assert_eq!([ResL2ChannelStride, ResL2RowStride].map(|field| each(&made, field)[0]), [0x18, 0x2328]);
        }
        let truth = |i: usize| (i * 7 % 5 % 2) as f32;
        let [own, apples] = both(&source, &[], &[array("x", &extents, truth)]);
        assert_eq!(own.1, apples.1);
    }
}
