//! Tables 27.7 and 27.8 under the book's policy: each entitlement alone decides what its row says.

use crate::k_broker::{Daemon, daemon, expected, run, with_keys};
use crate::nets::*;
use anemone_facts::driver::entitlements::{self as keys, ENTITLEMENTS};
use anemone_runtime::broker::client::{Remote, Route};
use anemone_runtime::broker::policy::Policy;
use anemone_runtime::broker::wire::{Answer, Ask};
use anemone_runtime::cache::hex;
use anemone_runtime::driver::client::Submit;
use anemone_runtime::driver::sign::sha256;
use anemone_runtime::driver::task::{Grant, Task};
use anemone_runtime::e5rt::CompileOptions;
use anemone_runtime::os::shared::Shared;
use anemone_runtime::{Code, Error};
use std::sync::Arc;

/// Call that a key gates, to the broker or the driver, by a client that has loaded a program.
type Attempt = fn(&Setting) -> Result<(), Error>;

struct Setting<'a> {
    daemon: &'a Daemon,
    remote: &'a Remote,
    image: &'a str,
    token: u64,
    /// Keys of the caller.
    held: &'a [&'static str],
}

impl Setting<'_> {
    fn ask(&self, ask: &Ask) -> Result<(), Error> {
        self.remote.ask(ask).map(drop)
    }

    fn method(&self, hints: bool, name: &str, numbers: &[u64]) -> Result<(), Error> {
        // Kernel keys are read when a connection is made.
        Remote::connect(&self.daemon.socket(), Route::Broker)?.method(hints, name, numbers).map(drop)
    }

    /// A client of the driver with the caller's keys, beside the one that opens it.
    fn task(&self) -> Arc<Task> {
        let open = [keys::USER_ACCESS].into_iter().chain(self.held.iter().copied());
        Arc::new(Task::new(1, identity("A", "X"), open))
    }

    fn load(&self, power_saving: bool, qos: u32) -> Ask {
        Ask::Load { image: self.image.into(), stats_mask: 0, depth: 1, power_saving, wired: false, qos }
    }

    fn compile(&self, long: bool) -> Ask {
        let path = self.daemon.model(ADD_ONE).display().to_string();
        Ask::Compile { path, options: CompileOptions::default(), long, qos: 21 }
    }
}

fn refused(code: Code) -> Error {
    Error::driver("attempt", code)
}

fn denied<T>(done: Result<T, Code>) -> Result<(), Error> {
    // A gated feature without its key is unsupported, or not found, to who asks.
    match done {
        Err(Code::UNSUPPORTED | Code::NOT_FOUND) => Err(refused(Code::NOT_PRIVILEGED)),
        other => other.map(drop).map_err(refused),
    }
}

const ROWS: &[(&str, Attempt)] = &[
    (keys::CHAINING, |s| {
        let (driver, signer) = start();
        let loaded = load(&driver, &signer, &s.task(), ADD_ONE);
        denied(loaded.client.chain(loaded.created.token))
    }),
    (keys::REALTIME, |s| s.ask(&Ask::Stat { qos: 0 })),
    (keys::RESERVED_PRIORITIES, |s| {
        let (driver, signer) = start();
        let loaded = load(&driver, &signer, &s.task(), ADD_ONE);
        loaded.client.submit(&Submit { priority: 1, ..loaded.submit() }).map(drop).map_err(refused)
    }),
    (keys::MEMORY, |s| s.method(false, "MPMMemoryMapRequest", &[4096])),
    (keys::DATA, |s| {
        let (driver, _) = start();
        let other = direct(&driver, &Arc::new(Task::new(2, identity("B", "Y"), [keys::USER_ACCESS])));
        let surface = other.add_surface(Arc::new(Shared::new(64).unwrap())).unwrap();
        let client = driver.open(&s.task(), 1).map_err(refused)?;
        let session = client.open().map_err(refused)?;
        match crate::g_dart::map(&client, session, surface, 1).0 {
            Code::SUCCESS => Ok(()),
            code => denied::<()>(Err(code)),
        }
    }),
    (keys::SET_HINTS, |s| s.method(true, "setClientHint", &[2, 1])),
    (keys::COALITION_HINTS, |s| s.method(true, "shareCoalitionHint", &[2, 1])),
    (keys::ALLOW, |s| s.ask(&s.load(false, 21))),
    (keys::INFERENCE, |s| s.ask(&Ask::Direct { token: s.token, qos: 21 })),
    (keys::ADAPTER_WEIGHT, |s| s.ask(&Ask::Adapt { base: s.token, pieces: vec![], qos: 21 })),
    (keys::MODEL_SHARE, |s| s.ask(&Ask::Share { token: s.token, qos: 21 })),
    (keys::LONG_COMPILE, |s| s.ask(&s.compile(true))),
    (keys::POWER_SAVING, |s| s.ask(&s.load(true, 21))),
    (keys::PURGE_ALL, |s| s.ask(&Ask::Purge { key: None, qos: 21 })),
    (keys::DIRECT_EXCEPTION, |s| s.ask(&Ask::Direct { token: s.token, qos: 21 })),
    (keys::TRUST_SLOT, |s| s.ask(&s.load(false, 33))),
];

