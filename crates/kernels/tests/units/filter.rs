use anemone_kernels::filter::{BLOCK, CoefficientRow, PackedFilter, Values};
use half::f16;

/// Every storage form returns the packed coefficients, from any tap on.
#[test]
fn kept_coefficients_are_those_of_the_stream() {
    for (values, channels, taps, height) in
        [(3, 7, 5, 6), (4, 13, 9, 6), (9, 12, 7, 6), (16, 11, 3, 1), (17, 20, 4, 8), (256, 9, 31, 8)]
    {
        let palette: Vec<f16> = (0..values).map(|i| f16::from_f32(i as f32 - 7.5)).collect();
        let indices: Vec<u8> = (0..channels * taps).map(|i| (i * 7919 % values) as u8).collect();
        let halves = indices.iter().map(|&i| palette[usize::from(i)]).collect();
        for stored in [Values::Halves(halves), Values::Indices(indices.clone(), palette.clone())] {
            let packed = PackedFilter::of(&stored, channels, taps, height);
            // From strided rows, for fp16 coefficients.
            if let Values::Halves(halves) = &stored {
                let scattered: Vec<f16> = halves.iter().flat_map(|&x| [x, f16::NAN]).collect();
                for (data, stride) in [(halves, 1), (&scattered, 2)] {
                    let row = |c: usize| CoefficientRow { data: &data[c * taps * stride..], stride };
                    let rows: Vec<CoefficientRow> = (0..channels).map(row).collect();
                    let of_rows = PackedFilter::of_rows(&rows, taps, height);
                    assert_eq!(of_rows.bytes_of(0..channels), packed.bytes_of(0..channels));
                }
            }
            // Repacked by way of another panel height.
            let other = packed.with_height(BLOCK).with_height(height);
            assert!((0..channels).step_by(height).all(|first| {
                let mut found = [vec![0.0; height * taps], vec![0.0; height * taps]];
                let [one, two] = &mut found;
                packed.widen(first, 0..taps, one) == other.widen(first, 0..taps, two)
            }));
            for first in (0..channels).step_by(height) {
                for part in [0..taps, 1..taps, 2..3] {
                    let mut found = vec![f32::NAN; height * taps];
                    let found = packed.widen(first, part.clone(), &mut found);
                    let rows = first..channels.min(first + height);
                    let wanted = part.flat_map(|tap| {
                        let (stored, rows) = (&stored, rows.clone());
                        rows.map(move |c| stored.get(c * taps + tap).to_f32())
                    });
                    assert_eq!(found, wanted.collect::<Vec<_>>(), "{values} values, channel {first}");
                }
            }
        }
    }
}
