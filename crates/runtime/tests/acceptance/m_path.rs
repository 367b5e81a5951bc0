//! The path of a request's data, events, hints, and what the wider surface changes.

use crate::nets::*;
use anemone_facts::driver::entitlements as keys;
use anemone_facts::driver::selectors::METHODS;
use anemone_runtime::driver::client::Submit;
use anemone_runtime::driver::methods::Answer;
use anemone_runtime::driver::task::Task;
use anemone_runtime::driver::{Driver, WakePort};
use anemone_runtime::{Code, Error};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn every_access_is_translated() {
    let (driver, signer) = start();
    let task = task(1);
    let l = load(&driver, &signer, &task, ADD_ONE);
    l.fill(0, 2.0);
    l.client.run(&l.submit()).expect("runs");
    let ports: u64 = l.program.ports.iter().map(|p| p.bytes).sum();
    let sections = (l.program.kernel.len() + l.program.stream.len()) as u64 + l.program.scratch_bytes;
    assert_eq!(driver.described()["translated_bytes"], ports + sections);
    // Pages that go away between admission and execution: a fault with address and task, for reads and for writes.
    let d = Arc::new(direct(&driver, &task));
    for (surface, write) in [(l.inputs[0], false), (l.outputs[0], true)] {
        let unmap = Arc::clone(&d);
        driver.set_hook(Some(Arc::new(move |_| drop(unmap.method("UnmapDartBuffers", &[u64::from(surface)])))));
        let error = l.client.run(&l.submit()).expect_err("nothing is mapped");
        driver.set_hook(None);
        let address = driver.counters().last_fault.expect("kept").address;
        let Error::Translation { address: told, write: way, task } = error else { panic!("{error}") };
        assert_eq!((told, way, task), (address, write, Some(0)));
        assert!(Error::Translation { address: told, write: way, task }.to_string().contains("by task 0"));
        // The next request maps again.
        l.fill(0, 4.0);
        l.client.run(&l.submit()).expect("recovered");
        assert_eq!(l.first(1), 5.0);
    }
    assert_eq!((driver.counters().faults, driver.with_firmware(|f| f.restarts)), (2, 2));
    assert_eq!(driver.described()["last_fault"]["pid"], 1);
}

#[test]
fn requests_wait_for_events_and_raise_them() {
    let (driver, signer) = start();
    let task = task(1);
    let l = load(&driver, &signer, &task, ADD_ONE);
    let (wake, messages) = WakePort::new();
    let waits = [(3, 2)];
    let waiting = Submit { waits: &waits, signals: &[(4, 9)], ..l.submit() };
    l.client.submit_async(&waiting, wake).expect("accepted");
    // Others go before it meanwhile; an event raised too little is not enough.
    l.client.submit(&Submit { signals: &[(3, 1)], ..l.submit() }).expect("runs");
    assert!(messages.recv_timeout(Duration::from_millis(100)).is_err(), "it waits for 2");
    let d = direct(&driver, &task);
    assert_eq!(d.method("FWSharedEventDoorbellRing", &[3, 2]), Ok(Answer::Number(2)));
    assert_eq!(messages.recv_timeout(Duration::from_secs(10)).expect("woken").code, Code::SUCCESS);
    l.client.submit(&Submit { waits: &[(4, 9)], ..l.submit() }).expect("raised by the first");
    // Events are a process's own, and a wait that nobody ends is ended by the time-out.
    let (wake, messages) = WakePort::new();
    l.client.submit_async(&Submit { waits: &[(5, 1)], ..l.submit() }, wake).expect("accepted");
    let other = direct(&driver, &crate::nets::task(2));
    other.method("FWSharedEventDoorbellRing", &[5]).expect("its own");
    assert!(messages.recv_timeout(Duration::from_millis(100)).is_err());
    l.client.cancel_all();
    assert_eq!(messages.recv_timeout(Duration::from_secs(10)).expect("ended").code, Code::ABORTED);
    let many = [(1, 1); 13];
    assert_eq!(l.client.submit(&Submit { waits: &many, ..l.submit() }), Err(Code::BAD_ARGUMENT));
}

#[test]
fn hints_bias_the_queue() {
    let (driver, signer) = start();
    let queue = |l: &Loaded| {
        let before = driver.counters().engine_requests;
        l.client.submit(&l.submit()).expect("runs");
        let after = driver.counters().engine_requests;
        after.iter().zip(before).position(|(a, b)| *a > b).expect("a queue")
    };
    let (one, two) = (task(1), task(2));
    let (a, b) = (load(&driver, &signer, &one, ADD_ONE), load(&driver, &signer, &two, ADD_ONE));
    assert_eq!((queue(&a), queue(&b)), (5, 5));
    let hints = driver.open(&one, 2).expect("the hint client");
    hints.method("setClientHint", &[1, 2]).expect("more urgent");
    assert_eq!((queue(&a), queue(&b)), (3, 5));
    hints.method("setClientHint", &[1, 9]).expect("more urgent");
    assert_eq!(queue(&a), 2, "reserved levels are not reached");
    hints.method("setClientHint", &[0]).expect("taken back");
    hints.method("shareCoalitionHint", &[2, 1]).expect("for the team");
    assert_eq!((queue(&a), queue(&b)), (6, 6), "both are of one team");
    assert_eq!(hints.method("setClientHint", &[3, 1]), Err(Code::BAD_ARGUMENT));
    assert_eq!(hints.method("PowerOn", &[]), Err(Code::UNSUPPORTED));
    let bare = Arc::new(Task::new(3, identity("A", "X"), [keys::USER_ACCESS]));
    let bare = driver.open(&bare, 2).expect("opens");
    assert_eq!(bare.method("setClientHint", &[1, 1]), Err(Code::NOT_PRIVILEGED));
    assert_eq!(bare.method("shareCoalitionHint", &[1, 1]), Err(Code::NOT_PRIVILEGED));
}

