use anemone_program::testing::{quote, tokens};

#[test]
fn texts_round_trip() {
    for bytes in [&b"a \"b\\ ; c\n\t"[..], b"\xff\x00\x01z", "größe".as_bytes(), b""] {
        let text = quote(bytes);
        let line = tokens(&text, 1).expect("one line");
        assert_eq!(line.tokens.len(), 1, "{text}");
        assert_eq!(line.at(0).quoted(), Ok(bytes.to_vec()));
    }
}

#[test]
fn errors_have_places() {
    let line = tokens("  key=0x1g \"ab\\q\" ; note", 7).expect("well-formed");
    let error = line.keyed(0, "key").and_then(|t| t.u32());
    assert_eq!(error.map_err(|e| (e.line, e.column)), Err((7, 7)));
    assert_eq!(line.at(1).quoted().map_err(|e| e.column), Err(15));
    assert_eq!(line.at(2).column, 19);
    assert!(tokens("\"open", 1).is_err_and(|e| e.column == 6));
    for text in ["\"\\", "\"\\\"", "\"\\x1\"", "\"\\xé\"", "\""] {
        assert!(tokens(text, 1).and_then(|l| l.at(0).quoted()).is_err(), "{text}");
    }
}
