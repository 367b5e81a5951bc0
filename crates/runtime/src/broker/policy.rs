//! Access policy: a TOML file of identities by executable digest, with restrictive defaults.
//!
//! ```toml
//! default_tier = "unrestricted"        # or "none": unknown programs are refused
//! max_clients = 256
//! book = false                         # or true: every key is required where the book requires it
//!
//! [[identity]]
//! digest = "sha256 of the executable, hexadecimal"
//! team = "my-team"
//! entitlements = ["com.apple.aned.private.allow"]
//! ```

use crate::error::{Error, Result};
use anemone_facts::driver::entitlements as keys;
use serde::Deserialize;

/// Permissions of unknown programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// May compile, load and run its own models.
    #[default]
    Unrestricted,
    /// No rights.
    None,
}

/// Tier of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// Holds a key for adapters, sharing or power saving.
    Restricted,
    /// Any other program.
    Unrestricted,
    /// Connected through the sibling of its user.
    PerUser,
}

impl Admitted {
    /// Every tier.
    pub const ALL: [Admitted; 3] = [Admitted::Restricted, Admitted::Unrestricted, Admitted::PerUser];

    /// Name in documentation.
    pub fn name(self) -> &'static str {
        match self {
            Admitted::Restricted => "restricted",
            Admitted::Unrestricted => "unrestricted",
            Admitted::PerUser => "per_user",
        }
    }
}

/// A known program.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// SHA-256 of the executable, hexadecimal.
    pub digest: String,
    /// Team.
    #[serde(default)]
    pub team: String,
    /// Keys.
    #[serde(default)]
    pub entitlements: Vec<String>,
    /// Property required by the second access check: registers, raw commands and the secure world.
    #[serde(default)]
    pub privileged: bool,
}

/// The policy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Permissions of unknown programs.
    pub default_tier: Tier,
    /// Largest number of simultaneous connections.
    pub max_clients: usize,
    /// Known programs.
    pub identity: Vec<Known>,
    /// True if every entitlement is required where the book requires it; if false, unknown programs compile, load and run without any.
    pub book: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Policy { default_tier: Tier::Unrestricted, max_clients: 256, identity: Vec::new(), book: false }
    }
}

/// Keys that the book requires for a method, in addition to those of every policy; methods by name.
pub const BOOK: &[(&str, &str)] = &[
    ("content", keys::ALLOW),
    ("compile", keys::ALLOW),
    ("load", keys::ALLOW),
    ("method", keys::ALLOW),
    ("direct", keys::INFERENCE),
    ("direct", keys::DIRECT_EXCEPTION),
];

/// Class of service of latency-critical clients, for which the book has a slot of the trust cache.
pub const LATENCY_CRITICAL: u32 = 33;

/// Roles of the broker's own processes; only they hold the key for opening the driver.
const OWN: [&str; 2] = ["broker", "per-user sibling"];

impl Policy {
    /// Parses a policy file. Unknown keys of the table, unknown entitlements and kernel entitlements, which only the broker
    /// holds, are refused.
    pub fn parse(text: &str) -> Result<Policy> {
        let policy: Policy = toml::from_str(text).map_err(|e| Error::Policy(e.to_string()))?;
        for key in policy.identity.iter().flat_map(|i| &i.entitlements) {
            match keys::ENTITLEMENTS.iter().find(|e| e.key == key) {
                None => return Err(Error::Policy(format!("no entitlement is called {key}"))),
                Some(row) if row.key == keys::USER_ACCESS => {
                    return Err(Error::Policy(format!("{key} is reserved for the broker and its sibling")));
                }
                Some(_) => {}
            }
        }
        Ok(policy)
    }

    /// The known program of a digest.
    pub fn known(&self, digest: &str) -> Option<&Known> {
        self.identity.iter().find(|i| i.digest == digest)
    }

    /// Tier of a program that connects directly.
    pub fn tier(&self, digest: &str) -> Admitted {
        let restricted = [keys::ADAPTER_WEIGHT, keys::MODEL_SHARE, keys::POWER_SAVING];
        let holds = |known: &Known| known.entitlements.iter().any(|key| restricted.contains(&key.as_str()));
        if self.known(digest).is_some_and(holds) { Admitted::Restricted } else { Admitted::Unrestricted }
    }

    /// Number of identities with a key.
    pub fn holders(&self, key: &str) -> usize {
        let own = if key == keys::USER_ACCESS { OWN.len() } else { 0 };
        own + self.identity.iter().filter(|i| i.entitlements.iter().any(|k| k == key)).count()
    }
}
