//! Limits of driver, firmware and translation unit; the latency budget; power.

use super::named;

named! {
    /// Limits and fixed numbers of the firmware.
    FIRMWARE {
        MAX_ENGINES = 4 "engines" "driver" "engines that the load balancer tells apart";
        PROGRAM_SLOTS = 144 "programs" "driver" "program identities are below this";
        PROCESS_SLOTS = 288 "processes" "driver" "process identities are below this";
        PROCESS_PROGRAMS = 128 "programs" "driver" "programs that one process may load";
        PROGRAM_OUTSTANDING = 127 "requests" "driver" "outstanding requests of a program; also mappings in flight of a pool";
        CACHE_REQUESTS = 64 "handles" "driver-choice" "chaining handles; resource info reports the limit";
        PRIORITIES = 8 "levels" "driver" "priorities 0 to 7, 0 the most urgent";
        RESERVED_PRIORITIES = 2 "levels" "driver" "the first levels need an entitlement";
        DEFAULT_PRIORITY = 5 "" "driver" "priority of the default class";
        DEFAULT_QOS = 21 "" "driver" "default class of service";
        REALTIME_QOS = 0 "" "driver" "class of service of real time";
        REQUEST_PROCEDURE_SHIFT = 16 "bits" "driver-choice" "place of the procedure's number in a request's word of counts";
        REQUEST_INTERMEDIATE_SHIFT = 24 "bits" "driver-choice" "place of the number of intermediate surfaces in it";
        QUEUES = 8 "queues" "driver" "hardware task queues";
        QUEUE_STRIDE_BYTES = 0x148 "bytes" "driver" "registers of a queue";
        MAX_NID = 255 "" "driver" "largest network identity; 0 is reserved";
        DOORBELLS = 32 "bits" "driver" "doorbell indices are below this";
        HEADER_BYTES = 24 "bytes" "driver" "a command's header";
        OUTPUT_SETS = 1 "" "driver" "output buffer sets of a call";
        SIGNAL_EVENTS = 16 "events" "driver" "signal events of a call";
        WIRE_BARS = 32 "" "driver" "buffer-access registers of a call";
        CONTAINER_BARS = 128 "" "driver" "buffer-access registers in a container";
        EXECUTE_ORDER = 128 "entries" "driver" "entries of a custom execute order";
        TRIGGER_INPUTS = 16 "buffers" "driver" "input buffers of a trigger";
        SHARED_EVENTS = 2 "events" "driver" "active shared events stay below this";
        PARTITIONS = 1 "" "driver" "partitions of descriptors on the M1's single path";
        DEBUG_PAYLOAD_BYTES = 0x80_0000 "bytes" "driver" "largest payload of the data check";
        SUSTAINED_MILLIWATTS = 1660 "mW" "driver-choice" "power while clusters run, in the model";
        DEBUG_MAGIC = 0x55aa_55aa "" "driver" "first word of the data check";
        CHECKSUM_VALID = 0xffff_ffff "" "driver" "a checksum that is taken as valid";
        ENDPOINT = 0xe400 "" "driver" "mailbox endpoint of the host";
        DATA_CHAINING_ENDPOINT = 5 "" "driver-choice" "endpoint type of the execution loop's ring";
        RING_SLOTS = 64 "slots" "driver-choice" "slots of a ring";
        RING_SLOT_BYTES = 4096 "bytes" "driver-choice" "bytes of a slot: header and body";
        RING_VERSION = 1 "" "driver-choice" "version word of a ring";
        IDLE_WAIT_NS = 2000000000 "ns" "driver" "wait for a queue to go idle, then for an abort to clear";
        FAULT_PARK_NS = 250000000 "ns" "driver" "wait for recovery after a translation fault";
        BOOT_TRIES = 3 "tries" "driver-choice" "boots before the device stays not ready";
        BOOT_WAIT_NS = 1000000000 "ns" "driver-choice" "wait for a handshake of the boot";
        HANDSHAKE_TIMEOUT_MS = 10000 "ms" "driver-choice" "time-out that clients send; its unit is not stated";
        HANDSHAKE_VERSION = 32 "" "driver" "first version word of the handshake's reply";
        HANDSHAKE_VERSION_2 = 256 "" "driver" "second version word of the handshake's reply";
        IO_CATEGORY = 2 "" "driver" "category word of a request; its meaning is not known";
        STATS_ABI = 0x0201 "" "driver" "version of the statistics";
        STATS_MAGIC = 0x0101 "" "driver" "first halfword of a statistics buffer";
        STATS_HEADER_BYTES = 0x28 "bytes" "driver" "statistics: header";
        STATS_EVENT_BYTES = 0x14 "bytes" "driver" "statistics: event";
        STATS_DEBUG_EVENT_BYTES = 0x10 "bytes" "driver" "statistics: debug event";
        STATS_ENGINE_BYTES = 0x20 "bytes" "driver" "statistics: engine";
        STATS_ENGINES = 32 "" "driver" "engine descriptors of a buffer, at most";
    }
}

