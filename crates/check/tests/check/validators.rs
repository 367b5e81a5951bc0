//! Every limit has a layer that it refuses and one that it takes; Apple's texts appear for what triggers them.

use anemone_check::exports::{Subject, call};
use anemone_check::layer::Layer;
use anemone_check::legal::{self, MatchStatus, Route};
use anemone_check::validate::{self, Network};
use anemone_facts::chips::{CHIPS, Chip};
use anemone_facts::legal::{Bound, MatchParams, Quantity as Q, RANGES, RULES, Rule, When};
use anemone_facts::silicon::by_name;
use anemone_facts::validators::{OTHERS, VALIDATORS};
use anemone_net::outline::{Argument, Named, Origin, Outline, OutlineOp, OutlineType};

fn chip(name: &str) -> &'static Chip {
    by_name(name).expect("the chip is known")
}

/// A layer to which the rule applies.
fn applying(rule: &Rule) -> Layer {
    rule.when.iter().fold(Layer::new(rule.layer, "it"), |layer, when| match *when {
        When::Has(q) => layer.with(q, 1),
        When::Lacks(q) => layer.with(q, 0),
        When::Above(q, limit) => layer.with(q, limit + 1),
        When::AtMost(q, limit) => {
            let value = layer.get(q).unwrap_or(limit).min(limit);
            layer.with(q, value)
        }
        When::Family(_) | When::Without(_) | When::Direct => layer,
    })
}

/// Layers to try for a rule: around its bounds.
fn candidates(rule: &Rule, chip: &Chip) -> Vec<Layer> {
    let base = applying(rule);
    let around = |q: Q, bound: Bound| -> Vec<Layer> {
        let at = match bound {
            Bound::Number(n) => n,
            Bound::Hal(name) => legal::number(chip, name).map_or(1, |n| n as i64),
            Bound::Of(_) => 3,
        };
        let with = |n: i64| {
            let layer = base.clone().with(q, n);
            match bound {
                Bound::Of(other) => layer.with(other, at),
                _ => layer,
            }
        };
        vec![with(at), with(at + 1), with(at - 1)]
    };
    match rule.matches {
        MatchParams::Between(q, least, most) => [around(q, least), around(q, most)].concat(),
        MatchParams::Divisible(q, by) => vec![base.clone().with(q, 8).with(by, 4), base.with(q, 8).with(by, 3)],
        MatchParams::OneOf(q, _) | MatchParams::StrideFactors(q) => [1, 13].map(|n| base.clone().with(q, n)).to_vec(),
        MatchParams::Never(q) => vec![base.clone(), base.with(q, 4)],
        MatchParams::Capability(_) | MatchParams::Floor(_) => vec![base],
    }
}

/// Apple's text of a rule appears, its places filled, for a layer that the rule refuses.
fn told(rule: &Rule, layer: &Layer, chip: &Chip) {
    let before = rule.apple.split('%').next().unwrap_or_default();
    let texts = || legal::check(layer, chip, Route::Direct).refusals.into_iter().filter_map(|r| r.apple);
    assert!(before.is_empty() || texts().any(|t| t.starts_with(before)), "{rule:?}");
    assert!(texts().all(|t| !["%zd", "%d", "%s"].iter().any(|place| t.contains(place))), "{rule:?}");
}

#[test]
fn every_rule_refuses_and_takes() {
    for rule in RULES.iter().chain(RANGES) {
        let mut seen = [false; 2];
        for chip in CHIPS {
            for layer in candidates(rule, chip) {
                match legal::matches(rule, &layer, chip, Route::Direct) {
                    MatchStatus::Match => seen[0] = true,
                    MatchStatus::Mismatch { .. } => {
                        seen[1] = true;
                        // Ranges are read off tensors; another test tells theirs.
                        if !rule.layer.is_empty() {
                            told(rule, &layer, chip);
                        }
                    }
                    MatchStatus::Unknown(_) => {}
                }
            }
            // A rule that holds only for some layers takes a bare one.
            let bare = Layer::new(rule.layer, "it");
            seen[0] |= legal::matches(rule, &bare, chip, Route::Framework) == MatchStatus::Match;
        }
        // A capability may be known of no chip to be missing: then the rule is open there, and refuses nowhere.
        let refusable = match rule.matches {
            MatchParams::Capability(name) => {
                anemone_facts::hal::row(name).is_some_and(|r| CHIPS.iter().any(|c| (r.get)(&c.hal) == Some(0)))
            }
            _ => true,
        };
        // What no chip has code for is never taken.
        let takeable = !(rule.when.is_empty() && matches!(rule.matches, MatchParams::Never(Q::Operands)));
        assert_eq!(seen, [takeable, refusable], "takes, refuses: {rule:?}");
    }
}

