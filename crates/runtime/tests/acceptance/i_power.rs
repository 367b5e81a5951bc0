//! I: secure mode, power, telemetry; and the chaining rows of H.

use crate::d_submit::{enqueue, trigger};
use crate::nets::*;
use anemone_facts::driver::commands::wire;
use anemone_facts::driver::counters::{GROUPS, driver_mask};
use anemone_runtime::Code;
use anemone_runtime::clock::{Lane, Stages, Timeline, contended_ns, ticks};
use anemone_runtime::driver::client::Create;
use anemone_runtime::driver::methods::Answer;
use anemone_runtime::firmware::call::Call;
use anemone_runtime::firmware::header::{Form, Header};
use anemone_runtime::firmware::power::{Power, State, Touch};
use anemone_runtime::firmware::{Channel, Firmware, Loop, Outcome, stats};
use anemone_runtime::os::shared::Shared;
use std::sync::Arc;

fn io(f: &mut Firmware, wire: u32, body: &[u8]) -> Outcome {
    let index = anemone_facts::driver::commands::by_wire(wire).expect("a command").index;
    let header = Header { id: index, size: body.len() as u32, priority: 0, program: -1, process: -1, procedure: 0 };
    let mut message = header.encode(Form::Published).expect("fits").to_vec();
    message.extend_from_slice(body);
    f.post(Channel::Io, &message).expect("posted");
    f.step(Channel::Io).expect("a message")
}

#[test]
fn h04_triggers() {
    let (driver, signer) = start();
    let task = task(1);
    let l = load(&driver, &signer, &task, ADD_ONE);
    let handler = l.client.chain(l.created.token).expect("control 9");
    let d = direct(&driver, &task);
    let (x, y) = (d.add_surface(l.memory[0].clone()).unwrap(), d.add_surface(l.memory[1].clone()).unwrap());
    let runs = || driver.with_firmware(|f| (f.runs, f.drops.cache));
    let t = 10;
    enqueue(&d, l.created.token, handler, &[y]).expect("posted");
    trigger(&d, l.created.token, handler, t, &[x]).expect("runs");
    enqueue(&d, l.created.token, handler, &[y]).expect("posted");
    trigger(&d, l.created.token, handler, t, &[x]).expect("dropped, no error");
    assert_eq!(runs(), (1, 1));
    trigger(&d, l.created.token, handler, t + 1, &[x]).expect("runs");
    assert_eq!(runs(), (2, 1));
    driver.with_firmware(|f| assert!(f.chain.invalidate(handler)));
    trigger(&d, l.created.token, handler, t + 2, &[x]).expect("dropped, no error");
    assert_eq!(runs(), (2, 2));
    assert_eq!(driver.with_firmware(|f| f.restarts), 0);
}

#[test]
fn h05_handler() {
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), ADD_ONE);
    let handler = l.client.chain(l.created.token).expect("control 9");
    assert!(handler != 0 && handler >> 32 != 0);
    for _ in 1..64 {
        l.client.chain(l.created.token).expect("space");
    }
    assert_eq!(l.client.chain(l.created.token), Err(Code::NO_RESOURCES));
}

#[test]
fn h06_segments() {
    let (driver, signer) = start();
    let task = task(1);
    let l = load(&driver, &signer, &task, ADD_ONE);
    let (first, second) = (l.client.chain(l.created.token).unwrap(), l.client.chain(l.created.token).unwrap());
    let d = direct(&driver, &task);
    let bytes = l.memory[0].len() as u64;
    let surface = |m: &Arc<Shared>| d.add_surface(m.clone()).unwrap();
    let between = Arc::new(Shared::new(bytes).unwrap());
    let (x, mid, y) = (surface(&l.memory[0]), surface(&between), surface(&l.memory[1]));
    let active = |handler: u64| {
        let mut input = [0; 32];
        input[..8].copy_from_slice(&l.created.token.to_le_bytes());
        input[8..16].copy_from_slice(&handler.to_le_bytes());
        d.structures(8, &input, &mut [])
    };
    l.fill(0, 1.0);
    active(first).expect("set active");
    enqueue(&d, l.created.token, first, &[mid]).unwrap();
    trigger(&d, l.created.token, first, 1, &[x]).unwrap();
    active(second).expect("set active");
    enqueue(&d, l.created.token, second, &[y]).unwrap();
    trigger(&d, l.created.token, second, 1, &[mid]).unwrap();
    assert_eq!(l.first(1), 3.0);
    assert_eq!(active(12345), Err(Code::NOT_FOUND));
}

