//! The boot sequence driven by the host: endpoint, scratch registers, three handshakes, channels, first commands.

use anemone_facts::driver::commands::FIRST;
use anemone_facts::driver::limits::{BOOT_TRIES, BOOT_WAIT_NS, CHANNELS, ENDPOINT, ENDPOINT_NAMES};

/// A step of the boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The engine was quiesced.
    Quiesce,
    /// An endpoint was requested: number, name, and true if it exists.
    Endpoint(u32, &'static str, bool),
    /// A scratch register was written: index, value.
    Scratch(u32, u32),
    /// The reset vector was written.
    ResetVector,
    /// Reset was released.
    Release,
    /// A handshake arrived: 1, 2, 3.
    Handshake(u32),
    /// A channel was resolved.
    Channel(&'static str),
    /// A command was sent.
    Command(&'static str, u32),
    /// Interrupts were enabled.
    Interrupts,
    /// A power cycle for another attempt.
    PowerCycle,
}

/// Conditions of a boot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Behaviour {
    /// True if memory was retained.
    pub warm: bool,
    /// True if the first endpoint name is missing.
    pub first_name_fails: bool,
    /// Number of missing second wakes.
    pub withheld_wakes: u32,
}

/// Record of a boot.
#[derive(Clone, Debug, Default)]
pub struct Boot {
    /// Steps in order.
    pub steps: Vec<Step>,
    /// Number of failed attempts.
    pub failures: u32,
    /// True if the device became ready.
    pub ready: bool,
    /// Modelled time spent waiting, in nanoseconds.
    pub waited_ns: u64,
}

/// Boots, with a bounded number of attempts and no real waiting.
pub fn boot(behaviour: Behaviour) -> Boot {
    let mut out = Boot::default();
    let mut withheld = behaviour.withheld_wakes;
    for attempt in 0..BOOT_TRIES {
        if attempt > 0 {
            out.steps.push(Step::PowerCycle);
        }
        out.steps.push(Step::Quiesce);
        for (i, name) in ENDPOINT_NAMES.iter().enumerate() {
            let there = i > 0 || !behaviour.first_name_fails;
            out.steps.push(Step::Endpoint(ENDPOINT as u32, name, there));
            if there {
                break;
            }
        }
        let warm = behaviour.warm && attempt == 0;
        out.steps.extend([Step::Scratch(7, warm as u32), Step::ResetVector, Step::Release, Step::Handshake(1)]);
        if withheld > 0 {
            withheld -= 1;
            out.failures += 1;
            out.waited_ns += BOOT_WAIT_NS;
            continue;
        }
        out.steps.push(Step::Handshake(2));
        out.steps.extend(CHANNELS.iter().map(|c| Step::Channel(c)));
        out.steps.extend([Step::Scratch(3, 1), Step::Handshake(3), Step::Interrupts]);
        out.steps.extend(FIRST.iter().map(|&(name, wire)| Step::Command(name, wire)));
        out.ready = true;
        break;
    }
    out
}