/// Weights of the eight priorities.
pub static PRIORITY_WEIGHTS: [u32; 8] = [1, 2, 3, 4, 5, 6, 30, 31];

/// Priority of a class of service. Only 21 is evidenced; the others are chosen, see `docs/evidence.md`, key
/// `driver-choice`.
pub static QOS_PRIORITIES: &[(u32, u32)] = &[(33, 3), (25, 4), (21, 5), (17, 6), (9, 7), (0, 2)];

named! {
    /// The translation unit.
    DART {
        PAGE_BYTES = 0x4000 "bytes" "driver" "a page";
        APERTURE_BYTES = 0xe000_0000 "bytes" "driver" "device addresses are below this";
        LEAF_VALID = 0x8000_0000_0000_0000 "" "driver" "valid bit of a leaf entry";
        LEAF_FRAME = 0x0000_7fff_ffff_c000 "" "driver" "frame bits of a leaf entry";
        BASE_VALID = 0x8000_0000 "" "driver" "valid bit of a table base register";
        BASE_SHIFT = 12 "bits" "driver" "a table base register holds the address shifted by this";
        STREAMS = 16 "" "driver" "stream slots; 0 to 2 are translated, 13 and 15 bypass";
        ISOLATION_CONTEXTS = 7 "" "driver" "isolation contexts of clients beside the base";
        FAULT_STATUS = 0x8000_0000 "" "driver" "fault bit of the status register";
        BENIGN_WORD = 0xa0 "" "driver" "the engine word, bit 7 set, of a fault that is skipped";
    }
}

/// Usage of a mapping: code, name, protection class on the M1.
pub static USAGES: &[(u32, &str, u32)] = &[
    (1, "input", 3),
    (2, "output", 1),
    (7, "intermediate", 3),
    (8, "kernel", 3),
    (9, "text", 3),
    (11, "constants", 3),
    (0x1019, "firmware power-on surface", 3),
    (0x101a, "firmware resident heap", 3),
];

/// Usages that one load of a product activates, in order.
pub static LOAD_USAGES: &[u32] = &[1, 2, 8, 9, 11, 7, 9, 0x1019, 0x101a];

named! {
    /// Stages of one small dispatch and options that change their duration, in nanoseconds.
    BUDGET {
        BIND_NS = 25000 "ns" "driver" "user space: binding, runtime, copies of fp16 inputs and outputs";
        BUILD_NS = 16000 "ns" "driver" "building the firmware request";
        KICK_NS = 2500 "ns" "driver" "the doorbell; 2 to 3 us are stated";
        ROUND_TRIP_NS = 130000 "ns" "driver" "firmware round trip";
        COMPLETE_NS = 10000 "ns" "driver" "completion in the driver";
        HANDOVER_NS = 17900 "ns" "driver-choice" "gate handed from one thread to another; fitted to the measured 1.04 of two threads";
        VICTIM_FLOOR_NS = 152000 "ns" "driver" "a small tenant alone";
        VICTIM_LOADED_NS = 355000 "ns" "driver" "a small tenant beside a heavy one";
        TICK_PS = 41667 "ps" "driver" "a tick of the 24 MHz time stamp, rounded";
    }
}

named! {
    /// Power: polls and the cost of the first call after a gap.
    POWER {
        POLL_TRIES = 5000 "tries" "driver" "polls of a power register";
        POLL_READY = 0xff "" "driver" "low byte of a register that is on";
        TOP_REGISTER = 0x2c8 "" "driver" "polled first";
        BASE_REGISTER = 0xc000 "" "driver" "base domain; the clusters follow, 8 bytes apart";
        CLUSTERS = 4 "" "driver" "clusters";
        SHORT_GAP_NS = 100000000 "ns" "driver" "idle time from which the short penalty is full";
        SHORT_PENALTY_NS = 500000 "ns" "driver" "first call after a short gap";
        LONG_GAP_NS = 2000000000 "ns" "driver-choice" "idle time from which everything is off; the cost was measured after 5 s";
        LONG_PENALTY_NS = 260000000 "ns" "driver" "first call after a long gap";
    }
}

/// Stores that arm power control after every wake: value, address.
pub static ARM: &[(u32, u64)] =
    &[(0x11, 0x2_6b8f_0000), (0x1, 0x2_6b8f_0004), (0x1, 0x2_6b8f_4000), (0x3fff, 0x2_6b8e_c42c), (0xf, 0x2_6b8e_c5dc)];

/// Channels that the host resolves between the second and the third handshake of the boot.
pub static CHANNELS: &[&str] =
    &["SHAREDMALLOC", "TERMINAL", "BUF_H2T", "BUF_T2H", "IO", "IO_T2H", "DEBUG", "DATA_CHAIN_H2T"];

/// Names of the endpoint, in the order of the lookup.
pub static ENDPOINT_NAMES: &[&str] = &["ANE1Endpoint1", "ANEEndpoint1"];