#[test]
fn h07_doorbells() {
    let (driver, signer) = start();
    let task = task(1);
    let l = load(&driver, &signer, &task, ADD_ONE);
    let handler = l.client.chain(l.created.token).unwrap();
    let d = direct(&driver, &task);
    let (x, y) = (d.add_surface(l.memory[0].clone()).unwrap(), d.add_surface(l.memory[1].clone()).unwrap());
    enqueue(&d, l.created.token, handler, &[y]).unwrap();
    assert_eq!(driver.counters().doorbells, 0);
    assert_eq!(enqueue(&d, l.created.token, handler, &[y]), Err(Code::BUSY));
    trigger(&d, l.created.token, handler, 1, &[x]).unwrap();
    assert_eq!(driver.counters().doorbells, 1);
}

#[test]
fn i01_secure() {
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), ADD_ONE);
    l.client.submit(&l.submit()).expect("before");
    for (command, secure) in [(wire::SECURE_MODE_START, true), (wire::SECURE_MODE_STOP, false)] {
        driver.with_firmware(|f| {
            let changes = f.power.changes;
            assert_eq!(io(f, command, &[]), Outcome::Done(0));
            assert_eq!((f.state(), f.loaded()), (Loop::Pause, 0));
            assert!(f.power.changes >= changes + 2, "off and on");
            assert_eq!(io(f, wire::SECURE_MODE_RESUME_TRANSITION, &[]), Outcome::Done(0));
            assert_eq!((f.state(), f.is_secure()), (Loop::Run, secure));
        });
    }
    l.client.submit(&l.submit()).expect("loaded again on the way back");
}

#[test]
fn i02_secure_refusals() {
    let mut f = Firmware::default();
    f.start(Default::default());
    io(&mut f, wire::SECURE_MODE_START, &[]);
    io(&mut f, wire::SECURE_MODE_RESUME_TRANSITION, &[]);
    let header = Header {
        id: wire::PROCEDURE_CALL_TRIGGER_CACHE_REQUEST,
        size: Call::BYTES as u32,
        priority: 5,
        program: 0,
        process: 0,
        procedure: 0,
    };
    let mut message = header.encode(Form::Loop).unwrap().to_vec();
    message.extend_from_slice(&Call::default().encode());
    f.post(Channel::Chain, &message).unwrap();
    assert_eq!((f.step(Channel::Chain), f.drops.secure), (Some(Outcome::Dropped), 1));
    io(&mut f, wire::SECURE_MODE_STOP, &[]);
    assert!(matches!(io(&mut f, wire::PING, &[]), Outcome::Faulted(_)));
    assert!(!f.is_ready());
}

#[test]
fn i03_exclave() {
    let mut f = Firmware::default();
    f.start(Default::default());
    assert_eq!(io(&mut f, wire::EXCLAVE_MODE_START, &[]), Outcome::Rejected(Code::UNSUPPORTED));
    let (driver, _) = start();
    let task = task(1);
    task.set_privileged(true);
    let d = direct(&driver, &task);
    for name in ["ExclaveCycle", "ExclaveLoad", "ExclaveEvaluate", "ExclaveUnload"] {
        assert_eq!(d.method(name, &[]), Ok(Answer::Number(0)));
    }
}

#[test]
fn i04_power() {
    let mut power = Power::default();
    assert_eq!((power.state, power.milliwatts()), (State::AllOff, 0));
    power.polls_needed = 5000;
    assert!(power.start(4));
    let polls: Vec<u64> = power
        .touched
        .iter()
        .filter_map(|t| if let Touch::Poll(r, n) = t { (*n <= 5000).then_some(*r) } else { None })
        .collect();
    assert_eq!(polls, [0x2c8, 0xc000, 0xc008, 0xc010, 0xc018, 0xc020]);
    power.end();
    for _ in 0..100 {
        assert!(power.start(4));
        power.end();
    }
    assert_eq!(power.changes, 1);
    let mut stuck = Power { polls_needed: 5001, ..Power::default() };
    assert!(!stuck.start(1));
    assert_eq!(stuck.state, State::FaultOff);
}

#[test]
fn i05_gaps() {
    for (gap, extra) in [(0, 0), (100_000_000, 500_000), (1_000_000_000, 500_000), (5_000_000_000, 260_000_000)] {
        let (mut timeline, mut lane) = (Timeline::default(), Lane::default());
        timeline.dispatch(&mut lane, None);
        lane.now_ns += gap;
        assert_eq!(timeline.dispatch(&mut lane, None).total_ns() - Stages::SMALL.total_ns(), extra, "{gap}");
        assert_eq!(timeline.dispatch(&mut lane, None), Stages::SMALL);
    }
}

