//! Dispatch records of the two functional user clients: index, handler and the four exact sizes.

use super::{Row, row};

/// A user client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// Lifecycle, status, debug work, submission.
    Control,
    /// Low-latency submission.
    Direct,
    /// Scheduling hints; no selectors are known.
    Hints,
}

/// A user client's type number and class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientRow {
    /// The client.
    pub client: Client,
    /// Number passed on opening; chosen, see `docs/evidence.md`, key `driver-choice`.
    pub kind: u32,
    /// Class name.
    pub class: &'static str,
    /// Evidence of the class.
    pub row: Row,
}

/// Clients by type.
pub static CLIENTS: &[ClientRow] = &[
    ClientRow { client: Client::Control, kind: 0, class: "H11ANEInUserClient", row: row("driver") },
    ClientRow { client: Client::Direct, kind: 1, class: "H11ANEInDirectPathClient", row: row("driver") },
    ClientRow { client: Client::Hints, kind: 2, class: "ANEClientHints", row: row("driver") },
];

/// A dispatch record: every size is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selector {
    /// The client.
    pub client: Client,
    /// Number.
    pub index: u32,
    /// Handler's name.
    pub name: &'static str,
    /// Number of input scalars.
    pub scalars_in: u32,
    /// Size of the input structure, in bytes.
    pub struct_in_bytes: u32,
    /// Number of output scalars.
    pub scalars_out: u32,
    /// Size of the output structure, in bytes.
    pub struct_out_bytes: u32,
    /// True if the call takes a wake port.
    pub asynchronous: bool,
    /// True if a successful call rings the doorbell.
    pub rings: bool,
    /// Evidence and source.
    pub row: Row,
}

macro_rules! selectors {
    ( $( $table:ident $client:ident { $( $index:literal $name:ident [$si:literal $bi:literal $so:literal $bo:literal] $async:literal $rings:literal; )* } )* ) => {
        $(
            #[doc = concat!("Records of the client `", stringify!($client), "`, by index.")]
            pub static $table: &[Selector] = &[ $( Selector {
                client: Client::$client, index: $index, name: stringify!($name),
                scalars_in: $si, struct_in_bytes: $bi, scalars_out: $so, struct_out_bytes: $bo,
                asynchronous: $async, rings: $rings, row: row("driver"),
            } ),* ];
            const _: () = {
                let mut i = 0;
                while i < $table.len() {
                    assert!($table[i].index as usize == i, "selectors are numbered from 0 without a gap");
                    i += 1;
                }
            };
        )*
    };
}

selectors! {
    CONTROL Control {
        0 ANE_DeviceOpen [0 104 0 104] false false;
        1 ANE_DeviceClose [0 0 0 0] false false;
        2 ANE_ProgramSendRequest [1 2376 0 40] true true;
        3 ANE_ProgramCreate [0 32 0 0] false false;
        4 ANE_ProgramPrepare [0 56 0 56] false false;
        5 ANE_ProgramUnprepare [0 56 0 0] false false;
        6 ANE_ProgramDestroy [0 16 0 0] false false;
        7 ANE_GetStatus [0 0 0 32] false false;
        8 ANE_ProgramCreateInstance [0 32 0 0] false false;
        9 ANE_ProgramChainingPrepare [0 16 0 24] false false;
        10 ANE_GetVersion [0 0 1 0] false false;
        11 ANE_RegisterDebugWorkProcessor [0 24 0 0] false false;
        12 ANE_UnregisterDebugWorkProcessor [0 0 0 0] false false;
        13 ANE_GetDebugWorkProcessorItem [2 0 0 0] false false;
        14 ANE_CompleteDebugWorkProcessorItem [2 0 0 0] false false;
        15 ANE_ReleaseDebugWorkProcessorBuffers [0 0 0 0] false false;
        16 ANE_LoadFirmware [3 0 0 0] false false;
    }
    DIRECT Direct {
        0 ANE_DeviceOpen [0 104 0 104] false false;
        1 ANE_DeviceClose [0 0 0 0] false false;
        2 ANE_ProgramSendRequest [1 2376 0 40] true true;
        3 ANE_ProgramOutputSetEnqueue [0 40 0 0] false false;
        4 ANE_ProgramInputsReady [0 3104 0 0] false true;
        5 ANE_MemoryMapRequest [1 2080 1 0] false false;
        6 ANE_MemoryUnMapRequest [0 2080 0 0] false false;
        7 ANE_SessionHintRequest [0 16 0 24] false false;
        8 ANE_ProgramChainingSetActiveProcedure [0 32 0 0] false false;
    }
}

/// Records of a client.
pub fn of(client: Client) -> &'static [Selector] {
    match client {
        Client::Control => CONTROL,
        Client::Direct => DIRECT,
        Client::Hints => &[],
    }
}

/// Size of a dispatch record, in bytes.
pub const RECORD_BYTES: usize = 40;
/// A size that is not checked; no record has it.
pub const UNCHECKED: u32 = 0xffff_ffff;

/// Bytes of the record in the array. The handler word is the record's position plus one: code has no address here.
pub fn record_bytes(selector: &Selector) -> [u8; RECORD_BYTES] {
    let mut out = [0; RECORD_BYTES];
    out[..8].copy_from_slice(&(selector.index as u64 + 1).to_le_bytes());
    let sizes = [selector.scalars_in, selector.struct_in_bytes, selector.scalars_out, selector.struct_out_bytes];
    for (slot, size) in out[8..24].chunks_exact_mut(4).zip(sizes) {
        slot.copy_from_slice(&size.to_le_bytes());
    }
    out[24] = selector.asynchronous as u8;
    out
}

