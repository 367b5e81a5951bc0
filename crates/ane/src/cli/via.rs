//! `ane run --via`: runs through the runtime, in this process or through a broker.

use super::Verbosity;
use anemone::connection::{Connection, Device, Request, Settings, Via};
use anemone::places::not_kept;
use anemone::{Array, Result, Run, files};
use anemone_runtime::broker::client::Loading;
use anemone_runtime::cache::Bundle;
use anemone_runtime::driver::Arithmetic;
use clap::Args;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

#[derive(Args)]
pub struct Flags {
    /// Run through the runtime: compiled once by content, then dispatched
    #[arg(long, value_enum)]
    via: Option<Via>,
    /// Socket of the broker
    #[arg(long, value_name = "PATH", requires = "via")]
    socket: Option<PathBuf>,
    /// Folder of the cache
    #[arg(long, value_name = "FOLDER", requires = "via")]
    cache: Option<PathBuf>,
    /// Number of dispatches with the same inputs, for timing; --repeat passes states on
    #[arg(long, default_value_t = 1, requires = "via")]
    times: u32,
    /// Class of service of all requests to the broker: 33, 25, 21, 17, 9, the first the most urgent; 0 is real time and needs
    /// its key
    #[arg(long, value_name = "CLASS", requires = "via")]
    qos: Option<u32>,
    /// Requested number of simultaneous requests
    #[arg(long, value_name = "N", default_value_t = 8, requires = "via")]
    depth: u32,
    /// Request aggressive power saving, which needs a key
    #[arg(long, requires = "via")]
    power_saving: bool,
    /// Keep the program's memory when the engine powers off
    #[arg(long, requires = "via")]
    wired: bool,
    /// Use the broker's compile service for long compiles, which needs a key
    #[arg(long, requires = "via")]
    long_compile: bool,
    /// Run in secure mode: other programs are excluded meanwhile, and the engine is power-cycled before and after
    #[arg(long, requires = "via")]
    secure: bool,
    /// Number of streams submitted at once, each with its own operations
    #[arg(long, value_name = "N", default_value_t = 1, requires = "via", value_parser = clap::value_parser!(u32).range(1..=64))]
    streams: u32,
    /// A defect of the M1's runtime to reproduce
    #[arg(long, value_enum, requires = "via")]
    quirk: Vec<Quirk>,
    /// File for a trace of the session, for ui.perfetto.dev
    #[arg(long, value_name = "FILE", requires = "via")]
    perfetto: Option<PathBuf>,
}

/// A defect of the M1's runtime.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Quirk {
    /// The second of two overlapped streams of a process never completes; it ends by its time-out
    OverlappedStreams,
}

impl Flags {
    /// Returns true if the run goes through the runtime.
    pub fn wanted(&self) -> bool {
        self.via.is_some()
    }

    /// Settings of the connection, from the flags.
    fn settings(&self, arithmetic: Arithmetic) -> Settings {
        Settings {
            via: self.via.unwrap_or_default(),
            socket: self.socket.clone(),
            cache: self.cache.clone(),
            class: self.qos,
            loading: Loading {
                depth: self.depth,
                power_saving: self.power_saving,
                wired: self.wired,
                long: self.long_compile,
            },
            secure: self.secure,
            overlap: self.quirk.contains(&Quirk::OverlappedStreams),
            streams: self.streams,
            times: self.times,
            trace: self.perfetto.is_some(),
            arithmetic,
        }
    }

    /// Compiles and loads, once for all runs, and reports the origin of the program.
    pub fn open(&self, request: &Request, arithmetic: Arithmetic, verbosity: Verbosity) -> Result<Session> {
        let connection = self.settings(arithmetic).open(request)?;
        let kept = connection.was_kept();
        let runtime = connection.runtime();
        if let Device::There(_) = connection.device() {
            verbosity.detail(format!("the broker's cache {}", if kept { "hit" } else { "miss: it compiled" }));
        }
        if let Some(why) = runtime.unkept() {
            verbosity.note(not_kept(why));
        } else if let Some(cache) = runtime.cache() {
            let outcome = if kept { "hit: nothing is compiled" } else { "miss: compiled and kept" };
            verbosity.detail(format!("cache {outcome} ({})", cache.folder().display()));
        }
        Ok(Session { connection, perfetto: self.perfetto.clone() })
    }
}

/// A connection, and the file for its trace.
pub struct Session {
    connection: Connection,
    perfetto: Option<PathBuf>,
}

impl Session {
    /// Compiled model that the device has loaded.
    pub fn bundle(&self) -> &Bundle {
        self.connection.bundle()
    }

    /// Dispatches with these inputs; returns the outputs of the first stream.
    pub fn run(&self, inputs: &[(String, Array)]) -> Result<Run> {
        let outputs = self.connection.run(inputs)?;
        if let (Some(path), Some(trace)) = (&self.perfetto, self.connection.runtime().trace()) {
            files::write(path, trace.json().as_bytes())?;
        }
        Ok(Run { outputs, tasks: 0, skipped: Vec::new(), trace: Vec::new() })
    }

    /// Prints the driver's counters, if the driver is in this process.
    pub fn print_counters(&self, verbosity: Verbosity) {
        let counts = self.connection.runtime().counts();
        let sent = counts.state_bytes.load(Ordering::Relaxed);
        let in_place = counts.in_place_bytes.load(Ordering::Relaxed);
        let Device::Here(device) = self.connection.device() else { return };
        let counters = device.driver().counters();
        let calls = counters.calls.iter().map(|((control, selector), n)| {
            format!("{} {selector} x {n}", if *control { "control" } else { "direct" })
        });
        verbosity.detail(format!("selectors: {}", calls.collect::<Vec<_>>().join(", ")));
        verbosity.detail(format!(
            "{} requests, {} of them chained, {} engine requests, {} interrupts, {} secure phases, {sent} bytes of state sent, \
             {in_place} bytes of buffers used in place, {:.1} us modelled",
            counters.completed,
            counters.chained,
            counters.engine_requests.iter().sum::<u64>(),
            counters.interrupts,
            counters.secure_phases,
            device.driver().now_ns() as f64 / 1000.0
        ));
    }
}
