//! Words of formats, driver and broker that are in no table.

use super::Fact;
use anemone_facts::driver::limits;

/// Word, other words, sentences.
const WORDS: &[(&str, &[&str], [&str; 2])] = &[
    (
        "doorbell",
        &["doorbell-index"],
        [
            "a store of 1 << index into the engine's aperture, which tells the firmware of a posted command",
            "the index is a request's scalar, below 32; control 2, direct 2 and direct 4 ring",
        ],
    ),
    (
        "wake-port",
        &["asyncWakePort"],
        [
            "where the reply of an asynchronous request arrives, as a message; nothing is polled",
            "selector 2 of both clients takes one",
        ],
    ),
    (
        "broker",
        &["aned"],
        [
            "the one process that opens the device; programs reach the engine through it, each by its own entitlements",
            "`ane broker` serves, `ane stat` prints its counters",
        ],
    ),
    (
        "surface",
        &["surfaces", "IOSurface"],
        [
            "a buffer of tensors that host and engine share, mapped into the engine's address space page by page",
            "a buffer with the port's layout is the surface itself, another is cast into one; `ane run --via inprocess -v` counts the bytes",
        ],
    ),
    (
        "RTKit",
        &["RTBuddyService", "real-time coprocessor"],
        [
            "the firmware's operating system; the driver is the host side of its mailbox",
            "commands lie in rings of slots that both sides see; a doorbell says that one was posted",
        ],
    ),
    (
        "preemption",
        &["preempt", "task-queue"],
        [
            "a request waits in a task queue by its priority, 0 to 7; a more urgent one has the running one aborted in flight \
             at a partition",
            "what was aborted runs again from its start; `ane stat` counts these",
        ],
    ),
    (
        "queue-depth",
        &["depth"],
        [
            "requests of an instance that may wait at once; asked for when it is made, 127 at most",
            "lowered under contention: the outstanding requests of a program are shared among the clients",
        ],
    ),
    (
        "residency",
        &["code identity", "model share"],
        [
            "a program that is resident is attached to by clients of the same team and code digest alone",
            "another identity loads a copy of its own; `ane stat` counts loads that attached",
        ],
    ),
    (
        "adapter",
        &["adapter weights"],
        [
            "an instance of a resident base model with weights of its own: the base by its identifier, the weight files counted",
            "`ane run MODEL --adapter FILE.npz`; needs com.apple.aned.private.adapterWeight.allow",
        ],
    ),
    (
        "tiers",
        &["tier", "per-user tier", "restricted tier"],
        [
            "tiers of connections, which `ane stat` counts: unrestricted, restricted, per-user; others the policy turns away",
            "restricted: holds a key of adapters, sharing or power saving; per-user: served through `ane broker --through SOCKET`",
        ],
    ),
    (
        "DART",
        &["IOMMU", "translation unit"],
        [
            "the unit that translates the engine's addresses, pages of 16 KiB; every access of a request goes through its mappings",
            "an address without one is a fault with address and task; `ane stat` counts mappings, bytes and faults",
        ],
    ),
    (
        "mailbox",
        &["ring", "command ring"],
        [
            "rings of slots that host and firmware share: a command with its header lies in a slot, a doorbell tells of it",
            "one firmware command is in flight at a time; several may be posted",
        ],
    ),
    (
        "firmware",
        &["firmware model"],
        [
            "what runs on the engine's controller: it takes commands from the mailbox, pushes one engine request a partition, and completes",
            "modelled here (docs/runtime.md); `ane explain ANEH` has its container",
        ],
    ),
    (
        "secure-mode",
        &["secure"],
        [
            "a request that has the engine for itself: others are quiesced, and the engine is power-cycled before and after",
            "`ane run --via inprocess --secure`; `ane stat` counts the phases",
        ],
    ),
    (
        "overlapped-streams",
        &["quirk", "stream overlap"],
        [
            "the M1's defect: of two overlapped streams of a process, the second one's completion does not fire",
            "`ane run --via inprocess --streams 2 --quirk overlapped-streams` shows it; without the quirk all complete",
        ],
    ),
    (
        "purge",
        &["purging"],
        [
            "removal of compiled models from the broker's cache: one by its key, or all with a key of its own",
            "com.apple.aned.private.modelPurgeInAllPartitions; `ane stat` counts models purged",
        ],
    ),
    (
        "hint",
        &["hints", "scheduling hint", "ANEClientHints"],
        [
            "more or less urgent than the class of service says, for a process or for all of a team",
            "`ane driver method setClientHint` and `shareCoalitionHint`; `ane stat` lists hints by holder",
        ],
    ),
    (
        "selector",
        &["selectors", "IOConnectCallMethod", "external method"],
        [
            "number of a method of a user client, with exact sizes of scalars and structures: 17 of the control client, 9 of the direct one",
            "`ane driver list` lists them, `ane driver call CLIENT NUMBER` calls one; libanemone_iokit.so has the C functions",
        ],
    ),
    (
        "entitlement",
        &["entitlements", "key"],
        [
            "a right of a program, by name: some are checked once when the device is opened, others by the broker at each method",
            "`ane driver list` lists them; a policy gives them by the digest of the executable (docs/runtime.md)",
        ],
    ),
    (
        "hwx",
        &["container", "Mach-O shape"],
        [
            "the compiler's container: register stream, kernel data, windows of tensors, symbols and banner, magic 0xbeefface",
            "`ane compile -o FILE.hwx`, `ane dump FILE.hwx`",
        ],
    ),
    (
        "e5",
        &["bundle", "dispatch descriptor"],
        [
            "the dispatch descriptor: a FlatBuffer of casts, engine calls and host segments over containers, known by their hash",
            "`ane compile --emit e5,hwx`, `ane dump FILE.e5`; `ane explain e5-op` lists the kinds",
        ],
    ),
    (
        "anefw",
        &["firmware container"],
        [
            "the load format of the firmware: records ANEH, ANEP and ANES of package, program and section",
            "`ane compile --emit firmware`, `ane dump FILE.anefw`",
        ],
    ),
    (
        "loaded-image",
        &["loaded", "signature", "program image"],
        [
            "a container with its addresses resolved for one load, and a digest over the bytes as its signature",
            "`ane convert FILE.hwx --to loaded --base ADDRESS`, `ane dump FILE.loaded`",
        ],
    ),
    (
        "aperture",
        &["window", "apertures", "0x30000000"],
        [
            "the range of device addresses of a tensor, of the stream or of kernel data; page aligned, from 0x30000000 on in files",
            "rights are those of the access: inputs and kernel data are read, outputs written, the stream executed",
        ],
    ),
    (
        "ANEProgramLegacyResource",
        &[],
        [
            "a program as an image: containers and loaded images, which the driver expands at load",
            "the other representation is ANEProgramRTResource",
        ],
    ),
    (
        "ANEProgramRTResource",
        &[],
        [
            "a program as a graph of operations: the dispatch descriptor's casts, inferences and host segments",
            "the other representation is ANEProgramLegacyResource",
        ],
    ),
];

