//! Entitlements: function of each key, and number of identities that hold it.

use super::{Row, row};

/// An entitlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entitlement {
    /// Key.
    pub key: &'static str,
    /// Functions that it gives access to.
    pub opens: &'static str,
    /// Number of identities that hold it, if counted.
    pub holders: Option<u32>,
    /// True if the driver checks it, once, when a client is created; otherwise the broker does.
    pub kernel: bool,
    /// Evidence and source.
    pub row: Row,
}

macro_rules! entitlements {
    ( $( $name:ident $kernel:literal $key:literal $holders:expr, $opens:literal; )* ) => {
        $( #[doc = $opens] pub const $name: &str = $key; )*
        /// All keys.
        pub static ENTITLEMENTS: &[Entitlement] = &[ $( Entitlement {
            key: $key, opens: $opens, holders: $holders, kernel: $kernel, row: row("driver"),
        } ),* ];
    };
}

entitlements! {
    USER_ACCESS true "com.apple.ane.iokit-user-access" Some(2), "opening a user client";
    CHAINING true "com.apple.ane.allow-dataChaining-access" None, "chained calls: an output set stays with the device as the next call's input";
    REALTIME true "com.apple.ane.realtime-priority-client" None, "the real-time class of service, 0";
    RESERVED_PRIORITIES true "com.apple.ane.allow-system-reserved-priorities" None, "priorities 0 and 1";
    MEMORY true "com.apple.ane.memory" None, "mapping and unmapping managed memory";
    DATA true "com.apple.ane.allow-data" None, "mapping buffers of other clients";
    SET_HINTS true "com.apple.private.ane.allow-set-client-hints" None, "scheduling hints for the own process";
    COALITION_HINTS true "com.apple.private.ane.allow-share-coalition-hints" None, "scheduling hints for all processes of the own team";
    ALLOW false "com.apple.aned.private.allow" Some(18), "compiling, loading and instances through the broker";
    INFERENCE false "com.apple.aned.private.ANEAccess.allow" Some(14), "an own direct-path connection for inference";
    ADAPTER_WEIGHT false "com.apple.aned.private.adapterWeight.allow" Some(5), "adapters: other weights on a resident base model";
    MODEL_SHARE false "com.apple.aned.private.processModelShare.allow" Some(4), "attaching to a resident model of another process";
    LONG_COMPILE false "com.apple.aned.private.secondaryANECompilerServiceAccess.allow" Some(1), "the service for long compiles";
    POWER_SAVING false "com.apple.aned.private.aggressivePowerSaving" None, "aggressive power saving for an instance";
    PURGE_ALL false "com.apple.aned.private.modelPurgeInAllPartitions" None, "purging models from every partition of the cache";
    DIRECT_EXCEPTION false "com.apple.security.temporary-exception.iokit-user-client-class" Some(27), "opening a direct-path client of one's own, for a program that the broker loaded";
    TRUST_SLOT false "com.apple.security.ts.ane-client" Some(5), "a slot of the trust cache, for programs to which latency matters: the most urgent class of service, 33";
}
