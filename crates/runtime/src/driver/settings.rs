//! Settings of an instance that a broker makes: class of service, share of requests, secure mode.

use super::task::lock;
use super::{ANYONE, Surface};
use super::{Driver, priority_of};
use crate::error::Code;
use crate::os::shared::Shared;
use anemone_facts::driver::limits as rows;
use std::sync::Arc;

impl Driver {
    /// Puts a buffer under a surface identity that the requests of every client may name.
    pub fn add_surface(&self, shared: Arc<Shared>) -> std::result::Result<u32, Code> {
        let mut gate = lock(&self.gate);
        let id = gate.next_surface;
        gate.next_surface =
            id.checked_add(1).filter(|&n| n < super::lifecycle::FIRST_INTERNAL).ok_or(Code::NO_RESOURCES)?;
        gate.surfaces.insert(id, Surface { shared, client: ANYONE, pid: 0 });
        Ok(id)
    }

    /// Takes such a surface back. Requests that use it keep its memory.
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

    /// Divides the outstanding requests of a program among this number of clients, for programs already loaded too.
    pub fn share_among(&self, clients: usize) {
        let share = rows::PROGRAM_OUTSTANDING / (clients as u64).max(1);
        lock(&self.gate).share = share.max(1) as u32;
        self.idle.notify_all();
    }

    /// Gives an instance a class of service: requests of the default priority get that of the class. The caller checks that its
    /// owner may have the class.
    pub fn set_class(&self, token: u64, qos: u32) -> std::result::Result<(), Code> {
        let mut gate = lock(&self.gate);
        let instance = gate.instances.get_mut(&token).ok_or(Code::NOT_FOUND)?;
        instance.priority = priority_of(qos);
        Ok(())
    }

    /// Has an instance run in secure mode: its requests exclude others, with the engine power-cycled before and after.
    pub fn set_secure(&self, token: u64) -> std::result::Result<(), Code> {
        let mut gate = lock(&self.gate);
        gate.instances.get_mut(&token).ok_or(Code::NOT_FOUND)?.secure = true;
        Ok(())
    }

    /// Has the engine go off after each request of an instance that leaves nothing to do.
    pub fn set_saving(&self, token: u64) -> std::result::Result<(), Code> {
        let mut gate = lock(&self.gate);
        gate.instances.get_mut(&token).ok_or(Code::NOT_FOUND)?.saving = true;
        Ok(())
    }

    /// Has the memory of an instance's program stay when the engine goes off.
    pub fn set_wired(&self, token: u64) -> std::result::Result<(), Code> {
        let mut gate = lock(&self.gate);
        gate.instances.get_mut(&token).ok_or(Code::NOT_FOUND)?.wired = true;
        Ok(())
    }

    /// Requests at once that each instance may have, the share of each at present considered; ascending.
    pub fn depths(&self) -> Vec<u32> {
        let gate = lock(&self.gate);
        let mut all: Vec<u32> = gate.instances.values().map(|i| i.depth.min(gate.share)).collect();
        all.sort_unstable();
        all
    }

    /// Bounds the requests that an instance may have at once; at least one. What is out already stays.
    pub fn limit_depth(&self, token: u64, depth: u32) -> std::result::Result<(), Code> {
        let mut gate = lock(&self.gate);
        let instance = gate.instances.get_mut(&token).ok_or(Code::NOT_FOUND)?;
        instance.depth = depth.clamp(1, rows::PROGRAM_OUTSTANDING as u32);
        drop(gate);
        self.idle.notify_all();
        Ok(())
    }
}
