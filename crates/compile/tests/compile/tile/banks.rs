use anemone_compile::testing::spread;
use anemone_facts::staging::{NEURAL_BANKS, PLANAR_BANKS};

#[test]
fn rows_are_spread_as_in_known_programs() {
    // Row units, step, engine and the stride that 9.509 chose.
    let seen = [
        (0x40, 1, NEURAL_BANKS, 0x43),
        (0x80, 1, NEURAL_BANKS, 0x83),
        (0x100, 1, NEURAL_BANKS, 0x103),
        (0x20, 1, NEURAL_BANKS, 0x22),
        (0x100, 2, NEURAL_BANKS, 0x102),
        (0x80, 2, NEURAL_BANKS, 0x82),
        (0x40, 1, PLANAR_BANKS, 0x42),
        (0x200, 1, PLANAR_BANKS, 0x202),
        (0x1, 1, PLANAR_BANKS, 0x2),
        (0x54, 1, PLANAR_BANKS, 0x54),
        (0x100, 1, PLANAR_BANKS, 0x102),
    ];
    for (units, step, engine, expected) in seen {
        assert_eq!(spread(units, step, engine), expected, "{units:#x} step {step}");
    }
}
