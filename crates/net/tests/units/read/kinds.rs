//! Kinds of Core ML model files and choices that they leave open: kinds that are not read, images, flexible shapes, several
//! functions.

use super::*;
use anemone_net::mil::parse;
use anemone_net::testing::mil as proto;
use prost::Message;

fn model(kind: proto::Kind, description: proto::ModelDescription) -> Vec<u8> {
    proto::Model { specification_version: 8, description: Some(description), kind: Some(kind) }.encode_to_vec()
}

fn read_kind(bytes: &[u8], options: &Options) -> Result<Reading, Error> {
    let reading = read_mlmodel(bytes, &MemoryFiles::default(), options)?;
    check(&reading.0).map_err(|mut e| e.swap_remove(0))?;
    Ok(reading)
}

#[test]
fn older_kinds_are_named_with_the_way_out() {
    let layers = |names: &[&str]| proto::NeuralNetwork {
        layers: names.iter().map(|n| proto::Layer { name: n.to_string() }).collect(),
    };
    let plain = proto::ModelDescription::default;
    for (kind, words) in [
        (
            proto::Kind::NeuralNetwork(layers(&["conv1", "relu1"])),
            ["neural network of 2 layers (conv1, relu1)", "iOS 15"],
        ),
        (
            proto::Kind::NeuralNetworkClassifier(layers(&["a", "b", "c", "d"])),
            ["classifier of 4 layers (a, b, c, ...)", "coremltools"],
        ),
        (proto::Kind::NeuralNetworkRegressor(layers(&["a"])), ["regressor of 1 layers (a)", "coremltools"]),
        (proto::Kind::Pipeline(proto::Other {}), ["pipeline", "extract its ML Program"]),
        (proto::Kind::PipelineClassifier(proto::Other {}), ["pipeline", "extract its ML Program"]),
        (proto::Kind::CustomModel(proto::Other {}), ["custom model", "its code is not in the file"]),
    ] {
        let error = read_kind(&model(kind, plain()), &Options::default()).unwrap_err();
        assert!(matches!(error, Error::ModelKind { .. }), "{error}");
        let text = error.to_string();
        assert!(words.iter().all(|w| text.contains(w)), "{text}");
    }
}

const FLEXIBLE: &str = r#"program(1.0) { func main<ios18>(tensor<fp32, [1, ?, ?, ?]> x) {
    tensor<fp32, [1, ?, ?, ?]> y = relu(x = x); } -> (y); }"#;

/// Extents of the input and the note on it.
fn flexible(ty: proto::FeatureType, extents: &[(&str, usize)]) -> Result<(Vec<usize>, String), Error> {
    let input = vec![proto::FeatureDescription { name: "x".to_string(), ty: Some(ty) }];
    let description = proto::ModelDescription { input, ..Default::default() };
    let bytes = model(proto::Kind::MlProgram(parse(FLEXIBLE).unwrap()), description);
    let extents = extents.iter().map(|&(name, n)| (name.to_string(), n)).collect();
    let (net, notes) = read_kind(&bytes, &Options { extents, ..Options::default() })?;
    let shape = net.value(net.inputs[0]).ty.shape.clone();
    assert_eq!(net.value(net.outputs[0]).ty.shape, shape);
    Ok((shape, notes.join("\n")))
}

fn array(array: proto::ArrayFeatureType) -> proto::FeatureType {
    proto::FeatureType { multi_array: Some(array), ..Default::default() }
}

