//! Silicon and products: the only table of chip names that a user types or reads.
//!
//! The number of a compiler target is that of its generation of the engine: H13 is the A14 and the M1. The book names
//! capability tiers by compiler families A13 to A18, whose number is also that of the target and not that of the silicon:
//! see `docs/conflicts.md`. Evidence: `docs/evidence.md`, key `silicon`.

mod products;

pub use products::{PRODUCTS, Product};

use crate::Basis;
use crate::chips::{CHIPS, Chip, Subtype, by_target};

/// One system on a chip.
#[derive(Debug)]
pub struct Silicon {
    /// Name on the command line, lower case, words joined by hyphens.
    pub name: &'static str,
    /// Other spellings.
    pub aliases: &'static [&'static str],
    /// Apple's name.
    pub title: &'static str,
    /// Part number; empty where it is not known.
    pub part: &'static str,
    /// Compiler target.
    pub target: &'static str,
    /// Basis of the target.
    pub basis: Basis,
    /// Source of the target.
    pub evidence: &'static str,
}

macro_rules! silicon {
    ( $( $name:literal [ $( $alias:literal ),* ] $title:literal $part:literal $target:literal $basis:ident $evidence:literal; )* ) => {
        /// All known chips with an engine that runs Core ML models. The first of the rows of one target names it.
        pub static SILICON: &[Silicon] = &[ $( Silicon {
            name: $name, aliases: &[ $( $alias ),* ], title: $title, part: $part, target: $target,
            basis: Basis::$basis, evidence: $evidence,
        } ),* ];
    };
}

// Name, aliases, title, part, compiler target, basis, evidence.
silicon! {
    "m1" [] "M1" "T8103" "h13" Decoded "board type 64, firmware h13; containers with CPU subtype 4";
    "m1-pro" [] "M1 Pro" "T6000" "h13g" Decoded "board type 96";
    "m1-max" [] "M1 Max" "T6001" "h13g" Measured "a live M1 Max reports h13g, board type 96";
    "m1-ultra" [] "M1 Ultra" "T6002" "h13g" Decoded "board type 96";
    "a14" ["a14-bionic"] "A14" "T8101" "h13" Decoded "CPU subtype 4 in the compiler's table of subtypes";
    "m2" [] "M2" "T8112" "h14" Decoded "board type 128, firmware h14";
    "m2-pro" [] "M2 Pro" "T6020" "h14g" Decoded "board types";
    "m2-max" [] "M2 Max" "T6021" "h14g" Decoded "board types";
    "m2-ultra" [] "M2 Ultra" "T6022" "h14g" Decoded "board types";
    "a15" ["a15-bionic"] "A15" "T8110" "h14" Decoded "CPU subtype 5 in the compiler's table of subtypes";
    "m3" [] "M3" "T8122" "h15" Decoded "board types";
    "m3-pro" [] "M3 Pro" "T6030" "h15g" Decoded "board types";
    "m3-max" [] "M3 Max" "T6031" "h15g" Decoded "board types";
    "m3-ultra" [] "M3 Ultra" "T6032" "h15g" Inferred "as the M3 Max";
    "a16" ["a16-bionic"] "A16" "T8120" "h15" Decoded "CPU subtype 6 in the compiler's table of subtypes";
    "m4" [] "M4" "T8132" "h16" Decoded "board types; containers with CPU subtype 7";
    "m4-pro" [] "M4 Pro" "T6040" "h16g" Decoded "board types";
    "m4-max" [] "M4 Max" "T6041" "h16g" Decoded "board types";
    "a17-pro" ["a17"] "A17 Pro" "T8130" "h16" Decoded "CPU subtype 7 in the compiler's table of subtypes";
    "m5" [] "M5" "T8142" "h17" Measured "a live M5 reports h17";
    "m5-pro" [] "M5 Pro" "T6050" "h17s" Measured "a live M5 Pro was measured as h17s";
    "m5-max" [] "M5 Max" "T6051" "h17s" Decoded "as the M5 Pro; a live M5 Max reports the H17 generation";
    "a18" [] "A18" "T8140" "h17" Decoded "CPU subtype 9 in the compiler's table of subtypes";
    "a18-pro" [] "A18 Pro" "T8140" "h17" Measured "a live A18 Pro reports h17";
    "a19" [] "A19" "T8150" "h18" Decoded "CPU subtype 10 in the compiler's table of subtypes";
    "a19-pro" [] "A19 Pro" "T8150" "h18" Decoded "CPU subtype 10 in the compiler's table of subtypes";
    "m6" [] "M6" "T8152" "h18g" Measured "a live M6 reports h18g, CPU subtype 11";
    "a20" ["a20-pro"] "A20" "" "h19" Inferred "one report; CPU subtype 11";
    "a13" ["a13-bionic"] "A13" "T8030" "h12" Decoded "CPU subtype 3 in the compiler's table of subtypes";
    "a12" ["a12-bionic"] "A12" "T8020" "h11" Decoded "CPU subtype 1 in the compiler's table of subtypes";
    "a12x" ["a12z"] "A12X" "T8027" "h11" Inferred "as the A12";
}

impl Chip {
    /// Silicon of the target.
    pub fn silicon(&self) -> impl Iterator<Item = &'static Silicon> + use<> {
        let target = self.target;
        SILICON.iter().filter(move |s| s.target == target)
    }

    /// Description for messages: its silicon, or the role of a target without silicon.
    pub fn describe(&self) -> String {
        let names: Vec<&str> = self.silicon().map(|s| s.title).collect();
        if names.is_empty() { self.role.to_string() } else { names.join(", ") }
    }

    /// The best known name.
    pub fn name(&self) -> &'static str {
        self.silicon().next().map_or(self.target, |s| s.name)
    }
}

