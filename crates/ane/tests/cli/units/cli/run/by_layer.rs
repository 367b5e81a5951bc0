use anemone::layers::Layer;
use anemone::testing::{table, verdict};

fn layer(name: &str, rms: f32, cosine: f64, refused: Option<&str>) -> Layer {
    let refused = refused.map(str::to_string);
    Layer { name: name.into(), op: "conv", max: rms, rms, rounding_rms: 1.0, cosine, refused }
}

#[test]
fn layers_that_are_not_compared_are_counted_and_named() {
    let (good, lost) = (layer("a", 1.0, 1.0, None), layer("b", 0.0, 1.0, Some("too wide")));
    assert_eq!(verdict(None, "", &[], 1), "no value differs by more than fp16 rounding explains\n");
    let told = verdict(None, "", &[&lost], 2);
    assert!(told.starts_with("no value of those compared differs"), "{told}");
    assert!(told.contains("1 layer of 2 not compared") && told.contains("conv `b`"), "{told}");
    assert!(verdict(None, "", &[&lost], 1).starts_with("no value could be compared"));
    let wrong = layer("c", 9.0, 0.5, None);
    let told = verdict(Some(&wrong), "", &[&lost], 3);
    assert!(told.starts_with("first that differs: conv `c`, 9.0 times") && told.contains("1 layer of 3"), "{told}");
    let table = table(&[good, lost]);
    assert!(table.contains("b      conv                 not compared: too wide"), "{table}");
}
