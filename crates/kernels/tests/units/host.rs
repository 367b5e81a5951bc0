use anemone_kernels::host::{Rows, round_halves, widen_halves, widen_indices};
use half::f16;

/// Rows of any length and stride; elements outside of the rows are not changed.
#[test]
fn rows_convert_where_they_are() {
    let halves: Vec<f16> = (0..4096u16).map(|i| f16::from_bits(i.wrapping_mul(2477))).collect();
    let wide: Vec<f32> = halves.iter().map(|x| x.to_f32()).collect();
    for columns in 0..70 {
        let rows = Rows { count: 5, columns, from_stride: 3 * columns + 1, to_stride: columns + 2 };
        let place = |i: usize| (i / rows.to_stride, i % rows.to_stride);
        let inside = |i: usize| place(i).0 < rows.count && place(i).1 < columns;
        let from = |i: usize| place(i).0 * rows.from_stride + place(i).1;
        let mut to = vec![7.0; 6 * rows.to_stride];
        if widen_halves(&halves, &mut to, rows) {
            for (i, to) in to.iter().enumerate() {
                let wanted = if inside(i) { wide[from(i)] } else { 7.0 };
                assert_eq!(to.to_bits(), wanted.to_bits(), "{columns} {i}");
            }
        }
        let mut to = vec![f16::ONE; 6 * rows.to_stride];
        if round_halves(&wide, &mut to, rows) {
            for (i, to) in to.iter().enumerate() {
                let wanted = if inside(i) { f16::from_f32(wide[from(i)]) } else { f16::ONE };
                assert_eq!(to.to_bits(), wanted.to_bits(), "{columns} {i}");
            }
        }
    }
}

#[test]
fn indices_name_numbers() {
    let palette: [f16; 16] = std::array::from_fn(|i| f16::from_bits(i as u16 * 3571));
    let bytes: Vec<u8> = (0..100u8).map(|i| i.wrapping_mul(151)).collect();
    for n in 0..200 {
        let mut to = vec![f32::NAN; n];
        if widen_indices(&bytes, &mut to, &palette) {
            for (i, to) in to.iter().enumerate() {
                let index = bytes[i / 2] >> (i % 2 * 4) & 15;
                assert_eq!(to.to_bits(), palette[usize::from(index)].to_f32().to_bits(), "{n} {i}");
            }
        }
    }
}
