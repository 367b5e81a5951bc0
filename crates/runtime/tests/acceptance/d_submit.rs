//! D: submit, doorbell, completion.

use crate::nets::*;
use anemone_facts::driver::selectors::{CONTROL, DIRECT};
use anemone_runtime::Code;
use anemone_runtime::clock::Stages;
use anemone_runtime::driver::WakePort;
use anemone_runtime::driver::client::{Arguments, Client, Submit};
use anemone_runtime::driver::priority_of;
use anemone_runtime::firmware::notify::{Fabric, Outcome, Step, bits};
use anemone_runtime::os::shared::Shared;
use std::sync::Arc;
use std::time::Duration;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

#[test]
fn d01_sequence_and_reply() {
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), ADD_ONE);
    for sequence in 0..2 {
        let reply = l.client.submit(&Submit { sequence, ..l.submit() }).expect("submit");
        assert_eq!((u32_at(&reply, 0), u32_at(&reply, 4)), (sequence as u32, 0));
        assert_eq!(u64::from(u32_at(&reply, 8)) | u64::from(u32_at(&reply, 12)) << 32, l.created.token);
        assert_eq!((&reply[0x10..0x20], u32_at(&reply, 0x20), u32_at(&reply, 0x24)), (&[0; 16][..], 1, 0));
    }
}

#[test]
fn d02_request_layout() {
    let bytes = Submit { sequence: 1, ..Submit::new(0x1122, &[7], &[8, 9]) }.encode().expect("fits");
    assert_eq!(bytes.len(), 2376);
    assert_eq!((u32_at(&bytes, 0), u32_at(&bytes, 8)), (0x1122, 1));
    assert_eq!((u32_at(&bytes, 0x10), u32_at(&bytes, 0x14), u32_at(&bytes, 0x1c)), (5, 21, 2));
    assert_eq!([u32_at(&bytes, 0x20), u32_at(&bytes, 0x28), u32_at(&bytes, 0x30)], [7, 8, 9]);
    let with = Submit { intermediates: &[10], ..Submit::new(0x1122, &[7], &[8, 9]) }.encode().expect("fits");
    assert_eq!((u32_at(&with, 0x18), u32_at(&with, 0x38)), (0x100_0201, 10));
    let two = Submit { intermediates: &[10, 11], ..Submit::new(0x1122, &[7], &[8, 9]) };
    assert!(two.encode().is_err());
}

/// A product of 64 by 64, whose operand is turned first: a result between two tasks.
fn product() -> String {
    let weights: Vec<&str> = (0..64 * 64).map(|i| if i % 65 == 0 { "1.0" } else { "0.0" }).collect();
    format!(
        "net \"main\" {{\n  input %x: f16[1, 64]\n  const %w: f16[64, 64] = [{}]\n  \
         %y: f16[1, 64] = matmul(%x, %w) transpose_x=false transpose_y=false\n  output %y\n}}\n",
        weights.join(", ")
    )
}

#[test]
fn d10_intermediate_surface() {
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), &product());
    let bytes = l.client.intermediate_bytes(l.created.token).expect("its own program");
    assert!(bytes > 0 && bytes == l.program.scratch_bytes);
    let surface = |bytes| l.client.add_surface(Arc::new(Shared::new(bytes).expect("memory"))).expect("surface");
    let (whole, short) = (surface(bytes), surface(bytes - 1));
    l.client.submit(&Submit { intermediates: &[whole], ..l.submit() }).expect("runs on it");
    // The engine's accesses go through it: where it is not mapped any more, the request is refused.
    for wrong in [short, 0x7777] {
        assert!(l.client.submit(&Submit { intermediates: &[wrong], ..l.submit() }).is_err(), "{wrong}");
    }
    l.client.remove_surface(whole).expect("not in use");
    assert_eq!(l.client.submit(&Submit { intermediates: &[whole], ..l.submit() }), Err(Code::NOT_FOUND));
    // A program without the region takes none.
    let none = load(&driver, &signer, &task(2), ADD_ONE);
    let surface = none.client.add_surface(Arc::new(Shared::new(64).expect("memory"))).expect("surface");
    assert_eq!(none.client.submit(&Submit { intermediates: &[surface], ..none.submit() }), Err(Code::BAD_ARGUMENT));
}

