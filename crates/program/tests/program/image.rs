//! The register image of descriptor version 10: groups, fields, strides, bars, live-ins, records, text.

use crate::common;

use anemone_facts::layout::v10::{FIELDS, GROUPS, RECORD_BYTES, RELOCATIONS};
use anemone_facts::{Field, layout};
use anemone_program::task::image::{
    BarKind, CustomBar, Descriptor, Image, ImageError, LiveIn, read_records, write_records,
};
use anemone_program::text;
use common::Random;

fn ok<T>(result: Result<T, ImageError>) -> T {
    result.unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn groups_are_disjoint_and_their_registers_reachable() {
    for pair in GROUPS.windows(2) {
        assert!(
            pair[0].struct_base + 4 * pair[0].registers <= pair[1].struct_base,
            "{} and {}",
            pair[0].name,
            pair[1].name
        );
    }
    assert_eq!(Image::default().registers().count(), 34 + 19 + 69 + 30 + 14 + 11 + 21);
    for slot in RELOCATIONS {
        ok(Image::default().register(slot.register));
        ok(Image::default().register(slot.register + 1));
    }
}

#[test]
fn fields_stand_at_their_offsets_and_hold_their_masks() {
    let mut image = Image::default();
    for field in FIELDS {
        ok(image.set(field.name, field.mask));
        assert_eq!(ok(image.get(field.name)), field.mask);
        assert!(matches!(image.set(field.name, field.mask + 1), Err(ImageError::Range { .. })), "{}", field.name);
    }
    // Width and height share the first register of the dimensions; the listing names the same bits.
    assert_eq!(ok(image.register(0)), 0x7fff_7fff);
    let rows = layout::M11.rows_at(anemone_facts::Space::Register, 0).map(|(r, _)| r.field).collect::<Vec<_>>();
    assert_eq!(rows, [Field::Win, Field::Hin]);
    assert!(matches!(image.get("Depth"), Err(ImageError::Field { .. })));
}

#[test]
fn strides_are_signed_and_bounded() {
    let mut image = Image::default();
    let row = 0x1346;
    for bytes in [0, 64, -64, (1 << 31) - 64, -(1 << 31)] {
        ok(image.set_stride(row, bytes, None));
        assert_eq!(ok(image.stride(row)), bytes);
    }
    for (bytes, most) in [(1 << 31, None), (-(1 << 31) - 64, None), (32, None), (8192, Some(4096)), (-8192, Some(4096))]
    {
        assert!(matches!(image.set_stride(row, bytes, most), Err(ImageError::Range { .. })), "{bytes}");
    }
    assert!(matches!(image.set_stride(0x2000, 64, None), Err(ImageError::Register { register: 0x2000 })));
}

#[test]
fn bars_and_live_ins_write_their_bits_alone() {
    let mut image = Image::default();
    ok(image.set_register(0x1344, u32::MAX));
    let bar = CustomBar { register: 0x1344, bit: 8, width: 8, kind: BarKind::DataSet };
    ok(bar.apply(&mut image, 0x5a));
    assert_eq!(ok(image.register(0x1344)), 0xffff_5aff);
    assert!(matches!(bar.apply(&mut image, 256), Err(ImageError::Range { .. })));
    let address = CustomBar { register: 0x134a, bit: 0, width: 64, kind: BarKind::Address };
    ok(address.apply(&mut image, 0x12_3456_7840));
    assert_eq!((ok(image.register(0x134a)), ok(image.register(0x134b))), (0x3456_7840, 0x12));
    for (bit, width) in [(0, 0), (32, 1), (31, 34)] {
        let bar = CustomBar { register: 0, bit, width, kind: BarKind::Offset };
        assert!(matches!(bar.apply(&mut image, 0), Err(ImageError::Bits { .. })), "{bit} {width}");
    }
    let bar = CustomBar { register: 0, bit: 0, width: 15, kind: BarKind::Offset };
    let live = LiveIn { input: "x".into(), start: 16, stop: 64, step: 16, bar };
    ok(live.bind(&mut image, 48));
    assert_eq!(ok(image.get("Win")), 48);
    for value in [0, 17, 80] {
        assert!(matches!(live.bind(&mut image, value), Err(ImageError::Range { .. })), "{value}");
    }
}

#[test]
fn only_registers_that_differ_become_records() {
    assert_eq!(Image::default().records(0), []);
    let mut image = Image::default();
    ok(image.set("Win", 64));
    ok(image.set("Cin", 64));
    ok(image.set_register(0x1344, 0x4000));
    let records = image.records(0x1_0000_0000);
    assert_eq!(records.iter().map(|r| r.values.len()).collect::<Vec<_>>(), [1, 1, 2]);
    let bytes = write_records(&records);
    assert_eq!(bytes.len(), 3 * RECORD_BYTES);
    assert_eq!(RECORD_BYTES, 44);
    assert_eq!(read_records(&bytes).as_ref(), Ok(&records));
    assert_eq!(Image::of_records(&records, 0x1_0000_0000), Ok(image));
    assert!(Image::of_records(&records, 0).is_err(), "another aperture has no such registers");
    assert!(matches!(read_records(&bytes[..50]), Err(ImageError::Record { offset: 44, .. })));
    let mut bad = bytes;
    bad[0] = 3;
    assert!(matches!(read_records(&bad), Err(ImageError::Record { offset: 0, what: "count", .. })));
}

#[test]
fn random_images_survive_records_bytes_and_text() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..40 {
        let mut image = Image::default();
        for (register, _) in Image::default().registers() {
            if round % 4 == 0 || random.word().is_multiple_of(8) {
                ok(image.set_register(register, random.word()));
            }
        }
        let aperture = 0x8_0000_0000 + 4 * u64::from(random.word());
        let records = ok(read_records(&write_records(&image.records(aperture))));
        assert_eq!(Image::of_records(&records, aperture), Ok(image.clone()));
        // The structure's words outside the groups are kept too, by bytes and text.
        let mut bytes = image.bytes().to_vec();
        bytes.iter_mut().take(0x2c).for_each(|b| *b = random.word() as u8);
        let mut bar = || CustomBar {
            register: random.word() & 0x7fff,
            bit: random.word() % 32,
            width: random.word() % 65,
            kind: [BarKind::Address, BarKind::DataSet, BarKind::Offset][random.word() as usize % 3],
        };
        let bars = (0..round % 5).map(|_| bar()).collect();
        let live = LiveIn { input: "a \"name\";".into(), start: 1, stop: u64::MAX, step: 3, bar: bar() };
        let descriptor = Descriptor { image: ok(Image::of_bytes(&bytes)), bars, live_ins: vec![live] };
        let listing = text::list_image(&descriptor);
        assert_eq!(text::assemble_image(&listing).unwrap_or_else(|e| panic!("{e}\n{listing}")), descriptor);
        assert_eq!(Descriptor::read(&descriptor.write()).as_ref(), Ok(&descriptor), "bars and live-ins have bytes");
        let cut: String = listing.lines().take(3).map(|l| format!("{l}\n")).collect();
        assert!(text::assemble_image(&cut).is_err(), "a cut text is refused");
    }
    assert!(matches!(Image::of_bytes(&[0; 7]), Err(ImageError::Size { found: 7 })));
}

