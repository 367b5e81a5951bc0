//! `ane broker`: the daemon. `ane stat`: its counters. The compile service is this program too, under a hidden verb.

use super::{Verbosity, print};
use anemone::places::{self, cache, refused};
use anemone::runtime::ModelCompiler;
use anemone::{Code, Diagnostic, Result, files, os};
use anemone_runtime::broker::client::{Remote, Route};
use anemone_runtime::broker::policy::Policy;
use anemone_runtime::broker::service::{self, Service};
use anemone_runtime::broker::{Broker, Listening};
use anemone_runtime::driver::Config;
use anemone_runtime::e5rt::Compiler;
use anemone_runtime::os::{confine, socket};
use clap::Args;
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane broker
  ane broker --socket /run/user/1000/anemone/aned.sock --policy policy.toml
  ane broker --policy book --engines 2
  ane broker --socket mine.sock --through /run/anemone/aned.sock")]
pub struct Flags {
    /// Socket to listen at
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Policy file of identities and entitlements (docs/runtime.md); without one, unknown programs may compile, load and run.
    /// `book`: every entitlement is required where the book requires it
    #[arg(long, value_name = "FILE|book")]
    policy: Option<PathBuf>,
    /// Be the per-user sibling of the broker at this socket, which has the driver: programs are served through it, in its
    /// per-user tier, each with the rights of its policy
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["policy", "engines", "cache", "numerics"])]
    through: Option<PathBuf>,
    /// Engines that programs are placed on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=4))]
    engines: u64,
    /// Folder of the cache
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// Arithmetic of every program it runs
    #[arg(long, value_enum, default_value = "fast")]
    numerics: super::run::Numerics,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane stat
  ane stat --json --socket /run/user/1000/anemone/aned.sock")]