/// Adds the words, including those from tables.
pub(super) fn words(facts: &mut Vec<Fact>) {
    let word = |name: &str, also: Vec<String>, lines: Vec<String>| Fact {
        kind: "word of formats and driver",
        name: name.into(),
        also,
        lines,
        evidence: "C",
        source: "driver",
        ..Fact::default()
    };
    for (name, also, lines) in WORDS {
        let also = also.iter().map(|other| other.to_string()).collect();
        facts.push(word(name, also, lines.iter().map(|line| line.to_string()).collect()));
    }
    let classes =
        limits::QOS_PRIORITIES.iter().map(|(class, priority)| format!("class {class}: priority and queue {priority}"));
    let first = "how urgent a client's work is; given at every compile, load and request (`--qos`)".to_string();
    let lines = std::iter::once(first).chain(classes).collect();
    facts.push(word("class-of-service", vec!["qos".into(), "quality-of-service".into()], lines));
    let stages = ["BIND_NS", "BUILD_NS", "KICK_NS", "ROUND_TRIP_NS", "COMPLETE_NS"];
    let budget = || limits::BUDGET.iter().filter(|row| stages.contains(&row.name));
    let us = |ns: u64| format!("{} us", ns as f64 / 1000.0);
    let (all, first): (u64, u64) = (budget().map(|row| row.value).sum(), budget().take(1).map(|row| row.value).sum());
    let mut lines: Vec<String> = budget().map(|row| format!("{}: {}", us(row.value), row.meaning)).collect();
    lines.push(format!("{} in all, {} of it inside the submit selector", us(all), us(all - first)));
    facts.push(word("latency-budget", vec!["latency".into(), "dispatch-cost".into()], lines));
    let fields = ["the command", "bytes of the body", "priority, 0 to 7", "program", "process", "procedure"];
    let lines = vec![format!("{} bytes: {}", limits::HEADER_BYTES, fields.join(", "))];
    facts.push(word("command-header", vec!["mailbox-header".into()], lines));
}
