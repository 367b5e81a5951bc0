//! E: scheduling. Streams are in `j_e5rt`.

use crate::nets::*;
use anemone_facts::driver::entitlements as keys;
use anemone_runtime::Code;
use anemone_runtime::clock::{Lane, Timeline};
use anemone_runtime::driver::client::Submit;
use anemone_runtime::driver::task::Task;
use anemone_runtime::driver::{InjectedFault, WakePort, priority_of};
use anemone_runtime::firmware::call::queue_base;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn e01_one_in_flight() {
    let (driver, signer) = start();
    std::thread::scope(|scope| {
        for pid in 1..=4 {
            let (driver, signer) = (&driver, &signer);
            scope.spawn(move || {
                let l = load(driver, signer, &task(pid), ADD_ONE);
                for i in 0..50 {
                    l.fill(0, i as f32);
                    l.client.submit(&l.submit()).expect("submit");
                    assert_eq!(l.first(1), i as f32 + 1.0);
                }
            });
        }
    });
    let counters = driver.counters();
    assert_eq!((counters.completed, counters.most_posted), (200, 1));
}

#[test]
fn e02_two_threads_gain_little() {
    let run = |lanes: usize| {
        let mut timeline = Timeline::default();
        let mut all: Vec<Lane> = (0..lanes).map(|id| Lane { id: id as u64, now_ns: 0 }).collect();
        for _ in 0..1000 {
            for lane in &mut all {
                timeline.dispatch(lane, None);
            }
        }
        1000.0 * lanes as f64 / timeline.free_ns() as f64
    };
    let gain = run(2) / run(1);
    assert!((1.00..=1.08).contains(&gain), "{gain}");
    assert!((gain - 1.04).abs() < 0.005, "{gain}");
}

#[test]
fn e03_preemption_restarts() {
    let (driver, signer) = start();
    let low = load(&driver, &signer, &task(1), ADD_ONE);
    let urgent = load(&driver, &signer, &task(2), ADD_ONE);
    let (entered, entries) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let (gone, first, runs) = (Mutex::new(gone), AtomicBool::new(true), Arc::new(AtomicU32::new(0)));
    let (token, counted) = (low.created.token, runs.clone());
    driver.set_hook(Some(Arc::new(move |t| {
        if t == token {
            counted.fetch_add(1, SeqCst);
            if first.swap(false, SeqCst) {
                let _ = entered.send(());
                let _ = gone.lock().unwrap().recv_timeout(Duration::from_secs(10));
            }
        }
    })));
    // State aliased: one surface is input and output.
    let state = low.inputs[0];
    low.fill(0, 1.0);
    urgent.fill(0, 10.0);
    std::thread::scope(|scope| {
        let low = &low;
        let slow =
            scope.spawn(move || low.client.submit(&Submit { priority: 6, ..Submit::new(token, &[state], &[state]) }));
        entries.recv_timeout(Duration::from_secs(10)).expect("the low one executes");
        urgent.client.submit(&Submit { priority: 3, ..urgent.submit() }).expect("goes before it");
        assert_eq!((urgent.first(1), low.first(0)), (11.0, 1.0), "nothing of the low one is published");
        go.send(()).expect("still waiting");
        slow.join().expect("no panic").expect("completes");
    });
    assert_eq!(low.first(0), 2.0, "the state went on exactly once");
    assert_eq!(runs.load(SeqCst), 2, "it started again");
    let counters = driver.counters();
    assert_eq!((counters.preempted, counters.most_posted), (1, 2));
}

#[test]
fn e04_priorities() {
    let (driver, signer) = start();
    let plain = Arc::new(Task::new(1, identity("A", "X"), [keys::USER_ACCESS]));
    let l = load(&driver, &signer, &plain, ADD_ONE);
    for priority in [8, u32::MAX] {
        assert_eq!(l.client.submit(&Submit { priority, ..l.submit() }), Err(Code::BAD_ARGUMENT));
    }
    for priority in [0, 1] {
        assert_eq!(l.client.submit(&Submit { priority, ..l.submit() }), Err(Code::NOT_PRIVILEGED));
    }
    plain.entitle(keys::RESERVED_PRIORITIES);
    let again = load(&driver, &signer, &plain, ADD_ONE);
    for priority in 0..8 {
        again.client.submit(&Submit { priority, ..again.submit() }).expect("allowed");
    }
}

#[test]
fn e05_qos() {
    assert_eq!(priority_of(21), 5);
    assert_eq!([33, 25, 17, 9, 1000].map(priority_of), [3, 4, 6, 7, 5]);
}

#[test]
fn e06_queues() {
    assert!([0, 256].iter().all(|&nid| queue_base(0, nid).is_err()));
    assert!([1, 255].iter().all(|&nid| queue_base(0, nid).is_ok()));
    assert_eq!(queue_base(7, 1), Ok(7 * 0x148));
    assert!(queue_base(8, 1).is_err());
}

#[test]
fn e07_a_queue_that_never_idles() {
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), ADD_ONE);
    let before = driver.now_ns();
    driver.trouble(InjectedFault::QueueStuck);
    assert_eq!(l.client.submit(&l.submit()), Err(Code::ABORTED));
    assert!(driver.now_ns() - before >= 2_000_000_000);
    assert_eq!(driver.with_firmware(|f| f.restarts), 0);
    driver.trouble(InjectedFault::AbortStuck);
    assert_eq!(l.client.submit(&l.submit()), Err(Code::ABORTED));
    assert!(driver.now_ns() - before >= 6_000_000_000);
    assert_eq!(driver.with_firmware(|f| f.restarts), 1);
    l.client.submit(&l.submit()).expect("usable");
}

