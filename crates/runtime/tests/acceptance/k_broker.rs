//! The broker: tiers, keys, both routes, refusals, faults, load.

use crate::nets::*;
use anemone_facts::driver::entitlements as keys;
use anemone_runtime::broker::client::{Remote, Route};
use anemone_runtime::broker::policy::{Known, Policy, Tier};
use anemone_runtime::broker::wire::{Answer, Ask, kind};
use anemone_runtime::broker::{Broker, Listening};
use anemone_runtime::cache::{Cache, hex};
use anemone_runtime::driver::sign::sha256;
use anemone_runtime::e5rt::{CompileOptions, Compiler, Runtime, Stream};
use anemone_runtime::os::shared::Shared;
use anemone_runtime::os::socket;
use anemone_runtime::{Code, Error};
use half::f16;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub struct Daemon {
    folder: tempfile::TempDir,
    pub broker: Arc<Broker>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Daemon {
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("aned.sock")
    }

    pub fn runtime(&self, route: Route) -> Arc<Runtime> {
        let device = Arc::new(Remote::connect(&self.socket(), route).expect("connects"));
        Arc::new(Runtime::new(device.clone(), device, None))
    }

    pub fn model(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("m.net");
        std::fs::write(&path, text).expect("written");
        path
    }

    pub fn ask(&self, ask: &Ask) -> Result<Answer, Error> {
        Remote::connect(&self.socket(), Route::Broker).expect("connects").ask(ask)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let _ = self.thread.take().map(|t| t.join());
    }
}

pub fn daemon(policy: Policy) -> Daemon {
    daemon_with(policy, Arc::new(TextCompiler))
}

fn daemon_with(policy: Policy, compiler: Arc<dyn Compiler>) -> Daemon {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::new(&folder.path().join("cache"), 1 << 30);
    let broker = Broker::new(policy, compiler, Some(cache)).expect("a broker");
    let listening = Listening::bind(&folder.path().join("aned.sock")).expect("listens");
    let stop = Arc::new(AtomicBool::new(false));
    let (served, stopped) = (broker.clone(), stop.clone());
    let thread = Some(std::thread::spawn(move || listening.serve(&served, &stopped).expect("serves")));
    Daemon { folder, broker, stop, thread }
}

fn own_digest() -> String {
    socket::digest_of("/proc/self/exe").expect("the digest of this test")
}

pub fn with_keys(entitlements: &[&str]) -> Policy {
    let entitlements = entitlements.iter().map(|k| k.to_string()).collect();
    Policy {
        identity: vec![Known { digest: own_digest(), team: "A".into(), entitlements, privileged: false }],
        ..Policy::default()
    }
}

pub fn run(daemon: &Daemon, runtime: &Arc<Runtime>, times: usize) -> Vec<Vec<u8>> {
    let library = runtime.compile(&daemon.model(ADD_ONE), &CompileOptions::default()).expect("compiles");
    let op = library.function("main").unwrap().operation().expect("loads");
    let (x, y) = (runtime.buffer(64).unwrap(), runtime.buffer(64).unwrap());
    op.port("x", false).unwrap().bind(&x).unwrap();
    op.port("y", true).unwrap().bind(&y).unwrap();
    let stream = Stream::new(runtime);
    stream.encode(&op).unwrap();
    (0..times)
        .map(|i| {
            x.shared().write(&f16::from_f32(i as f32).to_le_bytes().repeat(32));
            stream.execute().expect("dispatch");
            y.shared().to_vec()
        })
        .collect()
}

pub fn expected(times: usize) -> Vec<Vec<u8>> {
    (0..times).map(|i| f16::from_f32(i as f32 + 1.0).to_le_bytes().repeat(32)).collect()
}

