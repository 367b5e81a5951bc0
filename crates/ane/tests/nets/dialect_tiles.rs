//! Tiles of sources beyond tile memory in the dialect of Apple's compiler of 2026, and streams that skip zeros.

use super::dialect_words::{each, tasks};
use super::dialects::{array, both, small};
use anemone_facts::{Field, Field::*};
use anemone_net::{Data, Tensor};
use half::f16;
use std::sync::Arc;

/// A constant without zeros.
fn constant(shape: &[usize]) -> Arc<Tensor> {
    let value = |i: usize| Some(small(i * 5 + i / 7)).filter(|value| *value != 0.0).unwrap_or(1.0);
    let data = Data::F16((0..shape.iter().product::<usize>()).map(|i| f16::from_f32(value(i))).collect());
    Arc::new(Tensor { shape: shape.to_vec(), data })
}

#[test]
fn windows_beyond_tile_memory_have_whole_units_and_count_rows_read_twice() {
    // `encoder_conv_idx_c1024_n1024_k9x1_s1_g1024_bias1_same_hmaj`.
    let source = "net \"n\" {\n  input %x: f16[1, 1024, 375, 1]\n  const %w: f16[1024, 1, 9, 1] = blob 0\n  \
                  const %b: f16[1024] = blob 1\n  \
                  %y: f16[1, 1024, 375, 1] = conv(%x, %w, %b) strides=[1, 1] pads=[[4, 4], [0, 0]] dilations=[1, 1] groups=1024\n  \
                  output %y\n}\n";
    let blobs = [constant(&[1024, 1, 9, 1]), constant(&[1024])];
    let made = tasks(source, &blobs);
    let fields = [TileHeight, SrcL2RowStride, ResL2Base, ShMax, ExeCycles];
    assert_eq!(fields.map(|field| each(&made, field)[0]), [96, 0x402, 0x1a0d0, 4, 0x5ce]);
    let [own, apples] = both(source, &blobs, &[array("x", &[1, 1024, 375, 1], small)]);
    assert_eq!(own.1, apples.1, "the same numbers");
    // `encoder_conv_idx_c1_n256_k3x3_s2_g1_bias1_same_stem`: a source that fits is read whole.
    let source = "net \"n\" {\n  input %x: f16[1, 1, 3000, 128]\n  const %w: f16[256, 1, 3, 3] = blob 0\n  \
                  %y: f16[1, 256, 1500, 64] = conv(%x, %w) strides=[2, 2] pads=[[0, 1], [0, 1]] dilations=[1, 1] groups=1\n  \
                  output %y\n}\n";
    let made = tasks(source, &[constant(&[256, 1, 3, 3])]);
    assert_eq!([TileHeight, ResL2Base].map(|field| each(&made, field)[0]), [1500, 0xbb80]);
    // `encoder_conv_c256_n256_k1x1_s1_g1_bias1_valid`: pairs of units, side by side.
    let source = "net \"n\" {\n  input %x: f16[1, 256, 750, 32]\n  const %w: f16[256, 256, 1, 1] = blob 0\n  \
                  %y: f16[1, 256, 750, 32] = conv(%x, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1\n  \
                  output %y\n}\n";
    let made = tasks(source, &[constant(&[256, 256, 1, 1])]);
    assert_eq!([TileHeight, SrcL2RowStride].map(|field| each(&made, field)[0]), [120, 0x400]);
}

#[test]
fn a_copy_that_exchanges_channels_and_rows_fills_tile_memory() {
    // `encoder_transpose_r4_0213_1x375x256x16`.
    let source = "net \"n\" {\n  input %x: f16[1, 375, 256, 16]\n  \
                  %y: f16[1, 256, 375, 16] = transpose(%x) perm=[0, 2, 1, 3]\n  output %y\n}\n";
    let made = tasks(source, &[]);
    let fields = [TileHeight, SrcL2RowStride, ResL2Base, ShMax];
    assert_eq!(fields.map(|field| each(&made, field)[0]), [255, 0x200, 0x1fe00, 3]);
    let [own, apples] = both(source, &[], &[array("x", &[1, 375, 256, 16], small)]);
    assert_eq!(own.1, apples.1, "the same numbers");
}

