//! The driver's interface as rows: clients, selectors, codes, entitlements, commands, limits, the latency budget.
//!
//! Names and numbers come from the book's chapters on the driver, the firmware and the execution model; see
//! `docs/evidence.md`, key `driver`. Numbers that no source has are ours; see `docs/evidence.md`, key `driver-choice`.

use crate::Evidence;

pub mod commands;
pub mod counters;
pub mod entitlements;
pub mod limits;
pub mod selectors;
pub mod structures;

/// Evidence of a row and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Letter of the evidence.
    pub evidence: Evidence,
    /// Key into `docs/evidence.md`.
    pub source: &'static str,
}

/// A row with letter C. No row of the driver was verified on silicon by this project.
pub(crate) const fn row(source: &'static str) -> Row {
    Row { evidence: Evidence::Claimed, source }
}

/// Direction of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Host to firmware.
    ToFirmware,
    /// Firmware to host.
    FromFirmware,
    /// Both ways.
    Both,
}

/// A number with a name, a meaning and its evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Short name; no spaces.
    pub name: &'static str,
    /// The number.
    pub value: u64,
    /// Unit of the number; empty for codes and counts.
    pub unit: &'static str,
    /// One sentence.
    pub meaning: &'static str,
    /// Evidence and source.
    pub row: Row,
}

/// Declares constants together with a table of the same rows.
macro_rules! named {
    ( $(#[$doc:meta])* $table:ident { $( $name:ident = $value:literal $unit:literal $source:literal $meaning:literal; )* } ) => {
        $( #[doc = $meaning] pub const $name: u64 = $value; )*
        $(#[$doc])*
        pub static $table: &[$crate::driver::Named] = &[ $( $crate::driver::Named {
            name: stringify!($name), value: $value, unit: $unit, meaning: $meaning, row: $crate::driver::row($source),
        } ),* ];
    };
}
pub(crate) use named;

/// Return codes, as the client sees them.
pub mod codes {
    named! {
        /// All codes.
        CODES {
            SUCCESS = 0 "" "driver" "done";
            USAGE_UNSUPPORTED = 24 "" "driver" "handshake with usage type 2; a plain number";
            ERROR = 0xe000_02bc "" "ioreturn" "generic failure";
            NO_MEMORY = 0xe000_02bd "" "ioreturn" "no memory";
            NO_RESOURCES = 0xe000_02be "" "ioreturn" "queue, slot or device addresses exhausted";
            NOT_PRIVILEGED = 0xe000_02c1 "" "ioreturn" "privilege check failed";
            BAD_ARGUMENT = 0xe000_02c2 "" "driver" "a size, an index or a null pointer";
            CLOSED = 0xe000_02c5 "" "driver" "the client is closing or closed";
            UNSUPPORTED = 0xe000_02c7 "" "driver" "stub, disabled path, or gated feature";
            NOT_OPEN = 0xe000_02cd "" "ioreturn" "no handshake yet";
            BUSY = 0xe000_02d5 "" "ioreturn" "in use";
            TIMEOUT = 0xe000_02d6 "" "ioreturn" "time is over";
            NOT_READY = 0xe000_02d8 "" "ioreturn" "device or channel not ready";
            NOT_PERMITTED = 0xe000_02e2 "" "driver" "signature, trust cache or identity refused";
            NO_COMPLETION = 0xe000_02ea "" "ioreturn" "a record without handler";
            ABORTED = 0xe000_02eb "" "ioreturn" "request aborted";
            NOT_FOUND = 0xe000_02f0 "" "ioreturn" "no such token, surface or handle";
        }
    }
}

/// Live properties of the device.
pub mod properties {
    /// Name of the architecture.
    pub const ARCHITECTURE: &str = "h13g";
    /// `No`: not an internal build; gates the debug selectors.
    pub const INTERNAL_BUILD: &str = "No";
    /// Version that the three components of the driver share.
    pub const COMPONENT_VERSION: &str = "9.511.3";
    named! {
        /// Numbers of the registry.
        PROPERTIES {
            VERSION = 96 "" "driver" "version of the engine";
            MINOR_VERSION = 17 "" "driver" "minor version";
            BOARD_TYPE = 96 "" "driver" "board type";
            BOARD_SUBTYPE = 0 "" "driver" "board subtype";
            CORES = 16 "" "driver" "cores";
            ENGINES = 1 "" "driver" "engines";
            CPU_SUBTYPE = 4 "" "driver" "CPU subtype of program images";
        }
    }

    /// Names of services in the registry, with the class of the service found.
    pub static SERVICES: &[(&str, &str)] = &[
        ("H11ANEIn", "the device; role ANE"),
        ("H1xANELoadBalancer", "the load balancer, which user clients are opened on where there is one"),
    ];

    /// Components of the driver: bundle, principal class, provider.
    pub static COMPONENTS: &[(&str, &str, &str)] = &[
        ("AppleH11ANEInterface", "ANEHWDevice", "RTBuddyService"),
        ("AppleT8132ANEHAL", "AppleT8132ANEHAL", "IOResources"),
        ("AppleANELoadBalancer", "ANEDriver", "IOResources"),
    ];
}

/// Element types of program inputs and outputs: the position is the code.
pub static IO_TYPES: &[(&str, u32)] = &[
    ("int4", 4),
    ("uint8", 8),
    ("int8", 8),
    ("fp16", 16),
    ("fp32", 32),
    ("int16", 16),
    ("uint16", 16),
    ("int32", 32),
    ("uint32", 32),
    ("int64", 64),
    ("uint64", 64),
];
