//! State of the less common methods: throttling, registers, the secure world, managed memory, hints; and counts of calls.

use super::client::Client;
use super::task::lock;
use super::{Driver, Gate};
use crate::clock::Stages;
use crate::dart;
use crate::error::Code;
use anemone_facts::driver::limits as rows;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Scope of a hint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    Process(u32),
    Team(String),
}

/// The secure world: numbers of loaded programs, properties, counts.
#[derive(Debug, Default)]
pub(crate) struct Exclave {
    pub loaded: BTreeSet<u64>,
    pub properties: BTreeMap<u64, u64>,
    pub evaluated: u64,
    pub cycles: u64,
}

/// State set by methods.
#[derive(Debug, Default)]
pub(crate) struct Controls {
    /// Percentage of the engine's time that throttling takes away.
    pub throttling: u64,
    /// Stored values of registers.
    pub registers: BTreeMap<u64, u64>,
    pub stores: u64,
    pub commands: u64,
    pub exclave: Exclave,
    /// Buffers of the managed region: device address, surface and bytes.
    pub managed: BTreeMap<u64, (u32, u64)>,
    /// Number of successful calls of each method.
    pub called: BTreeMap<&'static str, u64>,
}

/// Translation context of the managed region, which belongs to no client.
pub(crate) const MANAGED: u64 = u64::MAX;
/// Largest size of the managed region in pages.
const MAX_MANAGED_PAGES: u64 = 4096;
/// Largest number of stored registers, properties and programs of the secure world.
pub(crate) const MAX_KEPT: usize = 1024;

impl Controls {
    /// Stages of a dispatch, with the firmware's round trip extended by throttling.
    pub fn throttled(&self, stages: Option<Stages>) -> Option<Stages> {
        if self.throttling == 0 {
            return stages;
        }
        let mut stages = stages.unwrap_or(Stages::SMALL);
        let base = rows::ROUND_TRIP_NS.min(stages.round_trip_ns);
        let engine = stages.round_trip_ns - base + 1;
        stages.round_trip_ns = base + engine * 100 / (100 - self.throttling.min(99));
        Some(stages)
    }
}

impl Gate {
    /// Powers the engine off: programs that are not wired release their memory, and are expanded again for the next run.
    pub(crate) fn power_off(&mut self) {
        self.firmware.power.off();
        let wired: BTreeSet<u64> = self.instances.values().filter(|i| i.wired).map(|i| i.image).collect();
        let loose = self.instances.values().filter(|i| !wired.contains(&i.image));
        self.counters.unwired += loose.flat_map(|i| &i.residents).filter(|r| r.unwire()).count() as u64;
    }

    /// Priority of a client's request after hints: those of the connection, else of its process, else of its team. Hint 1
    /// raises the urgency by a number of levels, hint 2 lowers it; hints do not reach reserved levels.
    pub(crate) fn hinted(&self, client: &Client, priority: u32) -> u32 {
        let own = self.clients.get(&client.id).map(|c| c.hint).filter(|hint| *hint != (0, 0));
        let process = || self.hints.get(&Holder::Process(client.task.pid)).copied();
        let team = || self.hints.get(&Holder::Team(client.task.identity.team.clone())).copied();
        let least = (rows::RESERVED_PRIORITIES as u32).min(priority);
        match own.or_else(process).or_else(team) {
            Some((1, levels)) => priority.saturating_sub(levels).max(least),
            Some((2, levels)) => priority.saturating_add(levels).min(rows::PRIORITIES as u32 - 1),
            _ => priority,
        }
    }

    /// Maps a buffer of the managed region; returns its device address.
    pub(crate) fn map_managed(&mut self, bytes: u64) -> Result<u64, Code> {
        let pages = bytes.div_ceil(rows::PAGE_BYTES);
        let held: u64 = self.controls.managed.values().map(|(_, bytes)| bytes.div_ceil(rows::PAGE_BYTES)).sum();
        if bytes == 0 {
            return Err(Code::BAD_ARGUMENT);
        }
        if held.saturating_add(pages) > MAX_MANAGED_PAGES {
            return Err(Code::NO_RESOURCES);
        }
        let surface = self.next_internal()?;
        let iova = self.dart.map(MANAGED, surface, bytes, 11, 0)?;
        self.controls.managed.insert(iova, (surface, bytes));
        Ok(iova)
    }

