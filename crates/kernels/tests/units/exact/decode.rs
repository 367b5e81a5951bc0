use crate::samples::FIXED;
use anemone_kernels::testing::{Reading, raised};
use pulp::Scalar;

/// For every number that a coefficient can be, raised or not.
#[test]
fn vectors_keep_what_single_numbers_do() {
    let reading = Reading::new(&FIXED);
    for x in (0..=u16::MAX).map(|bits| reading.decode(half::f16::from_bits(bits).to_f32())).filter(|x| *x != 0.0) {
        for x in [x, raised(x)] {
            assert_eq!(reading.keep_each(Scalar::new(), x).to_bits(), reading.keep_from(x).to_bits(), "{x}");
        }
    }
}
