//! `ane driver`: the driver's interface: lists it, and calls a selector with its structures explained.

use super::{Verbosity, chip, print};
use anemone::places::refused;
use anemone::reference::nearest;
use anemone::runtime::ModelCompiler;
use anemone::{Code, Diagnostic, Result, files};
use anemone_facts::driver::entitlements::ENTITLEMENTS;
use anemone_facts::driver::selectors::{self, CLIENTS, Client as Kind, HINT_METHODS, METHODS, Method, Selector};
use anemone_facts::driver::structures::{self as s, Place};
use anemone_facts::driver::{codes, properties};
use anemone_runtime::broker::client::{Remote, Route};
use anemone_runtime::driver::client::{Arguments, Client, Create};
use anemone_runtime::driver::methods::{self, Answer};
use anemone_runtime::driver::sign::Signer;
use anemone_runtime::driver::task::{Identity, Task};
use anemone_runtime::driver::{Config, Driver, Property};
use anemone_runtime::e5rt::{CompileOptions, Compiler};
use anemone_runtime::os::shared::Shared;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane driver list
  ane driver call control 7
  ane driver call control 0 --set USAGE_OR_TOKEN=2
  ane driver call control 4 --load model.mlpackage --set TOKEN=token
  ane driver call control 2 --hex request.bin --scalar 0
  ane driver call direct 5 --scalar session --set USAGE=1 --set COUNT=1 --set SURFACES=surface
  ane driver call control 2 --load model.mlpackage --prepare --set TOKEN=token --set COUNTS=0x101 \
    --set SURFACES=surface --set SURFACES[1]=surface
  ane driver method SetThrottlingPercentage 50
  ane driver method GetClientsInfo --socket /run/user/1000/anemone/aned.sock

A call goes to a driver in this process, opened for it. Structures are zeros of the exact size, unless a file says otherwise; fields are \
set by their names. The driver is a model of Apple's: names, sizes and codes are the book's (docs/machine/driver.md).")]
pub struct Flags {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// List clients, selectors, properties and entitlements
    List,
    /// Call a selector
    Call(CallFlags),
    /// Call a method of the direct-path client that is not a selector, or of the hint client; prints what it changed
    Method(MethodFlags),
}

#[derive(Args)]
struct MethodFlags {
    /// Name: see `ane explain NAME` for its effect and numbers
    name: String,
    /// Numbers
    #[arg(value_parser = number)]
    numbers: Vec<u64>,
    /// Call the broker's driver, with the rights of its policy; without it, a driver in this process
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Call without the property required by the second access check
    #[arg(long, conflicts_with = "socket")]
    unprivileged: bool,
    /// Entitlements that the caller lacks; it has all others
    #[arg(long, value_name = "KEY", conflicts_with = "socket")]
    without: Vec<String>,
}

#[derive(Args)]
struct CallFlags {
    /// User client
    #[arg(value_enum)]
    client: ClientName,
    /// Number of the selector
    selector: u32,
    /// Input structure, as bytes of this file
    #[arg(long, value_name = "FILE")]
    hex: Option<PathBuf>,
    /// A field of the structure, by name, NAME[N] for an element: a number, `token`, that of the program of --load, or `surface`,
    /// a new buffer of 64 KiB
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// An input scalar: a number, or `session`, the token of the handshake
    #[arg(long, value_name = "N")]
    scalar: Vec<String>,
    /// Compile a model and create its program first; its token is printed
    #[arg(long, value_name = "MODEL")]
    load: Option<PathBuf>,
    /// Prepare that program too, before the call
    #[arg(long, requires = "load")]
    prepare: bool,
    /// Mask of statistics for its creation
    #[arg(long, value_name = "MASK", value_parser = number, default_value = "0", requires = "load")]
    stats: u64,
    /// Do not open the client before the call
    #[arg(long)]
    closed: bool,
    /// Entitlements that the caller lacks; it has all others
    #[arg(long, value_name = "KEY")]
    without: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum ClientName {
    /// Lifecycle, status, submission
    Control,
    /// Low-latency submission
    Direct,
    /// Scheduling hints
    Hints,
}

impl ClientName {
    fn kind(self) -> Kind {
        match self {
            ClientName::Control => Kind::Control,
            ClientName::Direct => Kind::Direct,
            ClientName::Hints => Kind::Hints,
        }
    }
}

fn number(text: &str) -> std::result::Result<u64, String> {
    let value = text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok());
    value.ok_or("a number, decimal or 0x hexadecimal".into())
}