#[test]
fn mask_bits_of_a_place_are_the_channels_of_an_accumulator() {
    // `encoder_conv_idx_c256_n256_k3x3_s2_g256_bias1_same_dw1`: 16 channels of 27 bytes; of results of 8 x 8, of 31.
    for (side, size) in [(32, 7), (16, 8)] {
        let out = side / 2;
        let source = format!(
            "net \"n\" {{\n  input %x: f16[1, 256, {side}, {side}]\n  const %w: f16[256, 1, 3, 3] = blob 0\n  \
             const %b: f16[256] = blob 1\n  \
             %y: f16[1, 256, {out}, {out}] = conv(%x, %w, %b) strides=[2, 2] pads=[[0, 1], [0, 1]] dilations=[1, 1] groups=256\n  \
             output %y\n}}\n"
        );
        let blobs = [constant(&[256, 1, 3, 3]), constant(&[256])];
        let made = tasks(&source, &blobs);
        assert_eq!([each(&made, SparseFmt)[0], each(&made, CoeffSize)[0]], [1, size], "{side} rows");
        let [own, apples] = both(&source, &blobs, &[array("x", &[1, 256, side, side], small)]);
        assert_eq!(own.1, apples.1, "the same numbers");
    }
}

#[test]
fn pieces_of_products_keep_their_biases_and_exchange_channels_in_sets() {
    // `encoder_linear_m375_k1024_n640_bias1_idx`: 256, 256 and 128 outputs; equal biases are a number beside 512.
    let source = "net \"n\" {\n  input %x: f16[375, 1024]\n  const %w: f16[640, 1024] = blob 0\n  const %b: f16[640] = blob 1\n  \
                  %y: f16[375, 640] = linear(%x, %w, %b)\n  output %y\n}\n";
    let half = Arc::new(Tensor { shape: vec![640], data: Data::F16(vec![f16::from_f32(0.5); 640]) });
    for (bias, outputs) in [(constant(&[640]), vec![256, 256, 128]), (half, vec![512, 128])] {
        let blobs = [constant(&[640, 1024]), bias];
        assert_eq!(each(&tasks(source, &blobs), Cout)[1..], outputs);
    }
    // `chain_ffn_d1024_s375_matmul_silu`, with fewer columns behind it: six lanes of 4096 coefficients, sets of eight channels between.
    let source = "net \"n\" {\n  input %x: f16[375, 1024]\n  const %w: f16[4096, 1024] = blob 0\n  const %v: f16[192, 4096] = blob 1\n  \
                  const %b: f16[192] = blob 2\n  %h: f16[375, 4096] = linear(%x, %w)\n  %a: f16[375, 4096] = relu(%h)\n  \
                  %y: f16[375, 192] = linear(%a, %v, %b)\n  output %y\n}\n";
    let sparse = |shape: &[usize]| {
        let value = |i: usize| if i.is_multiple_of(29) { small(i / 29) } else { 0.0 };
        let data = Data::F16((0..shape.iter().product::<usize>()).map(|i| f16::from_f32(value(i))).collect());
        Arc::new(Tensor { shape: shape.to_vec(), data })
    };
    let blobs = [sparse(&[4096, 1024]), sparse(&[192, 4096]), constant(&[192])];
    let made = tasks(source, &blobs);
    let last = made.len() - 2;
    assert_eq!(each(&made, Cout)[last..], [96, 96]);
    assert_eq!(each(&made, OcgSize)[last..], [3, 3]);
    assert_eq!(each(&made, DstInterleave)[1..last], vec![8; last - 1]);
    assert_eq!(each(&made, DstDepthStride)[1..last], vec![0x2f0000 / 64; last - 1], "the whole matrix");
    assert_eq!(each(&made, Src1Interleave)[last..], [8, 8]);
    assert_eq!(each(&made, ShMax)[last..], [2, 2], "units of four");
    let [own, apples] = both(source, &blobs, &[array("x", &[375, 1024], |i| small(i / 7))]);
    assert_eq!(own.1, apples.1, "the same numbers");
}

#[test]
fn constants_that_are_copied_have_their_channels_in_sets() {
    // `env_bcast_add_1x8x375x128_blob_1x8x1x128`, of fewer rows; twelve channels are apart.
    for (channels, set) in [(8, 8), (16, 8), (12, 1)] {
        let source = format!(
            "net \"n\" {{\n  input %x: f16[1, {channels}, 24, 128]\n  const %c: f16[1, {channels}, 1, 128] = blob 0\n  \
             %y: f16[1, {channels}, 24, 128] = add(%x, %c)\n  output %y\n}}\n"
        );
        let blobs = [constant(&[1, channels, 1, 128])];
        assert_eq!(each(&tasks(&source, &blobs), Src1Interleave), [set, 1], "{channels} channels");
        let [own, apples] = both(&source, &blobs, &[array("x", &[1, channels, 24, 128], small)]);
        assert_eq!(own.1, apples.1, "the same numbers");
    }
}

