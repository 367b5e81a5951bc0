use anemone_net::read::npy::{Npy, write};

const MAGIC: &[u8] = b"\x93NUMPY";

fn file(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
    let length = (header.len() as u32).to_le_bytes();
    let length = if version == 1 { &length[..2] } else { &length[..] };
    [MAGIC, &[version, 0], length, header.as_bytes(), data].concat()
}

fn header(descr: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n")
}

#[test]
fn every_element_type_in_both_byte_orders() {
    let cases: [(&str, &[u8], f32); 14] = [
        ("<f2", &[0, 0xc1], -2.5),
        (">f2", &[0xc1, 0], -2.5),
        ("<f4", &[0, 0, 0x20, 0xc0], -2.5),
        (">f4", &[0xc0, 0x20, 0, 0], -2.5),
        ("<f8", &[0, 0, 0, 0, 0, 0, 4, 0xc0], -2.5),
        ("|i1", &[0xfe], -2.0),
        ("<i2", &[0xfe, 0xff], -2.0),
        (">i4", &[0xff, 0xff, 0xff, 0xfe], -2.0),
        ("<i8", &[0xfe, 255, 255, 255, 255, 255, 255, 255], -2.0),
        ("|u1", &[200], 200.0),
        ("<u2", &[0, 0x80], 32768.0),
        (">u4", &[0x80, 0, 0, 0], 2147483648.0),
        ("<u8", &[0, 0, 0, 0, 0, 0, 0, 0x80], 9223372036854775808.0),
        ("|b1", &[1], 1.0),
    ];
    for (descr, bytes, value) in cases {
        for version in 1..=3 {
            let file = file(version, &header(descr, "(1,)"), bytes);
            let array = Npy::read(&file).unwrap_or_else(|e| panic!("{descr}: {e}"));
            assert_eq!((array.shape.as_slice(), array.to_f32()), (&[1][..], vec![value]), "{descr}");
        }
    }
}

#[test]
fn headers_of_other_writers() {
    for header in [
        "{\"shape\":(2L,1),\"descr\":\"<f4\",\"fortran_order\":True}",
        "{ 'fortran_order' : False , 'descr' : '<f4' , 'shape' : [ 2 , 1 , ] , }   \n",
    ] {
        let array = file(1, header, &[0; 8]);
        assert_eq!(Npy::read(&array).map(|a| a.shape), Ok(vec![2, 1]), "{header}");
    }
    let scalar = file(1, &header("<f4", "()"), &[0; 4]);
    assert_eq!(Npy::read(&scalar).map(|a| (a.shape.len(), a.to_f32())), Ok((0, vec![0.0])));
    let none = file(1, &header("<f4", "(3, 0)"), &[]);
    assert_eq!(Npy::read(&none).map(|a| a.to_f32()), Ok(vec![]));
}

#[test]
fn columns_first_is_read_as_well() {
    let values: Vec<u8> = (0..6).flat_map(|n| (n as f32).to_le_bytes()).collect();
    let array = file(1, &header("<f4", "(2, 3)").replace("False", "True"), &values);
    let array = Npy::read(&array).expect("reads");
    assert_eq!((array.shape.as_slice(), array.to_f32()), (&[2, 3][..], vec![0.0, 2.0, 4.0, 1.0, 3.0, 5.0]));
}

#[test]
fn what_is_refused_and_why() {
    let plain = |shape: &str| header("<f4", shape);
    let cases = [
        (plain("(3,)"), "truncated: 3 elements of <f4 [3]"),
        (plain("(4294967296, 4294967296)"), "more elements than any file has"),
        (plain("(99999999999999999999,)"), "expected a number"),
        (plain("(-1,)"), "expected a number"),
        (plain("('a',)"), "an extent in its header is not a number"),
        (plain("7"), "`shape` in its header has a value of another type"),
        (header("<c8", "()"), "element type <c8"),
        (header("", "()"), "element type ;"),
        (header("|f4", "()"), "element type |f4"),
        (header("é4", "()"), "element type é4"),
        (plain("()").replace("'<f4'", "[('x', '<f4')]"), "structured"),
        (plain("()").replace("shape", "shale"), "has the unexpected key `shale`"),
        (plain("()").replace("'shape': (),", ""), "once each"),
        (plain("()") + "x", "once each"),
        (plain(&"(".repeat(100)), "nested more than"),
        ("{'descr".into(), "a closing quote"),
        (String::new(), "expected `{`"),
    ];
    for (header, part) in cases {
        let error = Npy::read(&file(1, &header, &[0; 8])).expect_err(&header);
        assert!(error.contains(part), "{header}: {error}");
    }
    let whole = write(&[2, 3], &[1.0; 6]);
    for cut in 0..whole.len() {
        assert!(Npy::read(&whole[..cut]).is_err(), "{cut}");
    }
    assert!(Npy::read(&file(4, "", &[])).is_err_and(|e| e.contains("version 4")));
}

#[test]
fn what_is_written_reads_back() {
    for shape in [vec![], vec![3], vec![2, 3, 1], vec![1; 60], vec![1; 30_000]] {
        let elements: Vec<f32> = (0..shape.iter().product()).map(|i| i as f32 - 0.3).collect();
        let bytes = write(&shape, &elements);
        let array = Npy::read(&bytes).expect("reads");
        assert_eq!((array.shape.as_slice(), array.to_f32()), (shape.as_slice(), elements));
        assert_eq!((bytes.len() - array.bytes.len()) % 64, 0);
    }
}