#[test]
fn b12_unentitled() {
    let d = daemon(Policy::default());
    for route in [Route::Broker, Route::Direct] {
        assert_eq!(run(&d, &d.runtime(route), 5), expected(5), "{route:?}");
    }
    let closed = daemon(Policy { default_tier: Tier::None, ..Policy::default() });
    assert!(closed.ask(&Ask::Stat { qos: 21 }).is_err_and(|e| e.code() == Code::NOT_PRIVILEGED));
}

#[test]
fn one_identity_has_one_copy() {
    let d = daemon(Policy::default());
    let model = d.model(ADD_ONE);
    let loaded: Vec<_> = (0..4)
        .map(|_| {
            let library = d.runtime(Route::Broker).compile(&model, &CompileOptions::default()).expect("compiles");
            library.function("main").unwrap().operation().expect("loads")
        })
        .collect();
    let stat = d.broker.stat();
    assert_eq!((&stat["programs"], &stat["instances"], &stat["attached"]), (&1.into(), &4.into(), &3.into()), "{stat}");
    // Another identity has a copy of its own.
    d.broker.set_policy(with_keys(&[]));
    assert_eq!(run(&d, &d.runtime(Route::Broker), 3), expected(3));
    let other = d.runtime(Route::Broker).compile(&model, &CompileOptions::default()).expect("compiles");
    let _kept = other.function("main").unwrap().operation().expect("loads");
    assert_eq!(d.broker.stat()["programs"], 2);
    drop(loaded);
}

#[test]
fn the_book_has_a_key_for_every_method() {
    let book = |keys: &[&str]| Policy { book: true, ..with_keys(keys) };
    let d = daemon(book(&[keys::ALLOW, keys::INFERENCE, keys::DIRECT_EXCEPTION]));
    assert_eq!(run(&d, &d.runtime(Route::Direct), 3), expected(3), "with all three");
    let refused = |d: &Daemon, route| {
        let library = d.runtime(route).compile(&d.model(ADD_ONE), &CompileOptions::default());
        let loaded = library.and_then(|l| l.function("main")).and_then(|f| f.operation()).map(drop);
        loaded.expect_err("a key is missing").to_string()
    };
    d.broker.set_policy(book(&[keys::ALLOW]));
    assert_eq!(
        run(&d, &d.runtime(Route::Broker), 3),
        expected(3),
        "the baseline is enough for the broker's own connection"
    );
    d.broker.set_policy(book(&[keys::ALLOW, keys::INFERENCE]));
    assert!(refused(&d, Route::Direct).contains(keys::DIRECT_EXCEPTION));
    d.broker.set_policy(book(&[keys::ALLOW, keys::DIRECT_EXCEPTION]));
    assert!(refused(&d, Route::Direct).contains(keys::INFERENCE));
    d.broker.set_policy(book(&[keys::INFERENCE]));
    assert!(refused(&d, Route::Broker).contains(keys::ALLOW));
    for (method, key) in anemone_runtime::broker::policy::BOOK {
        assert!(keys::ENTITLEMENTS.iter().any(|e| e.key == *key && !e.kernel), "{method}");
    }
    d.broker.set_policy(Policy::default());
    assert_eq!(run(&d, &d.runtime(Route::Direct), 3), expected(3), "the default asks for none");
}

#[test]
fn several_engines_share_the_programs() {
    for (engines, wanted) in [(2, vec![2, 1]), (4, vec![1, 1, 1, 0])] {
        let config = anemone_runtime::driver::Config { engines, ..Default::default() };
        let device = anemone_runtime::e5rt::device::InProcess::configured(config).expect("a driver");
        let device = Arc::new(device);
        let runtime = Arc::new(Runtime::new(device.clone(), Arc::new(TextCompiler), None));
        let folder = tempfile::tempdir().expect("a folder");
        let model = folder.path().join("m.net");
        std::fs::write(&model, ADD_ONE).expect("written");
        let operation = |_| {
            let library = runtime.compile(&model, &CompileOptions::default()).expect("compiles");
            library.function("main").unwrap().operation().expect("loads")
        };
        let _kept: Vec<_> = (0..3).map(operation).collect();
        assert_eq!(device.driver().resident(), wanted);
    }
    let config = anemone_runtime::driver::Config { engines: 5, ..Default::default() };
    assert!(anemone_runtime::e5rt::device::InProcess::configured(config).is_err(), "four at most");
}

