use anemone_net::testing::{Lexer, Token, float, hex_float, integer};

#[test]
fn numbers_in_every_form() {
    for (text, value) in
        [("0x1.998p-4", 0.0999755859375), ("-0x1p+0", -1.0), ("1e-05", 1e-5), ("-2.5", -2.5), ("0X.8P1", 1.0)]
    {
        assert_eq!(float(text), Some(value), "{text}");
    }
    assert_eq!((integer("-0x10"), integer("18446744073709551615")), (Some(-16), Some(u64::MAX.into())));
    assert!(float("0x").is_none() && float("12q").is_none() && integer("0x1p+3").is_none());
    for value in [1.0, -0.1, 6.1e-5, 65504.0, f64::from(f32::MIN_POSITIVE) / 8.0, 5e-324, -0.0] {
        assert_eq!(float(&hex_float(value)).map(f64::to_bits), Some(value.to_bits()), "{value}");
    }
    let mut lexer = Lexer::new("a = -0x1.8p-3, \"q\\\"\\n\" -> 1e+5)");
    let all: Vec<Token> = std::iter::from_fn(|| Some(lexer.take().token).filter(|t| *t != Token::End)).collect();
    assert_eq!(all[2], Token::Number("-0x1.8p-3".into()));
    assert_eq!(all[4], Token::Text("q\"\n".into()));
    assert_eq!((&all[5], &all[6]), (&Token::Mark('→'), &Token::Number("1e+5".into())));
}
