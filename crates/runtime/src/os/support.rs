//! Features by operating system: the rows of `ane doctor` and docs/systems.md.

/// Level of support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Tests run on that system.
    Tested,
    /// Run under Wine, not on the system itself.
    Emulated,
    /// Implemented for that system, but never run there.
    Untested,
    /// Refused with this reason, because the system lacks a prerequisite.
    Absent(&'static str),
}

impl Support {
    /// Returns true if the feature is available.
    pub fn works(self) -> bool {
        !matches!(self, Support::Absent(_))
    }

    /// Text for tables.
    pub fn text(self) -> &'static str {
        match self {
            Support::Tested => "works",
            Support::Emulated => "runs under Wine; not tested on the system itself",
            Support::Untested => "builds for the system; not tested on it",
            Support::Absent(why) => why,
        }
    }
}

/// A feature that a system may support.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// Name in `ane doctor`.
    pub name: &'static str,
    /// Purpose.
    pub purpose: &'static str,
    /// Support on each of [`SYSTEMS`].
    pub support: [Support; 3],
}

impl Feature {
    /// Support on a system by name; `None` for an unknown one.
    pub fn on(&self, system: &str) -> Option<Support> {
        SYSTEMS.iter().position(|s| *s == system).map(|i| self.support[i])
    }
}

/// Systems with rows.
pub const SYSTEMS: [&str; 3] = ["linux", "macos", "windows"];

use Support::{Absent, Emulated, Tested, Untested};

const IDENTITY: Support = Absent("refused: the system has no safe call for the process behind a socket");
const DESCRIPTORS: Support = Absent("refused: sockets of the system pass no file descriptors");
const ADDRESSES: Support = Absent("refused: the system has no safe call that reads the caller's memory by address");

/// Every feature that depends on the system.
pub const FEATURES: &[Feature] = &[
    Feature {
        name: "command line",
        purpose: "check, compile, run, dump, convert: all in one process",
        support: [Tested, Untested, Emulated],
    },
    Feature {
        name: "mapped weights",
        purpose: "weight files are mapped, not copied",
        support: [Tested, Untested, Emulated],
    },
    Feature {
        name: "cache",
        purpose: "compiled programs by content, in the user's cache folder",
        support: [Tested, Untested, Emulated],
    },
    Feature { name: "C library", purpose: "the runtime's calls from C", support: [Tested, Untested, Emulated] },
    Feature { name: "Python package", purpose: "the library from Python", support: [Tested, Untested, Untested] },
    Feature {
        name: "driver library",
        purpose: "the driver's calls from C, under the system's names",
        support: [Tested, ADDRESSES, ADDRESSES],
    },
    Feature {
        name: "broker",
        purpose: "a daemon that other processes compile and run through",
        support: [Tested, IDENTITY, DESCRIPTORS],
    },
    Feature {
        name: "confined compiles",
        purpose: "the broker's compile service may neither write files nor use the network",
        support: [Tested, Absent("no broker"), Absent("no broker")],
    },
];