pub struct StatFlags {
    /// Socket of the broker
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Time limit of compiles declared as long.
const LONG_COMPILE_TIME: Duration = Duration::from_secs(6 * 3600);

/// Verb of the compile service.
pub const SERVICE: &str = "compile-service";

/// Command that starts this program, if it is not the process's executable.
static OWN: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sets the command that starts this program, for hosts whose executable is an interpreter: program, then arguments. Only the
/// first call has an effect.
pub fn set_own_command(command: Vec<OsString>) {
    OWN.get_or_init(|| command);
}

/// Program and arguments of the compile service.
fn own_command() -> Result<(PathBuf, Vec<OsString>)> {
    if let Some([program, arguments @ ..]) = OWN.get().map(Vec::as_slice) {
        return Ok((program.into(), [arguments, &[SERVICE.into()]].concat()));
    }
    let own = std::env::current_exe();
    let own =
        own.map_err(|e| Diagnostic::new(Code::Unreadable, format!("this program's own path: {}", os::reason(&e))))?;
    Ok((own, vec![SERVICE.into()]))
}

pub fn run(flags: Flags, verbosity: Verbosity) -> Result<u8> {
    if let Some(broker) = &flags.through {
        let listening = Listening::bind(&places::socket(flags.socket.clone())?).map_err(refused)?;
        verbosity.note(format!("listening on {}", places::socket(flags.socket)?.display()));
        return listening.serve_through(broker, &AtomicBool::new(false)).map_err(refused).map(|()| 0);
    }
    let policy = match &flags.policy {
        None => Policy::default(),
        Some(path) if path.as_os_str() == "book" && !path.exists() => Policy { book: true, ..Policy::default() },
        Some(path) => {
            let text = String::from_utf8_lossy(&files::read(path)?).into_owned();
            Policy::parse(&text).map_err(|e| refused(e).at(path.display()))?
        }
    };
    let (own, arguments) = own_command()?;
    let listening = Listening::bind(&places::socket(flags.socket.clone())?).map_err(refused)?;
    let config = Config { arithmetic: flags.numerics.arithmetic(), engines: flags.engines, ..Config::default() };
    let service = Arc::new(Service::new(own.clone(), arguments.clone()));
    let long = Arc::new(Service::new(own, arguments).within(LONG_COMPILE_TIME));
    let services = (service as Arc<dyn Compiler>, Some(long as Arc<dyn Compiler>));
    let broker = Broker::with_services(policy, services, Some(cache(flags.cache)?), config).map_err(refused)?;
    if OWN.get().is_some() {
        broker.refuse_siblings();
    }
    verbosity.note(format!("listening on {}", places::socket(flags.socket)?.display()));
    listening.serve(&broker, &AtomicBool::new(false)).map_err(refused)?;
    Ok(0)
}

pub fn stat(flags: StatFlags, verbosity: Verbosity) -> Result<u8> {
    let remote = Remote::connect(&places::socket(flags.socket)?, Route::Broker).map_err(refused)?;
    let stat = remote.stat().map_err(refused)?;
    if verbosity.json {
        print(&format!("{stat}\n"))?;
        return Ok(0);
    }
    print(&described(&stat))?;
    Ok(0)
}

/// Counters by subject: name in the document, and text.
const SUBJECTS: &[(&str, &[(&str, &str)])] = &[
    (
        "clients",
        &[
            ("connections", "connections to the broker"),
            ("connections_by_tier", "of them by tier"),
            ("methods", "methods served"),
            ("refused", "methods refused"),
            ("control_clients", "control clients of the driver"),
            ("direct_clients", "direct-path clients"),
            ("persistent_clients", "clients that keep the device on"),
            ("hints", "scheduling hints, by holder: hint and levels"),
        ],
    ),
    (
        "programs",
        &[
            ("programs", "resident programs"),
            ("programs_by_engine", "of them on each engine"),
            ("instances", "instances"),
            ("attached", "loads that attached to a resident copy"),
            ("depths", "requests at once, by instance"),
            ("power_saving", "loads with aggressive power saving"),
            ("wired", "instances that keep their memory when the engine is off"),
            ("unwired", "programs that gave their memory back"),
            ("purged", "models purged"),
        ],
    ),
    (
        "compiles",
        &[
            ("compiles", "compiles done"),
            ("long_compiles", "of them long ones"),
            ("compiles_waiting", "compiles that wait"),
        ],
    ),
    (
        "requests",
        &[
            ("pending", "waiting or running"),
            ("completed", "completed"),
            ("aborted", "aborted"),
            ("preempted", "preempted and restarted"),
            ("chained", "chained: outputs stayed on the device as the next inputs"),
            ("secure_phases", "secure phases"),
            ("doorbells", "doorbells rung"),
            ("doorbells_by_index", "of them by index"),
            ("engine_requests_by_queue", "engine requests, one for each partition, by queue 0 to 7"),
            ("interrupts", "interrupts"),
            ("events", "events with a value"),
            ("events_signalled", "events signalled"),
            ("modelled_ns", "modelled time, ns"),
            ("modelled_counters", "modelled counters of all tasks"),
        ],
    ),
    (
        "memory",
        &[
            ("mappings", "mappings of the translation unit"),
            ("mapping_ttl", "uses after which an idle mapping may be evicted"),
            ("mappings_evicted", "mappings evicted"),
            ("translated_bytes", "bytes translated"),
            ("translation_faults", "translation faults"),
            ("last_fault", "last translation fault"),
            ("managed_buffers", "buffers of the managed region"),
            ("managed_bytes", "bytes of the managed region"),
        ],
    ),
    (
        "power",
        &[
            ("power", "state"),
            ("power_changes", "changes of state"),
            ("power_management", "off between requests"),
            ("power_gating", "off when idle"),
            ("gating_hysteresis_ms", "idle time before that, ms"),
            ("throttling_percent", "engine time removed by throttling, percent"),
        ],
    ),
    (
        "firmware and secure world",
        &[
            ("firmware_runs", "calls run"),
            ("firmware_drops", "calls dropped"),
            ("firmware_restarts", "restarts"),
            ("methods_called", "methods called, by name"),
            ("register_stores", "stores into registers"),
            ("commands_sent", "raw commands"),
            ("exclave_loaded", "loaded in the secure world"),
            ("exclave_evaluated", "evaluated there"),
            ("exclave_cycles", "times that it was emptied"),
        ],
    ),
];

/// Separates joined words: `IdleArmed` becomes "idle armed".
fn in_words(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// The broker's counters as text, by subject; counters without a subject come last, under their own names.
fn described(stat: &Value) -> String {
    let value = |value: &Value| match value {
        Value::Null => "none".to_string(),
        Value::Bool(on) => if *on { "yes" } else { "no" }.into(),
        Value::String(text) => text.clone(),
        Value::Array(all) if all.is_empty() => "none".into(),
        Value::Array(all) => all.iter().map(Value::to_string).collect::<Vec<_>>().join(" "),
        Value::Object(all) if all.is_empty() => "none".into(),
        Value::Object(all) => all.iter().map(|(name, value)| format!("\n    {name}: {value}")).collect(),
        number => number.to_string(),
    };
    let mut text = String::new();
    for (subject, rows) in SUBJECTS {
        text += &format!("{subject}\n");
        for (name, label) in *rows {
            let Some(found) = stat.get(name) else { continue };
            let shown = value(found);
            let shown = if *name == "power" { in_words(&shown) } else { shown };
            text += format!("  {label:<62} {shown}").trim_end();
            text += "\n";
        }
    }
    let known = |name: &str| name == "schema" || SUBJECTS.iter().any(|(_, rows)| rows.iter().any(|row| row.0 == name));
    for (name, found) in stat.as_object().into_iter().flatten().filter(|(name, _)| !known(name)) {
        text += &format!("{name:<64} {}\n", value(found));
    }
    text
}

/// Answers compile requests on standard input's socket until the broker disconnects.
pub fn compile_service(verbosity: Verbosity) -> Result<u8> {
    let line = socket::standard_input().map_err(refused)?;
    match confine() {
        Ok(true) => {}
        Ok(false) => verbosity.note(
            "the compile service is partly confined: the kernel does not enforce every restriction of files and TCP",
        ),
        Err(missing) => verbosity.note(format!("the compile service is not confined: {missing}")),
    }
    service::serve(&line, &ModelCompiler).map_err(refused)?;
    Ok(0)
}
