use anemone_net::ops::unary::*;

#[test]
fn rows_are_distinct_and_make_what_they_name() {
    for (i, row) in Row::all().iter().enumerate() {
        let unary = row.make(|param| Ok::<f32, ()>(param.mil_default)).expect("made");
        assert_eq!(unary.name(), row.name);
        assert!(row.params.len() <= 2 && row.params.iter().zip(unary.params()).all(|(p, v)| p.mil_default == v));
        let later = &Row::all()[i + 1..];
        let clash = |of: fn(&Row) -> &'static str| later.iter().any(|r| !of(r).is_empty() && of(r) == of(row));
        assert!(!clash(|r| r.name) && !clash(|r| r.mil) && !clash(|r| r.onnx), "{}", row.name);
    }
    assert_eq!((Unary::Gelu(GeluMode::Tanh).name(), Unary::Neg.name()), ("gelu", "neg"));
}

#[test]
fn not_a_number_stays_one() {
    for unary in [Unary::Relu, Unary::Clip { min: 0.0, max: 1.0 }, Unary::Threshold { alpha: 0.0 }] {
        assert!(unary.function()(f32::NAN).is_nan(), "{unary:?}");
    }
}
