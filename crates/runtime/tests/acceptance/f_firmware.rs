//! F: commands and firmware.

use crate::nets::*;
use anemone_facts::driver::Direction;
use anemone_facts::driver::commands::{self, COMMANDS, FIRST, START, wire};
use anemone_facts::driver::limits::CHANNELS;
use anemone_facts::formats::firmware as rows;
use anemone_program::firmware;
use anemone_runtime::Code;
use anemone_runtime::driver::{Config, Driver};
use anemone_runtime::firmware::boot::{Behaviour, Step, boot};
use anemone_runtime::firmware::call::Call;
use anemone_runtime::firmware::header::{Form, Header};
use anemone_runtime::firmware::{Channel, Fault, Firmware, Outcome};
use std::collections::BTreeSet;

#[test]
fn f01_command_table() {
    assert_eq!(COMMANDS.len(), 93);
    assert!(COMMANDS.iter().enumerate().all(|(i, c)| c.index as usize == i));
    let count = |d| COMMANDS.iter().filter(|c| c.direction == d).count();
    let counts = [Direction::ToFirmware, Direction::FromFirmware, Direction::Both].map(count);
    assert_eq!(counts, [78, 14, 1]);
}

#[test]
fn f02_wire_numbers() {
    let mut all: BTreeSet<u32> = COMMANDS.iter().map(|c| c.wire).collect();
    all.insert(START);
    assert_eq!(all.len(), 94);
    let name = |wire| commands::by_wire(wire).map(|c| c.name);
    assert_eq!(name(0x204), Some("PROCEDURE_CALL"));
    assert_eq!(name(0x209), Some("PROCEDURE_CALL_TRIGGER_CACHE_REQUEST"));
    assert_eq!(name(0x20c), Some("PROCEDURE_CALL_WITH_CUSTOM_BARS"));
    assert_eq!(name(0x211), Some("PROCEDURE_CALL_WITH_SIGNAL_EVENTS"));
    assert_eq!(name(0x404), Some("INFERENCE_CALL"));
    assert_eq!(COMMANDS.iter().filter(|c| c.exe_loop).count(), 9);
}

#[test]
fn f03_header_codec() {
    let header = Header { id: 0x204, size: 4, priority: 5, program: 143, process: -1, procedure: 2 };
    for form in [Form::Published, Form::Loop] {
        let mut message = header.encode(form).expect("fits").to_vec();
        assert_eq!(message.len(), 24);
        message.extend_from_slice(b"body");
        assert_eq!(Header::decode(&message, form, 28), Ok((header, &b"body"[..])));
        assert_eq!(Header::decode(&message, form, 27), Err(Code::BAD_ARGUMENT));
        assert_eq!(Header::decode(&message[..27], form, 64), Err(Code::BAD_ARGUMENT));
    }
    let p = header.encode(Form::Published).unwrap();
    let e = header.encode(Form::Loop).unwrap();
    assert_eq!((p[0], p[4], p[8], p[12], p[20]), (4, 4, 5, 143, 2));
    assert_eq!((e[0], &e[4..8], e[8], e[16], e[20]), (4, &[4, 2, 0, 0][..], 143, 2, 5));
    assert!(Header { id: 0x1_0000, ..header }.encode(Form::Loop).is_err());
}

struct Ready {
    firmware: Firmware,
    program: u32,
    process: u32,
}

fn ready() -> Ready {
    let mut firmware = Firmware::default();
    assert!(firmware.start(Behaviour::default()).ready);
    let package = firmware::from_programs(&[&compile(ADD_ONE)]).expect("a package");
    let program = firmware.load(&package).expect("load");
    let process = firmware.create_process(program).expect("process");
    Ready { firmware, program, process }
}

impl Ready {
    fn send(&mut self, command: u32, program: i32, process: i32, call: Call) -> Outcome {
        let header = Header { id: command, size: Call::BYTES as u32, priority: 5, program, process, procedure: 0 };
        let mut message = header.encode(Form::Loop).expect("fits").to_vec();
        message.extend_from_slice(&call.encode());
        match self.firmware.post(Channel::Chain, &message) {
            Err(code) => Outcome::Rejected(code),
            Ok(()) => {
                let outcome = self.firmware.step(Channel::Chain).expect("a message");
                self.firmware.drained();
                outcome
            }
        }
    }

    fn call(&mut self, command: u32, call: Call) -> bool {
        let (program, process) = (self.program as i32, self.process as i32);
        matches!(self.send(command, program, process, call), Outcome::Granted(..))
    }
}

