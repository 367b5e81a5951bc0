//! Terms of the chapters that no other table has: of netplists, of the compiler's stages, of driver classes, of the runtime's calls.

use super::Fact;
use anemone_compile::pipeline::ALL as PASSES;
use anemone_facts::enums::ENUMERATIONS;
use anemone_facts::formats::e5;
use anemone_facts::validators::OTHERS;

/// Names, then sentences.
type Term = (&'static [&'static str], &'static [&'static str]);

/// Words of the register program and its containers.
const PROGRAM: &[Term] = &[
    (
        &["FlatBuffer"],
        &[
            "format of the dispatch descriptor: tables of fields, each at an offset that a vtable gives; `ane dump FILE.e5`",
        ],
    ),
    (
        &["Op0_Cast", "Op1_AneInference", "Op2_Cast"],
        &["operations of a network that is one dispatch: conversion in, the engine, conversion out"],
    ),
    (
        &["DMA", "tile-DMA", "kernel-DMA"],
        &[
            "engines that move data for a task: two tile reads, one tile write, and the coefficients",
            "`ane explain TileDMASrc1`, `TileDMASrc2`, `TileDMADst` have their address slots",
        ],
    ),
    (
        &["zin_ane_compiler"],
        &[
            "name of Apple's compiler in a banner, before its version: `ane convert --compat` has the versions that are written",
        ],
    ),
    (&["H13C"], &["the compiler's revision for targets h13 and h13g: CPU subtype 4"]),
    (&["next-record", "null-terminator"], &["the word at +0x1c of a task: offset of the next task, 0 in the last"]),
    (
        &["byteSize", "apertureVA", "nameRef"],
        &["fields of a port: bytes of its buffer, address of its window, offset of its name"],
    ),
    (
        &["opcode", "opcode-word", "operation-mode"],
        &[
            "no word of a task is an operation code: task class, mode bits and planar configuration decide",
            "`ane explain op-class` has the operation classes, `ane explain 0x5042a063` the words that the book takes for codes",
        ],
    ),
    (
        &["task", "task-descriptor", "ZinAneTd", "TD", "descriptor"],
        &[
            "one pass of the engine: a header and the registers that configure it, chained by the next offset at +0x1c",
            "`ane dump FILE --td N` lists one; `ane explain +0x1c` explains a word of the header",
        ],
    ),
    (
        &["register-program", "register-write-program", "task-stream", "program"],
        &["the task descriptors of a compiled network in order: section __TEXT,__text of a container"],
    ),
    (
        &["guard", "guard-page"],
        &[
            "the segment __PAGEZERO: 0x4000 bytes from address 0 without rights, so that an access by a null address is a fault",
            "`ane dump FILE.hwx --part segments` lists it",
        ],
    ),
    (
        &["banner", "build-info-banner", "build-manifest"],
        &["the command line of the compiler that made a container, with its version: `ane dump FILE.hwx --part ident`"],
    ),
    (&["note", "source-note"], &["command LC_NOTE of a container: the source that it was compiled from"]),
    (
        &["lane", "tile", "sub-kernel", "_ne_", "_ne_0", "_ne_15", "output-channel-group-partition"],
        &[
            "one of sixteen streams of kernel data, for one compute lane; symbols end in _ne_0 to _ne_15",
            "each is padded to 64 bytes; lanes without data point at the end of the section",
        ],
    ),
    (
        &["kernel-section", "__KERN_N", "weight-bank", "weight-section"],
        &[
            "the coefficients of a program, by lane: segment __KERN_0, or __TEXT,__const in old containers; `ane patch` replaces them",
        ],
    ),
    (
        &["relocation", "relocation-slot"],
        &["a word of a task that holds a device address, which the loader writes: `ane dump FILE.hwx --part relocs`"],
    ),
    (
        &["stride-frame", "stabs", "shape-descriptor", "s2w"],
        &[
            "strides of a tensor in a container's symbols, in bytes: n batch, c channel, h row, w element, as in s128n:s128c:s128h:s2w",
        ],
    ),
    (
        &["main_ane", "t0_ane", "t5_ane", "t5_ane@output"],
        &[
            "names of procedure, input and output in a container beside a dispatch descriptor: `ane compile --convention book`",
        ],
    ),
    (
        &["symbol", "symbol-table"],
        &["name and value of a tensor, kernel or type of a container: `ane dump FILE.hwx --part symbols`"],
    ),
    (
        &["component", "3520.4.1", "intermediate-language-component"],
        &["version of the MIL language that a text states in its build information"],
    ),
    (&["com.apple.ANECompilerFramework"], &["bundle that the banner of a container names"]),
    (
        &["otool", "rabin2", "0xfeedfacf"],
        &["magic of a 64-bit Mach-O; a container with these four bytes in place of its own is listed by Mach-O tools"],
    ),
];

/// Words of element types and attributes.
const TYPES: &[Term] = &[
    (
        &["fp16", "half", "half-precision"],
        &[
            "the engine's element type: 1 sign, 5 exponent and 10 mantissa bits, up to 65504; `ane explain float16` has its codes",
        ],
    ),
    (&["fp8", "8-bit-floating-form"], &["e4m3 in a container's list of types; refused on the M1"]),
    (
        &["dtype", "element-type", "storage-type", "storage_type"],
        &[
            "type of a tensor's elements: eleven codes in a dispatch descriptor, a longer list in a container's symbols",
            "`ane explain float16` has both numbers of one; `ane ops` says which operations take it",
        ],
    ),
    (
        &["interleave", "InputInterleave"],
        &[
            "channels that lie side by side in a row of memory; ports have 1, and a netplist that asks for more is refused",
        ],
    ),
    (&["OutputType"], &["element type of a unit's result in a netplist, such as Float16"]),
];

