//! B: open, handshake, entitlements. The rows about the broker are in `k_broker`.

use crate::nets::*;
use anemone_facts::driver::entitlements::{self as keys, ENTITLEMENTS};
use anemone_runtime::driver::client::{Arguments, Submit};
use anemone_runtime::driver::task::{Grant, Task};
use anemone_runtime::driver::{Config, Driver, Property};
use anemone_runtime::{Code, Error};

use anemone_runtime::os::shared::Shared;
use std::sync::Arc;

fn handshake(usage: u8) -> [u8; 104] {
    let mut input = [0; 104];
    input[0] = usage;
    input[8..16].copy_from_slice(&0x1111_2222_3333_4444u64.to_le_bytes());
    input[16..24].copy_from_slice(&77u64.to_le_bytes());
    input[24..32].copy_from_slice(&10000u64.to_le_bytes());
    input
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn b01_handshake() {
    let (driver, _) = start();
    let client = driver.open(&task(1), 0).expect("open");
    let mut out = [0; 104];
    client.structures(0, &handshake(1), &mut out).expect("usage 1");
    assert_ne!(word(&out, 0), 0);
    assert_eq!([word(&out, 8), word(&out, 16), word(&out, 24)], [0x1111_2222_3333_4444, 77, 10000]);
    assert_eq!(word(&out, 0x48), 32 | 256 << 32);
    assert_eq!((word(&out, 0x50), word(&out, 0x60)), (1, 4));
}

#[test]
fn b02_usage_two() {
    let (driver, _) = start();
    let client = driver.open(&task(1), 0).expect("open");
    assert_eq!(client.structures(0, &handshake(2), &mut [0; 104]), Err(Code(24)));
    assert_eq!(client.structures(7, &[], &mut [0; 32]), Err(Code::NOT_OPEN));
    assert_eq!(client.structures(0, &handshake(3), &mut [0; 104]), Err(Code::BAD_ARGUMENT));
}

#[test]
fn b03_neither_gate_nor_grant() {
    let (driver, _) = start();
    let nobody = Arc::new(Task::new(9, identity("B", "Z"), []));
    assert_eq!(driver.open(&nobody, 0).err(), Some(Code::NOT_PRIVILEGED));
    assert_eq!(driver.open(&nobody, 1).err(), Some(Code::NOT_PRIVILEGED));
    assert_eq!(driver.open(&task(1), 7).err(), Some(Code::UNSUPPORTED));
}

#[test]
fn b04_stamped_at_open() {
    let (driver, _) = start();
    let task = Arc::new(Task::new(1, identity("A", "X"), [keys::USER_ACCESS]));
    let client = control(&driver, &task);
    task.revoke(keys::USER_ACCESS);
    client.structures(7, &[], &mut [0; 32]).expect("checked by what was stamped");
    task.entitle(keys::CHAINING);
    assert_eq!(client.structures(9, &[0; 16], &mut [0; 24]), Err(Code::UNSUPPORTED));
    assert_eq!(driver.open(&task, 0).err(), Some(Code::NOT_PRIVILEGED));
}

#[test]
fn b05_two_holders() {
    let row = ENTITLEMENTS.iter().find(|e| e.key == keys::USER_ACCESS).expect("a row");
    assert_eq!(row.holders, Some(2));
    assert_eq!(anemone_runtime::broker::policy::Policy::default().holders(keys::USER_ACCESS), 2);
}

#[test]
fn b06_at_rest() {
    let (driver, _) = start();
    let at_rest = driver.registry();
    assert!(at_rest.device && at_rest.load_balancer && at_rest.hint_client);
    assert_eq!((at_rest.control, at_rest.direct), (0, 0));
    let client = control(&driver, &task(1));
    assert_eq!(driver.registry().control, 1);
    drop(client);
    assert_eq!(driver.registry(), at_rest);
}

#[test]
fn b07_closed() {
    let (driver, _) = start();
    let client = control(&driver, &task(1));
    client.structures(1, &[], &mut []).expect("close");
    for selector in [0, 7] {
        let (i, o) = if selector == 0 { (104, 104) } else { (0, 32) };
        assert_eq!(client.structures(selector, &vec![1; i], &mut vec![0; o]), Err(Code::CLOSED));
    }
}

#[test]
fn b08_live_properties() {
    let n = Property::Number;
    let values: Vec<Property> = Driver::properties().into_iter().map(|p| p.1).collect();
    assert_eq!(values, [Property::Text("h13g"), n(96), n(17), n(96), n(0), n(16), n(1), n(4), Property::Text("No")]);
}

#[test]
fn b09_chaining_key() {
    let (driver, signer) = start();
    let task = Arc::new(Task::new(1, identity("A", "X"), [keys::USER_ACCESS]));
    let loaded = load(&driver, &signer, &task, ADD_ONE);
    assert_eq!(loaded.client.chain(loaded.created.token), Err(Code::UNSUPPORTED));
    let direct = direct(&driver, &task);
    assert_eq!(direct.structures(8, &[0; 32], &mut []), Err(Code::UNSUPPORTED));
    // One buffer on both ports needs no key.
    let state = loaded.client.add_surface(Arc::new(Shared::new(loaded.memory[0].len() as u64).unwrap())).unwrap();
    loaded.client.submit(&Submit::new(loaded.created.token, &[state], &[state])).expect("aliased");
}

#[test]
fn b10_second_access_check() {
    let (driver, _) = start();
    let task = task(1);
    let plain = direct(&driver, &task);
    for name in ["ReadANERegister", "WriteANERegister", "SendCommand", "ExclaveLoad", "ExclaveCycle"] {
        assert_eq!(plain.method(name, &[]), Err(Code::NOT_PRIVILEGED), "{name}");
    }
    plain.method("IsPowered", &[]).expect("not behind the second check");
}

#[test]
fn b11_exception_with_grant() {
    let (driver, signer) = start();
    let broker = task(1);
    let loaded = load(&driver, &signer, &broker, ADD_ONE);
    let other = loaded.client.create_instance(loaded.created.token, &[]).expect("a second instance");
    let app = Arc::new(Task::new(2, identity("C", "C"), [keys::DIRECT_EXCEPTION]));
    assert_eq!(driver.open(&app, 1).err(), Some(Code::NOT_PRIVILEGED));
    let grant = Grant { token: loaded.created.token, intermediate: loaded.created.intermediate };
    app.set_grant(Some(grant));
    assert_eq!(driver.open(&app, 0).err(), Some(Code::NOT_PRIVILEGED));
    let client = direct(&driver, &app);
    assert_eq!(client.scope(), Some(grant));
    let surface = || client.add_surface(Arc::new(Shared::new(loaded.memory[0].len() as u64).unwrap())).unwrap();
    let (x, y) = (surface(), surface());
    client.submit(&Submit::new(grant.token, &[x], &[y])).expect("the granted program");
    assert_eq!(client.submit(&Submit::new(other.token, &[x], &[y])), Err(Code::NOT_FOUND));
    // Surfaces of others are not reachable either.
    assert_eq!(client.submit(&Submit::new(grant.token, &loaded.inputs, &[y])), Err(Code::NOT_FOUND));
    let a = Arguments { scalars_in: &[], ..Arguments::default() };
    assert_eq!(client.call(5, a), Code::BAD_ARGUMENT);
}

#[test]
fn components_of_different_versions_do_not_start() {
    for other in [1, 2] {
        let mut config = Config::default();
        config.component_versions[other] = "0".into();
        let Err(Error::ComponentVersion { found, expected, .. }) = Driver::start(config) else { panic!("started") };
        assert_eq!((found.as_str(), expected), ("0", Config::default().component_versions[0].clone()));
    }
}
