//! Terms of the chapters that are in no other table: of netplists, of the compiler's stages, of driver classes, of the runtime's calls.

mod models;

use super::Fact;
use anemone_compile::pipeline::ALL as PASSES;
use anemone_facts::enums::ENUMERATIONS;
use anemone_facts::formats::e5;
use anemone_facts::validators::OTHERS;
use models::{NETS, PROGRAM, STAGES, TYPES};

/// Names, then sentences.
type Term = (&'static [&'static str], &'static [&'static str]);

/// Words of driver and firmware.
const DRIVER: &[Term] = &[
    (
        &["MMIO", "register-aperture"],
        &[
            "the engine's registers in memory: only the driver and firmware store there; `ane driver method ReadANERegister` reads one of the model",
        ],
    ),
    (
        &["IOResources", "IOUserClient", "AppleH11ANEIn"],
        &[
            "classes of the kernel that the engine's driver and its clients are made of; `ane driver list` has services and clients",
        ],
    ),
    (
        &["ANEClientDevice", "ANEProgramRequestArgs"],
        &["object behind a client, and the request that it is handed: `ane explain request` has the fields"],
    ),
    (
        &["checkScalarInputCount", "checkStructureInputSize", "checkScalarOutputCount", "checkStructureOutputSize"],
        &["the four exact sizes of a selector; another is 0xe00002c2: `ane driver list` has them all"],
    ),
    (
        &["debug-work-processor", "debug-WP"],
        &["control selectors 11 to 15, for the firmware's debug work; unsupported after their access check"],
    ),
    (
        &["T6000", "M1-generation-die"],
        &["the M1 Pro, Max and Ultra; the book's disassembly is of a T6000, whose engine is h13g"],
    ),
    (
        &["load-balancer", "H1xANELoadBalancer", "AppleANELoadBalancer", "ANEDriver"],
        &[
            "service that places programs on engines: a pass-through with one, the least loaded of several",
            "`ane broker --engines 4`, `ane stat` lists programs by engine",
        ],
    ),
    (
        &["ANEServicesDevice", "ANEHWDevice", "device-handle"],
        &[
            "front ends that open the device: for inference, for administration; the connection is at +0x40 of the handle",
        ],
    ),
    (
        &[
            "IOUserClient2022",
            "dispatchExternalMethod",
            "IOExternalMethodDispatch2022",
            "dispatch-array",
            "sANEDriverClientMethods",
        ],
        &[
            "array of records of 40 bytes: handler, exact counts of scalars and exact sizes of structures, which are checked before the handler",
        ],
    ),
    (
        &["IOServiceOpen", "newUserClient", "IOKit", "externalMethod"],
        &[
            "calls by which a program opens a client and calls a selector; libanemone_iokit.so has them with Apple's signatures",
        ],
    ),
    (
        &[
            "IOExternalMethodArguments",
            "scalarInput",
            "structureInput",
            "scalarOutput",
            "structureOutput",
            "asyncReference",
        ],
        &["argument block of a call; `ane explain arguments` has its fields"],
    ),
    (
        &["ANEClientInfo", "copyClientEntitlement", "isPrivileged", "allowDataChaining"],
        &["rights of a client, read once when it is opened; `ane driver call --without KEY` opens without one"],
    ),
    (
        &["doorBellRing", "ANERegisterControl", "write32"],
        &["last steps of a submission: the store of 1 << index into the engine's aperture"],
    ),
    (
        &["token", "session-token", "program-token"],
        &[
            "64-bit number of a session, program or instance that later requests name; a foreign or stale one is refused",
        ],
    ),
    (
        &["handshake", "ANEDeviceInfo"],
        &[
            "selector 0: 104 bytes in and out; usage type in, session token and versions out: `ane driver call control 0`",
        ],
    ),
    (&["0x1111222233334444", "board-id"], &["number at +0x08 of the handshake, given back as it came"]),
    (&["0x2710", "10000"], &["time-out of the handshake, in milliseconds"]),
    (
        &["queue", "task-queues"],
        &["eight queues of requests by priority, 0 the most urgent; `ane stat` counts engine requests by queue"],
    ),
    (
        &["priority", "priorities", "execution-priority"],
        &[
            "0 to 7, the first the most urgent; 0 and 1 are reserved and need a key; `ane explain class-of-service` maps classes",
        ],
    ),
    (
        &["event", "wait-event", "shared-event", "fence"],
        &[
            "a number that requests wait for and raise; a request waits until it is reached, and signals when it completes",
        ],
    ),
    (
        &["chaining", "data-chaining", "firmware-chaining-cache"],
        &[
            "an output set that stays with the device and is the next call's input: control 9, direct 3, 4 and 8; `ane stat` counts chained calls",
        ],
    ),
    (
        &["S3_3_C15_C8_0"],
        &[
            "system register whose bit 39 opens the window of posted stores; bits 1 and 7 report cache errors and rejected transactions",
        ],
    ),
    (&["instance", "sibling-instance"], &["one client's use of a program that is resident once"]),
    (
        &["audit-token", "code-signing-identity", "code-directory-hash", "team-identifier"],
        &[
            "identity of a program; here the SHA-256 of its executable, and the team that a policy gives it (docs/runtime.md)",
        ],
    ),
    (
        &["exclave", "secure-world"],
        &["methods that load and evaluate in the secure world, behind the second access check"],
    ),
    (
        &["ANE_", "register-surface", "privileged-virtual-machine-access"],
        &[
            "registers, raw commands and the exclave methods need a property that is read when the client is opened: `privileged = true` in a policy",
        ],
    ),
];