/// Words of netplists and of the graph.
const NETS: &[Term] = &[
    (
        &["netplist", "network-description", "espresso.net", ".espresso.net", "property-list"],
        &[
            "property list of units, wiring and weights, version 1.0.10, that the compiler takes beside MIL",
            "`ane new --native SDPA -o FILE.plist` writes one",
        ],
    ),
    (&["unit", "units"], &["one layer of a netplist: a dictionary with Type, Bottom, OutputType and Params"]),
    (&["Type"], &["name of a unit's native layer; `ane ops --layers` has all"]),
    (&["Bottom", "bottoms"], &["names of a unit's operands, in order"]),
    (&["Params"], &["attributes of a unit, by the names that its parser reads; `ane explain LAYER` lists them"]),
    (
        &["ProcedureList", "procedure-list", "procedure"],
        &[
            "callable entry points of a netplist; each names its InputList, OperationList and OutputList",
            "`ane run FILE --function NAME` calls one",
        ],
    ),
    (&["InputList"], &["inputs of a procedure, by name"]),
    (&["OperationList"], &["units of a procedure, by name"]),
    (&["OutputList"], &["outputs of a procedure, by name"]),
    (
        &["InputChannels", "InputHeight", "InputWidth", "InputDepth", "BatchSize"],
        &["extents of an input of a netplist, one key each"],
    ),
    (
        &["InvalidParamSyntax"],
        &[
            "refusal of a unit whose Params lack a key, or have one that its parser does not know; the message names unit, key and what is allowed",
        ],
    ),
    (
        &["bridge", "bridge-node", "bridge_node", "tunneled-unit"],
        &["a native layer named as such in a graph, passed through to the engine, in a segment of its own"],
    ),
    (
        &["subtract_max", "SubtractMax"],
        &[
            "the one attribute of fused attention: subtract the largest score before the exponential; false by default, which check, compile and run warn of",
        ],
    ),
    (
        &["anec", "anec-dialect", "backend-dialect"],
        &["the compiler's own dialect of layers, such as anec.sdpa; every name of it is a Type too"],
    ),
    (&["transpose_lhs", "transpose_rhs"], &["flags of a matrix product: which operand is transposed before it"]),
];

/// Words of the compiler's stages.
const STAGES: &[Term] = &[
    (&["MIL", "intermediate-language"], &["the operations that a model is given in, before anything is fused"]),
    (
        &["ANECompiler", "compiler-service"],
        &["Apple's compiler of networks for the engine; `ane compile` is another, `--compat` follows its containers"],
    ),
    (
        &["mps.MatMulOp", "MatMult"],
        &["matrix product; becomes anec.matmul: depth 1 on both, output channels those of the left operand"],
    ),
    (&["mps.Conv2DOp"], &["convolution; becomes anec.convolution with weights and bias folded in"]),
    (
        &["dilation_rates", "explicit_padding", "padding_style", "kernel_sizes", "weights_layout"],
        &["attributes of anec.convolution; a netplist has them as Params of Conv"],
    ),
    (
        &["FoldWeightsWithScale"],
        &["step that folds a constant factor into the weights; here absorb-affines and fold-scale of `ane passes`"],
    ),
    (
        &["ZinIr", "ZinMir", "layer-graph"],
        &["stages of the compiler in which layers are fused and cut: `ane passes` lists the steps here"],
    ),
    (
        &["ZinNEBypassLayer", "NEBypass", "bypass", "epilogue"],
        &[
            "seven slots that an engine layer absorbs: texture, broadcast, activation, gain and offset, activation, transpose, quantization",
        ],
    ),
    (&["ZinTextureLayer"], &["first slot of an epilogue: a remap of places"]),
    (&["ZinBroadcastLayer"], &["second slot of an epilogue: broadcast of a fused operand"]),
    (
        &["ZinActivationLayer", "pre-GOC", "post-GOC"],
        &["third and fifth slot of an epilogue: the activation before and after gain and offset"],
    ),
    (&["ZinGOCLayer", "gain-offset-control"], &["fourth slot of an epilogue: scale and bias per channel"]),
    (&["ZinTransposeLayer"], &["sixth slot of an epilogue: layout of the output"]),
    (&["ZinQuantLayer"], &["seventh slot of an epilogue: quantization of the output"]),
    (
        &["knot", "knots", "segment-of-a-table"],
        &[
            "one of 33 arguments at which an activation table has a value, 32 segments between them; `ane lut` draws tables, `ane explain lut` has the record",
        ],
    ),
    (
        &["IsFusableConcat"],
        &["condition under which a concatenation is no boundary of fusion: its parts can be written in place"],
    ),
    (
        &["ValidateSemantics_Impl", "MatchParams", "MatchStatus", "ZinComputeProgramValidate"],
        &[
            "steps of the checks of an operation before it is lowered: parameters, shapes, the program; `ane validate` calls the exported validators",
        ],
    ),
    (
        &["kernel_scale", "kernel_palettized_LUT"],
        &["attributes of compressed weights: scale per output channel, table of values by index"],
    ),
    (
        &["resident", "fl2-cache-mode"],
        &["a working set that stays in tile memory between tasks; the banner says --fl2-cache-mode=resident"],
    ),
];

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

/// Calls of the runtime, as the listings of chapter 2 have them.
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

/// Numbers that the chapters print, beside those of other tables.
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

/// Adds all of them.
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
    // Names that the book gives the passes stand behind its tables' numbers.
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
