//! Clients, selectors, structures, entitlements, codes, commands.

use super::Fact;
use anemone_facts::driver::commands::COMMANDS;
use anemone_facts::driver::entitlements::ENTITLEMENTS;
use anemone_facts::driver::selectors::{self, CLIENTS, CONTROL, DIRECT, HINT_METHODS, METHODS};
use anemone_facts::driver::{Direction, Named, codes, limits, properties, structures};

/// Names with and without their prefix.
fn short(name: &str) -> Vec<String> {
    name.strip_prefix("ANE_").map(str::to_string).into_iter().collect()
}

pub(super) fn clients(facts: &mut Vec<Fact>) {
    for row in CLIENTS {
        let selectors = selectors::of(row.client).len();
        facts.push(Fact {
            kind: "user client",
            name: row.class.into(),
            lines: vec![format!("opened with type {}; {selectors} selectors", row.kind)],
            evidence: row.row.evidence.letter(),
            source: row.row.source,
            ..Fact::default()
        });
    }
    for (client, rows) in [("control", CONTROL), ("direct", DIRECT)] {
        for s in rows {
            let sizes = format!(
                "{} scalars and {} bytes in, {} scalars and {} bytes out; another size is {:#x}",
                s.scalars_in,
                s.struct_in_bytes,
                s.scalars_out,
                s.struct_out_bytes,
                codes::BAD_ARGUMENT
            );
            let mut lines = vec![format!("selector {} of the {client} client", s.index), sizes];
            if s.asynchronous {
                lines.push("takes a wake port".into());
            }
            if s.rings {
                lines.push("a success rings the doorbell".into());
            }
            facts.push(Fact {
                kind: "selector",
                name: s.name.into(),
                also: [short(s.name), vec![format!("{client} {}", s.index), format!("{client}-{}", s.index)]].concat(),
                numbers: Vec::new(),
                lines,
                evidence: s.row.evidence.letter(),
                source: s.row.source,
            });
        }
    }
    for method in METHODS.iter().chain(HINT_METHODS) {
        let of_hints = HINT_METHODS.contains(method);
        let guard = if method.guarded { "a second access check guards it" } else { "no second access check" };
        let numbers = if method.numbers.is_empty() { String::new() } else { format!(" {}", method.numbers) };
        let name = if of_hints { method.name.into() } else { format!("ANE_{}", method.name) };
        facts.push(Fact {
            kind: if of_hints { "method of the hint client" } else { "method of the direct-path client" },
            name,
            also: vec![method.name.to_string()],
            lines: vec![
                method.effect.to_string(),
                format!("is no selector; {guard}: `ane driver method {}{numbers}` calls it", method.name),
            ],
            evidence: "C",
            source: "driver",
            ..Fact::default()
        });
    }
}

/// Structures with their fields, and the selectors that read or write one of this size.
pub(super) fn structures(facts: &mut Vec<Fact>) {
    use structures::{
        Place, active, arguments, chain, chained, create, destroy, handshake, hint, inputs, instance, map, outputs,
    };
    use structures::{prepare, reply, request, status};
    let tables: [(&str, usize, &[Place]); 16] = [
        ("handshake", handshake::BYTES, handshake::PLACES),
        ("request", request::BYTES, request::PLACES),
        ("reply", reply::BYTES, reply::PLACES),
        ("create", create::BYTES, create::PLACES),
        ("arguments", arguments::BYTES, arguments::PLACES),
        ("instance", instance::BYTES, instance::PLACES),
        ("prepare", prepare::BYTES, prepare::PLACES),
        ("destroy", destroy::BYTES, destroy::PLACES),
        ("status", status::BYTES, status::PLACES),
        ("chain", chain::BYTES, chain::PLACES),
        ("chained", chained::BYTES, chained::PLACES),
        ("active", active::BYTES, active::PLACES),
        ("output-set", outputs::BYTES, outputs::PLACES),
        ("inputs-ready", inputs::BYTES, inputs::PLACES),
        ("memory-map", map::BYTES, map::PLACES),
        ("session-hint", hint::BYTES, hint::PLACES),
    ];
    for (name, bytes, places) in tables {
        let takes = |client: &str, rows: &'static [selectors::Selector]| -> Vec<String> {
            let takes = rows.iter().filter(|s| [s.struct_in_bytes, s.struct_out_bytes].contains(&(bytes as u32)));
            takes.map(|s| format!("{} ({client} {})", s.name, s.index)).collect()
        };
        let by = [takes("control", CONTROL), takes("direct", DIRECT)].concat();
        let mut lines = vec![format!("{bytes} bytes")];
        if !by.is_empty() {
            lines.push(format!("of that size: {}", by.join(", ")));
        }
        let field = |p: &Place| {
            let several = if p.count > 1 { format!(" x {}", p.count) } else { String::new() };
            let own = if p.row.source == "driver" { "" } else { "*" };
            format!("{:#05x} {} bytes{several} {}{own}: {}", p.at, p.bytes, p.name, p.meaning)
        };
        lines.extend(places.iter().map(field));
        if places.iter().any(|p| p.row.source != "driver") {
            lines.push("*: a place that no source has, chosen here".into());
        }
        facts.push(Fact {
            kind: "structure",
            name: name.into(),
            also: [
                vec![format!("structure {name}")],
                if name == "handshake" { vec!["ANEDeviceInfo".into(), "DeviceInfo".into()] } else { Vec::new() },
            ]
            .concat(),
            numbers: vec![bytes as u64],
            lines,
            evidence: "C",
            source: "driver",
        });
    }
    let label = |&(at, name): &(usize, &str)| format!("{at:#04x} {name}");
    let record = format!("{} bytes, one for each selector", selectors::RECORD_BYTES);
    for (name, also, first, rows) in [
        ("argument-block", "IOExternalMethodArguments", None, selectors::ARGUMENT_BLOCK),
        ("dispatch-record", "IOExternalMethodDispatch2022", Some(record), selectors::DISPATCH_RECORD),
    ] {
        facts.push(Fact {
            kind: "structure",
            name: name.into(),
            also: vec![also.into()],
            lines: first.into_iter().chain(rows.iter().map(label)).collect(),
            evidence: "C",
            source: "driver",
            ..Fact::default()
        });
    }
}