#[test]
fn f04_endpoints() {
    let mut r = ready();
    r.firmware.unbind(Channel::Chain);
    assert!(!r.call(wire::PROCEDURE_CALL, Call::default()));
    r.firmware.bind(Channel::Chain, 1);
    assert!(!r.call(wire::PROCEDURE_CALL, Call::default()));
    assert_eq!(r.firmware.runs, 0);
    r.firmware.bind(Channel::Chain, 5);
    assert!(r.call(wire::PROCEDURE_CALL, Call::default()));
}

#[test]
fn f05_unknown_command() {
    let mut r = ready();
    let (program, process) = (r.program as i32, r.process as i32);
    let outcome = r.send(0x200, program, process, Call::default());
    assert_eq!(outcome, Outcome::Faulted(Fault::UnknownCommand(0x200)));
    assert!(!r.firmware.is_ready() && r.firmware.dumps.len() == 1);
    assert!(r.firmware.reset());
    assert_eq!((r.firmware.is_ready(), r.firmware.restarts), (true, 1));
    // On another channel an unknown index is refused without a fault.
    let message = Header { id: 93, size: 0, priority: 5, program: -1, process: -1, procedure: 0 };
    r.firmware.post(Channel::Io, &message.encode(Form::Published).unwrap()).expect("posted");
    assert_eq!(r.firmware.step(Channel::Io), Some(Outcome::Rejected(Code::UNSUPPORTED)));
    assert!(r.firmware.is_ready());
    // Through the driver: raw commands are no selector, and refused as unsupported.
    let (driver, _) = start();
    let task = task(1);
    task.set_privileged(true);
    assert_eq!(direct(&driver, &task).method("SendCommand", &[0x200]), Err(Code::UNSUPPORTED));
}

#[test]
fn f06_limits() {
    let mut r = ready();
    let d = Call::default();
    let mut all = |command, calls: &[Call]| calls.iter().map(|&c| r.call(command, c)).collect::<Vec<_>>();
    let signals = [0, 1, 16, 17].map(|signals| Call { signals, ..d });
    assert_eq!(all(wire::PROCEDURE_CALL_WITH_SIGNAL_EVENTS, &signals), [false, true, true, false]);
    let bars = [32, 33].map(|bars| Call { bars, ..d });
    assert_eq!(all(wire::PROCEDURE_CALL_WITH_CUSTOM_BARS, &bars), [true, false]);
    let order = [128, 129].map(|order| Call { order, ..d });
    assert_eq!(all(wire::PROCEDURE_CALL, &order), [true, false]);
    let inputs = [16, 17].map(|inputs| Call { inputs, ..d });
    assert_eq!(all(wire::PROCEDURE_CALL, &inputs), [true, false]);
    let sets = [1, 2].map(|output_sets| Call { output_sets, ..d });
    assert_eq!(all(wire::PROCEDURE_CALL, &sets), [true, false]);
    let partitions = [1, 0, 2].map(|partitions| Call { partitions, ..d });
    assert_eq!(all(wire::PROCEDURE_CALL, &partitions), [true, false, false]);
    let shared = [1, 2].map(|shared_events| Call { shared_events, ..d });
    assert_eq!(all(wire::PROCEDURE_CALL, &shared), [true, false]);
    let content = [0, 3, 4, 1].map(|content| Call { content, ..d });
    assert_eq!(all(wire::PROCEDURE_CALL, &content), [true, true, true, false]);
}

#[test]
fn f07_identities() {
    let mut r = ready();
    let rejected = Outcome::Rejected(Code::BAD_ARGUMENT);
    // In range but empty slots are dropped, not refused.
    assert_eq!(r.send(wire::PROCEDURE_CALL, 143, 287, Call::default()), Outcome::Dropped);
    assert_eq!(r.send(wire::PROCEDURE_CALL, 144, 0, Call::default()), rejected);
    assert_eq!(r.send(wire::PROCEDURE_CALL, 0, 288, Call::default()), rejected);
    assert_eq!(r.send(wire::PROCEDURE_CALL, -1, 0, Call::default()), rejected);
}

#[test]
fn f08_terminated_process() {
    let mut r = ready();
    r.firmware.terminate_process(r.process);
    let (program, process) = (r.program as i32, r.process as i32);
    assert_eq!(r.send(wire::PROCEDURE_CALL, program, process, Call::default()), Outcome::Dropped);
    assert_eq!((r.firmware.drops.process, r.firmware.restarts), (1, 0));
}