#[test]
fn b13_one_key_each() {
    let d = daemon(Policy::default());
    let runtime = d.runtime(Route::Broker);
    let model = d.model(ADD_ONE);
    let bundle = runtime.compile(&model, &CompileOptions::default()).expect("compiles").bundle().clone();
    let image = hex(&sha256(&bundle.images[0]));
    let holder = Remote::connect(&d.socket(), Route::Broker).expect("connects");
    let load = |power_saving| Ask::Load {
        image: image.clone(),
        stats_mask: 0,
        depth: 500,
        power_saving,
        wired: false,
        qos: 21,
    };
    let Answer::Loaded { token, depth, .. } = holder.ask(&load(false)).expect("loads") else { panic!("loaded") };
    assert!((1..=127).contains(&depth));
    let (path, options) = (model.display().to_string(), CompileOptions::default());
    let asks = [
        (Ask::Adapt { base: token, pieces: vec![], qos: 21 }, keys::ADAPTER_WEIGHT),
        (Ask::Share { token, qos: 21 }, keys::MODEL_SHARE),
        (load(true), keys::POWER_SAVING),
        (Ask::Purge { key: None, qos: 21 }, keys::PURGE_ALL),
        (Ask::Compile { path, options, long: true, qos: 21 }, keys::LONG_COMPILE),
    ];
    // The key alone decides: the identity is the same with and without it.
    let all: Vec<&str> = asks.iter().map(|a| a.1).collect();
    d.broker.set_policy(with_keys(&[]));
    let owner = Remote::connect(&d.socket(), Route::Broker).expect("connects");
    let Answer::Loaded { token: owned, .. } = owner.ask(&load(false)).expect("loads") else { panic!("loaded") };
    for (mut ask, key) in asks {
        if let Ask::Adapt { base, .. } = &mut ask {
            *base = owned;
        }
        if let Ask::Share { token, .. } = &mut ask {
            *token = owned;
        }
        d.broker.set_policy(with_keys(&all.iter().filter(|k| **k != key).copied().collect::<Vec<_>>()));
        assert_eq!(d.ask(&ask).expect_err(key).code(), Code::NOT_PRIVILEGED, "{key}");
        d.broker.set_policy(with_keys(&[key]));
        d.ask(&ask).unwrap_or_else(|e| panic!("{key}: {e}"));
    }
}

#[test]
fn real_time_needs_its_key_on_every_method() {
    let d = daemon(Policy::default());
    let (model, qos) = (d.model(ADD_ONE).display().to_string(), 0);
    let options = CompileOptions::default();
    let asks = [
        Ask::Content { path: model.clone(), qos },
        Ask::Compile { path: model, options, long: false, qos },
        Ask::Load { image: "00".repeat(32), stats_mask: 0, depth: 1, power_saving: false, wired: false, qos },
        Ask::Share { token: 1, qos },
        Ask::Adapt { base: 1, pieces: vec![], qos },
        Ask::Direct { token: 1, qos },
        Ask::Unload { token: 1, qos },
        Ask::Purge { key: None, qos },
        Ask::Stat { qos },
    ];
    let others = [keys::ALLOW, keys::ADAPTER_WEIGHT, keys::MODEL_SHARE, keys::PURGE_ALL];
    d.broker.set_policy(with_keys(&others));
    for ask in &asks {
        let refused = d.ask(ask).expect_err(ask.method());
        assert_eq!(refused.code(), Code::NOT_PRIVILEGED, "{}: {refused}", ask.method());
    }
    assert_eq!((d.broker.driver().loaded(), d.broker.stat()["compiles"].as_u64()), ((0, 0), Some(0)));
    d.broker.set_policy(with_keys(&[&others[..], &[keys::REALTIME]].concat()));
    for ask in &asks {
        if let Err(refused) = d.ask(ask) {
            assert_eq!(refused.code(), Code::NOT_FOUND, "{}: {refused}", ask.method());
        }
    }
    assert_eq!(d.broker.stat()["compiles"], 1);
}