#[test]
fn d03_doorbell_index() {
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), ADD_ONE);
    for i in 0..32 {
        l.client.submit(&Submit { doorbell: i, ..l.submit() }).expect("submit");
        let c = driver.counters();
        assert_eq!((c.doorbells, c.last_store), (i + 1, 1 << i));
    }
    assert_eq!(l.client.submit(&Submit { doorbell: 32, ..l.submit() }), Err(Code::BAD_ARGUMENT));
    assert_eq!(driver.counters().doorbells, 32);
}

#[test]
fn d04_who_rings() {
    let ringing: Vec<_> = CONTROL.iter().chain(DIRECT).filter(|s| s.rings).map(|s| (s.client, s.index)).collect();
    assert_eq!(ringing.len(), 3);
    let (driver, signer) = start();
    let task = task(1);
    let l = load(&driver, &signer, &task, ADD_ONE);
    let d = direct(&driver, &task);
    let mut rang = Vec::new();
    let mut count = 0;
    let mut after = |name: String| {
        let now = driver.counters().doorbells;
        if now > count {
            rang.push((name, now - count));
        }
        count = now;
    };
    let handler = l.client.chain(l.created.token).expect("control 9");
    after("control 9".into());
    for s in CONTROL.iter().filter(|s| !matches!(s.index, 0 | 1 | 2 | 6)) {
        generic(&l.client, s);
        after(format!("control {}", s.index));
    }
    l.client.prepare(l.created.token).expect("control 4");
    l.client.submit(&l.submit()).expect("control 2");
    after("control 2".into());
    let memory = |i: usize| d.add_surface(l.memory[i].clone()).unwrap();
    let (x, y) = (memory(0), memory(1));
    d.submit(&Submit::new(l.created.token, &[x], &[y])).expect("direct 2");
    after("direct 2".into());
    enqueue(&d, l.created.token, handler, &[y]).expect("direct 3");
    after("direct 3".into());
    trigger(&d, l.created.token, handler, 1, &[x]).expect("direct 4");
    after("direct 4".into());
    for s in DIRECT.iter().filter(|s| !matches!(s.index, 0 | 1 | 2 | 4)) {
        generic(&d, s);
        after(format!("direct {}", s.index));
    }
    assert_eq!(rang, [("control 2".into(), 1), ("direct 2".into(), 1), ("direct 4".into(), 1)]);
}

fn generic(client: &Client, s: &anemone_facts::driver::selectors::Selector) {
    let (scalars, input) = (vec![0; s.scalars_in as usize], vec![0; s.struct_in_bytes as usize]);
    let (mut out, mut output) = (vec![0; s.scalars_out as usize], vec![0; s.struct_out_bytes as usize]);
    let a = Arguments {
        scalars_in: &scalars,
        struct_in: Some(&input),
        scalars_out: &mut out,
        struct_out: Some(&mut output),
        wake: None,
    };
    client.call(s.index, a);
}

pub fn enqueue(d: &Client, token: u64, handler: u64, surfaces: &[u32]) -> Result<(), Code> {
    let list: Vec<u8> = surfaces.iter().flat_map(|s| s.to_le_bytes()).collect();
    let at = d.task().stage(&list)?;
    let mut input = [0; 40];
    input[..8].copy_from_slice(&token.to_le_bytes());
    input[8..16].copy_from_slice(&handler.to_le_bytes());
    input[20..24].copy_from_slice(&(surfaces.len() as u32).to_le_bytes());
    input[24..32].copy_from_slice(&at.to_le_bytes());
    d.structures(3, &input, &mut [])
}

pub fn trigger(d: &Client, token: u64, handler: u64, timestamp: u64, surfaces: &[u32]) -> Result<(), Code> {
    let mut input = [0; 3104];
    input[..8].copy_from_slice(&token.to_le_bytes());
    input[8..16].copy_from_slice(&handler.to_le_bytes());
    input[16..24].copy_from_slice(&timestamp.to_le_bytes());
    input[24..28].copy_from_slice(&(surfaces.len() as u32).to_le_bytes());
    for (i, s) in surfaces.iter().enumerate() {
        input[32 + 12 * i..36 + 12 * i].copy_from_slice(&s.to_le_bytes());
    }
    d.structures(4, &input, &mut [])
}