pub(super) fn rest_of_driver(facts: &mut Vec<Fact>) {
    for e in ENTITLEMENTS {
        let by = if e.kernel { "the driver, once, at the open" } else { "the broker, at each method" };
        let mut lines = vec![e.opens.to_string(), format!("checked by {by}")];
        if let Some(n) = e.holders {
            lines.push(format!("{n} identities hold it"));
        }
        let last = e.key.rsplit('.').next().filter(|last| *last != "allow");
        facts.push(Fact {
            kind: "entitlement",
            name: e.key.into(),
            also: last.map(str::to_string).into_iter().collect(),
            lines,
            evidence: e.row.evidence.letter(),
            source: e.row.source,
            ..Fact::default()
        });
    }
    for (kind, rows) in [
        ("return code", codes::CODES),
        ("property of the device", properties::PROPERTIES),
        ("number of the firmware", limits::FIRMWARE),
        ("number of the translation unit", limits::DART),
        ("part of the latency budget", limits::BUDGET),
        ("number of power control", limits::POWER),
    ] {
        facts.extend(rows.iter().map(|row| named(kind, row)));
    }
    for (name, value, what) in [
        ("ARCHITECTURE", properties::ARCHITECTURE, "name of the architecture, which programs are compiled for"),
        (
            "INTERNAL_BUILD",
            properties::INTERNAL_BUILD,
            "whether the build is internal: no, so the debug selectors are refused",
        ),
    ] {
        facts.push(Fact {
            kind: "property of the device",
            name: name.into(),
            lines: vec![format!("{value}: {what}")],
            evidence: "C",
            source: "driver",
            ..Fact::default()
        });
    }
    facts.push(Fact {
        kind: "register of the firmware",
        name: "S3_3_C15_C8_0".into(),
        also: vec!["fabric-register".into()],
        lines: vec![
            "the posted-write window of a doorbell to the host: bit 39 clear is open, set is closed".into(),
            "after the store and a barrier, bit 1 says that the store failed for good, bit 7 that it was rejected"
                .into(),
            "interrupts are off from the opening to the closing".into(),
        ],
        evidence: "C",
        source: "driver",
        ..Fact::default()
    });
    components_and_commands(facts);
}

/// Services, components and mailbox commands.
fn components_and_commands(facts: &mut Vec<Fact>) {
    for (name, what) in properties::SERVICES {
        facts.push(Fact {
            kind: "service of the registry",
            name: name.to_string(),
            lines: vec![what.to_string()],
            evidence: "C",
            source: "driver",
            ..Fact::default()
        });
    }
    for (bundle, class, provider) in properties::COMPONENTS {
        let version = &properties::COMPONENT_VERSION;
        facts.push(Fact {
            kind: "component of the driver",
            name: bundle.to_string(),
            also: [class, version].iter().filter(|name| **name != bundle).map(|name| name.to_string()).collect(),
            lines: vec![format!("class {class}, provider {provider}, version {version}; one version for all three")],
            evidence: "C",
            source: "driver",
            ..Fact::default()
        });
    }
    for c in COMMANDS {
        let way = match c.direction {
            Direction::ToFirmware => "from host to firmware",
            Direction::FromFirmware => "from firmware to host",
            Direction::Both => "both ways",
        };
        let own = if c.exe_loop { "; the execution loop of the M1 takes it" } else { "" };
        facts.push(Fact {
            kind: "command of the mailbox",
            name: c.name.into(),
            lines: vec![format!("index {:#x}, {:#06x} on the wire, {way}, {}{own}", c.index, c.wire, c.subsystem)],
            evidence: c.row.evidence.letter(),
            source: c.row.source,
            ..Fact::default()
        });
    }
}

fn named(kind: &'static str, row: &Named) -> Fact {
    let unit = if row.unit.is_empty() { String::new() } else { format!(" {}", row.unit) };
    let value =
        if row.value > 0xffff && row.unit != "ns" { format!("{:#x}", row.value) } else { row.value.to_string() };
    // Small numbers are too ambiguous to look up.
    let numbers = if kind == "return code" || row.value > 0xffff { vec![row.value] } else { Vec::new() };
    Fact {
        kind,
        name: row.name.into(),
        also: vec![format!("kIOReturn{}", row.name.replace('_', ""))]
            .into_iter()
            .filter(|_| kind == "return code")
            .collect(),
        numbers,
        lines: vec![format!("{value}{unit}: {}", row.meaning)],
        evidence: row.row.evidence.letter(),
        source: row.row.source,
    }
}