/// Texts whose refusal no chip can be shown to give: the number that decides is known of none to be missing.
const UNTRIGGERED: &[&str] = &["LRN is not supported on this architecture."];

#[test]
fn every_text_appears() {
    let mut silent = Vec::new();
    for rule in RULES.iter().filter(|r| !r.apple.is_empty()) {
        let begins = rule.apple.split('%').next().unwrap_or_default();
        let appears = CHIPS.iter().any(|chip| {
            candidates(rule, chip).iter().any(|layer| {
                let refusals = legal::check(layer, chip, Route::Direct).refusals;
                refusals.iter().filter_map(|r| r.apple.as_deref()).any(|text| text.starts_with(begins))
            })
        });
        if !appears && !silent.contains(&rule.apple) {
            silent.push(rule.apple);
        }
    }
    assert_eq!(silent, UNTRIGGERED);
}

#[test]
fn exports_are_those_of_the_table() {
    let all: Vec<String> = validate::exports().collect();
    assert_eq!((all.len(), VALIDATORS.len(), OTHERS.len()), (55, 50, 5));
    for export in &all[..50] {
        let validator = validate::by_name(export).unwrap_or_else(|| panic!("{export} can be called"));
        assert_eq!(validator.row().export(), *export);
    }
    assert_eq!(VALIDATORS.iter().filter(|v| v.descriptor).count(), 45);
    assert!(validate::by_name("_ANECValidateRCASLayer").is_none() && validate::by_name("Reverse").is_none());
}

/// Apple's texts of a validator's refusals on a chip.
fn says(export: &str, layer: Layer, on: &str) -> Vec<String> {
    let validator = validate::by_name(export).expect("the export is known");
    validator.call(&layer, chip(on)).refusals.into_iter().filter_map(|r| r.apple).collect()
}

fn image(kind: &str) -> Layer {
    Layer::new(kind, "it").bottom(&[1, 16, 8, 8], "fp16").top(&[1, 16, 8, 8], "fp16")
}

