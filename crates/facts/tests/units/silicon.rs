use anemone_facts::chips::{CHIPS, SUBTYPES, by_target};
use anemone_facts::layout;
use anemone_facts::silicon::{PRODUCTS, SILICON, find, group, names, of_family, plain, split};

#[test]
fn names_are_given_once() {
    let mut all: Vec<String> = names().map(plain).collect();
    all.sort();
    let doubled: Vec<&[String]> = all.windows(2).filter(|w| w[0] == w[1]).collect();
    assert!(doubled.is_empty(), "{doubled:?}");
    for name in names() {
        assert!(group(name).is_some() || find(name).is_some(), "{name}");
    }
}

#[test]
fn silicon_stands_for_the_generation_that_containers_show() {
    let expected = [
        ("a12", "h11", 1),
        ("a13", "h12", 3),
        ("a14", "h13", 4),
        ("m1", "h13", 4),
        ("m1-max", "h13g", 4),
        ("a15", "h14", 5),
        ("m2", "h14", 5),
        ("a16", "h15", 6),
        ("m3", "h15", 6),
        ("a17-pro", "h16", 7),
        ("m4", "h16", 7),
        ("a18", "h17", 9),
        ("a18-pro", "h17", 9),
        ("m5", "h17", 9),
        ("a19", "h18", 10),
        ("m6", "h18g", 11),
        ("a20", "h19", 11),
    ];
    for (name, target, subtype) in expected {
        let named = find(name).expect(name);
        assert_eq!((named.chip.target, named.chip.cpu_subtype), (target, Some(subtype)), "{name}");
    }
}

#[test]
fn chips_and_subtypes_agree() {
    for chip in CHIPS.iter().filter(|c| c.cpu_subtype.is_some()) {
        let row = SUBTYPES.iter().find(|s| Some(s.subtype) == chip.cpu_subtype).expect(chip.target);
        assert_eq!(Some(row.td_version), chip.td_version, "{}", chip.target);
        assert!(row.targets().any(|c| c.target == chip.target), "{}", chip.target);
        if let Some(layout) = chip.layout {
            assert_eq!(layout::of_version(row.td_version).map(|l| l.generation), Some(layout.generation));
        }
    }
    for silicon in SILICON {
        let chip = by_target(silicon.target).expect(silicon.name);
        assert!(chip.role.is_empty() && chip.cpu_subtype.is_some(), "{}", silicon.name);
    }
    for chip in CHIPS {
        assert_eq!(chip.role.is_empty(), chip.silicon().next().is_some(), "{}", chip.target);
    }
}

#[test]
fn notes_name_only_silicon_of_their_generation() {
    let generation = |target: &str| target.trim_end_matches(|c: char| c.is_ascii_alphabetic()).to_string();
    for chip in CHIPS {
        for silicon in SILICON {
            let named = |text: &str| {
                text.split([',', ';', ' ']).collect::<Vec<_>>().windows(2).any(|w| {
                    format!("{} {}", w[0], w[1]) == silicon.title
                        || w[0] == silicon.title && !["Pro", "Max"].contains(&w[1])
                })
            };
            let later = ["h18g", "h19"].contains(&chip.target);
            if named(chip.note) && !later {
                assert_eq!(generation(chip.target), generation(silicon.target), "{}: {}", chip.target, chip.note);
            }
        }
    }
}

#[test]
fn products_have_silicon_and_their_identifiers_are_found() {
    for product in PRODUCTS {
        let named = find(product.name).expect(product.name);
        assert_eq!(named.silicon.map(|s| s.name), Some(product.silicon));
        for identifier in product.identifiers {
            assert_eq!(find(identifier).expect(identifier).product.map(|p| p.name), Some(product.name));
        }
    }
    for (name, silicon) in [
        ("iphone12", "a14"),
        ("iPhone13,2", "a14"),
        ("iPhone 13", "a15"),
        ("iphone15", "a16"),
        ("iphone15-pro", "a17-pro"),
        ("iPhone16,1", "a17-pro"),
        ("ipad-pro-m4", "m4"),
        ("Mac16,12", "m4"),
        ("iphone17", "a19"),
    ] {
        assert_eq!(find(name).expect(name).silicon.map(|s| s.name), Some(silicon), "{name}");
    }
}

#[test]
fn lists_keep_identifiers_whole() {
    assert_eq!(split("m1,iPhone13,2,iphone12,a14"), ["m1", "iPhone13,2", "iphone12", "a14"]);
    assert_eq!(split(" m1 , ,m4"), ["m1", "m4"]);
}

#[test]
fn groups_have_one_chip_a_target() {
    let names = |g: &str| group(g).expect(g).members().iter().map(|s| s.name).collect::<Vec<_>>();
    assert_eq!(names("iphone"), ["a12", "a13", "a14", "a15", "a16", "a17-pro", "a18", "a19"]);
    assert_eq!(names("mac").first(), Some(&"m1"));
    assert!(names("mac").contains(&"m4-pro"));
    assert_eq!(names("all").len(), SILICON.iter().map(|s| s.target).collect::<std::collections::BTreeSet<_>>().len());
}

#[test]
fn families_of_the_book_are_told_by_their_silicon() {
    assert_eq!(of_family("A13"), "M1, A14");
    assert_eq!(of_family("A16"), "M4, A17 Pro");
}