pub fn run(flags: Flags, verbosity: Verbosity) -> Result<u8> {
    match flags.what {
        What::List => list(verbosity),
        What::Call(flags) => call(&flags, verbosity),
        What::Method(flags) => method(&flags, verbosity),
    }
}

/// Checks that keys exist.
fn known_keys(keys: &[String]) -> Result<()> {
    let Some(key) = keys.iter().find(|key| ENTITLEMENTS.iter().all(|e| e.key != **key)) else { return Ok(()) };
    let near = nearest(key, ENTITLEMENTS.iter().map(|e| e.key));
    Err(Diagnostic::new(Code::Usage, format!("no entitlement is called {key}")).help(near))
}

/// A task with every key except some.
fn task(without: &[String]) -> Task {
    let keys = ENTITLEMENTS.iter().map(|e| e.key).filter(|key| without.iter().all(|w| w != key));
    Task::new(std::process::id(), Identity::default(), keys)
}

fn method(flags: &MethodFlags, verbosity: Verbosity) -> Result<u8> {
    known_keys(&flags.without)?;
    let Some((row, hints)) = methods::named(&flags.name) else {
        let message = format!("no method is called {}", flags.name);
        let known = METHODS.iter().chain(HINT_METHODS).map(|method| method.name);
        return Err(Diagnostic::new(Code::Usage, message).help(nearest(&flags.name, known)));
    };
    let short = row.name;
    numbers_fit(row, &flags.numbers)?;
    let help = match row.guarded {
        true => format!("{}; the second access check guards it: `privileged = true` in a policy", row.effect),
        false => row.effect.to_string(),
    };
    let (before, done, after) = match &flags.socket {
        Some(socket) => {
            let remote = Remote::connect(socket, Route::Broker).map_err(refused)?;
            let before = remote.stat().map_err(refused)?;
            let done = remote.method(hints, short, &flags.numbers).map_err(|error| refused(error).help(&help))?;
            (before, done, remote.stat().map_err(refused)?)
        }
        None => {
            let (driver, _) = Driver::start(Config::default()).map_err(refused)?;
            let task = task(&flags.without);
            task.set_privileged(!flags.unprivileged);
            let client =
                driver.open(&Arc::new(task), if hints { 2 } else { 1 }).map_err(|code| failed("open", code))?;
            let before = driver.described();
            let done = client.method(short, &flags.numbers).map_err(|code| failed(short, code).help(&help))?;
            (before, done, driver.described())
        }
    };
    let rows = |of: &Value| of.as_object().cloned().unwrap_or_default();
    let old = rows(&before);
    let counted = ["methods", "modelled_ns"];
    let changed: serde_json::Map<String, Value> = rows(&after)
        .into_iter()
        .filter(|(name, value)| old.get(name) != Some(value) && !counted.contains(&name.as_str()))
        .collect();
    if verbosity.json {
        let answer = match &done {
            Answer::Number(n) => json!(n),
            Answer::Lines(lines) => json!(lines),
        };
        let document = json!({ "schema": "anemone.driver/1", "method": short, "answer": answer, "changed": changed });
        return print(&format!("{document}\n")).map(|()| 0);
    }
    let mut text = match done {
        Answer::Number(n) => format!("{short}: {n}\n"),
        Answer::Lines(lines) => lines.iter().map(|line| format!("{line}\n")).collect(),
    };
    changed.iter().for_each(|(name, value)| text += &format!("  {name} = {value}\n"));
    print(&text).map(|()| 0)
}

/// Refuses a wrong number of arguments of a method.
fn numbers_fit(method: &Method, given: &[u64]) -> Result<()> {
    let names: Vec<&str> = method.numbers.split_whitespace().collect();
    let least = names.iter().filter(|name| !name.starts_with('[') && !name.ends_with("...")).count();
    let open = names.iter().any(|name| name.ends_with("..."));
    if given.len() >= least && (open || given.len() <= names.len()) {
        return Ok(());
    }
    let wanted = if names.is_empty() { "no numbers".into() } else { names.join(" ") };
    let message = format!("{} takes {wanted}; {} given", method.name, given.len());
    Err(Diagnostic::new(Code::Usage, message).help(format!("{}: {}", method.name, method.effect)))
}

