//! `ane lut`: tables, lines through knots, pictures, and what is refused.

use crate::ane;
use crate::harness::*;

#[test]
fn tables_are_shown_with_their_largest_error() {
    let scratch = Scratch::new();
    let ran = ane!("lut", "tanh").fine();
    assert!(ran.out.contains("symmetry Odd") && ran.out.contains("\n  32 "), "{}", ran.out);
    let [svg, png] = ["t.svg", "t.png"].map(|n| scratch.out(n));
    let document = ane!("lut", "tanh", "--svg", svg, "--png", png, "--json").fine().json("anemone.lut/1");
    let knots = document["table"]["knots"].as_array().expect("knots");
    assert_eq!(knots.len(), 33);
    assert_eq!((knots[8][0].as_f64(), knots[8][1].as_f64()), (Some(1.0), Some(0.76171875)), "tanh 1 in fp16");
    let error = document["error"]["largest"]["absolute"].as_f64().expect("a number");
    assert!((1e-4..5e-3).contains(&error), "{error}");
    let picture = std::fs::read_to_string(&svg).expect("a picture");
    assert!(picture.starts_with("<svg") && picture.contains("polyline") && picture.contains("tanh: largest error"));
    assert!(std::fs::read(&png).expect("a picture").starts_with(b"\x89PNG\r\n\x1a\n"));
    let list = ane!("lut", "--json").fine().json("anemone.luts/1");
    for row in list["tables"].as_array().expect("a list") {
        let name = row["name"].as_str().expect("a name");
        let document = ane!("lut", name, "--json").fine().json("anemone.lut/1");
        assert!(document["error"]["arguments"].as_u64() > Some(1000), "{name}");
    }
}

#[test]
fn tables_of_ones_own_are_refused() {
    let scratch = Scratch::new();
    let values: Vec<f32> = (0..33).map(|i| (i % 3) as f32).collect();
    let file = npy_file(&scratch, "own.npy", &[33], &values);
    let reason = "wants the keys for saturation and those of a version both";
    ane!("lut", file).refused(1, "ANE1001", &[reason, "kZinIrNonLinearCustomLUT", "--compose"]);
    ane!("lut", "gaussian").refused(1, "ANE1001", &["gaussian has no table", "--compose"]);
    ane!("lut", "tahn").refused(2, "ANE2004", &["did you mean `tanh`?"]);
    ane!("lut", "tanh", "--knots", "9").refused(2, "ANE2004", &["--compose"]);
    let few = npy_file(&scratch, "one.npy", &[1], &[1.0]);
    ane!("lut", few, "--compose").refused(2, "ANE2003", &["1 knots: the limits are 2 and 1024"]);
    ane!("lut", "tanh", "--compose", "--from", "2", "--to", "1").refused(2, "ANE2003", &["knot 1"]);
    scratch.nothing_written();
}

#[test]
fn a_composed_function_runs_on_the_engine() {
    let scratch = Scratch::new();
    let model = scratch.out("bump.mlpackage");
    let ran = ane!("lut", "gaussian", "--compose", "--count", "33", "-o", model).fine();
    assert!(ran.out.contains("33 of 33 knots are met exactly") && ran.out.contains("error     at most"), "{}", ran.out);
    // A quarter apart from -4 to 4: exact in fp16, as are the values of the function rounded to it.
    let places: Vec<f32> = (0..33).map(|i| (i - 16) as f32 / 4.0).collect();
    let bump = |x: &f32| half::f16::from_f64((-f64::from(x * x) / 2.0).exp()).to_f32();
    let wanted: Vec<f32> = places.iter().map(bump).collect();
    let x = npy_file(&scratch, "x.npy", &[1, 1, 1, 33], &places);
    let y = npy_file(&scratch, "y.npy", &[1, 1, 1, 33], &wanted);
    ane!("run", model, "-i", x, "--expect", y, "--atol", "0", "--rtol", "0").fine();
    // Tails that are steps of the smallest number beside a value of 1.
    let bump = |x: &f32| half::f16::from_f64((-f64::from(x * x)).exp()).to_f32();
    let steep: Vec<f32> = places.iter().map(bump).collect();
    let (knots, model) = (npy_file(&scratch, "steep.npy", &[33], &steep), scratch.out("steep.mlpackage"));
    let ran = ane!("lut", knots, "--compose", "-o", model).fine();
    assert!(ran.out.contains("33 of 33 knots are met exactly"), "{}", ran.out);
    // This model has 1,024 columns: the places, over and over.
    let over = |values: &[f32]| values.iter().copied().cycle().take(1024).collect::<Vec<f32>>();
    let x = npy_file(&scratch, "x.npy", &[1, 1, 1, 1024], &over(&places));
    let y = npy_file(&scratch, "y.npy", &[1, 1, 1, 1024], &over(&steep));
    ane!("run", model, "-i", x, "--expect", y, "--atol", "0", "--rtol", "0").fine();
    let values: Vec<f32> = (0..9).map(|i| [0.0, 2.5, -1.0][i % 3]).collect();
    let file = npy_file(&scratch, "own.npy", &[9], &values);
    let document = ane!("lut", file, "--compose", "--from", "0", "--to", "8", "--json").fine().json("anemone.chain/1");
    assert_eq!(document["knots_met"], 9, "{document}");
    assert!(document["error"]["largest"]["absolute"].as_f64() < Some(5e-3), "{document}");
}

/// A `.npy` file of fp32; its path.
fn npy_file(scratch: &Scratch, name: &str, shape: &[usize], values: &[f32]) -> String {
    let extents: String = shape.iter().map(|n| format!("{n},")).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    scratch.file(name, npy("<f4", false, &format!("({extents})"), &bytes))
}