#[test]
fn i06_counters() {
    assert_eq!(stats::names().len(), 24);
    let groups: Vec<usize> = GROUPS.iter().map(|g| g.counters.len()).collect();
    assert_eq!(groups, [6, 4, 3, 2, 1, 7, 1]);
    assert_eq!([0xf, 0x10, 0xffff_ffff].map(driver_mask), [0xf, 0, 0]);
}

#[test]
fn i07_stats_gate() {
    let (driver, signer) = start();
    let client = control(&driver, &task(1));
    let file = signer.sign(&image(&compile(ADD_ONE)));
    let created = client
        .create(Create { image: file.clone().into(), name: "main", stats_mask: 0xf, ..Create::default() })
        .expect("create is accepted");
    assert_eq!(client.prepare(created.token), Err(Code::UNSUPPORTED));
    let masked = client
        .create(Create { image: file.clone().into(), name: "main", stats_mask: 0x10, ..Create::default() })
        .expect("create");
    client.prepare(masked.token).expect("the mask became 0");
}

#[test]
fn i08_stats_buffer() {
    let buffer = stats::buffer(0x100, 1_000, 3).expect("space");
    assert_eq!(buffer[..2], [1, 1]);
    assert_eq!(u32::from_le_bytes(buffer[0x24..0x28].try_into().unwrap()), 0x100 - 0x28);
    assert_eq!(stats::buffer(0, 0, 0), None);
    assert_eq!(stats::SIZES, [0x28, 0x14, 0x10, 0x20]);
}

#[test]
fn i08_runs_are_counted() {
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), &tiny());
    let none = driver.task_counters(l.created.token).expect("loaded");
    assert!(!none.is_empty() && none.iter().flatten().all(|&n| n == 0), "{none:?}");
    for _ in 0..3 {
        l.client.submit(&l.submit()).expect("runs");
    }
    let counted = driver.task_counters(l.created.token).expect("loaded");
    let at = |name: &str| stats::names().iter().position(|n| n == name).expect("a counter");
    let sum = |name: &str| counted.iter().map(|task| task[at(name)]).sum::<u64>();
    // 8 by 8 channels, 9 taps; the packed kernel and both tensors are read or written whole.
    assert!(sum("NE/compute") >= 3 && sum("precision/FP16") == sum("NE/compute") && sum("precision/INT8") == 0);
    assert!(sum("traffic/AF to KM") >= 3 * 8 * 8 * 9 * 2, "{counted:?}");
    assert_eq!(sum("traffic/DMA read"), sum("traffic/AF to KM") + sum("traffic/AF to L2"));
    assert_eq!(sum("traffic/DMA read-write"), sum("traffic/DMA read") + sum("traffic/L2 to AF"));
    assert!(sum("DPE/energy") > 0 && sum("L2PE/compute") > 0, "the mean is the planar engine's: {counted:?}");
    let all = driver.with_firmware(|f| f.counters);
    for (i, name) in stats::names().iter().enumerate() {
        assert_eq!(all[i], sum(name), "{name}");
    }
    assert_eq!(driver.task_counters(7), Err(Code::NOT_FOUND));
}

#[test]
fn i09_time() {
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), ADD_ONE);
    l.client.submit(&l.submit()).unwrap();
    let before = ticks(driver.now_ns());
    driver.with_firmware(|f| f.power.off());
    l.client.submit(&l.submit()).unwrap();
    assert!(ticks(driver.now_ns()) > before);
    assert_eq!(ticks(1_000_000_000), 24_000_000);
}

#[test]
fn i10_tenants() {
    let heavy_command_ns = 203_000;
    let loaded = contended_ns(heavy_command_ns);
    assert_eq!((contended_ns(0), loaded), (152_000, 355_000));
    let (driver, signer) = start();
    std::thread::scope(|scope| {
        for pid in 1..=3 {
            let (driver, signer) = (&driver, &signer);
            scope.spawn(move || {
                let l = load(driver, signer, &task(pid), ADD_ONE);
                for i in 0..3000 {
                    let value = (i % 500) as f32 + pid as f32;
                    l.fill(0, value);
                    l.client.submit(&l.submit()).expect("submit");
                    assert_eq!(l.first(1), value + 1.0);
                }
            });
        }
    });
    assert_eq!(driver.counters().completed, 9000);
}