#[test]
fn every_row_gates_what_it_says() {
    let all: Vec<&'static str> = ENTITLEMENTS.iter().map(|e| e.key).filter(|key| *key != keys::USER_ACCESS).collect();
    let tested: Vec<&str> = ROWS.iter().map(|row| row.0).collect();
    let missing: Vec<&&str> = all.iter().filter(|key| !tested.contains(key)).collect();
    assert!(missing.is_empty(), "no row tests {missing:?}");
    let book = |keys: &[&'static str]| Policy { book: true, ..with_keys(keys) };
    let d = daemon(book(&all));
    let library = d.runtime(Route::Broker).compile(&d.model(ADD_ONE), &CompileOptions::default()).expect("compiles");
    let image = hex(&sha256(&library.bundle().images[0]));
    for (key, attempt) in ROWS {
        let without: Vec<&'static str> = all.iter().filter(|k| *k != key).copied().collect();
        for (held, may) in [(&without, false), (&all, true)] {
            d.broker.set_policy(book(&all));
            let remote = Remote::connect(&d.socket(), Route::Broker).expect("connects");
            let setting = Setting { daemon: &d, remote: &remote, image: &image, token: 0, held };
            let loaded = remote.ask(&setting.load(false, 21)).expect("loads");
            let Answer::Loaded { token, .. } = loaded else { panic!("{loaded:?}") };
            d.broker.set_policy(book(held));
            let done = attempt(&Setting { token, ..setting });
            match done {
                Ok(()) => assert!(may, "{key}: done without it"),
                Err(error) => {
                    assert!(!may, "{key}: refused with it: {error}");
                    assert_eq!(error.code(), Code::NOT_PRIVILEGED, "{key}: {error}");
                }
            }
        }
    }
}

#[test]
fn the_open_gate_is_the_brokers_own() {
    let (driver, _) = start();
    let others = ENTITLEMENTS.iter().map(|e| e.key).filter(|key| *key != keys::USER_ACCESS);
    let task = Arc::new(Task::new(1, identity("A", "X"), others));
    for kind in [0, 1] {
        assert_eq!(driver.open(&task, kind).err(), Some(Code::NOT_PRIVILEGED), "type {kind}");
    }
    task.set_grant(Some(Grant { token: 1, intermediate: 1 }));
    driver.open(&task, 1).expect("the direct path alone, with a broker's grant");
    assert_eq!(driver.open(&task, 0).err(), Some(Code::NOT_PRIVILEGED));
    let text = format!("[[identity]]\ndigest = \"{}\"\nentitlements = [\"{}\"]", "0".repeat(64), keys::USER_ACCESS);
    assert!(Policy::parse(&text).is_err(), "no policy gives it");
}

#[test]
fn the_second_check_is_a_property_of_the_policy() {
    let policy = |privileged| {
        let mut policy = with_keys(&[]);
        policy.identity[0].privileged = privileged;
        policy
    };
    let d = daemon(policy(false));
    let stores = |d: &Daemon| d.broker.stat()["register_stores"].clone();
    let store = |d: &Daemon| Remote::connect(&d.socket(), Route::Broker)?.method(false, "WriteANERegister", &[0x40, 7]);
    assert_eq!(store(&d).expect_err("no property").code(), Code::NOT_PRIVILEGED);
    assert_eq!(stores(&d), 0);
    d.broker.set_policy(policy(true));
    store(&d).expect("with it");
    assert_eq!(stores(&d), 1);
}

#[test]
fn states_are_chained_through_the_broker() {
    let d = daemon(Policy::default());
    let text = ADD_ONE;
    let chained = |policy: Policy, route| {
        d.broker.set_policy(policy);
        let before = d.broker.stat()["chained"].as_u64().expect("a count");
        let runtime = d.runtime(route);
        let library = runtime.compile(&d.model(text), &CompileOptions::default()).expect("compiles");
        let operation = library.function("main").unwrap().operation().expect("loads");
        let state = runtime.buffer(64).unwrap();
        operation.port("x", false).unwrap().bind(&state).unwrap();
        operation.port("y", true).unwrap().bind(&state).unwrap();
        let stream = anemone_runtime::e5rt::Stream::new(&runtime);
        stream.encode(&operation).unwrap();
        (0..4).for_each(|_| stream.execute().expect("runs"));
        assert_eq!(state.shared().to_vec(), expected(4)[3], "{route:?}");
        d.broker.stat()["chained"].as_u64().expect("a count") - before
    };
    for route in [Route::Broker, Route::Direct] {
        assert_eq!(chained(Policy::default(), route), 4, "{route:?}");
    }
    let book = [keys::ALLOW, keys::INFERENCE, keys::DIRECT_EXCEPTION];
    let with = |more: &[&'static str]| Policy { book: true, ..with_keys(&[&book[..], more].concat()) };
    assert_eq!(chained(with(&[]), Route::Broker), 0, "the plain way without the key");
    assert_eq!(chained(with(&[keys::CHAINING]), Route::Direct), 4);
}

#[test]
fn power_saving_and_wiring_show() {
    let d = daemon(with_keys(&[keys::POWER_SAVING]));
    assert_eq!(run(&d, &d.runtime(Route::Broker), 2), expected(2));
    let stat = d.broker.stat();
    assert_eq!((&stat["unwired"], &stat["power_changes"]), (&0.into(), &1.into()), "{stat}");
    // The end of a connection is seen a little later; its instance would still be attached to.
    let alone = || {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while d.broker.stat()["programs"] != 0 {
            assert!(std::time::Instant::now() < until, "the program stays");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    let saving = |wired| {
        alone();
        let load = anemone_runtime::broker::client::Loading { power_saving: true, wired, ..Default::default() };
        let device = Arc::new(Remote::connect(&d.socket(), Route::Broker).expect("connects").with_loading(load));
        let runtime = Arc::new(anemone_runtime::e5rt::Runtime::new(device.clone(), device, None));
        assert_eq!(run(&d, &runtime, 2), expected(2));
        let stat = d.broker.stat();
        (stat["unwired"].as_u64().expect("a count"), stat["power"].clone())
    };
    assert_eq!(saving(true), (0, "AllOff".into()), "it stays in memory");
    assert_eq!(saving(false), (2, "AllOff".into()), "given back after each of two requests");
}