impl Subtype {
    /// Generation's name and silicon, for messages.
    pub fn describe(&self) -> String {
        let mut names: Vec<&str> = self.targets().next().map(|c| c.target).into_iter().collect();
        names.extend(self.targets().flat_map(Chip::silicon).map(|s| s.title));
        names.extend(Some(self.other).filter(|o| !o.is_empty()));
        names.join(", ")
    }
}

/// The chip of a compiler target, silicon or product, in any case.
pub fn by_name(name: &str) -> Option<&'static Chip> {
    find(name).map(|named| named.chip)
}

/// A set of chips with one name.
#[derive(Debug)]
pub struct Group {
    /// Name.
    pub name: &'static str,
    /// Members.
    pub meaning: &'static str,
    takes: fn(&Silicon) -> bool,
}

/// All groups.
pub static GROUPS: &[Group] = &[
    Group { name: "all", meaning: "every chip in a product", takes: |_| true },
    Group { name: "iphone", meaning: "chips of iPhones", takes: |s| sold_in(s, "iphone") },
    Group { name: "ipad", meaning: "chips of iPads", takes: |s| sold_in(s, "ipad") },
    Group { name: "mac", meaning: "M1 and later, with the Pro, Max and Ultra", takes: |s| s.name.starts_with('m') },
    Group { name: "ios", meaning: "chips of iPhones and iPads", takes: |s| sold_in(s, "iphone") || sold_in(s, "ipad") },
];

fn sold_in(silicon: &Silicon, line: &str) -> bool {
    PRODUCTS.iter().any(|p| p.silicon == silicon.name && p.name.starts_with(line))
}

impl Group {
    /// One silicon for each compiler target, by generation.
    pub fn members(&self) -> Vec<&'static Silicon> {
        let mut members: Vec<&'static Silicon> = Vec::new();
        for silicon in SILICON.iter().filter(|s| (self.takes)(s)) {
            if !members.iter().any(|known| known.target == silicon.target) {
                members.push(silicon);
            }
        }
        members.sort_by_key(|s| s.target);
        members
    }
}

/// Meaning of a name.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The compiler target.
    pub chip: &'static Chip,
    /// The silicon, unless a compiler target was named.
    pub silicon: Option<&'static Silicon>,
    /// The product, where one was named.
    pub product: Option<&'static Product>,
}

/// A name in normal form, without case, spaces and hyphens: `iPhone 15 Pro` and `iphone-15-pro` are the same.
pub fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, ' ' | '-' | '_')).map(|c| c.to_ascii_lowercase()).collect()
}

/// Resolves a compiler target, a chip, a product's name or its identifier.
pub fn find(name: &str) -> Option<Named> {
    let name = plain(name);
    let is = |known: &str| plain(known) == name;
    if let Some(chip) = CHIPS.iter().find(|c| c.target == name) {
        return Some(Named { chip, silicon: None, product: None });
    }
    let product = PRODUCTS.iter().find(|p| is(p.name) || p.aliases.iter().chain(p.identifiers).any(|k| is(k)));
    let silicon = match product {
        Some(product) => SILICON.iter().find(|s| s.name == product.silicon)?,
        None => SILICON.iter().find(|s| is(s.name) || s.aliases.iter().any(|k| is(k)))?,
    };
    Some(Named { chip: by_target(silicon.target)?, silicon: Some(silicon), product })
}

/// The group of that name.
pub fn group(name: &str) -> Option<&'static Group> {
    let name = plain(name);
    GROUPS.iter().find(|g| g.name == name)
}

/// Reason why a chip with an engine is not a target.
pub fn unreachable(name: &str) -> Option<&'static str> {
    let name = plain(name);
    let a11 = ["a11", "a11bionic", "iphone8", "iphone8plus", "iphonex", "iphone10,1", "iphone10,2", "iphone10,3"];
    a11.contains(&name.as_str())
        .then_some("Core ML does not use the engine of the A11; the first that it uses is the A12 (h11)")
}

/// All names that [`find`] and [`group`] know, for suggestions.
pub fn names() -> impl Iterator<Item = &'static str> {
    let silicon = SILICON.iter().flat_map(|s| std::iter::once(&s.name).chain(s.aliases)).copied();
    let products =
        PRODUCTS.iter().flat_map(|p| std::iter::once(&p.name).chain(p.aliases).chain(p.identifiers)).copied();
    GROUPS.iter().map(|g| g.name).chain(silicon).chain(CHIPS.iter().map(|c| c.target)).chain(products)
}

/// The names of a list, separated by commas; commas inside identifiers such as `iPhone13,2` do not separate.
pub fn split(list: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for part in list.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        match names.last_mut() {
            Some(last) if part.bytes().all(|b| b.is_ascii_digit()) && last.ends_with(|c: char| c.is_ascii_digit()) => {
                *last += ",";
                *last += part;
            }
            _ => names.push(part.to_string()),
        }
    }
    names
}

/// Silicon of a compiler family of the book: `A14` is the family of the A15 and M2.
pub fn of_family(family: &str) -> String {
    let chips = CHIPS.iter().filter(|c| c.family == family);
    let first = chips.clone().next();
    let mut titles: Vec<&str> = Vec::new();
    for silicon in first.into_iter().flat_map(Chip::silicon) {
        titles.push(silicon.title);
    }
    if titles.is_empty() { family.to_string() } else { titles.join(", ") }
}