fn list(verbosity: Verbosity) -> Result<u8> {
    let selector = |c: &str, s: &Selector| {
        json!({
            "client": c, "selector": s.index, "name": s.name, "scalars_in": s.scalars_in, "bytes_in": s.struct_in_bytes,
            "scalars_out": s.scalars_out, "bytes_out": s.struct_out_bytes, "rings": s.rings,
        })
    };
    let control = selectors::CONTROL.iter().map(|s| selector("control", s));
    let all: Vec<Value> = control.chain(selectors::DIRECT.iter().map(|s| selector("direct", s))).collect();
    let property = |(name, value): (&'static str, Property)| match value {
        Property::Number(n) => (name, json!(n)),
        Property::Text(text) => (name, json!(text)),
    };
    let live: Vec<(&str, Value)> = Driver::properties().into_iter().map(property).collect();
    if verbosity.json {
        let entitlements: Vec<Value> =
            ENTITLEMENTS.iter().map(|e| json!({ "key": e.key, "opens": e.opens, "kernel": e.kernel })).collect();
        let live: serde_json::Map<String, Value> = live.into_iter().map(|(n, v)| (n.to_string(), v)).collect();
        let clients: Vec<&str> = CLIENTS.iter().map(|c| c.class).collect();
        let method =
            |m: &Method| json!({ "name": m.name, "numbers": m.numbers, "guarded": m.guarded, "effect": m.effect });
        let methods: Vec<Value> = METHODS.iter().chain(HINT_METHODS).map(method).collect();
        let document = json!({
            "schema": "anemone.driver/1", "clients": clients, "selectors": all, "methods": methods, "properties": live, "entitlements": entitlements,
        });
        return print(&format!("{document}\n")).map(|()| 0);
    }
    let mut text = String::new();
    for (service, what) in properties::SERVICES {
        text += &format!("service {service}: {what}\n");
    }
    for client in CLIENTS {
        text += &format!("client {} (type {})\n", client.class, client.kind);
        for s in selectors::of(client.client) {
            let (si, bi, so, bo) = (s.scalars_in, s.struct_in_bytes, s.scalars_out, s.struct_out_bytes);
            let side = |scalars: u32, bytes: u32| match (scalars, bytes) {
                (0, 0) => "nothing".to_string(),
                (0, bytes) => format!("{bytes} bytes"),
                (1, 0) => "1 scalar".into(),
                (scalars, 0) => format!("{scalars} scalars"),
                (1, bytes) => format!("1 scalar and {bytes} bytes"),
                (scalars, bytes) => format!("{scalars} scalars and {bytes} bytes"),
            };
            text += &format!("  {:>2} {:38} {} in, {} out\n", s.index, s.name, side(si, bi), side(so, bo));
        }
    }
    for method in METHODS.iter().chain(HINT_METHODS) {
        let call = format!("{} {}", method.name, method.numbers);
        text += &format!("method {:38} {}\n", call.trim_end(), method.effect);
    }
    live.iter().for_each(|(name, value)| text += &format!("property {name} = {value}\n"));
    ENTITLEMENTS.iter().for_each(|e| text += &format!("entitlement {}: {}\n", e.key, e.opens));
    print(&text).map(|()| 0)
}

/// Fields of the input and output structures.
fn structures(client: ClientName, selector: u32) -> [&'static [Place]; 2] {
    let none: &[Place] = &[];
    match (client, selector) {
        (ClientName::Control | ClientName::Direct, 0) => [s::handshake::PLACES, s::handshake::PLACES],
        (ClientName::Control | ClientName::Direct, 2) => [s::request::PLACES, s::reply::PLACES],
        (ClientName::Control, 3) => [s::create::PLACES, none],
        (ClientName::Control, 4) => [s::prepare::PLACES, s::prepare::PLACES],
        (ClientName::Control, 5) => [s::prepare::PLACES, none],
        (ClientName::Control, 6) => [s::destroy::PLACES, none],
        (ClientName::Control, 7) => [none, s::status::PLACES],
        (ClientName::Control, 8) => [s::instance::PLACES, none],
        (ClientName::Control, 9) => [s::chain::PLACES, s::chained::PLACES],
        (ClientName::Direct, 3) => [s::outputs::PLACES, none],
        (ClientName::Direct, 4) => [s::inputs::PLACES, none],
        (ClientName::Direct, 5 | 6) => [s::map::PLACES, none],
        (ClientName::Direct, 7) => [s::hint::PLACES, s::hinted::PLACES],
        (ClientName::Direct, 8) => [s::active::PLACES, none],
        _ => [none, none],
    }
}

