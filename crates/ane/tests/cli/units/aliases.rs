use anemone::aliases::{ROWS, field, of};
use anemone_facts::layout::KNOWN;

#[test]
fn every_alias_names_a_field() {
    for (other, own) in ROWS {
        let known = KNOWN.iter().flat_map(|l| l.rows).any(|row| row.field.info().name == *own);
        assert!(known, "{other}: {own}");
    }
    assert_eq!(field("aneRegs.KernelDMASrc.CoeffBfrSize[3].MemBfrSize"), Some("CoeffSize"));
    assert_eq!(field("MACCfg.OpMode"), Some("NeOpMode"));
    assert_eq!(field("aneTD.Header[6].KPC"), Some("Kpc"));
    assert_eq!(field("aneRegs.Common.ConvCfg.Kh"), Some("Kh"));
    assert_eq!(field("OpMode"), None);
    assert_eq!(of("DstEn").next(), Some("TileDMADst.DMAConfig.En"));
}
