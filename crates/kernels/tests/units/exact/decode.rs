use crate::samples::FIXED;
use anemone_kernels::num::reference::LEAST_EXPONENT;
use anemone_kernels::testing::{Reading, exp2i, raised};
use pulp::Scalar;

/// For every number that a coefficient can be, raised or not.
#[test]
fn vectors_keep_what_single_numbers_do() {
    let reading = Reading::new(&FIXED);
    for x in (0..=u16::MAX).map(|bits| reading.decode(half::f16::from_bits(bits).to_f32())).filter(|x| *x != 0.0) {
        for x in [x, raised(x)] {
            assert_eq!(reading.keep_each(Scalar::new(), x).to_bits(), reading.keep_from(x).to_bits(), "{x}");
            for exponents in (0..31).flat_map(|e| [1 << e, 1 << e | 1, 1 << e | 1 << 30]) {
                let [from, count] = reading.may_drop(exponents);
                let looked_at = x.abs().to_bits().wrapping_sub(from) < count;
                // Of subnormal ones products may round to zero that their exponent does not tell.
                let matters = reading.dropping(x) & exponents != 0 && x.abs() >= exp2i(LEAST_EXPONENT);
                assert!(looked_at || !matters, "{x}, {exponents:b}");
            }
        }
    }
}
