//! Commands between host and firmware: 93 rows of the name table with their numbers on the wire.
//!
//! The index is the position in the name table; the wire number is the value that the firmware's loop switches on. The map
//! between both is derived; see `docs/evidence.md`, key `driver`.

use super::Direction::{self, Both, FromFirmware, ToFirmware};
use super::{Row, row};

/// A command of the mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Position in the table of names.
    pub index: u32,
    /// Number on the wire.
    pub wire: u32,
    /// Name as decoded.
    pub name: &'static str,
    /// Sender and receiver.
    pub direction: Direction,
    /// Subsystem that serves it.
    pub subsystem: &'static str,
    /// True if the execution loop of the M1 firmware accepts it.
    pub exe_loop: bool,
    /// Evidence and source.
    pub row: Row,
}

macro_rules! commands {
    ( $( $index:literal $wire:literal $name:ident $direction:ident $subsystem:literal $exe:literal; )* ) => {
        /// All commands, by index.
        pub static COMMANDS: &[Command] = &[ $( Command {
            index: $index, wire: $wire, name: stringify!($name), direction: $direction, subsystem: $subsystem,
            exe_loop: $exe, row: row("driver"),
        } ),* ];

        /// Wire numbers, as constants.
        pub mod wire {
            $( #[doc = concat!("Wire number of `", stringify!($name), "`.")] pub const $name: u32 = $wire; )*
        }
    };
}

commands! {
    0x00 0x0001 STOP ToFirmware "lifecycle" false;
    0x01 0x0002 RESET ToFirmware "lifecycle" false;
    0x02 0x0003 CONFIG_GET ToFirmware "property" false;
    0x03 0x0004 PRINT_ENABLE ToFirmware "stats" false;
    0x04 0x0005 REG_FILE_LOAD ToFirmware "lifecycle" false;
    0x05 0x0006 BUILDINFO ToFirmware "lifecycle" false;
    0x06 0x0007 TIMEPROFILE_START ToFirmware "stats" false;
    0x07 0x0008 TIMEPROFILE_STOP ToFirmware "stats" false;
    0x08 0x0009 TIMEPROFILE_SHOW ToFirmware "stats" false;
    0x09 0x000a FW_RUN_MODE ToFirmware "lifecycle" false;
    0x0a 0x000b POWER_DOWN ToFirmware "power" false;
    0x0b 0x000c SET_SNE_PMU_BASE ToFirmware "power" false;
    0x0c 0x000d SET_SNE_RPC_CHECK_CMD ToFirmware "property" false;
    0x0d 0x000e RPC_ENABLE ToFirmware "property" false;
    0x0e 0x000f PLATFORM_INFO ToFirmware "lifecycle" false;
    0x0f 0x0010 BOOT ToFirmware "lifecycle" false;
    0x10 0x0011 PING ToFirmware "lifecycle" false;
    0x11 0x0012 CONFIG_GET_EXT ToFirmware "property" false;
    0x12 0x0013 POWER_DEVICE_ON ToFirmware "power" false;
    0x13 0x0014 POWER_DEVICE_OFF ToFirmware "power" false;
    0x14 0x0015 IPC_ENDPOINT_SET ToFirmware "ipc" false;
    0x15 0x0016 IPC_ENDPOINT_UNSET ToFirmware "ipc" false;
    0x16 0x0017 CH_INFO_GET ToFirmware "buffer" false;
    0x17 0x0018 CH_BUFFER_RECYCLE_MODE_SET ToFirmware "buffer" false;
    0x18 0x0019 CH_BUFFER_RECYCLE_START ToFirmware "buffer" false;
    0x19 0x001a CH_BUFFER_RECYCLE_STOP ToFirmware "buffer" false;
    0x1a 0x001b CH_BUFFER_RETURN ToFirmware "buffer" false;
    0x1b 0x001c CH_BUFFER_POOL_CONFIG_GET ToFirmware "buffer" false;
    0x1c 0x001d CH_BUFFER_POOL_CONFIG_SET ToFirmware "buffer" false;
    0x1d 0x001e CH_DATA_FILE_LOAD ToFirmware "buffer" false;
    0x1e 0x001f CH_PROPERTY_WRITE ToFirmware "property" false;
    0x1f 0x0020 CH_PROPERTY_READ ToFirmware "property" false;
    0x20 0x0021 TRACE_ENABLE ToFirmware "stats" false;
    0x21 0x0022 RESOURCE_INFO_GET ToFirmware "lifecycle" false;
    0x22 0x0023 STATS_BUFFER_SIZE_GET ToFirmware "stats" false;
    0x23 0x0024 SUSPEND ToFirmware "lifecycle" false;
    0x24 0x0025 DSID_SET ToFirmware "cache" false;
    0x25 0x0026 MCACHE_SIZE_GET ToFirmware "cache" false;
    0x26 0x0027 SECURE_MODE_START ToFirmware "secure" false;
    0x27 0x0028 SECURE_MODE_STOP ToFirmware "secure" false;
    0x28 0x0029 SET_SNE_PMU_BASE2 ToFirmware "power" false;
    0x29 0x002a IPC_ENDPOINT_SET2 ToFirmware "ipc" false;
    0x2a 0x002b IPC_ENDPOINT_UNSET2 ToFirmware "ipc" false;
    0x2b 0x002c CH_DATA_FILE_LOAD2 ToFirmware "buffer" false;
    0x2c 0x002d SET_DYNAMIC_POWERGATE ToFirmware "power" true;
    0x2d 0x002e ANE_DEFAULT_SETTING_SET ToFirmware "lifecycle" false;
    0x2e 0x002f INIT_SHARED_EVENT_INFO ToFirmware "ipc" false;
    0x2f 0x0030 EXCLAVE_MODE_START ToFirmware "secure" false;
    0x30 0x0031 EXCLAVE_MODE_STOP ToFirmware "secure" false;
    0x31 0x0032 QUIESCE_STATE ToFirmware "lifecycle" false;
    0x32 0x0033 CPU_LOAD_GET ToFirmware "stats" false;
    0x33 0x0034 SECURE_MODE_RESUME_TRANSITION ToFirmware "secure" false;
    0x34 0x0100 CH_ERROR_NOTIFICATION FromFirmware "stats" false;
    0x35 0x0101 CH_POWER_CONTROL ToFirmware "power" false;
    0x36 0x0102 CH_SIGNPOST_NOTIFICATION FromFirmware "stats" false;
    0x37 0x0103 CH_SIGNPOST_NOTIFICATION_GROUP FromFirmware "stats" false;
    0x38 0x0104 CH_RESET_NOTIFICATION FromFirmware "stats" false;
    0x39 0x0105 CH_SIGNPOST64_NOTIFICATION FromFirmware "stats" false;
    0x3a 0x0106 CH_SIGNPOST64_NOTIFICATION_GROUP FromFirmware "stats" false;
    0x3b 0x0107 CPU_LOAD_NOTIFICATION FromFirmware "stats" false;
    0x3c 0x0108 TM_SYNC_ERR_NOTIFICATION FromFirmware "stats" false;
    0x3d 0x0200 LOAD_PROGRAM ToFirmware "program" false;
    0x3e 0x0201 UNLOAD_PROGRAM ToFirmware "program" false;
    0x3f 0x0202 CREATE_PROCESS ToFirmware "program" false;
    0x40 0x0203 TERMINATE_PROCESS ToFirmware "program" false;
    0x41 0x0204 PROCEDURE_CALL ToFirmware "execution" true;
    0x42 0x0205 LOAD_AFPP ToFirmware "program" false;
    0x43 0x0206 UNLOAD_AFPP ToFirmware "program" false;
    0x44 0x0207 PROGRAM_INTERFACE_VERSION_CHECK ToFirmware "program" false;
    0x45 0x0208 PROCEDURE_CALL_CACHE_REQUEST ToFirmware "cache" false;
    0x46 0x0209 PROCEDURE_CALL_TRIGGER_CACHE_REQUEST ToFirmware "cache" true;
    0x47 0x020a PROCEDURE_CALL_RECYCLE_OUTPUT_BUFFER ToFirmware "cache" true;
    0x48 0x020b PROCEDURE_CALL_INVALIDATE_CACHE_REQUEST ToFirmware "cache" false;
    0x49 0x020c PROCEDURE_CALL_WITH_CUSTOM_BARS ToFirmware "execution" true;
    0x4a 0x020d PREMAP_BUFFER ToFirmware "cache" false;
    0x4b 0x020e PROCEDURE_CALL_CACHE_REQUEST_WITH_CUSTOM_BARS ToFirmware "cache" false;
    0x4c 0x020f PROCEDURE_CALL_CACHE_REQUEST_WITH_SHARED_EVENTS ToFirmware "cache" false;
    0x4d 0x0210 FORCE_DISABLE_CACHE_REQUESTS ToFirmware "cache" false;
    0x4e 0x0211 PROCEDURE_CALL_WITH_SIGNAL_EVENTS ToFirmware "execution" true;
    0x4f 0x0212 SET_ACTIVE_CACHE_REQUEST_IN_GROUP ToFirmware "cache" true;
    0x50 0x0300 PROGRAM_EVENT FromFirmware "program" false;
    0x51 0x0301 USER_EVENT FromFirmware "stats" false;
    0x52 0x0302 DBG_EVENT FromFirmware "stats" false;
    0x53 0x0303 DATA_CHAINING_EVENT FromFirmware "cache" false;
    0x54 0x0304 PREFETCH_DSID_EVENT FromFirmware "cache" false;
    0x55 0x0305 SECURE_MODE_EVENT FromFirmware "secure" false;
    0x56 0x0400 REQUEST_PROGRAM_ID ToFirmware "program" false;
    0x57 0x0401 RETURN_PROGRAM_ID ToFirmware "program" false;
    0x58 0x0402 REQUEST_PROCESS_ID ToFirmware "program" false;
    0x59 0x0403 RETURN_PROCESS_ID ToFirmware "program" false;
    0x5a 0x0404 INFERENCE_CALL ToFirmware "execution" true;
    0x5b 0x7000 BACK_CHANNEL_RPC Both "property" false;
    0x5c 0xff00 DEBUG_COMMAND_DATA_CHECK ToFirmware "stats" true;
}

/// Wire number of `START`, which the table of names does not list.
pub const START: u32 = 0;
/// No command.
pub const INVALID: u32 = 0xffff_ffff;

/// The row of a wire number.
pub fn by_wire(wire: u32) -> Option<&'static Command> {
    COMMANDS.iter().find(|c| c.wire == wire)
}

/// The row of an index in the name table.
pub fn by_index(index: u32) -> Option<&'static Command> {
    COMMANDS.get(index as usize)
}

/// Commands that the host sends after boot, in order. Two steps have no command of that name; the wire numbers of the
/// time synchronization and of the memory cache's power are chosen, see `docs/evidence.md`, key `driver-choice`.
pub static FIRST: &[(&str, u32)] = &[
    ("print enable", wire::PRINT_ENABLE),
    ("start", START),
    ("power unit base set", wire::SET_SNE_PMU_BASE),
    ("host to engine time sync", wire::TIMEPROFILE_START),
    ("channel property write", wire::CH_PROPERTY_WRITE),
    ("resource info query", wire::RESOURCE_INFO_GET),
    ("default settings write", wire::ANE_DEFAULT_SETTING_SET),
    ("memory cache power on", wire::POWER_DEVICE_ON),
    ("shared event info init", wire::INIT_SHARED_EVENT_INFO),
];