#[test]
fn weights_of_any_bits_are_packed_only_in_that_dialect() {
    let source = "net \"n\" {\n  input %x: f16[4, 16]\n  const %w: f16[16, 16] = blob 0\n  \
                  %y: f16[4, 16] = linear(%x, %w)\n  output %y\n}\n";
    let mut values = vec![f16::ONE; 256];
    (values[3], values[5]) = (f16::NAN, f16::INFINITY);
    let blobs = [Arc::new(Tensor { shape: vec![16, 16], data: Data::F16(values) })];
    assert!(!tasks(source, &blobs).is_empty());
    let net = anemone_net::text::parse(source, &blobs).expect("the network is well formed");
    let refused = anemone_compile::compile(&net, &anemone_facts::chips::CHIPS[0], &Default::default(), &mut ());
    let reason = refused.expect_err("nothing times NaN is a number").to_string();
    assert!(reason.contains("weights hold NaN, first at element 3"), "{reason}");
}

#[test]
fn a_matrix_attended_to_itself_keeps_its_place() {
    // `chain_block_d256_s64_proj0`: the second norm's result and the last product are behind the first norm's.
    let line = |name: &str, shape: &str, rest: &str| format!("  %{name}: f16{shape} = {rest}\n");
    let x = "[1, 64, 256]";
    let mut source = format!(
        "net \"n\" {{\n  input %x: f16{x}\n  const %c: f16[1] = blob 0\n  const %w: f16[1024, 256] = blob 1\n  \
         const %v: f16[256, 1024] = blob 2\n"
    );
    for (name, shape, rest) in [
        ("n", x, "layer_norm(%x) axes=[2] epsilon=0.00001"),
        ("m", "[1, 64, 64]", "matmul(%n, %n) transpose_x=false transpose_y=true"),
        ("p", "[1, 64, 64]", "mul(%m, %c)"),
        ("s", "[1, 64, 64]", "softmax(%p) axis=2"),
        ("o", x, "matmul(%s, %n) transpose_x=false transpose_y=false"),
        ("a", x, "add(%x, %o)"),
        ("b", x, "layer_norm(%a) axes=[2] epsilon=0.00001"),
        ("h", "[1, 64, 1024]", "matmul(%b, %w) transpose_x=false transpose_y=true"),
        ("g", "[1, 64, 1024]", "relu(%h)"),
        ("z", x, "matmul(%g, %v) transpose_x=false transpose_y=true"),
        ("y", x, "add(%a, %z)"),
    ] {
        source += &line(name, shape, rest);
    }
    source += "  output %y\n}\n";
    let factor = Arc::new(Tensor { shape: vec![1], data: Data::F16(vec![f16::from_f32(0.125)]) });
    let small_weights = |shape: &[usize]| {
        let value = |i: usize| if i.is_multiple_of(11) { small(i / 11) / 16.0 } else { 0.0 };
        let data = Data::F16((0..shape.iter().product::<usize>()).map(|i| f16::from_f32(value(i))).collect());
        Arc::new(Tensor { shape: shape.to_vec(), data })
    };
    let blobs = [factor, small_weights(&[1024, 256]), small_weights(&[256, 1024])];
    let made = tasks(&source, &blobs);
    assert_eq!(made.len(), 20);
    assert_eq!([15, 16, 17].map(|at| each(&made, ResL2Base)[at]), [0x1010, 0x3028, 0x1010]);
    assert_eq!(each(&made, Src2L2Base)[19], 0x3028);
    let [own, apples] = both(&source, &blobs, &[array("x", &[1, 64, 256], small)]);
    let near = own.1.iter().zip(&apples.1).all(|(a, b)| (a - b).abs() <= 0.05 * a.abs().max(1.0));
    assert!(near, "tables of Apple's own");
}

#[test]
fn units_of_matrices_in_sets_are_those_of_their_tiles_for_four_lanes() {
    // `env_mm_r2rb_m256_k8192_n2048_tx0_ty1`, of fewer columns: tiles of 64 columns, four lanes of 8192 coefficients.
    let source = "net \"n\" {\n  input %x: f16[256, 8192]\n  const %w: f16[128, 8192] = blob 0\n  \
                  %y: f16[256, 128] = matmul(%x, %w) transpose_x=false transpose_y=true\n  output %y\n}\n";
    let value = |i: usize| if i.is_multiple_of(29) { small(i / 29) } else { 0.0 };
    let data = Data::F16((0..128 * 8192).map(|i| f16::from_f32(value(i))).collect());
    let blobs = [Arc::new(Tensor { shape: vec![128, 8192], data })];
    let made = tasks(source, &blobs);
    assert_eq!([OcgSize, ShPref, ShMin, ShMax].map(|field| each(&made, field)[1]), [2, 1, 1, 1]);
    let [own, apples] = both(source, &blobs, &[array("x", &[256, 8192], |i| small(i / 7))]);
    assert_eq!(own.1, apples.1, "the same numbers");
}

