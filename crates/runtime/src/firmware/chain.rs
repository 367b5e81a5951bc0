//! Chaining: handlers of installed cache requests, and their output sets.

use crate::error::Code;
use anemone_facts::driver::limits::CACHE_REQUESTS;
use std::collections::BTreeMap;

/// State of a handler's output set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// Not posted.
    None,
    /// Posted.
    Available,
    /// Being written by a call.
    InExecution,
}

#[derive(Debug)]
struct Handle {
    set: Set,
    last: Option<u64>,
    group: u32,
}

/// Installed handlers. A handler's number is never reused.
#[derive(Debug, Default)]
pub struct ChainHandlers {
    handles: BTreeMap<u64, Handle>,
    made: u64,
    active: BTreeMap<u32, u64>,
}

impl ChainHandlers {
    /// Installs a cache request in a group; returns its handler.
    pub fn install(&mut self, group: u32) -> Result<u64, Code> {
        if self.handles.len() as u64 >= CACHE_REQUESTS {
            return Err(Code::NO_RESOURCES);
        }
        self.made += 1;
        // The high word distinguishes handlers from identities of programs.
        let handler = 1 << 40 | self.made;
        self.handles.insert(handler, Handle { set: Set::None, last: None, group });
        self.active.entry(group).or_insert(handler);
        Ok(handler)
    }

    /// Posts an output set.
    pub fn enqueue(&mut self, handler: u64) -> Result<(), Code> {
        let handle = self.handles.get_mut(&handler).ok_or(Code::NOT_FOUND)?;
        if handle.set != Set::None {
            return Err(Code::BUSY);
        }
        handle.set = Set::Available;
        Ok(())
    }

    /// Makes a handler its group's active member.
    pub fn activate(&mut self, handler: u64) -> Result<(), Code> {
        let handle = self.handles.get(&handler).ok_or(Code::NOT_FOUND)?;
        self.active.insert(handle.group, handler);
        Ok(())
    }

    /// The active member of a group.
    pub fn active(&self, group: u32) -> Option<u64> {
        self.active.get(&group).copied()
    }

    /// Triggers a handler, which must be installed with a posted set and a later time stamp than before.
    pub fn trigger(&mut self, handler: u64, timestamp: u64) -> bool {
        let Some(handle) = self.handles.get_mut(&handler) else { return false };
        if handle.set != Set::Available || handle.last.is_some_and(|last| timestamp <= last) {
            return false;
        }
        (handle.set, handle.last) = (Set::InExecution, Some(timestamp));
        true
    }

    /// Returns the output set of a completed stage.
    pub fn stage_done(&mut self, handler: u64) {
        if let Some(handle) = self.handles.get_mut(&handler) {
            handle.set = Set::None;
        }
    }

    /// State of a handler's set; `None` for an unknown handler.
    pub fn set(&self, handler: u64) -> Option<Set> {
        self.handles.get(&handler).map(|h| h.set)
    }

    /// Removes a handler.
    pub fn invalidate(&mut self, handler: u64) -> bool {
        self.active.retain(|_, h| *h != handler);
        self.handles.remove(&handler).is_some()
    }

    /// Removes all handlers.
    pub fn disable_all(&mut self) {
        self.handles.clear();
        self.active.clear();
    }
}