fn failed(what: &str, code: anemone_runtime::Code) -> Diagnostic {
    Diagnostic::new(Code::Fault, format!("{what}: {}", named(code)))
}

/// A return code with its name.
fn named(code: anemone_runtime::Code) -> String {
    let row = codes::CODES.iter().find(|row| row.value == u64::from(code.0));
    row.map_or_else(|| format!("{:#x}", code.0), |row| format!("{:#x} {}: {}", code.0, row.name, row.meaning))
}

fn call(flags: &CallFlags, verbosity: Verbosity) -> Result<u8> {
    let known = selectors::of(flags.client.kind());
    let Some(row) = known.iter().find(|s| s.index == flags.selector) else {
        let message = format!("the client has {} selectors, numbered from 0", known.len());
        return Err(Diagnostic::new(Code::Usage, message).help("ane driver list"));
    };
    known_keys(&flags.without)?;
    let (driver, signer) = Driver::start(Config::default()).map_err(refused)?;
    let task = Arc::new(task(&flags.without));
    let kind = CLIENTS.iter().find(|c| c.client == flags.client.kind()).map_or(0, |c| c.kind);
    let client = driver.open(&task, kind).map_err(|code| failed("open", code))?;
    let session = if flags.closed { None } else { Some(client.open().map_err(|code| failed("handshake", code))?) };
    let mut told: Vec<(String, u64)> = session.iter().map(|session| ("session".to_string(), *session)).collect();
    // The program belongs to the control client, which stays open until the call is done.
    let loader = flags.load.as_deref().map(|model| load(flags, model, &driver, &signer, &task)).transpose()?;
    let token = loader.as_ref().map(|(_, token)| *token);
    told.extend(token.map(|token| ("token".to_string(), token)));
    let input = input(flags, row, token, &client, &mut told)?;
    let mut scalars_out = vec![0; row.scalars_out as usize];
    let mut output = vec![0; row.struct_out_bytes as usize];
    let wrong = |text: &str, why: String| Diagnostic::new(Code::Usage, format!("--scalar {text}: {why}"));
    let scalar = |text: &String| match text.as_str() {
        "session" => session.ok_or_else(|| wrong(text, "the client is not opened with --closed".into())),
        _ => number(text).map_err(|why| wrong(text, why)),
    };
    let scalars = match flags.scalar.as_slice() {
        [] => vec![0; row.scalars_in as usize],
        given => given.iter().map(scalar).collect::<Result<Vec<u64>>>()?,
    };
    let arguments = Arguments {
        scalars_in: &scalars,
        struct_in: Some(&input),
        scalars_out: &mut scalars_out,
        struct_out: Some(&mut output),
        wake: None,
    };
    let code = client.call(row.index, arguments);
    drop(loader);
    let [_, places] = structures(flags.client, row.index);
    let fields: Vec<(String, u64)> = places.iter().map(|p| (p.name.to_string(), value(&output, p))).collect();
    if verbosity.json {
        let object = |all: &[(String, u64)]| -> serde_json::Map<String, Value> {
            all.iter().map(|(name, n)| (name.clone(), json!(n))).collect()
        };
        let document = json!({
            "schema": "anemone.driver/1", "selector": row.name, "code": code.0, "told": object(&told), "scalars": scalars_out,
            "fields": object(&fields),
        });
        print(&format!("{document}\n"))?;
    } else {
        let mut text = String::new();
        told.iter().for_each(|(name, n)| text += &format!("{name} {n:#x}\n"));
        text += &format!("{} ({} in, {} out): {}\n", row.name, input.len(), output.len(), named(code));
        scalars_out.iter().enumerate().for_each(|(i, n)| text += &format!("  scalar {i} = {n:#x}\n"));
        for (place, (name, n)) in places.iter().zip(&fields) {
            let several = if place.count > 1 { format!(" and {} more", place.count - 1) } else { String::new() };
            text += &format!("  {:#05x} {name} = {n:#x}{several}; {}\n", place.at, place.meaning);
        }
        print(&text)?;
    }
    Ok(u8::from(code != anemone_runtime::Code::SUCCESS))
}