    /// Releases a buffer of the managed region.
    pub(crate) fn unmap_managed(&mut self, iova: u64) -> Result<(), Code> {
        let (surface, _) = self.controls.managed.remove(&iova).ok_or(Code::NOT_FOUND)?;
        self.dart.unmap(MANAGED, surface, 11)?;
        self.dart.forget(surface);
        Ok(())
    }

    fn described(&self) -> Value {
        let (power, c) = (&self.firmware.power, &self.controls);
        let (mappings, translated, evicted) = self.dart.counts();
        let named = |(name, n): (&&str, &u64)| (name.to_string(), Value::from(*n));
        let called: Map<String, Value> = c.called.iter().map(named).collect();
        let index = |(index, n): (&u32, &u64)| (index.to_string(), Value::from(*n));
        let doorbells: Map<String, Value> = self.counters.doorbells_by_index.iter().map(index).collect();
        let fault = self.counters.last_fault.as_ref().map(|stray| {
            json!({
                "address": stray.address, "write": stray.write, "task": stray.task, "program": stray.program, "pid": stray.pid,
            })
        });
        let hint = |(holder, (hint, value)): (&Holder, &(u32, u32))| {
            let of = match holder {
                Holder::Process(pid) => format!("process {pid}"),
                Holder::Team(team) => format!("team {team}"),
            };
            (of, json!([hint, value]))
        };
        let hints: Map<String, Value> = self.hints.iter().map(hint).collect();
        json!({
            "power": format!("{:?}", power.state),
            "power_changes": power.changes,
            "power_management": power.managed,
            "power_gating": power.gating,
            "gating_hysteresis_ms": power.hysteresis_ns / 1_000_000,
            "persistent_clients": power.persistent,
            "throttling_percent": c.throttling,
            "wired": self.instances.values().filter(|i| i.wired).count(),
            "unwired": self.counters.unwired,
            "mappings": mappings,
            "translated_bytes": translated,
            "mappings_evicted": evicted,
            "mapping_ttl": self.dart.ttl(),
            "managed_buffers": c.managed.len(),
            "managed_bytes": c.managed.values().map(|(_, bytes)| bytes).sum::<u64>(),
            "translation_faults": self.counters.faults,
            "last_fault": fault,
            "doorbells_by_index": doorbells,
            "events": self.events.len(),
            "events_signalled": self.counters.signalled,
            "hints": hints,
            "register_stores": c.stores,
            "commands_sent": c.commands,
            "exclave_loaded": c.exclave.loaded.len(),
            "exclave_evaluated": c.exclave.evaluated,
            "exclave_cycles": c.exclave.cycles,
            "methods_called": called,
        })
    }
}

impl Driver {
    /// State set by methods, and counts of methods and the translation unit, by name.
    pub fn described(&self) -> Value {
        lock(&self.gate).described()
    }

    /// Live counters by name, including [`Driver::described`].
    pub fn stat(&self) -> Value {
        let counters = self.counters();
        let (programs, instances) = self.loaded();
        let registry = self.registry();
        let (drops, restarts, runs, counted) =
            self.with_firmware(|f| (f.drops.total(), f.restarts, f.runs, f.counters));
        let counters_of_tasks: Map<String, Value> =
            crate::firmware::stats::names().into_iter().zip(counted.map(Value::from)).collect();
        let mut stat = json!({
            "control_clients": registry.control,
            "direct_clients": registry.direct,
            "programs": programs,
            "instances": instances,
            "programs_by_engine": self.resident(),
            "pending": self.pending(),
            "completed": counters.completed,
            "aborted": counters.aborted,
            "preempted": counters.preempted,
            "doorbells": counters.doorbells,
            "interrupts": counters.interrupts,
            "engine_requests_by_queue": counters.engine_requests,
            "chained": counters.chained,
            "secure_phases": counters.secure_phases,
            "depths": self.depths(),
            "firmware_runs": runs,
            "firmware_drops": drops,
            "firmware_restarts": restarts,
            "modelled_ns": self.now_ns(),
            "modelled_counters": counters_of_tasks,
        });
        if let (Some(all), Value::Object(described)) = (stat.as_object_mut(), self.described()) {
            all.extend(described);
        }
        stat
    }

    /// Current mappings of all contexts.
    pub fn mappings(&self) -> Vec<dart::Mapping> {
        let gate = lock(&self.gate);
        gate.clients.keys().flat_map(|&client| gate.dart.mappings(client)).cloned().collect()
    }
}
