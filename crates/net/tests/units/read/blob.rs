use anemone_net::Error;
use anemone_net::graph::Data;
use anemone_net::read::Bytes;
use anemone_net::stored::Element;
use anemone_net::testing::decode;

#[test]
fn wide_integers_must_fit() {
    let bytes = |v: i64| Bytes::copy_from_slice(&v.to_le_bytes());
    assert_eq!(decode(bytes(7), Element::Int(64), 1, "").unwrap(), Data::I32(vec![7]));
    let error = decode(bytes(1 << 40), Element::Int(64), 1, "here").unwrap_err();
    assert!(matches!(error, Error::OutOfRange { found, .. } if found == 1 << 40), "{error}");
    let error = decode(bytes(-1), Element::UInt(64), 1, "here").unwrap_err();
    assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
}
