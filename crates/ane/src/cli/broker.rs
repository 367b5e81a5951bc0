//! `ane broker`: the daemon. `ane stat`: what it counts. The compile service is this program too, under a hidden verb.

use super::places::{self, cache, refused};
use super::{Voice, print};
use anemone::runtime::ModelCompiler;
use anemone::{Code, Diagnostic, Result, files};
use anemone_runtime::broker::client::{Remote, Route};
use anemone_runtime::broker::policy::Policy;
use anemone_runtime::broker::service::{self, Service};
use anemone_runtime::broker::{Broker, Listening};
use anemone_runtime::driver::Config;
use anemone_runtime::e5rt::Compiler;
use anemone_runtime::os::{confine, socket};
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane broker
  ane broker --socket /run/user/1000/anemone/aned.sock --policy policy.toml
  ane broker --policy book --engines 2")]
pub struct Flags {
    /// Socket to listen at
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Policy file of identities and entitlements (docs/runtime.md); without one, unknown programs may compile, load and run.
    /// `book`: every entitlement gates what the book says it opens
    #[arg(long, value_name = "FILE|book")]
    policy: Option<PathBuf>,
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

/// Longest compile of those that are declared long.
const LONG_COMPILE_TIME: Duration = Duration::from_secs(6 * 3600);

/// Verb of the compile service.
pub const SERVICE: &str = "compile-service";

pub fn run(flags: Flags, voice: Voice) -> Result<u8> {
    let policy = match &flags.policy {
        None => Policy::default(),
        Some(path) if path.as_os_str() == "book" && !path.exists() => Policy { book: true, ..Policy::default() },
        Some(path) => {
            let text = String::from_utf8_lossy(&files::read(path)?).into_owned();
            Policy::parse(&text).map_err(|e| refused(e).at(path.display()))?
        }
    };
    let own = std::env::current_exe()
        .map_err(|e| Diagnostic::new(Code::Unreadable, format!("this program's own path: {e}")))?;
    let listening = Listening::bind(&places::socket(flags.socket.clone())?).map_err(refused)?;
    let config = Config { arithmetic: flags.numerics.arithmetic(), engines: flags.engines, ..Config::default() };
    let service = Arc::new(Service::new(own.clone(), vec![SERVICE.into()]));
    let long = Arc::new(Service::new(own, vec![SERVICE.into()]).within(LONG_COMPILE_TIME));
    let services = (service as Arc<dyn Compiler>, Some(long as Arc<dyn Compiler>));
    let broker = Broker::with_services(policy, services, Some(cache(flags.cache)?), config).map_err(refused)?;
    voice.note(format!("listening on {}", places::socket(flags.socket)?.display()));
    listening.serve(&broker, &AtomicBool::new(false)).map_err(refused)?;
    Ok(0)
}

pub fn stat(flags: StatFlags, voice: Voice) -> Result<u8> {
    let remote = Remote::connect(&places::socket(flags.socket)?, Route::Broker).map_err(refused)?;
    let stat = remote.stat().map_err(refused)?;
    if voice.json {
        print(&format!("{stat}\n"))?;
        return Ok(0);
    }
    let rows = stat.as_object().into_iter().flatten().filter(|(name, _)| *name != "schema");
    let lines: String = rows.map(|(name, value)| format!("{name:<18} {value}\n")).collect();
    print(&lines)?;
    Ok(0)
}

/// Answers compile requests on standard input's socket until the broker is gone.
pub fn compile_service(voice: Voice) -> Result<u8> {
    let line = socket::standard_input().map_err(refused)?;
    match confine() {
        Ok(true) => {}
        Ok(false) => voice.note(
            "the compile service is confined in part: the kernel does not enforce every restriction of files and TCP",
        ),
        Err(missing) => voice.note(format!("the compile service is not confined: {missing}")),
    }
    service::serve(&line, &ModelCompiler).map_err(refused)?;
    Ok(0)
}
