use anemone_program::hwx::TensorSymbol;

#[test]
fn text_round_trips() {
    for text in [
        "image:t11=ar1;0;1;12=s192n:ar1;0;3;13=s64c:ar1;0;1;14=s64h:ar1;0;1;15=s2w:5",
        "a:b:t16=ar1;0;1;17=s8192n:ar1;0;1;18=s8192c:ar1;0;64;19=s128h:ar1;0;64;20=s2w:5",
    ] {
        let symbol: Result<TensorSymbol, _> = text.parse();
        assert_eq!(symbol.map(|s| s.to_string()), Ok(text.to_string()));
    }
    assert!("x:t1=".parse::<TensorSymbol>().is_err_and(|e| e.at == 5));
    assert!("float16:t5=r1;2;0".parse::<TensorSymbol>().is_err());
}
