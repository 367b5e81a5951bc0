//! Settings of an instance by a broker: class of service, share of requests, secure mode.

use super::task::lock;
use super::{ANYONE, Surface};
use super::{Driver, priority_of};
use crate::error::Code;
use crate::os::shared::Shared;
use anemone_facts::driver::limits as rows;
use anemone_program::order;
use std::sync::Arc;

impl Driver {
    /// Registers a buffer under a surface identity that requests of every client may use.
    pub fn add_surface(&self, shared: Arc<Shared>) -> std::result::Result<u32, Code> {
        let mut gate = lock(&self.gate);
        let id = gate.next_surface;
        gate.next_surface =
            id.checked_add(1).filter(|&n| n < super::lifecycle::FIRST_INTERNAL).ok_or(Code::NO_RESOURCES)?;
        gate.surfaces.insert(id, Surface { shared, client: ANYONE, pid: 0 });
        Ok(id)
    }

    /// Releases such a surface. Requests that use it keep its memory.
    pub fn remove_surface(&self, surface: u32) -> std::result::Result<(), Code> {
        let mut gate = lock(&self.gate);
        match gate.surfaces.get(&surface) {
            Some(found) if found.client == ANYONE => {
                gate.surfaces.remove(&surface);
                Ok(())
            }
            _ => Err(Code::NOT_FOUND),
        }
    }

    /// Divides the outstanding requests of each program among this number of clients, including loaded programs.
    pub fn share_among(&self, clients: usize) {
        let share = rows::PROGRAM_OUTSTANDING / (clients as u64).max(1);
        lock(&self.gate).share = share.max(1) as u32;
        self.idle.notify_all();
    }

    /// Sets the class of service of an instance: it determines the priority of requests with the default one. The caller checks that its
    /// owner may have the class.
    pub fn set_class(&self, token: u64, qos: u32) -> std::result::Result<(), Code> {
        let mut gate = lock(&self.gate);
        let instance = gate.instances.get_mut(&token).ok_or(Code::NOT_FOUND)?;
        instance.priority = priority_of(qos);
        Ok(())
    }

    /// Makes an instance run in secure mode: its requests exclude others, with the engine power-cycled before and after.
    pub fn set_secure(&self, token: u64) -> std::result::Result<(), Code> {
        let mut gate = lock(&self.gate);
        gate.instances.get_mut(&token).ok_or(Code::NOT_FOUND)?.secure = true;
        Ok(())
    }

    /// Makes the engine power off after a request of an instance if none is waiting.
    pub fn set_saving(&self, token: u64) -> std::result::Result<(), Code> {
        let mut gate = lock(&self.gate);
        gate.instances.get_mut(&token).ok_or(Code::NOT_FOUND)?.saving = true;
        Ok(())
    }

    /// Keeps the memory of an instance's program when the engine powers off.
    pub fn set_wired(&self, token: u64) -> std::result::Result<(), Code> {
        let mut gate = lock(&self.gate);
        gate.instances.get_mut(&token).ok_or(Code::NOT_FOUND)?.wired = true;
        Ok(())
    }

    /// Limits of simultaneous requests of all instances, with their current share; ascending.
    pub fn depths(&self) -> Vec<u32> {
        let gate = lock(&self.gate);
        let mut all: Vec<u32> = gate.instances.values().map(|i| i.depth.min(gate.share)).collect();
        order::by(&mut all, Ord::cmp);
        all
    }

    /// Limits the simultaneous requests of an instance, to at least one. Outstanding requests are not affected.
    pub fn limit_depth(&self, token: u64, depth: u32) -> std::result::Result<(), Code> {
        let mut gate = lock(&self.gate);
        let instance = gate.instances.get_mut(&token).ok_or(Code::NOT_FOUND)?;
        instance.depth = depth.clamp(1, rows::PROGRAM_OUTSTANDING as u32);
        drop(gate);
        self.idle.notify_all();
        Ok(())
    }
}
