//! Entitlements: what each key opens, and how many identities hold it.

use super::{Row, row};

/// An entitlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entitlement {
    /// Key.
    pub key: &'static str,
    /// What it opens.
    pub opens: &'static str,
    /// Identities that hold it, where that was counted.
    pub holders: Option<u32>,
    /// Whether the driver checks it, once, when a client is made; else the broker does.
    pub kernel: bool,
    /// Evidence and source.
    pub row: Row,
}

macro_rules! entitlements {
    ( $( $name:ident $kernel:literal $key:literal $holders:expr, $opens:literal; )* ) => {
        $( #[doc = $opens] pub const $name: &str = $key; )*
        /// Every key.
        pub static ENTITLEMENTS: &[Entitlement] = &[ $( Entitlement {
            key: $key, opens: $opens, holders: $holders, kernel: $kernel, row: row("driver"),
        } ),* ];
    };
}

entitlements! {
    USER_ACCESS true "com.apple.ane.iokit-user-access" Some(2), "opening a user client";
    CHAINING true "com.apple.ane.allow-dataChaining-access" None, "resident data chaining";
    REALTIME true "com.apple.ane.realtime-priority-client" None, "real-time priority";
    RESERVED_PRIORITIES true "com.apple.ane.allow-system-reserved-priorities" None, "priorities 0 and 1";
    MEMORY true "com.apple.ane.memory" None, "mapping of managed memory";
    DATA true "com.apple.ane.allow-data" None, "mapping of buffers of others";
    SET_HINTS true "com.apple.private.ane.allow-set-client-hints" None, "hints for a client";
    COALITION_HINTS true "com.apple.private.ane.allow-share-coalition-hints" None, "hints for a coalition";
    ALLOW false "com.apple.aned.private.allow" Some(18), "the restricted tier: compile, load, instantiate";
    INFERENCE false "com.apple.aned.private.ANEAccess.allow" Some(14), "the inference client variant";
    ADAPTER_WEIGHT false "com.apple.aned.private.adapterWeight.allow" Some(5), "adapter weights on a shared base";
    MODEL_SHARE false "com.apple.aned.private.processModelShare.allow" Some(4), "sharing a resident model across processes";
    LONG_COMPILE false "com.apple.aned.private.secondaryANECompilerServiceAccess.allow" Some(1), "the long-duration compile service";
    POWER_SAVING false "com.apple.aned.private.aggressivePowerSaving" None, "aggressive power saving";
    PURGE_ALL false "com.apple.aned.private.modelPurgeInAllPartitions" None, "purging in every cache partition";
    DIRECT_EXCEPTION false "com.apple.security.temporary-exception.iokit-user-client-class" Some(27), "an own direct-path client, with a broker's grant";
    TRUST_SLOT false "com.apple.security.ts.ane-client" Some(5), "a blessed slot of the trust cache";
}