/// Creates the program of a model on a control client of its own, and prepares it if requested.
fn load(
    flags: &CallFlags,
    model: &Path,
    driver: &Arc<Driver>,
    signer: &Signer,
    task: &Arc<Task>,
) -> Result<(Client, u64)> {
    let options = CompileOptions { platform: chip("m1")?.target.into(), ..CompileOptions::default() };
    let bundle = ModelCompiler.compile(model, &options).map_err(|e| Diagnostic::new(Code::Usage, e))?;
    let [image] = bundle.images.as_slice() else {
        let message = format!("{} programs, one is expected", bundle.images.len());
        return Err(Diagnostic::new(Code::Usage, message).at(model.display()));
    };
    let stats_mask = u32::try_from(flags.stats)
        .map_err(|_| Diagnostic::new(Code::Usage, format!("--stats {}: 32 bits are expected", flags.stats)))?;
    let control = driver.open(task, 0).map_err(|code| failed("open", code))?;
    control.open().map_err(|code| failed("handshake", code))?;
    let create = Create { name: &bundle.function.name, stats_mask, ..signer.signed(image) };
    let token = control.create(create).map_err(|code| failed("create", code))?.token;
    if flags.prepare {
        control.prepare(token).map_err(|code| failed("prepare", code))?;
    }
    Ok((control, token))
}

/// Size of a surface created for a call, in bytes.
const SURFACE_BYTES: u64 = 64 << 10;

/// The input structure; surfaces that it needs are created on the client, and listed in the output of the call.
fn input(
    flags: &CallFlags,
    row: &Selector,
    token: Option<u64>,
    client: &Client,
    told: &mut Vec<(String, u64)>,
) -> Result<Vec<u8>> {
    let mut input = match &flags.hex {
        Some(path) => files::read(path)?,
        None => vec![0; row.struct_in_bytes as usize],
    };
    let [places, _] = structures(flags.client, row.index);
    for text in &flags.set {
        let wrong = |why: String| Diagnostic::new(Code::Usage, format!("--set {text}: {why}"));
        let (name, given) = text.split_once('=').ok_or_else(|| wrong("FIELD=VALUE expected".into()))?;
        let (name, element) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
            Some((name, index)) => (name, index.parse().map_err(|_| wrong("FIELD[NUMBER]=VALUE expected".into()))?),
            None => (name, 0usize),
        };
        let place = places.iter().find(|p| p.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
            let known: Vec<&str> = places.iter().map(|p| p.name).collect();
            wrong("the structure has no such field".into()).help(format!("fields: {}", known.join(", ")))
        })?;
        if element >= place.count {
            return Err(wrong(format!("{} has {} elements, counted from 0", place.name, place.count)));
        }
        let value = match given {
            "token" => token.ok_or_else(|| wrong("no program is loaded: --load MODEL".into()))?,
            "surface" => {
                let shared = Shared::new(SURFACE_BYTES).map_err(|error| wrong(error.to_string()))?;
                let surface = client.add_surface(Arc::new(shared)).map_err(|code| failed("surface", code))?;
                told.push(("surface".into(), surface.into()));
                surface.into()
            }
            text => number(text).map_err(wrong)?,
        };
        let at = place.at + element * place.bytes;
        let Some(slot) = input.get_mut(at..at + place.bytes.min(8)) else {
            return Err(wrong(format!("the file ends before byte {:#x}", at + place.bytes)));
        };
        slot.copy_from_slice(&value.to_le_bytes()[..slot.len()]);
    }
    Ok(input)
}

/// First element of a field.
fn value(bytes: &[u8], place: &Place) -> u64 {
    let slice = bytes.get(place.at..place.at + place.bytes.min(8)).unwrap_or(&[]);
    slice.iter().rev().fold(0, |all, &b| all << 8 | u64::from(b))
}
