//! Terms of compiled models: register programs, element types, netplists, stages of the compiler.

use super::Term;

/// Words of the register program and its containers.
pub const PROGRAM: &[Term] = &[
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
pub const TYPES: &[Term] = &[
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
pub const NETS: &[Term] = &[
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
pub const STAGES: &[Term] = &[
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