#[test]
fn enumerated_shapes_take_the_default() {
    let shapes = [[1, 3, 8, 8], [1, 3, 16, 16]].map(|s| proto::Shape { shape: s.to_vec() }).to_vec();
    let enumerated_shapes = Some(proto::EnumeratedShapes { shapes });
    let with = |shape: &[i64]| {
        let enumerated_shapes = enumerated_shapes.clone();
        array(proto::ArrayFeatureType { shape: shape.to_vec(), enumerated_shapes, ..Default::default() })
    };
    let (shape, notes) = flexible(with(&[1, 3, 16, 16]), &[]).unwrap();
    assert_eq!(shape, [1, 3, 16, 16]);
    assert!(notes.contains("one of 2 shapes ([1, 3, 8, 8], [1, 3, 16, 16]); its default [1, 3, 16, 16]"), "{notes}");
    // Without a default, the first.
    assert_eq!(flexible(with(&[]), &[]).unwrap().0, [1, 3, 8, 8]);
    let (shape, notes) = flexible(with(&[1, 3, 16, 16]), &[("x.2", 8), ("x.3", 8)]).unwrap();
    assert_eq!(shape, [1, 3, 8, 8]);
    assert!(notes.contains("as requested, [1, 3, 8, 8]"), "{notes}");
    let error = flexible(with(&[1, 3, 16, 16]), &[("x.2", 8)]).unwrap_err();
    assert!(error.to_string().contains("[1, 3, 8, 16] is not one that the model takes: one of 2 shapes"), "{error}");
}

#[test]
fn ranges_take_the_default_or_their_least() {
    let bounds = [(1, 1), (3, 3), (4, 64), (2, -1)];
    let size_ranges = bounds.map(|(lower_bound, upper_bound)| proto::SizeRange { lower_bound, upper_bound }).to_vec();
    let with = |shape: &[i64]| {
        let shape_range = Some(proto::ShapeRange { size_ranges: size_ranges.clone() });
        array(proto::ArrayFeatureType { shape: shape.to_vec(), shape_range, ..Default::default() })
    };
    let (shape, notes) = flexible(with(&[1, 3, 32, 32]), &[]).unwrap();
    assert_eq!(shape, [1, 3, 32, 32]);
    assert!(notes.contains("(1, 3, 4 to 64, 2 or more); its default [1, 3, 32, 32] is read"), "{notes}");
    assert_eq!(flexible(with(&[]), &[]).unwrap().0, [1, 3, 4, 2]);
    // Nothing known at all is an error with the input's name.
    let error = flexible(proto::FeatureType::default(), &[]).unwrap_err().to_string();
    assert!(error.contains('x'), "{error}");
}

#[test]
fn images_are_tensors() {
    for (color_space, channels, word) in
        [(20, 3, "RGB"), (30, 3, "BGR"), (10, 1, "8-bit grey"), (40, 1, "16-bit float grey")]
    {
        let image = Some(proto::ImageFeatureType { width: 6, height: 4, color_space });
        let (shape, notes) = flexible(proto::FeatureType { image, ..Default::default() }, &[]).unwrap();
        assert_eq!(shape, [1, channels, 4, 6]);
        assert!(notes.contains(word) && notes.contains("6 wide, 4 high"), "{notes}");
    }
}

#[test]
fn one_function_of_several_is_read() {
    let text = r#"program(1.0) {
        func up<ios18>(tensor<fp32, [2]> x) { tensor<fp32, [2]> y = add(x = x, y = fp32(1.0)); } -> (y);
        func down<ios18>(tensor<fp32, [3]> x) { tensor<fp32, [3]> y = sub(x = x, y = fp32(1.0)); } -> (y);
    }"#;
    let kind = || proto::Kind::MlProgram(parse(text).unwrap());
    let description = proto::ModelDescription { default_function_name: "down".to_string(), ..Default::default() };
    let bytes = model(kind(), description);
    let (net, notes) = read_kind(&bytes, &Options::default()).unwrap();
    assert_eq!(net.value(net.inputs[0]).ty.shape, [3]);
    assert!(notes.join("\n").contains("functions down, up; `down` is read"), "{notes:?}");
    let named = |name: &str| Options { function: Some(name.to_string()), ..Options::default() };
    assert_eq!(read_kind(&bytes, &named("up")).unwrap().0.name, "up");
    let error = read_kind(&bytes, &named("left")).unwrap_err().to_string();
    assert!(error.contains("left") && error.contains("down, up"), "{error}");
    // Without a default and without `main`, the caller must choose.
    assert!(read_kind(&model(kind(), proto::ModelDescription::default()), &Options::default()).is_err());
}