#[test]
fn texts_appear_for_what_triggers_them() {
    let bare = |kind: &str, n: usize| (0..n).fold(Layer::new(kind, "it"), |l, _| l.bottom(&[1, 16, 8, 8], "fp16"));
    let deep = || Layer::new("MatrixMult", "it").bottom(&[1, 1, 4, 8, 8], "fp16").bottom(&[1, 1, 4, 8, 8], "fp16");
    let cases: Vec<(&str, Layer, &str, &str)> = vec![
        ("_ANECValidateMatrixMultLayer", bare("", 3), "m1", "Matrix mult. layer can only have two bottoms"),
        ("_ANECValidateMatrixMultLayer", deep(), "m1", "depth > 1 is not supported for MatMult"),
        ("_ANECValidateMatrixMultLayer", bare("", 2).with(Q::ContractionBytes, 80000), "m4", "can not fit the Kmem"),
        (
            "_ANECValidateConvLayer",
            image("").with(Q::KernelWidth, 17),
            "m1",
            "Invalid conv kernel width = 17, It should be in [1,13]",
        ),
        (
            "_ANECValidateConvLayer",
            image("").with(Q::KernelHeight, 40),
            "m4",
            "Invalid conv kernel height = 40, It should be in [1,31]",
        ),
        (
            "_ANECValidateConvLayer",
            image("").with(Q::Groups, 3),
            "m1",
            "input/output channels should be divisible by num group",
        ),
        ("_ANECValidateLinearLayer", bare("", 2), "m1", "Linear layer must have only one single input."),
        (
            "_ANECValidateLinearLayer",
            Layer::new("", "it").bottom(&[1, 1, 1, 2, 8], "fp16"),
            "m1",
            "ANE cannot support Linear with input rank >= 5",
        ),
        ("_ANECValidatePoolLayer", bare("", 2), "m1", "Pool layer must have only one single input."),
        (
            "_ANECValidatePoolLayer",
            image("").with(Q::MaxPool, 1).with(Q::KernelWidth, 9),
            "m4",
            "Invalid Pool kernel width (9), must be [1-8] or 32.",
        ),
        ("_ANECValidateReductionLayer", bare("", 2), "m1", "Reduction layer can only have one bottom"),
        (
            "_ANECValidateReductionLayer",
            image("").with(Q::FusedSquare, 1),
            "m1",
            "square operation after reduction is not supported",
        ),
        ("_ANECValidateSoftmaxLayer", image(""), "a12", "Softmax is not supported by this ANE architecture"),
        (
            "_ANECValidateInstanceNormLayer",
            image(""),
            "a12",
            "InstanceNorm layer not supported for this ANE architecture",
        ),
        ("_ANECValidateDropoutLayer", image(""), "m1", "Dropout layer is not supported on this architecture."),
        ("_ANECValidateRandomLayer", Layer::new("", "it"), "m2", "Random layer is not supported on this architecture."),
        (
            "_ANECValidateAffineTransformLayer",
            bare("", 2),
            "m1",
            "affine transform is not supported on this architecture",
        ),
        ("_ANECValidateSDPALayer", bare("", 3), "m1", "4 or 5 bottoms must be present for SDPA"),
        (
            "_ANECValidateSDPALayer",
            bare("", 3).with(Q::Authored, 1),
            "m1",
            "SDPA layer must have only 4 or 5(optional mask) inputs",
        ),
        ("_ANECValidateSDPALayer", bare("", 5).with(Q::MaskFormat, 1), "m1", "Mask format must be same as Q, K and V"),
        (
            "_ANECValidateNeuronLayer",
            Layer { word: "sin".into(), ..image("").with(Q::Neuron, 32) },
            "m1",
            "This platform doesn't support Neuron sin",
        ),
        (
            "_ANECValidateLayerNormLayer",
            Layer::new("", "it").bottom(&[1, 8, 2, 4, 4], "fp16").with(Q::Groups, 2),
            "m1",
            "... does not yet support depth > 1",
        ),
        ("_ANECValidateArgMinMaxLayer", bare("", 2), "m1", "ArgMinMax layer must have one input"),
        (
            "_ANECValidateArgMinMaxLayer",
            image("").with(Q::PadLeft, 5).with(Q::KernelWidth, 3),
            "m1",
            "ArgMinMax left padding value should be smaller than kernel width 3, but 5 is given",
        ),
        (
            "_ANECValidateTransposeLayer",
            Layer::new("", "it").bottom(&[1, 1, 1, 20000], "fp16"),
            "m1",
            "NE Input Transpose is not supported for this arch",
        ),
        ("_ANECValidateConcatLayer", bare("", 1), "m1", "Concat layer must have at least 2 inputs"),
        (
            "_ANECValidateConcatLayer",
            bare("", 2).with(Q::Authored, 1).with(Q::Axis, -1),
            "m1",
            "ANE Concat supports only supports const positive axis",
        ),
        (
            "_ANECValidateConcatLayer",
            bare("", 2).with(Q::LayoutsDiffer, 1),
            "m1",
            "both concat inputs must have the same layout",
        ),
        ("_ANECValidatePadLayer", image("").with(Q::PadChannels, 1), "m1", "Channel padding is not supported on ANE"),
        ("_ANECValidatePadLayer", image("").with(Q::Mirror, 1), "m1", "Architecture does not support padding mode."),
        (
            "_ANECValidateBroadcastLayer",
            image("").with(Q::DepthBroadcast, 1),
            "m1",
            "Broadcast along depth axis is not supported on this architecture",
        ),
        (
            "_ANECValidateGatherLayer",
            bare("", 2).with(Q::GatherAxes, 1),
            "m1",
            "Cannot decompose layer on this architecture",
        ),
        (
            "_ANECValidateReshapeLayer",
            Layer::new("", "it").bottom(&[1, 1, 1, 1, 2, 8], "fp16"),
            "m1",
            "Cannot reshape a tensor of rank > 5",
        ),
        (
            "_ANECValidateBatchToSpaceLayer",
            image("").with(Q::FactorX, 2).with(Q::FactorY, 2).with(Q::FactorXY, 4),
            "m1",
            "Input batch n = 1 is not divisible by factor x = 2 * factor y = 2",
        ),
        (
            "_ANECValidateChannelToSpaceLayer",
            image("").with(Q::FactorZ, 2),
            "m1",
            "ChannelToSpace in z dimension is not supported, current factor.z = 2.",
        ),
        (
            "_ANECValidateResizeLayer",
            image("").with(Q::FractionalRatio, 1),
            "m1",
            "failed to map resize layer on this arch",
        ),
        (
            "_ANECValidateResampleLayer",
            bare("", 2).with(Q::CoordinateChannels, 3),
            "m2",
            "Channel size in coordinates should be 1 or 2",
        ),
        (
            "_ANECValidateRingBufferWriterLayer",
            bare("", 2).with(Q::Circular, 1),
            "m1",
            "Circular buffer is not supported on this architecture",
        ),
        ("_ANECValidateConvLayer", image("").with(Q::E4m3, 1), "m4", "E4M3 is not supported on this architecture"),
    ];
    for (export, layer, on, text) in cases {
        let said = says(export, layer, on);
        assert!(said.iter().any(|s| s == text), "{export} on {on}: {said:?}, wanted {text:?}");
    }
    let lrn = legal::check(&image("LRN"), chip("a12"), Route::Direct);
    assert!(lrn.unknown.contains(&"lrn"), "the byte of the oldest parts is not known: {lrn:?}");
    let crop = legal::check(&bare("CropResize", 2), chip("m1"), Route::Direct);
    assert_eq!(crop.refusals[0].apple.as_deref(), Some("Codegen Error: Invalid Texture CropCfg"));
    let fused = legal::check(&bare("GOC", 1).with(Q::FromElementWise, 1), chip("m1"), Route::Direct);
    assert_eq!(fused.refusals[0].apple.as_deref(), Some("Must have 2 inputs when convert EW to GOC"));
}

