use anemone_net::Error;
use anemone_net::graph::{Data, Tensor};
use anemone_net::read::Bytes;
use anemone_net::stored::*;

fn packed(values: &[u8], bits: u32, shape: &[usize]) -> Tensor {
    let bytes = pack(values, bits as usize).into();
    Stored::tensor(Form::Plain { element: Element::UInt(bits), bytes }, shape.to_vec()).unwrap()
}

#[test]
fn fields_cross_byte_borders() {
    // 6-bit fields 1, 2, 3, 63 packed from the lowest bit.
    let word = 1u32 | 2 << 6 | 3 << 12 | 63 << 18;
    assert_eq!(unpack(&word.to_le_bytes(), 6, 4), [1, 2, 3, 63]);
    for bits in 1..=8 {
        for count in [0, 1, 7, 8, 9, 31] {
            let values: Vec<u8> = (0..count).map(|i| (i * 37 + 11) as u8 & ((1u16 << bits) - 1) as u8).collect();
            let packed = pack(&values, bits);
            assert_eq!(packed.len(), (count * bits).div_ceil(8));
            assert_eq!(unpack(&packed, bits, count), values, "{count} of {bits} bits");
        }
    }
    assert_eq!(pack(&[1, 2, 3, 63], 6), word.to_le_bytes()[..3]);
    let form = Form::Plain { element: Element::Int(4), bytes: Bytes::from_static(&[0x8f]) };
    let signed = Stored::tensor(form, vec![2]).unwrap();
    assert_eq!(signed.data.dense().into_owned(), Data::I8(vec![-1, -8]));
}

#[test]
fn forms_nest() {
    // Two blocks of rows with a table each; indices stand at the set positions of the mask only.
    let mask = packed(&[1, 0, 0, 1, 1, 0], 1, &[2, 3]);
    let indices = packed(&[0, 1, 1], 1, &[3]);
    let table = Tensor::f32([2, 1, 2, 1], vec![1.0, 2.0, 3.0, 4.0]);
    let form = Form::Palette { indices, table, axis: 0, mask: Some(mask.clone()) };
    let values = Stored::tensor(form, vec![3]).unwrap();
    assert_eq!(values.data.to_f32(), [1.0, 4.0, 4.0]);
    let dense = Stored::tensor(Form::Sparse { mask, values }, vec![2, 3]).unwrap();
    assert_eq!(dense.data.to_f32(), [1.0, 0.0, 0.0, 4.0, 4.0, 0.0]);
    let Data::Stored(stored) = &dense.data else { panic!("kept as stored") };
    // Mask twice and indices once, a byte each, and the table.
    assert_eq!(stored.stored_bytes(), 1 + 1 + 1 + 16);
}

#[test]
fn scales_go_by_block() {
    let data = Tensor { shape: vec![2, 4], data: Data::I8(vec![1, 2, 3, 4, 5, 6, 7, 8]) };
    let scale = Tensor::f16([2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let offset = Some(Tensor { shape: vec![2, 2], data: Data::I8(vec![1, 0, 0, 1]) });
    let form = Form::Scaled { data, scale, offset, mask: None };
    let tensor = Stored::tensor(form, vec![2, 4]).unwrap();
    assert_eq!(tensor.data.to_f32(), [0.0, 1.0, 6.0, 8.0, 15.0, 18.0, 24.0, 28.0]);
}

#[test]
fn parts_must_fit() {
    let table = Tensor::f32([1, 2, 1], vec![0.0; 2]);
    let indices = Tensor { shape: vec![2], data: Data::U8(vec![0, 2]) };
    let form = Form::Palette { indices, table, axis: 0, mask: None };
    assert!(matches!(Stored::tensor(form, vec![2]), Err(Error::Index { found: 2, extent: 2, .. })));
    let form = Form::Plain { element: Element::Float32, bytes: Bytes::from_static(&[0; 7]) };
    assert!(matches!(Stored::tensor(form, vec![2]), Err(Error::Stored { .. })));
}