/// Words of execution.
const EXECUTION: &[Term] = &[
    (&["dispatch", "dispatches"], &["one run of a loaded program: bind, post a command, wait for the completion"]),
    (&["stream", "execution-stream"], &["operations that run in order; `--streams 2` submits two at once"]),
    (&["buffer", "buffer-object"], &["memory that is bound to ports; one on an output and an input is resident state"]),
    (
        &["live-state", "KV-cache", "kv-cache", "resident-state"],
        &["a tensor that stays on the device between runs: one buffer on an output and an input port"],
    ),
    (&["cache", "content-addressed-cache"], &["compiled programs by the digest of model and options: `ane cache ls`"]),
    (
        &["static-graph", "walked-graph", "control-flow"],
        &["the engine walks a fixed graph: loops of a known count unroll, a branch becomes a mask"],
    ),
];

/// Calls of the runtime in the listings of chapter 2.
const CALLS: &[(&str, &str)] = &[
    ("e5rt_e5_compiler_compile", "compiles a model, or takes it from the cache by content"),
    ("e5rt_program_library_retain_program_function", "takes a function of a library by name"),
    ("e5rt_program_function_load_for_execution", "loads a function onto the device, once"),
    (
        "e5rt_precompiled_compute_op_create_options_create_with_program_function",
        "options of an operation that executes a function",
    ),
    (
        "e5rt_execution_stream_operation_create_precompiled_compute_operation_with_options",
        "makes an operation of a function",
    ),
    ("e5rt_execution_stream_operation_retain_input_port", "takes an input port by name"),
    ("e5rt_execution_stream_operation_retain_output_port", "takes an output port by name"),
    ("e5rt_buffer_object_alloc", "makes a buffer of zeros"),
    (
        "e5rt_io_port_bind_buffer_object",
        "binds a buffer to a port; on an output and an input port it is resident state",
    ),
    ("e5rt_execution_stream_create", "makes an empty stream"),
    ("e5rt_execution_stream_operation_prepare_op_for_encode", "prepares an operation; encoding does it if nobody did"),
    ("e5rt_execution_stream_encode_operation", "appends an operation to a stream"),
    ("e5rt_execution_stream_execute_sync", "runs a stream until done"),
    ("e5rt_execution_stream_submit_async", "runs a stream in the background, with a time-out"),
    ("e5rt_execution_stream_reset", "empties a stream; bindings stay"),
];