/// Byte offsets in a dispatch record.
pub static DISPATCH_RECORD: &[(usize, &str)] = &[
    (0x00, "function"),
    (0x08, "checkScalarInputCount"),
    (0x0c, "checkStructureInputSize"),
    (0x10, "checkScalarOutputCount"),
    (0x14, "checkStructureOutputSize"),
    (0x18, "reserved: whether the call takes a wake port"),
];

/// Byte offsets in the argument block of a call, with the labels of the book. The public header of the same structure puts
/// the scalar pointer at 0x20 and its count at 0x28.
pub static ARGUMENT_BLOCK: &[(usize, &str)] = &[
    (0x08, "asyncWakePort"),
    (0x10, "scalarInput"),
    (0x20, "scalarInputCount"),
    (0x30, "structureInput"),
    (0x38, "structureInputSize"),
    (0x48, "scalarOutput"),
    (0x50, "scalarOutputCount"),
    (0x58, "structureOutput"),
    (0x60, "structureOutputSize"),
];

/// A method without a selector, called by name with numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// Name, without its prefix.
    pub name: &'static str,
    /// True if the second access check guards it.
    pub guarded: bool,
    /// Parameters, by name; those in brackets are optional.
    pub numbers: &'static str,
    /// Effect in this driver.
    pub effect: &'static str,
}

const fn method(name: &'static str, guarded: bool, numbers: &'static str, effect: &'static str) -> Method {
    Method { name, guarded, numbers, effect }
}

/// Methods of the direct-path client without a selector.
pub static METHODS: &[Method] = &[
    method("PowerOn", false, "", "turns the base power domain on; returns 1 if it is on"),
    method("PowerOff", false, "", "turns everything off; busy while requests wait"),
    method("IsPowered", false, "", "returns 1 if any power domain is on"),
    method("LoadFirmware", false, "", "unsupported: the firmware is loaded at the start"),
    method("ForgetFirmware", false, "", "unsupported: the firmware is loaded at the start"),
    method("SendCommand", true, "INDEX WORD...", "a raw command on the I/O channel: index, then the words of its body"),
    method("SetPowerManagement", false, "ON", "0 keeps the device on between requests"),
    method("SetDynamicPowerGating", false, "ON", "0 stops the idle gate"),
    method("SetPowerGatingHysteresisTime", false, "MILLISECONDS", "idle time in ms after which everything is off"),
    method("SetThrottlingPercentage", false, "PERCENT", "share of the engine's time that is taken away, 0 to 99"),
    method("SetDARTCacheTTL", false, "USES", "uses after which an idle mapping is old; 0 for no limit"),
    method(
        "FlushInactiveDARTMappings",
        false,
        "",
        "evicts old idle mappings of the caller's process; returns their number",
    ),
    method(
        "UnmapDartBuffers",
        false,
        "[SURFACE]",
        "unmaps the pages of the caller's process, or of one surface; returns their number",
    ),
    method("ReadANERegister", true, "ADDRESS", "returns the value of a register"),
    method("WriteANERegister", true, "ADDRESS VALUE", "stores into a register: address, value"),
    method("FWSharedEventDoorbellRing", false, "EVENT [VALUE]", "raises a shared event to a value, 1 more without one"),
    method(
        "AddPersistentClient",
        false,
        "",
        "keeps the device on until removed; returns the number of persistent clients",
    ),
    method("RemovePersistentClient", false, "", "removes the persistent client"),
    method(
        "MPMMemoryMapRequest",
        false,
        "BYTES",
        "allocates a buffer of this size in the managed region; returns its device address; needs com.apple.ane.memory",
    ),
    method(
        "MPMMemoryUnmapRequest",
        false,
        "ADDRESS",
        "frees the buffer at a device address; needs com.apple.ane.memory",
    ),
    method("ExclaveCycle", true, "", "ends all programs of the secure world"),
    method("ExclaveLoad", true, "NUMBER", "loads a program into the secure world by its number"),
    method("ExclaveEvaluate", true, "NUMBER", "executes a program that is loaded there"),
    method("ExclaveUnload", true, "NUMBER", "unloads a program there"),
    method("ExclaveReadPropertyValue", true, "PROPERTY", "returns a property of the secure world"),
    method("ExclaveWritePropertyValue", true, "PROPERTY VALUE", "sets a property of the secure world"),
    method("GetClientsInfo", false, "", "returns a line for each client"),
    method("ShowSharedMemoryAllocations", false, "", "returns a line for each surface"),
    method("ShowModelMemoryStatus", false, "", "returns a line for each resident program"),
];

/// Methods of the hint client.
pub static HINT_METHODS: &[Method] = &[
    method(
        "setClientHint",
        false,
        "HINT [LEVELS]",
        "scheduling hint for the caller's process: 1 raises and 2 lowers its urgency by a number of levels, 0 removes the hint; needs com.apple.private.ane.allow-set-client-hints",
    ),
    method(
        "shareCoalitionHint",
        false,
        "HINT [LEVELS]",
        "the same hint for all processes of the caller's team; needs com.apple.private.ane.allow-share-coalition-hints",
    ),
];