/// Compiler that reports each model, and blocks until it is released.
struct Held {
    begun: std::sync::mpsc::Sender<String>,
    go_on: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
}

impl Compiler for Held {
    fn content(&self, model: &std::path::Path) -> Result<[u8; 32], String> {
        TextCompiler.content(model)
    }

    fn compile(
        &self,
        model: &std::path::Path,
        options: &CompileOptions,
    ) -> Result<anemone_runtime::cache::Bundle, String> {
        let name = model.file_stem().map(|n| n.to_string_lossy().into_owned());
        self.begun.send(name.unwrap_or_default()).expect("somebody listens");
        self.go_on.lock().expect("one at a time").recv().expect("let go on");
        TextCompiler.compile(model, options)
    }
}

#[test]
fn urgent_compiles_go_first() {
    let ((begun, began), (release, go_on)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let d = daemon_with(Policy::default(), Arc::new(Held { begun, go_on: go_on.into() }));
    let compile = |name: &str, qos| {
        let path = d.folder.path().join(format!("{name}.net"));
        // Another constant each, so that no one has the other's program.
        std::fs::write(&path, ADD_ONE.replace("[1.0]", &format!("[{qos}.0]"))).expect("written");
        let ask = Ask::Compile { path: path.display().to_string(), options: Default::default(), long: false, qos };
        let broker = Remote::connect(&d.socket(), Route::Broker).expect("connects");
        move || drop(broker.ask(&ask).expect("compiles"))
    };
    let waiting = |n: u64| {
        let until = Instant::now() + Duration::from_secs(10);
        while d.broker.stat()["compiles_waiting"] != n {
            assert!(Instant::now() < until, "nobody waits");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(compile("first", 21));
        assert_eq!(began.recv().expect("begins"), "first");
        for (i, (name, qos)) in [("background", 9), ("utility", 17), ("interactive", 33)].into_iter().enumerate() {
            scope.spawn(compile(name, qos));
            waiting(i as u64 + 1);
        }
        (0..4).for_each(|_| release.send(()).expect("it waits"));
    });
    assert_eq!(began.try_iter().collect::<Vec<_>>(), ["interactive", "utility", "background"]);
}

#[test]
fn i07_third_party_mask() {
    let d = daemon(Policy::default());
    let runtime = d.runtime(Route::Broker);
    let bundle = runtime.compile(&d.model(ADD_ONE), &CompileOptions::default()).expect("compiles").bundle().clone();
    let load = Ask::Load {
        image: hex(&sha256(&bundle.images[0])),
        stats_mask: 0xf,
        depth: 1,
        power_saving: false,
        wired: false,
        qos: 21,
    };
    let Answer::Loaded { stats_mask, .. } = d.ask(&load).expect("loads") else { panic!("loaded") };
    assert_eq!(stats_mask, 0);
    d.broker.set_policy(with_keys(&[keys::ALLOW]));
    assert_eq!(d.ask(&load).expect_err("no statistics section").code(), Code::UNSUPPORTED);
}

#[test]
fn d07_per_inference_submits_skip_the_broker() {
    let d = daemon(Policy::default());
    run(&d, &d.runtime(Route::Direct), 3);
    let calls = d.broker.driver().counters().calls;
    assert_eq!((calls.get(&(true, 2)), calls.get(&(false, 2))), (None, Some(&3)));
    assert_eq!((calls.get(&(true, 3)), calls.get(&(false, 3))), (Some(&1), None));
}

#[test]
fn refusals_change_nothing() {
    let d = daemon(Policy::default());
    let runtime = d.runtime(Route::Broker);
    let bundle = runtime.compile(&d.model(ADD_ONE), &CompileOptions::default()).expect("compiles").bundle().clone();
    let image = hex(&sha256(&bundle.images[0]));
    // A program that the broker did not compile, a token of another connection, an unknown key.
    let own = Ask::Load { image: "00".repeat(32), stats_mask: 0, depth: 1, power_saving: false, wired: false, qos: 21 };
    assert_eq!(d.ask(&own).expect_err("unknown").code(), Code::NOT_FOUND);
    let holder = Remote::connect(&d.socket(), Route::Broker).expect("connects");
    let load = Ask::Load { image, stats_mask: 0, depth: 1, power_saving: false, wired: false, qos: 21 };
    let Answer::Loaded { token, .. } = holder.ask(&load).expect("loads") else { panic!("loaded") };
    for ask in [Ask::Direct { token, qos: 21 }, Ask::Unload { token, qos: 21 }] {
        assert_eq!(d.ask(&ask).expect_err("foreign").code(), Code::NOT_FOUND);
    }
    let raw = || UnixStream::connect(d.socket()).expect("connects");
    // Wrong sizes and foreign surfaces are answered with codes.
    let line = raw();
    for body in [vec![], vec![0; 8], vec![0; 8 + 2375], vec![0; 8 + 2376]] {
        socket::send(&line, kind::SUBMIT, &body, &[]).expect("sent");
        let reply = socket::receive(&line, 1 << 16).expect("answered").expect("a message");
        let code = u32::from_le_bytes(reply.body[..4].try_into().unwrap());
        assert!(
            [Code::BAD_ARGUMENT.0, Code::NOT_FOUND.0].contains(&code) || code == Code::NOT_PRIVILEGED.0,
            "{code:x}"
        );
    }
    let memory = Shared::new(64).unwrap();
    let passed = memory.descriptor().expect("a memfd");
    socket::send(&line, kind::SURFACE, &(1u64 << 20).to_le_bytes(), &[passed]).expect("sent");
    let reply = socket::receive(&line, 1 << 16).expect("answered").expect("a message");
    assert_ne!(reply.body[..4], [0; 4], "larger than the memory that was passed");
    // Oversized, nonsense, half a message: the connection ends, the broker does not.
    let mut big = raw();
    big.write_all(&[1, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f]).expect("sent");
    assert!(matches!(socket::receive(&big, 1 << 16), Ok(None) | Err(_)));
    let nonsense = raw();
    socket::send(&nonsense, kind::ASK, b"{\"method\":\"fly\"}", &[]).expect("sent");
    assert_eq!(socket::receive(&nonsense, 1 << 16).expect("answered").expect("a message").kind, kind::REFUSAL);
    socket::send(&nonsense, 99, b"", &[]).expect("sent");
    assert!(matches!(socket::receive(&nonsense, 1 << 16), Ok(None) | Err(_)));
    let mut slow = raw();
    slow.write_all(&[1, 0]).expect("sent");
    let begin = Instant::now();
    assert!(matches!(socket::receive(&slow, 1 << 16), Ok(None) | Err(_)), "cut off");
    assert!(begin.elapsed() < Duration::from_secs(8));
    assert_eq!(run(&d, &runtime, 2), expected(2));
}

#[test]
fn a_claimed_identity_gives_nothing() {
    // Somebody else's executable may purge; who a peer is, the kernel says.
    let digest = "ab".repeat(32);
    let entitlements = vec![keys::PURGE_ALL.into()];
    let known = Known { digest: digest.clone(), team: "A".into(), entitlements, privileged: false };
    let d = daemon(Policy { identity: vec![known], ..Policy::default() });
    assert_eq!(d.ask(&Ask::Purge { key: None, qos: 21 }).expect_err("another digest").code(), Code::NOT_PRIVILEGED);
    let line = UnixStream::connect(d.socket()).expect("connects");
    for claim in ["digest", "team"] {
        let body = format!("{{\"method\":\"purge\",\"key\":null,\"qos\":21,\"{claim}\":\"{digest}\"}}");
        socket::send(&line, kind::ASK, body.as_bytes(), &[]).expect("sent");
        assert_eq!(socket::receive(&line, 1 << 16).expect("answered").expect("a message").kind, kind::REFUSAL);
    }
    assert_eq!(run(&d, &d.runtime(Route::Broker), 2), expected(2));
}

#[test]
fn a_second_broker_and_a_stale_socket() {
    let d = daemon(Policy::default());
    assert!(matches!(Listening::bind(&d.socket()), Err(Error::Taken { .. })));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket that nobody serves"));
    assert!(path.exists());
    drop(Listening::bind(&path).expect("taken over"));
    let long = folder.path().join("s".repeat(120));
    let refused = Listening::bind(&long).expect_err("too long").to_string();
    assert!(refused.contains("at most 107 bytes") && refused.contains("shorter"), "{refused}");
    let refused = Remote::connect(&long, Route::Broker).err().expect("too long").to_string();
    assert!(refused.contains("at most 107 bytes"), "{refused}");
}

#[test]
fn policies() {
    let text =
        format!("[[identity]]\ndigest = \"{}\"\nteam = \"T\"\nentitlements = [\"{}\"]\n", "ab".repeat(32), keys::ALLOW);
    let policy = Policy::parse(&text).expect("reads");
    assert_eq!(policy.known(&"ab".repeat(32)).map(|k| k.team.as_str()), Some("T"));
    for bad in [
        "x = 1",
        "default_tier = \"root\"",
        &text.replace(keys::ALLOW, "com.apple.nothing"),
        &text.replace(keys::ALLOW, keys::USER_ACCESS),
    ] {
        assert!(Policy::parse(bad).is_err(), "{bad}");
    }
}

/// `ANE_LOAD=CLIENTS,DISPATCHES` makes it longer.
#[test]
fn load() {
    let set = std::env::var("ANE_LOAD").ok();
    let (clients, times) = set
        .as_deref()
        .and_then(|s| s.split_once(','))
        .and_then(|(c, t)| Some((c.parse().ok()?, t.parse().ok()?)))
        .unwrap_or((16, 100));
    let d = daemon(Policy::default());
    run(&d, &d.runtime(Route::Broker), 1);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for i in 0..clients {
            let d = &d;
            scope.spawn(move || {
                let route = if i % 2 == 0 { Route::Broker } else { Route::Direct };
                let runtime = d.runtime(route);
                let library = runtime.compile(&d.folder.path().join("m.net"), &CompileOptions::default()).expect("hit");
                let op = library.function("main").unwrap().operation().expect("loads");
                let (x, y) = (runtime.buffer(64).unwrap(), runtime.buffer(64).unwrap());
                op.port("x", false).unwrap().bind(&x).unwrap();
                op.port("y", true).unwrap().bind(&y).unwrap();
                let stream = Stream::new(&runtime);
                stream.encode(&op).unwrap();
                for step in 0..times {
                    let value = (step % 1000) as f32;
                    x.shared().write(&f16::from_f32(value).to_le_bytes().repeat(32));
                    stream.execute().expect("dispatch");
                    assert_eq!(y.shared().to_vec(), f16::from_f32(value + 1.0).to_le_bytes().repeat(32));
                }
            });
        }
    });
    let all = (clients * times) as f64;
    println!(
        "{clients} clients, {times} dispatches each: {:.1} us a dispatch",
        begin.elapsed().as_micros() as f64 / all
    );
    // Connections end, and everything of theirs with them.
    let until = Instant::now() + Duration::from_secs(5);
    while (d.broker.clients() > 0 || d.broker.driver().registry().direct > 0) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!((d.broker.clients(), d.broker.driver().registry().direct), (0, 0));
    assert_eq!(d.broker.driver().loaded(), (0, 0));
}