#[test]
fn d05_with_a_wake_port() {
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), ADD_ONE);
    let (port, messages) = WakePort::new();
    l.fill(0, 1.0);
    l.client.submit_async(&l.submit(), port).expect("returns at once");
    let message = messages.recv_timeout(Duration::from_secs(10)).expect("a message");
    assert_eq!((message.code, u32_at(&message.reply, 0x20)), (Code::SUCCESS, 1));
    assert_eq!(l.first(1), 2.0);
    assert!(messages.recv_timeout(Duration::from_millis(20)).is_err());
}

#[test]
fn d06_without_a_wake_port() {
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), ADD_ONE);
    l.client.submit(&l.submit()).expect("blocks until done");
    assert_eq!(driver.counters().interrupts, 2);
    assert_eq!(driver.counters().completed, 1);
}

#[test]
fn d07_broker_loads_client_submits() {
    let (driver, signer) = start();
    let broker = load(&driver, &signer, &task(1), ADD_ONE);
    let app = std::sync::Arc::new(anemone_runtime::driver::task::Task::new(
        2,
        identity("C", "C"),
        [anemone_facts::driver::entitlements::DIRECT_EXCEPTION],
    ));
    let (token, intermediate) = (broker.created.token, broker.created.intermediate);
    app.set_grant(Some(anemone_runtime::driver::task::Grant { token, intermediate }));
    let client = direct(&driver, &app);
    let x = client.add_surface(broker.memory[0].clone()).unwrap();
    let y = client.add_surface(broker.memory[1].clone()).unwrap();
    client.submit(&Submit::new(token, &[x], &[y])).expect("submit");
    let calls = driver.counters().calls;
    assert_eq!(calls.get(&(true, 2)), None, "the broker submits nothing");
    assert_eq!(calls.get(&(false, 2)), Some(&1));
    assert_eq!((calls.get(&(true, 3)), calls.get(&(true, 4))), (Some(&1), Some(&1)));
}

#[test]
fn d08_notification_order() {
    let mut steps = Vec::new();
    let mut fabric = Fabric::default();
    assert_eq!(fabric.notify(3, &mut steps), Outcome::Delivered(0));
    assert_eq!(
        steps,
        [Step::Mask, Step::Open, Step::Store(3), Step::Barrier, Step::Sample, Step::Close, Step::Restore]
    );
    assert_ne!(fabric.register & bits::WINDOW, 0);
}

#[test]
fn d09_reject_and_error() {
    let mut fabric = Fabric { reject: 1, ..Fabric::default() };
    let mut steps = Vec::new();
    assert_eq!(fabric.notify(0, &mut steps), Outcome::Delivered(1));
    assert_eq!((fabric.delivered, fabric.register & (bits::ERROR | bits::REJECT)), (1, 0));
    fabric.fail = true;
    assert_eq!(fabric.notify(0, &mut steps), Outcome::Fatal);
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), ADD_ONE);
    driver.with_firmware(|f| f.fabric.fail = true);
    let _ = l.client.submit(&l.submit());
    assert_eq!(driver.with_firmware(|f| f.restarts), 1);
    l.client.submit(&l.submit()).expect("usable after the reset");
}

#[test]
fn d10_budget() {
    let s = Stages::SMALL;
    assert_eq!((s.bind_ns, s.build_ns, s.round_trip_ns, s.complete_ns), (25_000, 16_000, 130_000, 10_000));
    assert!((2_000..=3_000).contains(&s.kick_ns));
    assert!((180_000..=195_000).contains(&s.total_ns()));
    assert!((155_000..=165_000).contains(&s.inside_ns()));
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), ADD_ONE);
    l.client.submit(&l.submit()).expect("submit");
    // A program's own work decides the rest: an addition takes as long as the small graph, within two percent.
    let now = driver.now_ns();
    assert!(now.abs_diff(s.total_ns()) * 50 < s.total_ns(), "{now}");
    assert_eq!(priority_of(21), 5);
}