#[test]
fn e08_outstanding() {
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), ADD_ONE);
    driver.trouble(InjectedFault::Withheld);
    let (port, messages) = WakePort::new();
    for i in 0..127 {
        l.client.submit_async(&l.submit(), port.clone()).unwrap_or_else(|e| panic!("{i}: {e}"));
    }
    assert_eq!(l.client.submit_async(&l.submit(), port.clone()), Err(Code::NO_RESOURCES));
    assert_eq!(driver.pending(), 127);
    for _ in 0..1000 {
        if driver.counters().doorbells == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    l.client.cancel_all();
    let codes: Vec<Code> =
        (0..127).map(|_| messages.recv_timeout(Duration::from_secs(10)).expect("answered").code).collect();
    assert!(codes.iter().all(|&c| c == Code::ABORTED));
    l.client.submit(&l.submit()).expect("space again");
}

/// Holds the first execution until released; returns the instances' tokens in the order of execution.
fn held(driver: &anemone_runtime::driver::Driver) -> (mpsc::Receiver<()>, mpsc::Sender<()>, Arc<Mutex<Vec<u64>>>) {
    let ((entered, entries), (go, gone)) = (mpsc::channel(), mpsc::channel::<()>());
    let (gone, first, order) = (Mutex::new(gone), AtomicBool::new(true), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&order);
    driver.set_hook(Some(Arc::new(move |token| {
        seen.lock().unwrap().push(token);
        if first.swap(false, SeqCst) {
            let _ = entered.send(());
            let _ = gone.lock().unwrap().recv_timeout(Duration::from_secs(10));
        }
    })));
    (entries, go, order)
}

#[test]
fn e09_turns_within_a_priority() {
    let (driver, signer) = start();
    let (many, few) = (load(&driver, &signer, &task(1), ADD_ONE), load(&driver, &signer, &task(2), ADD_ONE));
    let (entries, go, order) = held(&driver);
    let (port, messages) = WakePort::new();
    for _ in 0..40 {
        many.client.submit_async(&many.submit(), port.clone()).expect("space");
    }
    entries.recv_timeout(Duration::from_secs(10)).expect("the first executes");
    for _ in 0..3 {
        few.client.submit_async(&few.submit(), port.clone()).expect("space");
    }
    go.send(()).expect("still waiting");
    for _ in 0..43 {
        assert_eq!(messages.recv_timeout(Duration::from_secs(10)).expect("answered").code, Code::SUCCESS);
    }
    let order = order.lock().unwrap();
    let last = order.iter().rposition(|&t| t == few.created.token).expect("it ran");
    // The credit of the default priority is 6: one turn of the one, then the other.
    assert!(last < 2 * 6, "{order:?}");
    assert_eq!(order.len(), 43);
}

#[test]
fn e09_classes_of_service() {
    let (driver, signer) = start();
    let [slow, plain, line] = [1, 2, 3].map(|pid| load(&driver, &signer, &task(pid), ADD_ONE));
    driver.set_class(slow.created.token, 9).expect("loaded");
    // A connection's own class is before its programs'.
    driver.set_class(line.created.token, 9).expect("loaded");
    line.client.set_class(17).expect("open");
    let (entries, go, order) = held(&driver);
    let (port, messages) = WakePort::new();
    plain.client.submit_async(&plain.submit(), port.clone()).expect("space");
    entries.recv_timeout(Duration::from_secs(10)).expect("the first executes");
    for l in [&slow, &line, &plain] {
        l.client.submit_async(&l.submit(), port.clone()).expect("space");
    }
    go.send(()).expect("still waiting");
    for _ in 0..4 {
        assert_eq!(messages.recv_timeout(Duration::from_secs(10)).expect("answered").code, Code::SUCCESS);
    }
    let wanted = [&plain, &plain, &line, &slow].map(|l| l.created.token);
    assert_eq!(*order.lock().unwrap(), wanted, "what was loaded as background comes last");
    assert_eq!(driver.set_class(u64::MAX, 9), Err(Code::NOT_FOUND));
}

#[test]
fn e10_depth_is_enforced() {
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), ADD_ONE);
    let (entries, go, _) = held(&driver);
    driver.limit_depth(l.created.token, 3).expect("loaded");
    assert_eq!(driver.limit_depth(u64::MAX, 3), Err(Code::NOT_FOUND));
    let (port, messages) = WakePort::new();
    for _ in 0..3 {
        l.client.submit_async(&l.submit(), port.clone()).expect("space");
    }
    entries.recv_timeout(Duration::from_secs(10)).expect("the first executes");
    assert_eq!(l.client.submit_async(&l.submit(), port.clone()), Err(Code::NO_RESOURCES));
    // Many clients leave one each, also to what is loaded already; then there is space for three again.
    driver.share_among(1000);
    go.send(()).expect("still waiting");
    for _ in 0..3 {
        messages.recv_timeout(Duration::from_secs(10)).expect("answered");
    }
    let (entries, go, _) = held(&driver);
    l.client.submit_async(&l.submit(), port.clone()).expect("space for one");
    entries.recv_timeout(Duration::from_secs(10)).expect("it executes");
    assert_eq!(l.client.submit_async(&l.submit(), port.clone()), Err(Code::NO_RESOURCES));
    driver.share_among(2);
    l.client.submit_async(&l.submit(), port.clone()).expect("space for a second");
    go.send(()).expect("still waiting");
}