#[test]
fn sums_of_blocks_of_few_rows_keep_their_places() {
    // `chain_stack4_d256_s64_proj1`, of two blocks.
    let (x, square, wide) = ("f16[1, 64, 256]", "f16[1, 64, 64]", "f16[1, 64, 1024]");
    let mut source = format!("net \"n\" {{\n  input %x: {x}\n  const %c: f16[] = [0.125]\n");
    let (mut body, mut blobs) = (String::new(), Vec::new());
    let mut product = |source: &mut String, to: String, shape: &str, a: String, [n, k]: [usize; 2]| {
        let at = blobs.len();
        *source += &format!("  const %w{at}: f16[{n}, {k}] = blob {at}\n");
        let value = |i: usize| if i.is_multiple_of(11) { small(i / 11) / 16.0 } else { 0.0 };
        let data = Data::F16((0..n * k).map(|i| f16::from_f32(value(i + at))).collect());
        blobs.push(Arc::new(Tensor { shape: vec![n, k], data }));
        format!("  %{to}: {shape} = matmul(%{a}, %w{at}) transpose_x=false transpose_y=true\n")
    };
    for (block, input, output) in [("a", "x".to_string(), "z"), ("b", "z".to_string(), "y")] {
        body += &format!("  %n{block}: {x} = layer_norm(%{input}) axes=[2] epsilon=1e-5\n");
        for part in ["q", "k", "v"] {
            body += &product(&mut source, format!("{part}{block}"), x, format!("n{block}"), [256; 2]);
        }
        body += &format!(
            "  %s{block}: {square} = matmul(%q{block}, %k{block}) transpose_x=false transpose_y=true\n  \
             %t{block}: {square} = mul(%s{block}, %c)\n  %p{block}: {square} = softmax(%t{block}) axis=2\n  \
             %a{block}: {x} = matmul(%p{block}, %v{block}) transpose_x=false transpose_y=false\n"
        );
        body += &product(&mut source, format!("o{block}"), x, format!("a{block}"), [256; 2]);
        body += &format!(
            "  %r{block}: {x} = add(%{input}, %o{block})\n  %m{block}: {x} = layer_norm(%r{block}) axes=[2] epsilon=1e-5\n"
        );
        body += &product(&mut source, format!("h{block}"), wide, format!("m{block}"), [1024, 256]);
        body += &format!("  %g{block}: {wide} = gelu(%h{block}) mode=exact\n");
        body += &product(&mut source, format!("f{block}"), x, format!("g{block}"), [256, 1024]);
        body += &format!("  %{output}: {x} = add(%r{block}, %f{block})\n");
    }
    source += &format!("{body}  output %y\n}}\n");
    let made = tasks(&source, &blobs);
    assert_eq!(made.len(), 50);
    let at = |field: Field, task: usize| each(&made, field)[task];
    assert_eq!(
        [SrcL2Base, Src2L2Base, ResL2Base].map(|f| at(f, 24)),
        [0x10, 0x2828, 0x10],
        "in place of the first sum"
    );
    assert_eq!([SrcL2Base, Src2L2Base, ResL2Base].map(|f| at(f, 42)), [0x10, 0x810, 0x810], "of the product");
    assert_eq!([31, 37, 45, 47, 48].map(|task| at(ResL2Base, task)), [0x1910, 0x1b10, 0x1010, 0x1010, 0x3028]);
    assert_eq!(at(Dependent, 26), 2, "the mean is consumed as it is written");
    assert_eq!([11, 36].map(|task| at(Dependent, task)), [2, 0], "the second block's weights wait for all sums");
    assert_eq!([12, 37].map(|task| at(ShPref, task)), [0, 1], "and their copy has units of two rows");
    let [own, apples] = both(&source, &blobs, &[array("x", &[1, 64, 256], |i| small(i / 3))]);
    let apart = own.1.iter().zip(&apples.1).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let most = own.1.iter().fold(0.0, |most: f32, v| most.max(v.abs()));
    assert!(apart < 0.01 * most, "{apart} of {most}");
}