/// A method with numbers, its answer, and a row that it changes to a value.
type Effect = (&'static str, &'static [u64], u64, &'static str, serde_json::Value);

#[test]
fn methods_change_what_is_told() {
    let (driver, signer) = start();
    let task = task(1);
    task.set_privileged(true);
    let l = load(&driver, &signer, &task, ADD_ONE);
    let d = direct(&driver, &task);
    let effects: Vec<Effect> = vec![
        ("PowerOn", &[], 1, "power", "BaseOn".into()),
        ("IsPowered", &[], 1, "power", "BaseOn".into()),
        ("ReadANERegister", &[0xc000], 0xff, "register_stores", 0.into()),
        ("PowerOff", &[], 0, "power", "AllOff".into()),
        ("ReadANERegister", &[0xc000], 0, "register_stores", 0.into()),
        ("SetPowerManagement", &[0], 0, "power_management", false.into()),
        ("SetDynamicPowerGating", &[0], 0, "power_gating", false.into()),
        ("SetPowerGatingHysteresisTime", &[500], 0, "gating_hysteresis_ms", 500.into()),
        ("SetThrottlingPercentage", &[50], 0, "throttling_percent", 50.into()),
        ("SetDARTCacheTTL", &[7], 0, "mapping_ttl", 7.into()),
        ("SetDARTCacheTTL", &[0], 0, "mapping_ttl", serde_json::Value::Null),
        ("FlushInactiveDARTMappings", &[], 9, "mappings", 0.into()),
        ("UnmapDartBuffers", &[], 0, "mappings", 0.into()),
        ("WriteANERegister", &[0x40, 7], 0, "register_stores", 1.into()),
        ("ReadANERegister", &[0x40], 7, "register_stores", 1.into()),
        ("SendCommand", &[0x21], 64, "commands_sent", 1.into()),
        ("FWSharedEventDoorbellRing", &[1], 1, "events", 1.into()),
        ("AddPersistentClient", &[], 1, "persistent_clients", 1.into()),
        ("RemovePersistentClient", &[], 0, "persistent_clients", 0.into()),
        ("MPMMemoryMapRequest", &[20000], 0, "managed_bytes", 20000.into()),
        ("MPMMemoryUnmapRequest", &[0], 0, "managed_bytes", 0.into()),
        ("ExclaveLoad", &[5], 0, "exclave_loaded", 1.into()),
        ("ExclaveEvaluate", &[5], 0, "exclave_evaluated", 1.into()),
        ("ExclaveWritePropertyValue", &[2, 3], 0, "exclave_loaded", 1.into()),
        ("ExclaveReadPropertyValue", &[2], 3, "exclave_loaded", 1.into()),
        ("ExclaveUnload", &[5], 0, "exclave_loaded", 0.into()),
        ("ExclaveCycle", &[], 0, "exclave_cycles", 1.into()),
    ];
    for (name, numbers, answer, row, value) in &effects {
        assert_eq!(d.method(name, numbers), Ok(Answer::Number(*answer)), "{name} {numbers:?}");
        assert_eq!(driver.described()[*row], *value, "{name} {numbers:?}");
    }
    for name in ["GetClientsInfo", "ShowSharedMemoryAllocations", "ShowModelMemoryStatus"] {
        assert!(matches!(d.method(name, &[]), Ok(Answer::Lines(lines)) if !lines.is_empty()), "{name}");
    }
    for name in ["LoadFirmware", "ForgetFirmware"] {
        assert_eq!(d.method(name, &[]), Err(Code::UNSUPPORTED));
    }
    let tested = effects.iter().map(|e| e.0).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(tested.len() + 5, METHODS.len());
    // Bad numbers, and none where some are needed.
    for (name, numbers) in [
        ("SetThrottlingPercentage", &[100][..]),
        ("SetPowerGatingHysteresisTime", &[1]),
        ("SetPowerManagement", &[]),
        ("MPMMemoryMapRequest", &[0]),
        ("WriteANERegister", &[1]),
        ("SendCommand", &[]),
    ] {
        assert_eq!(d.method(name, numbers), Err(Code::BAD_ARGUMENT), "{name}");
    }
    // Throttling costs modelled time.
    let cost = |driver: &Driver| {
        l.client.submit(&l.submit()).expect("runs");
        let before = driver.now_ns();
        l.client.submit(&l.submit()).expect("runs");
        driver.now_ns() - before
    };
    let slow = cost(&driver);
    d.method("SetThrottlingPercentage", &[0]).expect("off");
    assert!(slow > cost(&driver));
}