/// Numbers printed in the chapters that are in no other table.
const NUMBERS: &[(u64, &str, &str)] = &[
    (
        0x408,
        "hwx",
        "a word of the first task's header in the book's decoding of the identity layer; samples have events there (docs/conflicts.md)",
    ),
    (
        0x2041,
        "h13-samples",
        "the book's value of register 0x5021: the depth word behind the window register (docs/conflicts.md)",
    ),
    (0x30000000, "hwx", "first device address of the windows of a container"),
    (0x30004000, "hwx", "address of the output's window of the book's second sample"),
    (0x300, "hwx", "offset of the second task in the book's sample of three"),
    (0x474, "hwx", "bytes of the text section of the decoded identity layer: two tasks, at 0 and 0x200"),
    (0x4000, "hwx", "bytes of a page: of the guard, of the translation unit, between the windows of tensors"),
    (0x2000, "hwx", "bytes of kernel data of the decoded identity layer: sixteen streams of 0x200"),
    (0x200, "hwx", "bytes between two streams of kernel data of the decoded identity layer"),
    (
        0x32d8,
        "hwx",
        "bytes of the commands of the decoded identity layer, which depend on the paths in its banner (docs/conflicts.md)",
    ),
    (0x200000, "hwx", "flags in the header of a container"),
    (0x28, "hwx", "marker at +0x10 of a first task in the book; samples have 0x68 (docs/conflicts.md)"),
    (0xc0, "hwx", "bytes between two tiles of convolution weights in the book's second sample: 3 x 64"),
    (0x3c00, "hwx", "1.0 in fp16"),
    (
        0x5021,
        "h13-samples",
        "the book's register 0x5021 = 0x2041 is the window register with its depth word (docs/conflicts.md)",
    ),
    (0x30008000, "hwx", "address of the input's window of the decoded identity layer"),
    (0x3000c000, "hwx", "address of the output's window of the decoded identity layer"),
    (0x30010000, "hwx", "address of the stream's window of the decoded identity layer"),
    (0x30018000, "hwx", "address of the kernel data's window of the decoded identity layer"),
    (0x7fff, "td-image", "mask of a spatial extent in descriptor version 10: 15 bits"),
    (0x1ffff, "td-image", "mask of a count of channels in descriptor version 10: 17 bits"),
    (0x1fff, "td-image", "mask of the count of groups in descriptor version 10: 13 bits"),
];

/// Adds all terms.
pub(super) fn terms(facts: &mut Vec<Fact>) {
    let term = |kind, source, names: &[&str], lines: Vec<String>| Fact {
        kind,
        name: names.first().map_or(String::new(), |name| name.to_string()),
        also: names.iter().skip(1).map(|name| name.to_string()).collect(),
        lines,
        evidence: "C",
        source,
        ..Fact::default()
    };
    for (kind, source, rows) in [
        ("word of compiled programs", "hwx", PROGRAM),
        ("word of element types", "e5", TYPES),
        ("word of netplists", "native-layers", NETS),
        ("word of the compiler", "h13-fusion", STAGES),
        ("word of the driver", "driver", DRIVER),
        ("word of execution", "driver", EXECUTION),
    ] {
        let lines = |lines: &[&str]| lines.iter().map(|line| line.to_string()).collect();
        facts.extend(rows.iter().map(|(names, said)| term(kind, source, names, lines(said))));
    }
    for (name, what) in CALLS {
        let lines = vec![what.to_string(), "anemone_e5rt.h has its arguments".into()];
        facts.push(term("call of the runtime", "e5", &[name], lines));
    }
    for &(number, source, what) in NUMBERS {
        let name = format!("{number:#x}");
        let fact = term("number of the chapters", source, &[&name], vec![what.to_string()]);
        facts.push(Fact { numbers: vec![number], ..fact });
    }
    // The book's names of passes follow the numbers of its tables.
    for pass in PASSES {
        let book = pass.source.split_once(", ").map_or("", |(_, name)| name);
        let names: Vec<&str> =
            [pass.name].into_iter().chain(book.split(", ").filter(|name| !name.is_empty())).collect();
        let lines = vec![pass.what.to_string(), format!("source: {}; `ane passes` lists all", pass.source)];
        facts.push(term("pass of the compiler", "h13-fusion", &names, lines));
    }
    for export in OTHERS {
        let lines = vec![export.role.to_string(), "`ane validate` calls it".into()];
        facts.push(term("exported validator", "validators", &[export.export], lines));
    }
    for e in ENUMERATIONS {
        for row in e.rows {
            let lines = vec![format!("code {} of {} ({})", row.code, e.name, e.vendor)];
            facts.push(term(super::CODE, "enums", &[row.name], lines));
        }
    }
    let fields = e5::TABLES.iter().flat_map(|table| table.fields.iter().map(move |field| (table, field)));
    for (table, field) in fields {
        let lines = vec![format!("field of {}: {}", table.name, field.meaning)];
        facts.push(term("field of a dispatch descriptor", "e5", &[field.name], lines));
    }
}