#[test]
fn extents_out_of_range_are_told_as_apple_tells_them() {
    let said = says("_ANECValidateElementWiseLayer", Layer::new("", "it").bottom(&[1, 1, 1, 16385], "fp16"), "m1");
    let range = "N[1-65536]D[1-16384]C[1-65536]H[1-16384]W[1-16384].";
    assert_eq!(said, [format!("Tensor dimensions N1D1C1H1W16385 are not within supported range, {range}")]);
    let fits = says("_ANECValidateElementWiseLayer", Layer::new("", "it").bottom(&[1, 1, 1, 16385], "fp16"), "m4");
    assert!(fits.is_empty(), "{fits:?}");
    let empty = says("_ANECValidateElementWiseLayer", Layer::new("", "it").bottom(&[1, 0, 8, 8], "fp16"), "m1");
    assert_eq!(empty.len(), 1, "{empty:?}");
}

#[test]
fn the_umbrella_adds_its_own_checks() {
    let layers = vec![image("Softmax"), image("Softmax")];
    let network =
        Network { schema: [1, 0, 10], bonded: true, layers, operations: vec!["conv".into(), "wobble".into()] };
    let texts = |on: &str| -> Vec<String> {
        validate::network_create(&network, chip(on)).into_iter().filter_map(|(_, r)| r.apple).collect()
    };
    let collision = "ANE internal error: Unit name \"it\" collision during MIL to ANEC IR conversion.";
    assert_eq!(texts("m1"), ["Bonded networks are not supported on the target", collision]);
    assert_eq!(texts("m6"), [collision], "the M6 has two bonded engines");
    assert_eq!(texts("a12")[0], "Softmax is not supported by this ANE architecture");
    let newer = Network { schema: [1, 0, 11], ..Network::default() };
    assert_eq!(validate::network_create(&newer, chip("m1")).len(), 1);
    assert!(validate::network_create(&Network { schema: [1, 0, 10], ..Network::default() }, chip("m1")).is_empty());
}

#[test]
fn every_export_is_called_by_its_name() {
    let m1 = chip("m1");
    let layer = image("Softmax");
    let network = Network { schema: [1, 0, 11], ..Network::default() };
    let weights = [("w".to_string(), 128)];
    let ty = OutlineType { element: "int32", shape: vec![Some(4)], state: false };
    let x = Named { name: "x".into(), ty: ty.clone() };
    let op = OutlineOp {
        op: "relu".into(),
        name: "y".into(),
        arguments: vec![("x".into(), Argument::Value(x.clone()))],
        outputs: vec![Named { name: "y".into(), ty }],
        blocks: 0,
        constant: false,
        unread: None,
    };
    let module = Outline {
        name: "main".into(),
        opset: None,
        origin: Origin::Model,
        inputs: vec![x],
        states: vec![],
        ops: vec![op],
        outputs: vec!["y".into()],
        conditions: vec![],
    };
    let subjects = [
        Subject::Layer(&layer),
        Subject::Network(&network),
        Subject::Module(&module),
        Subject::Procedure { exchanged: &weights, program: &[] },
    ];
    for export in validate::exports() {
        let takers: Vec<_> = subjects.iter().filter_map(|s| call(&export, *s, m1)).collect();
        assert_eq!(takers.len(), 1, "{export} takes one kind of subject");
        let refuses = !export.ends_with("Layer") && export != "_ANECValidate";
        assert!(!refuses || takers[0].len() == 1, "{export}: {:?}", takers[0]);
    }
    assert!(call("_ANECValidateSoftmaxLayer", Subject::Layer(&layer), m1).is_some_and(|r| r.is_empty()));
    assert!(call("_ANECValidateRCASLayer", Subject::Layer(&layer), m1).is_none());
}

#[test]
fn exchanged_weights_are_those_of_the_program() {
    let has = [("w".to_string(), 128), ("b".to_string(), 16)];
    let wanted = [("w".to_string(), 128), ("b".to_string(), 32), ("c".to_string(), 1)];
    assert_eq!(validate::mutable_procedure(&wanted, &has), ["b", "c"]);
}
