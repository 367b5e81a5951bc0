//! Words of the structures that go through the selectors. Sizes are the dispatch records'; inner places are the book's where
//! it has them (`driver`) and ours where it does not (`driver-choice`), see `docs/evidence.md`, key `driver-choice`.

use super::{Row, row};

/// A field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Byte offset.
    pub at: usize,
    /// Bytes of one element.
    pub bytes: usize,
    /// Elements.
    pub count: usize,
    /// Name.
    pub name: &'static str,
    /// Evidence and source.
    pub row: Row,
}

macro_rules! structures {
    ( $( $(#[$doc:meta])* $module:ident [$size:literal] { $( $name:ident $at:literal $bytes:literal [$count:literal] $source:literal; )* } )* ) => {
        $(
            $(#[$doc])*
            pub mod $module {
                use super::{Place, row};
                /// Bytes of the structure.
                pub const BYTES: usize = $size;
                $( #[doc = concat!("Byte offset of `", stringify!($name), "`.")] pub const $name: usize = $at; )*
                /// Fields, ascending.
                pub static PLACES: &[Place] = &[ $( Place {
                    at: $at, bytes: $bytes, count: $count, name: stringify!($name), row: row($source),
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
        USAGE_OR_TOKEN 0x00 8 [1] "driver";
        CALLBACK 0x08 8 [1] "driver";
        CONTEXT 0x10 8 [1] "driver";
        TIMEOUT 0x18 8 [1] "driver";
        VERSION 0x48 4 [1] "driver";
        VERSION_2 0x4c 4 [1] "driver";
        ENGINES 0x50 8 [1] "driver";
        CPU_SUBTYPE 0x60 8 [1] "driver";
    }
    /// Request.
    request [2376] {
        TOKEN 0x000 8 [1] "driver";
        SEQUENCE 0x008 8 [1] "driver";
        PRIORITY 0x010 4 [1] "driver";
        QOS 0x014 4 [1] "driver";
        COUNTS 0x018 4 [1] "driver-choice";
        CATEGORY 0x01c 4 [1] "driver";
        SURFACES 0x020 8 [256] "driver-choice";
        WAITS 0x820 4 [1] "driver-choice";
        SIGNALS 0x824 4 [1] "driver-choice";
        EVENTS 0x828 24 [12] "driver-choice";
    }
    /// Reply.
    reply [40] {
        SEQUENCE 0x00 4 [1] "driver";
        RESULT 0x04 4 [1] "driver-choice";
        TOKEN 0x08 8 [1] "driver";
        FAULT_ADDRESS 0x10 8 [1] "driver-choice";
        FAULT_TASK 0x18 4 [1] "driver-choice";
        FAULT_KIND 0x1c 4 [1] "driver-choice";
        STATUS 0x20 4 [1] "driver";
    }
    /// Create: where arguments lie and results go, in the caller's addresses.
    create [32] {
        ARGUMENTS 0x00 8 [1] "driver-choice";
        ARGUMENTS_BYTES 0x08 8 [1] "driver-choice";
        RESULT 0x10 8 [1] "driver-choice";
        RESULT_BYTES 0x18 8 [1] "driver-choice";
    }
    /// Create's arguments.
    arguments [192] {
        IMAGE 0x00 8 [1] "driver-choice";
        IMAGE_BYTES 0x08 8 [1] "driver-choice";
        FLAGS 0x10 8 [1] "driver-choice";
        MODEL_HASH 0x18 32 [1] "driver";
        KEY_HASH 0x38 32 [1] "driver";
        PROCEDURES 0x5c 4 [1] "driver";
        QOS 0x64 4 [1] "driver";
        BOOLEANS 0x68 4 [1] "driver";
        STATS_MASK 0x6c 4 [1] "driver";
        POOL 0x70 4 [1] "driver";
        NAME 0x80 64 [1] "driver";
    }
    /// Create instance.
    instance [32] {
        BASE 0x00 8 [1] "driver-choice";
        FLAGS 0x08 4 [1] "driver-choice";
        DEPTH 0x0c 4 [1] "driver-choice";
        ARGUMENTS 0x10 8 [1] "driver-choice";
        RESULT 0x18 8 [1] "driver-choice";
    }
    /// Prepare in and out, unprepare.
    prepare [56] {
        TOKEN 0x00 8 [1] "driver-choice";
        FLAGS 0x08 8 [1] "driver-choice";
        INTERMEDIATE 0x10 8 [1] "driver-choice";
        POOL 0x18 8 [1] "driver-choice";
        TEXT 0x20 8 [1] "driver-choice";
        KERNEL 0x28 8 [1] "driver-choice";
        STATUS 0x30 8 [1] "driver-choice";
    }
    /// Destroy.
    destroy [16] {
        TOKEN 0x00 8 [1] "driver-choice";
        FLAGS 0x08 8 [1] "driver-choice";
    }
    /// Status.
    status [32] {
        STATE 0x00 8 [1] "driver-choice";
        CONTROL_CLIENTS 0x08 4 [1] "driver-choice";
        DIRECT_CLIENTS 0x0c 4 [1] "driver-choice";
        PROGRAMS 0x10 4 [1] "driver-choice";
        PENDING 0x14 4 [1] "driver-choice";
        RESTARTS 0x18 8 [1] "driver-choice";
    }
    /// Chaining prepare, in.
    chain [16] {
        TOKEN 0x00 8 [1] "driver-choice";
        PROCEDURE 0x08 4 [1] "driver-choice";
        FLAGS 0x0c 4 [1] "driver-choice";
    }
    /// Chaining prepare, out.
    chained [24] {
        HANDLER 0x00 8 [1] "driver-choice";
        GROUP 0x08 4 [1] "driver-choice";
        STATUS 0x0c 4 [1] "driver-choice";
    }
    /// Set active procedure.
    active [32] {
        TOKEN 0x00 8 [1] "driver-choice";
        HANDLER 0x08 8 [1] "driver-choice";
        GROUP 0x10 4 [1] "driver-choice";
        PROCEDURE 0x14 4 [1] "driver-choice";
    }
    /// Output set enqueue.
    outputs [40] {
        TOKEN 0x00 8 [1] "driver-choice";
        HANDLER 0x08 8 [1] "driver-choice";
        SET 0x10 4 [1] "driver-choice";
        BUFFERS 0x14 4 [1] "driver-choice";
        SURFACES 0x18 8 [1] "driver-choice";
        SIGNAL 0x20 8 [1] "driver-choice";
    }
    /// Inputs ready.
    inputs [3104] {
        TOKEN 0x00 8 [1] "driver-choice";
        HANDLER 0x08 8 [1] "driver-choice";
        TIMESTAMP 0x10 8 [1] "driver-choice";
        INPUTS 0x18 4 [1] "driver-choice";
        FLAGS 0x1c 4 [1] "driver-choice";
        SURFACES 0x20 12 [256] "driver-choice";
    }
    /// Memory map and unmap.
    map [2080] {
        TOKEN 0x00 8 [1] "driver-choice";
        USAGE 0x08 4 [1] "driver-choice";
        DIRECTION 0x0c 4 [1] "driver-choice";
        COUNT 0x10 4 [1] "driver-choice";
        FLAGS 0x14 4 [1] "driver-choice";
        SIZE 0x18 8 [1] "driver-choice";
        SURFACES 0x20 8 [256] "driver-choice";
    }
    /// Session hint, in.
    hint [16] {
        TOKEN 0x00 8 [1] "driver-choice";
        HINT 0x08 4 [1] "driver-choice";
        VALUE 0x0c 4 [1] "driver-choice";
    }
    /// Session hint, out.
    hinted [24] {
        STATUS 0x00 4 [1] "driver-choice";
        HINT 0x04 4 [1] "driver-choice";
        VALUE 0x08 4 [1] "driver-choice";
    }
}
