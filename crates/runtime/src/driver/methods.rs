//! The wider surface of the direct-path client: methods by name, some behind the second access check.

use super::client::Client;
use super::task::lock;
use crate::error::Code;
use anemone_facts::driver::selectors::{Client as Kind, METHODS};

/// Result of a method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A number.
    Number(u64),
    /// Lines of text.
    Lines(Vec<String>),
}

impl Client {
    /// Calls a method by name with numbers. Registers, raw commands and the exclave group need the property that was read
    /// when the client was opened; on this machine the exclave group then does nothing and returns 0.
    pub fn method(&self, name: &str, numbers: &[u64]) -> Result<Answer, Code> {
        let (name, guarded) = METHODS.iter().find(|(n, _)| *n == name).copied().ok_or(Code::UNSUPPORTED)?;
        if self.kind != Kind::Direct {
            return Err(Code::UNSUPPORTED);
        }
        if guarded && !self.stamp.privileged {
            return Err(Code::NOT_PRIVILEGED);
        }
        if name.starts_with("MPM") && !self.stamp.memory {
            return Err(Code::UNSUPPORTED);
        }
        let first = numbers.first().copied();
        let number = |n: u64| Ok(Answer::Number(n));
        let mut gate = lock(&self.driver.gate);
        if name.starts_with("Exclave") {
            return number(0);
        }
        match name {
            "PowerOn" => number(gate.firmware.power.base_on() as u64),
            "PowerOff" if gate.queue.len() > 0 => Err(Code::BUSY),
            "PowerOff" => {
                gate.firmware.power.off();
                number(0)
            }
            "IsPowered" => number(!matches!(gate.firmware.power.state, crate::firmware::power::State::AllOff) as u64),
            "SetDynamicPowerGating" => {
                gate.firmware.power.set_gating(first.ok_or(Code::BAD_ARGUMENT)? != 0);
                number(0)
            }
            "AddPersistentClient" => {
                gate.firmware.power.persistent = gate.firmware.power.persistent.saturating_add(1);
                number(u64::from(gate.firmware.power.persistent))
            }
            "RemovePersistentClient" => {
                let left = gate.firmware.power.persistent.checked_sub(1).ok_or(Code::NOT_FOUND)?;
                gate.firmware.power.persistent = left;
                number(u64::from(left))
            }
            "SetDARTCacheTTL" => {
                gate.dart.set_ttl(first.filter(|&n| n > 0));
                number(0)
            }
            "FlushInactiveDARTMappings" => number(gate.dart.flush_inactive(self.id) as u64),
            "GetClientsInfo" => {
                let line =
                    |(id, c): (&u64, &super::ClientEntry)| format!("{id} pid {} {:?} {:?}", c.pid, c.kind, c.state);
                Ok(Answer::Lines(gate.clients.iter().map(line).collect()))
            }
            "ShowSharedMemoryAllocations" => {
                let line = |(id, s): (&u32, &super::Surface)| format!("surface {id} {} bytes", s.shared.len());
                Ok(Answer::Lines(gate.surfaces.iter().map(line).collect()))
            }
            "ShowModelMemoryStatus" => {
                let line = |i: &super::Image| {
                    let p = i.resident.program();
                    format!(
                        "{} {:?} kernel {} bytes, scratch {} bytes, {} instances",
                        p.name,
                        i.form,
                        p.kernel.len(),
                        p.scratch_bytes,
                        i.instances
                    )
                };
                Ok(Answer::Lines(gate.images.values().map(line).collect()))
            }
            // No register of the engine exists in this model, and the firmware is loaded at the start.
            _ => Err(Code::UNSUPPORTED),
        }
    }
}
