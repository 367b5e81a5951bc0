use anemone_net::compress::*;
use anemone_net::graph::{Data, Tensor};
use std::sync::Arc;

fn weights() -> Tensor {
    let value = |i: usize| ((i * 2_654_435_761) % 1000) as f32 / 500.0 - 1.0;
    Tensor::f32([32, 64], (0..2048).map(value).collect())
}

fn worst(a: &Tensor, b: &Tensor) -> f32 {
    a.data.to_f32().iter().zip(b.data.to_f32()).fold(0.0, |m, (x, y)| m.max((x - y).abs()))
}

#[test]
fn what_is_made_of_compressed_constants_is_compressed_again() {
    let of = |made: &Tensor| Compression::of(&made.data);
    let dense = |t: &Tensor| Tensor { shape: t.shape.clone(), data: Data::F32(t.data.to_f32()) };
    let (few, sparse, plain) = (palettize(&weights(), 4), prune(&weights(), 0.5), weights());
    let (few, sparse) = (few.unwrap(), sparse.unwrap());
    let twice = |t: &Tensor| Tensor {
        shape: t.shape.clone(),
        data: Data::F32(t.data.to_f32().iter().map(|v| 2.0 * v).collect()),
    };
    let made = recompressed(twice(&few), [&plain, &few]);
    assert_eq!(of(&made), Compression { palette: true, ..Compression::default() });
    assert_eq!(made.data.to_f32(), twice(&few).data.to_f32());
    let made = recompressed(twice(&sparse), [&sparse]);
    assert_eq!(of(&made), Compression { sparse: true, ..Compression::default() });
    assert_eq!(made.data.to_f32(), twice(&sparse).data.to_f32());
    // More values than a byte counts; and nothing that was compressed.
    assert_eq!(recompressed(dense(&plain), [&few]), dense(&plain));
    assert_eq!(recompressed(dense(&few), [&plain]), dense(&few));
    let scales = |t: &Tensor| of(t).scaled;
    assert_eq!(scales(&int8(&weights()).unwrap()), Some(Scales::Channel));
}

#[test]
fn compressed_weights_are_near() {
    let w = weights();
    // Even values in -1..1 lie at most half a cluster from a centre.
    let four = palettize(&w, 4).unwrap();
    assert!(worst(&w, &four) < 1.2 / 16.0, "{}", worst(&w, &four));
    assert_eq!(four.data.stored_bytes(), 1024 + 16 * 4);
    assert!(worst(&w, &palettize(&w, 8).unwrap()) < 1.2 / 256.0);
    let eight = int8(&w).unwrap();
    assert!(worst(&w, &eight) < 0.6 / 127.0);
    assert_eq!(eight.data.stored_bytes(), 2048 + 32 * 4);
    let pruned = prune(&w, 0.75).unwrap();
    assert_eq!(pruned.data.to_f32().iter().filter(|&&v| v != 0.0).count(), 512);
    assert!(worst(&w, &pruned) <= 0.76);
}

#[test]
fn only_large_weights_are_taken() {
    let mut net = anemone_net::text::parse(
        "net \"n\" { input %x: f32[1, 64] const %w: f32[32, 64] = blob 0 const %b: f32[32] = blob 1 \
         %y: f32[1, 32] = linear(%x, %w, %b) output %y }",
        &[Arc::new(weights()), Arc::new(Tensor::f32([32], vec![0.5; 32]))],
    )
    .unwrap();
    let summary = compress(&mut net, Method::Int8).unwrap();
    assert_eq!((summary.tensors, summary.bytes_before), (1, 2048 * 4 + 128));
    assert!(summary.bytes_after < summary.bytes_before / 3);
    assert_eq!(compress(&mut net, Method::Int8).unwrap().tensors, 0, "compressed already");
    assert!(compress(&mut net, Method::Palette { bits: 5 }).is_err());
    anemone_net::check::check(&net).unwrap();
}
