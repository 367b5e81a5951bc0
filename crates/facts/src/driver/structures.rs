//! Words of the structures that the selectors take. Sizes are those of the dispatch records; inner offsets are the book's where
//! it gives them (`driver`) and chosen otherwise (`driver-choice`), see `docs/evidence.md`, key `driver-choice`.

use super::{Row, row};

/// A field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Byte offset.
    pub at: usize,
    /// Size of one element, in bytes.
    pub bytes: usize,
    /// Number of elements.
    pub count: usize,
    /// Name.
    pub name: &'static str,
    /// Content, with its unit.
    pub meaning: &'static str,
    /// Evidence and source.
    pub row: Row,
}

macro_rules! structures {
    ( $( $(#[$doc:meta])* $module:ident [$size:literal] { $( $name:ident $at:literal $bytes:literal [$count:literal] $source:literal $meaning:literal; )* } )* ) => {
        $(
            $(#[$doc])*
            pub mod $module {
                use super::{Place, row};
                /// Size of the structure, in bytes.
                pub const BYTES: usize = $size;
                $( #[doc = concat!("Byte offset of `", stringify!($name), "`: ", $meaning, ".")] pub const $name: usize = $at; )*
                /// Fields, ascending.
                pub static PLACES: &[Place] = &[ $( Place {
                    at: $at, bytes: $bytes, count: $count, name: stringify!($name), meaning: $meaning,
                    row: row($source),
                } ),* ];
                const _: () = {
                    let mut i = 0;
                    while i < PLACES.len() {
                        let end = PLACES[i].at + PLACES[i].bytes * PLACES[i].count;
                        assert!(end <= if i + 1 < PLACES.len() { PLACES[i + 1].at } else { BYTES }, "fields overlap");
                        i += 1;
                    }
                };
            }
        )*
    };
}

structures! {
    /// Handshake, in and out.
    handshake [104] {
        USAGE_OR_TOKEN 0x00 8 [1] "driver" "in: type of use, 1 standard, 2 unsupported; out: the session's token";
        CALLBACK 0x08 8 [1] "driver" "address that the caller wants back";
        CONTEXT 0x10 8 [1] "driver" "context that the caller wants back";
        TIMEOUT 0x18 8 [1] "driver" "time-out of the caller; its unit is not stated";
        VERSION 0x48 4 [1] "driver" "out: first version word";
        VERSION_2 0x4c 4 [1] "driver" "out: second version word";
        ENGINES 0x50 8 [1] "driver" "out: number of engines";
        CPU_SUBTYPE 0x60 8 [1] "driver" "out: CPU subtype of the programs that run here";
    }
    /// Request.
    request [2376] {
        TOKEN 0x000 8 [1] "driver" "program or instance";
        SEQUENCE 0x008 8 [1] "driver" "number that the caller counts up";
        PRIORITY 0x010 4 [1] "driver" "priority from 0, the most urgent, to 7";
        QOS 0x014 4 [1] "driver" "class of service; 0 is real time";
        COUNTS 0x018 4 [1] "driver-choice" "inputs, outputs, procedure, intermediate surfaces: a byte each";
        CATEGORY 0x01c 4 [1] "driver" "category of the request; 2 in every sample";
        SURFACES 0x020 8 [256] "driver-choice" "surfaces: inputs, then outputs, then intermediate ones";
        WAITS 0x820 4 [1] "driver-choice" "number of events that are waited for";
        SIGNALS 0x824 4 [1] "driver-choice" "number of events that are raised in the end";
        EVENTS 0x828 24 [12] "driver-choice" "events that are waited for, then those raised";
    }
    /// Reply.
    reply [40] {
        SEQUENCE 0x00 4 [1] "driver" "the request's sequence number";
        RESULT 0x04 4 [1] "driver-choice" "return code";
        TOKEN 0x08 8 [1] "driver" "the request's token";
        FAULT_ADDRESS 0x10 8 [1] "driver-choice" "device address that nothing is mapped at, 0 without a fault";
        FAULT_TASK 0x18 4 [1] "driver-choice" "task that accessed it";
        FAULT_KIND 0x1c 4 [1] "driver-choice" "1 where it was read, 2 where it was written";
        STATUS 0x20 4 [1] "driver" "1 where the request completed";
    }
    /// Create: addresses of arguments and results in the caller's memory.
    create [32] {
        ARGUMENTS 0x00 8 [1] "driver-choice" "address of the arguments";
        ARGUMENTS_BYTES 0x08 8 [1] "driver-choice" "bytes of the arguments";
        RESULT 0x10 8 [1] "driver-choice" "address for the result";
        RESULT_BYTES 0x18 8 [1] "driver-choice" "bytes of the result";
    }
    /// Create's arguments.
    arguments [192] {
        IMAGE 0x00 8 [1] "driver-choice" "address of the signed program image";
        IMAGE_BYTES 0x08 8 [1] "driver-choice" "bytes of the image";
        FLAGS 0x10 8 [1] "driver-choice" "options of the call; not read here";
        MODEL_HASH 0x18 32 [1] "driver" "digest of the model; not read here";
        KEY_HASH 0x38 32 [1] "driver" "digest of its key; not read here";
        PROCEDURES 0x5c 4 [1] "driver" "number of procedures; not read here";
        QOS 0x64 4 [1] "driver" "class of service; not read here";
        BOOLEANS 0x68 4 [1] "driver" "options, a bit each; not read here";
        STATS_MASK 0x6c 4 [1] "driver" "statistics that are asked for: anything but 0 is refused when the program is prepared";
        POOL 0x70 4 [1] "driver" "pool of request memory; not read here";
        NAME 0x80 64 [1] "driver" "name of the model, ended by zero";
    }
    /// Create instance.
    instance [32] {
        BASE 0x00 8 [1] "driver-choice" "token of the base program";
        FLAGS 0x08 4 [1] "driver-choice" "not read here";
        DEPTH 0x0c 4 [1] "driver-choice" "requests at once that are asked for";
        ARGUMENTS 0x10 8 [1] "driver-choice" "address of the arguments";
        RESULT 0x18 8 [1] "driver-choice" "address for the result";
    }
    /// Prepare in and out, unprepare.
    prepare [56] {
        TOKEN 0x00 8 [1] "driver-choice" "program or instance";
        FLAGS 0x08 8 [1] "driver-choice" "options of the call; not read here";
        INTERMEDIATE 0x10 8 [1] "driver-choice" "out: handle of the intermediate buffer";
        POOL 0x18 8 [1] "driver-choice" "pool of request memory; not read here";
        TEXT 0x20 8 [1] "driver-choice" "out: device address of the task stream";
        KERNEL 0x28 8 [1] "driver-choice" "out: device address of kernel data";
        STATUS 0x30 8 [1] "driver-choice" "not read here";
    }
    /// Destroy.
    destroy [16] {
        TOKEN 0x00 8 [1] "driver-choice" "program or instance";
        FLAGS 0x08 8 [1] "driver-choice" "options of the call; not read here";
    }
    /// Status.
    status [32] {
        STATE 0x00 8 [1] "driver-choice" "bit 0: the device takes requests; bit 1: it is in secure mode";
        CONTROL_CLIENTS 0x08 4 [1] "driver-choice" "open control clients";
        DIRECT_CLIENTS 0x0c 4 [1] "driver-choice" "open direct-path clients";
        PROGRAMS 0x10 4 [1] "driver-choice" "resident programs";
        PENDING 0x14 4 [1] "driver-choice" "requests that wait or run";
        RESTARTS 0x18 8 [1] "driver-choice" "restarts of the firmware";
    }
    /// Chaining prepare, in.
    chain [16] {
        TOKEN 0x00 8 [1] "driver-choice" "program or instance";
        PROCEDURE 0x08 4 [1] "driver-choice" "number of the procedure; not read here";
        FLAGS 0x0c 4 [1] "driver-choice" "group of the chain";
    }
    /// Chaining prepare, out.
    chained [24] {
        HANDLER 0x00 8 [1] "driver-choice" "handle of the chain";
        GROUP 0x08 4 [1] "driver-choice" "group of the chain";
        STATUS 0x0c 4 [1] "driver-choice" "not set here";
    }
    /// Set active procedure.
    active [32] {
        TOKEN 0x00 8 [1] "driver-choice" "program or instance";
        HANDLER 0x08 8 [1] "driver-choice" "handle of the chain";
        GROUP 0x10 4 [1] "driver-choice" "group of the chain; not read here";
        PROCEDURE 0x14 4 [1] "driver-choice" "number of the procedure; not read here";
    }
    /// Output set enqueue.
    outputs [40] {
        TOKEN 0x00 8 [1] "driver-choice" "program or instance";
        HANDLER 0x08 8 [1] "driver-choice" "handle of the chain";
        SET 0x10 4 [1] "driver-choice" "number of the output set";
        BUFFERS 0x14 4 [1] "driver-choice" "number of its surfaces";
        SURFACES 0x18 8 [1] "driver-choice" "address of their identities, 4 bytes each";
        SIGNAL 0x20 8 [1] "driver-choice" "event that is raised when they are written; not read here";
    }
    /// Inputs ready.
    inputs [3104] {
        TOKEN 0x00 8 [1] "driver-choice" "program or instance";
        HANDLER 0x08 8 [1] "driver-choice" "handle of the chain";
        TIMESTAMP 0x10 8 [1] "driver-choice" "number that grows from call to call; one that does not is dropped";
        INPUTS 0x18 4 [1] "driver-choice" "number of input surfaces";
        FLAGS 0x1c 4 [1] "driver-choice" "index of the doorbell";
        SURFACES 0x20 12 [256] "driver-choice" "identity of each input, then 8 bytes that are not read here";
    }
    /// Memory map and unmap.
    map [2080] {
        TOKEN 0x00 8 [1] "driver-choice" "program or instance; not read here";
        USAGE 0x08 4 [1] "driver-choice" "use of the memory: 1 input, 2 output, and those of docs/machine/driver.md";
        DIRECTION 0x0c 4 [1] "driver-choice" "not read here: the use says it";
        COUNT 0x10 4 [1] "driver-choice" "number of surfaces, 1";
        FLAGS 0x14 4 [1] "driver-choice" "options of the call; not read here";
        SIZE 0x18 8 [1] "driver-choice" "not read here: the whole surface is mapped";
        SURFACES 0x20 8 [256] "driver-choice" "surfaces";
    }
    /// Session hint, in.
    hint [16] {
        TOKEN 0x00 8 [1] "driver-choice" "not read here";
        HINT 0x08 4 [1] "driver-choice" "kind of the hint";
        VALUE 0x0c 4 [1] "driver-choice" "its level";
    }
    /// Session hint, out.
    hinted [24] {
        STATUS 0x00 4 [1] "driver-choice" "not set here";
        HINT 0x04 4 [1] "driver-choice" "kind of the hint";
        VALUE 0x08 4 [1] "driver-choice" "its level";
    }
}