#[test]
fn f09_boot() {
    let cold = boot(Behaviour { first_name_fails: true, ..Behaviour::default() });
    assert!(cold.ready);
    let at = |step: Step| cold.steps.iter().position(|s| *s == step).unwrap_or_else(|| panic!("{step:?}"));
    assert!(at(Step::Endpoint(0xe400, "ANE1Endpoint1", false)) < at(Step::Endpoint(0xe400, "ANEEndpoint1", true)));
    assert!(at(Step::Scratch(7, 0)) < at(Step::Handshake(1)));
    assert!(at(Step::Handshake(1)) < at(Step::Handshake(2)) && at(Step::Handshake(2)) < at(Step::Handshake(3)));
    for channel in CHANNELS {
        let here = at(Step::Channel(channel));
        assert!(at(Step::Handshake(2)) < here && here < at(Step::Handshake(3)));
    }
    assert_eq!(CHANNELS.len(), 8);
    let sent: Vec<&str> =
        cold.steps.iter().filter_map(|s| if let Step::Command(n, _) = s { Some(*n) } else { None }).collect();
    assert_eq!(sent, FIRST.iter().map(|f| f.0).collect::<Vec<_>>());
    assert_eq!(sent.len(), 9);
    let warm = boot(Behaviour { warm: true, ..Behaviour::default() });
    assert!(warm.steps.contains(&Step::Scratch(7, 1)));
}

#[test]
fn f10_second_wake_withheld() {
    let once = Config { boot: Behaviour { withheld_wakes: 1, ..Behaviour::default() }, ..Config::default() };
    let (driver, _) = Driver::start(once.clone()).expect("starts");
    assert_eq!(driver.boot_failures(), 1);
    assert!(Driver::trace_boot(&once).steps.contains(&Step::PowerCycle));
    let never = boot(Behaviour { withheld_wakes: 99, ..Behaviour::default() });
    assert_eq!((never.ready, never.failures), (false, 3));
}

/// Four results in memory.
const FOUR: &str = r#"net "main" {
  input %x: f16[1, 4, 1, 8]
  const %one: f16[1, 1, 1, 1] = [1.0]
  const %two: f16[1, 1, 1, 1] = [2.0]
  %a: f16[1, 4, 1, 8] = add(%x, %one)
  %b: f16[1, 4, 1, 8] = sigmoid(%x)
  %c: f16[1, 4, 1, 8] = mul(%x, %two)
  %d: f16[1, 4, 1, 8] = tanh(%x)
  output %a
  output %b
  output %c
  output %d
}
"#;

#[test]
fn partitions_of_a_package_are_the_engine_requests_of_a_call() {
    let program = compile(FOUR);
    let stated = program.partitions().expect("a chain").len() as u64;
    assert!(stated > 1, "{stated}");
    let mut package = firmware::from_programs(&[&program]).expect("a package");
    let mut firmware = Firmware::default();
    assert!(firmware.start(Behaviour::default()).ready);
    let id = firmware.load(&package).expect("load");
    assert_eq!((firmware.partitions(id, 0), firmware.partitions(id, 1)), (stated, 1));

    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), FOUR);
    let pushed = || driver.counters().engine_requests.iter().sum::<u64>();
    let before = pushed();
    l.client.submit(&l.submit()).expect("runs");
    assert_eq!(pushed() - before, stated);

    // Other partitions than those of the headers are refused at load.
    let section = package.programs[0].sections.iter_mut().find(|s| s.kind == rows::PROCEDURE).expect("a procedure");
    let mut data = section.data.to_vec();
    data[12] = 1;
    section.data = data.into();
    assert_eq!(firmware.load(&package), Err(Code::BAD_ARGUMENT));
}

#[test]
fn f11_two_faults() {
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), ADD_ONE);
    for expected in 1..=2 {
        driver.fault(Fault::Uncorrectable);
        assert_eq!(l.client.submit(&l.submit()), Err(Code::NOT_READY));
        assert!(driver.open(&task(2), 0).is_err());
        assert!(driver.recover() && !driver.recover());
        assert_eq!(driver.with_firmware(|f| f.restarts), expected);
        l.client.submit(&l.submit()).expect("loaded again");
    }
    driver.with_firmware(|f| {
        let last = f.dumps.back().expect("a dump");
        assert_eq!((last.restarts, last.recent[0]), (1, wire::PROCEDURE_CALL));
    });
}