#[test]
fn the_compute_cache_is_unsupported() {
    use anemone_program::task::image::CachePrimitive;
    let mut image = Image::default();
    for primitive in CachePrimitive::ALL {
        let error = image.set_cache(primitive, 1).expect_err("no engine for it").to_string();
        assert_eq!(error, format!("{} is unsupported on this architecture", primitive.name()));
        let text = format!("image version=10 bytes=0x3b4\ncache {} value=1\nend\n", primitive.name());
        let error = anemone_program::text::assemble_image(&text).expect_err("no engine for it").to_string();
        assert!(error.contains("unsupported on this architecture"), "{error}");
    }
    assert_eq!(image, Image::default());
}

#[test]
fn listings_have_strides_with_their_sign() {
    let empty = text::list_image(&Descriptor::default());
    let behind = "group planar";
    let with = |value: &str| {
        let line = format!("0x4d18 Src1RowStride = {value}\n{behind}");
        text::assemble_image(&empty.replace(behind, &line))
    };
    for (value, bytes) in [("-64", -64), ("-0x40", -64), ("0xffffffc0", -64), ("0x40", 64), ("-0x80000000", -(1 << 31))]
    {
        let descriptor = with(value).unwrap_or_else(|e| panic!("{value}: {e}"));
        assert_eq!(descriptor.image.stride(0x4d18 / 4), Ok(bytes), "{value}");
        let written = if bytes < 0 { format!("= -{:#x}\n", -bytes) } else { format!("= {bytes:#x}\n") };
        let listing = text::list_image(&descriptor);
        assert!(listing.contains(&written), "{value}: {listing}");
        assert_eq!(text::assemble_image(&listing).expect("reads"), descriptor);
    }
    for wrong in ["-32", "-0", "-0x80000040", "--64", "-", "- 64"] {
        assert!(with(wrong).is_err(), "{wrong}");
    }
}
