//! Conditions of limits in words.

use super::{Bound, MatchParams, Rule, When};
use crate::chips::{CHIPS, HAL_ROWS};

/// Values of a number of the chips: the least and the greatest that is known.
fn values(name: &str) -> String {
    let row = HAL_ROWS.iter().find(|row| row.name == name);
    let known: Vec<u64> =
        row.into_iter().flat_map(|row| CHIPS.iter().filter_map(|chip| (row.get)(&chip.hal))).collect();
    match (known.iter().min(), known.iter().max()) {
        (Some(least), Some(most)) if least == most => least.to_string(),
        (Some(least), Some(most)) => {
            let word = if known.iter().all(|n| n == least || n == most) { "or" } else { "to" };
            format!("{least} {word} {most} by chip")
        }
        _ => "a number of the chip".into(),
    }
}

impl Bound {
    /// The bound in words.
    pub fn text(&self) -> String {
        match *self {
            Bound::Number(n) => n.to_string(),
            Bound::Hal(name) => format!("{} ({name})", values(name)),
            Bound::Of(quantity) => quantity.name().to_string(),
        }
    }
}

impl MatchParams {
    /// The condition in words.
    pub fn text(&self) -> String {
        match self {
            MatchParams::Between(q, least, most) if least == most => format!("{} must be {}", q.name(), most.text()),
            MatchParams::Between(q, least, most) => format!("{} from {} to {}", q.name(), least.text(), most.text()),
            MatchParams::Divisible(q, by) => format!("{} divisible by {}", q.name(), by.name()),
            MatchParams::OneOf(q, [only]) => format!("{} must be {only}", q.name()),
            MatchParams::OneOf(q, allowed) => {
                let allowed: Vec<String> = allowed.iter().map(i64::to_string).collect();
                format!("{} one of {}", q.name(), allowed.join(", "))
            }
            MatchParams::StrideFactors(q) => format!("{} a product of 2, 3, 4 and 8", q.name()),
            MatchParams::Capability(name) => format!("the chip's capability {name}"),
            MatchParams::Floor(index) => format!("a chip of legality family {index} or later"),
            MatchParams::Never(_) => "not supported".into(),
        }
    }
}

impl When {
    /// The condition in words.
    pub fn text(&self) -> String {
        match *self {
            When::Has(quantity) => quantity.name().to_string(),
            When::Lacks(quantity) => format!("not {}", quantity.name()),
            When::Family([name]) => format!("family {name}"),
            When::Family(names) => format!("families {}", names.join(", ")),
            When::Without(name) => format!("chips without {name}"),
            When::Above(quantity, n) => format!("{} above {n}", quantity.name()),
            When::AtMost(quantity, n) => format!("{} at most {n}", quantity.name()),
            When::Direct => "direct route".into(),
        }
    }
}

impl Rule {
    /// The cases that the rule applies to, in words; empty for all.
    pub fn cases(&self) -> String {
        self.when.iter().map(When::text).collect::<Vec<_>>().join(", ")
    }
}
