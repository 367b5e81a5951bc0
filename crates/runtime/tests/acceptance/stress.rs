//! Any input, any interleaving: no panic, no hang, no wrong result. Seeds are fixed; a failure names its step.

use crate::nets::*;
use anemone_facts::driver::selectors::{CONTROL, DIRECT, METHODS};
use anemone_runtime::driver::client::{Arguments, Submit};
use anemone_runtime::driver::{InjectedFault, WakePort};
use anemone_runtime::firmware::{Channel, Fault, Firmware};
use anemone_runtime::os::shared::Shared;
use std::sync::Arc;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

#[test]
fn random_structures() {
    let (driver, signer) = start();
    let task = task(1);
    let l = load(&driver, &signer, &task, ADD_ONE);
    let d = direct(&driver, &task);
    let handler = l.client.chain(l.created.token).expect("a handler");
    let staged = task.stage(&[1; 512]).expect("staged");
    let (x, y) = (d.add_surface(l.memory[0].clone()).unwrap(), d.add_surface(l.memory[1].clone()).unwrap());
    let mut r = Random(0x1234_5678_9abc_def1);
    let words = [l.created.token, handler, staged, u64::from(x), u64::from(y), 0, 1, 2, u64::MAX, 1 << 32, 16, 1 << 63];
    for step in 0..20_000 {
        let (client, table) = if step % 2 == 0 { (&l.client, CONTROL) } else { (&d, DIRECT) };
        let s = &table[r.below(table.len() as u64) as usize];
        // Closing ends the test's subject; destroying is left to its own test.
        if matches!((s.index, step % 2), (1, _) | (6, 0) | (5, 0)) {
            continue;
        }
        let mut input = vec![0; s.struct_in_bytes as usize];
        for slot in input.chunks_mut(8) {
            let word = match r.below(4) {
                0 => r.next(),
                1 => words[r.below(words.len() as u64) as usize],
                2 => u64::from(x) | 1 << 32,
                _ => 0,
            };
            let n = slot.len();
            slot.copy_from_slice(&word.to_le_bytes()[..n]);
        }
        let scalars: Vec<u64> = (0..s.scalars_in).map(|_| words[r.below(words.len() as u64) as usize]).collect();
        let (mut out, mut output) = (vec![0; s.scalars_out as usize], vec![0; s.struct_out_bytes as usize]);
        let wake = (s.asynchronous && r.below(2) == 0).then(|| WakePort::new().0);
        let a = Arguments {
            scalars_in: &scalars,
            struct_in: Some(&input),
            scalars_out: &mut out,
            struct_out: Some(&mut output),
            wake,
        };
        client.call(s.index, a);
        if step % 50 == 0 {
            let name = METHODS[r.below(METHODS.len() as u64) as usize].name;
            let _ = d.method(name, &[r.next()]);
        }
    }
    l.client.prepare(l.created.token).expect("still there");
    l.fill(0, 2.0);
    l.client.submit(&l.submit()).expect("still runs");
    assert_eq!(l.first(1), 3.0);
}

#[test]
fn random_images() {
    let (driver, signer) = start();
    let client = control(&driver, &task(1));
    let good = image(&compile(ADD_ONE));
    let mut r = Random(0x9999_1111_7777_3333);
    for _ in 0..150 {
        let mut bad = good.clone();
        for _ in 0..1 + r.below(4) {
            let at = r.below(bad.len() as u64) as usize;
            bad[at] = r.next() as u8;
        }
        bad.truncate(bad.len() - r.below(2) as usize * r.below(bad.len() as u64) as usize);
        let file = signer.sign(&bad);
        let create =
            anemone_runtime::driver::client::Create { image: file.clone().into(), name: "x", ..Default::default() };
        let Ok(created) = client.create(create) else { continue };
        if client.prepare(created.token).is_ok() {
            let surface = || client.add_surface(Arc::new(Shared::new(1 << 16).unwrap())).unwrap();
            let (x, y) = (surface(), surface());
            let _ = client.submit(&Submit::new(created.token, &[x], &[y]));
        }
        let _ = client.destroy(created.token);
    }
    assert_eq!(driver.loaded(), (0, 0));
}

#[test]
fn random_messages() {
    let mut r = Random(0x5555_aaaa_3333_cccc);
    let mut firmware = Firmware::default();
    firmware.start(Default::default());
    for _ in 0..50_000 {
        let length = r.below(160) as usize;
        let message: Vec<u8> = (0..length).map(|i| if i % 4 > 1 { 0 } else { r.below(256) as u8 }).collect();
        let channel = if r.below(2) == 0 { Channel::Io } else { Channel::Chain };
        let _ = firmware.post(channel, &message);
        let _ = firmware.step(channel);
        firmware.drained();
        if !firmware.is_ready() {
            assert!(firmware.reset());
        }
    }
    assert!(firmware.restarts > 0);
}

#[test]
fn priorities_at_random() {
    let (driver, signer) = start();
    std::thread::scope(|scope| {
        for pid in 1..=6u32 {
            let (driver, signer) = (&driver, &signer);
            scope.spawn(move || {
                let l = load(driver, signer, &task(pid), ADD_ONE);
                let (token, state) = (l.created.token, [l.inputs[0]]);
                let mut r = Random(u64::from(pid) * 77 + 1);
                for i in 0..300 {
                    let submit = Submit { priority: r.below(8) as u32, ..Submit::new(token, &state, &state) };
                    l.client.submit(&submit).unwrap_or_else(|e| panic!("{pid} {i}: {e}"));
                }
                assert_eq!(l.first(0), 300.0, "every dispatch counts once");
            });
        }
    });
    let counters = driver.counters();
    assert_eq!(counters.completed, 1800);
    assert!(counters.most_posted <= 2);
}

#[test]
fn faults_among_requests() {
    let (driver, signer) = start();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..=3)
            .map(|pid| {
                let (driver, signer) = (&driver, &signer);
                scope.spawn(move || {
                    let l = load(driver, signer, &task(pid), ADD_ONE);
                    let (token, state) = (l.created.token, [l.inputs[0]]);
                    let good =
                        (0..300).filter(|_| l.client.submit(&Submit::new(token, &state, &state)).is_ok()).count();
                    assert_eq!(l.first(0), good as f32, "what failed was not published");
                    good
                })
            })
            .collect();
        let (driver, done) = (&driver, &done);
        scope.spawn(move || {
            let mut r = Random(31);
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                match r.below(3) {
                    0 => {
                        driver.fault(Fault::Uncorrectable);
                        driver.recover();
                    }
                    1 => driver.trouble(InjectedFault::QueueStuck),
                    _ => driver.trouble(InjectedFault::StrayAddress(0)),
                }
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        });
        let good: usize = workers.into_iter().map(|w| w.join().expect("no panic")).sum();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(good > 0);
    });
}
