//! Cost of a dispatch of the small graph of the latency budget (3x3 convolution 8 to 8, relu, mean): the engine alone, in
//! process, on the direct path and through the broker, beside the modelled budget of an M1.
//!
//! Routes are measured in turns, so that what else the machine does hits all. Median and least of many dispatches; a word
//! on the command line picks the routes whose names have it, a number says how many rounds there are.

#[path = "../tests/acceptance/nets.rs"]
#[allow(dead_code)]
mod nets;

use anemone_engine::{Options, Plan};
use anemone_program::Direction;
use anemone_runtime::broker::client::{Remote, Route};
use anemone_runtime::broker::policy::Policy;
use anemone_runtime::broker::{Broker, Listening};
use anemone_runtime::clock::Stages;
use anemone_runtime::e5rt::device::InProcess;
use anemone_runtime::e5rt::{Buffer, CompileOptions, Runtime, Stream};
use nets::{TextCompiler, tiny};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Dispatches of a route before the next one's.
const IN_A_ROW: usize = 200;

struct Dispatch {
    stream: Stream,
    _bound: [Arc<Buffer>; 2],
}

impl Dispatch {
    fn new(runtime: &Arc<Runtime>, model: &Path) -> Dispatch {
        let library = runtime.compile(model, &CompileOptions::default()).expect("compiles");
        let operation = library.function("main").expect("the function").operation().expect("loads");
        let bound = [("x", false, 1024), ("y", true, 16)].map(|(name, output, bytes)| {
            let buffer = runtime.buffer(bytes).expect("memory");
            operation.port(name, output).expect("a port").bind(&buffer).expect("binds");
            buffer
        });
        let stream = Stream::new(runtime);
        stream.encode(&operation).expect("encodes");
        Dispatch { stream, _bound: bound }
    }
}

struct Timed<'a> {
    name: &'static str,
    step: Box<dyn FnMut() + 'a>,
    times: Vec<Duration>,
}

impl<'a> Timed<'a> {
    fn new(name: &'static str, step: impl FnMut() + 'a) -> Timed<'a> {
        Timed { name, step: Box::new(step), times: Vec::new() }
    }

    fn steps(&mut self) {
        self.times.extend((0..IN_A_ROW).map(|_| {
            let begin = Instant::now();
            (self.step)();
            begin.elapsed()
        }));
    }
}

fn engine() -> impl FnMut() {
    let program = nets::compile(&tiny());
    let mut plan = Plan::new(&program, Options::default()).expect("a plan");
    let mut memory = plan.memory();
    let input: Vec<u8> = program.ports_of(Direction::Input).map(|p| p.bar).collect();
    move || {
        for &bar in &input {
            // As whoever fills an input does.
            std::hint::black_box(memory.region_mut(bar).expect("bound").bytes_mut());
        }
        std::hint::black_box(plan.run(&mut memory).expect("runs"));
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let rounds = words.iter().find_map(|w| w.parse().ok()).unwrap_or(25);
    let wanted: Vec<&String> = words.iter().filter(|w| w.parse::<usize>().is_err()).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("m.net");
    std::fs::write(&model, tiny()).expect("written");
    let own = Arc::new(Runtime::new(Arc::new(InProcess::start().expect("a driver")), Arc::new(TextCompiler), None));
    let broker = Broker::new(Policy::default(), Arc::new(TextCompiler), None).expect("a broker");
    let socket = folder.path().join("aned.sock");
    let listening = Listening::bind(&socket).expect("listens");
    let stop = Arc::new(AtomicBool::new(false));
    let (served, stopped) = (Arc::clone(&broker), Arc::clone(&stop));
    let thread = std::thread::spawn(move || listening.serve(&served, &stopped));
    let remote = |route| {
        let device = Arc::new(Remote::connect(&socket, route).expect("connects"));
        Arc::new(Runtime::new(device.clone(), device, None))
    };
    let routes = [own, remote(Route::Direct), remote(Route::Broker)].map(|r| Dispatch::new(&r, &model));
    let [own, direct, broker] = routes.each_ref().map(|d| move || d.stream.execute().expect("a dispatch"));
    let mut all = vec![
        Timed::new("engine alone", engine()),
        Timed::new("in process", own),
        Timed::new("direct path", direct),
        Timed::new("through the broker", broker),
    ];
    all.retain(|t| wanted.is_empty() || wanted.iter().any(|w| t.name.contains(w.as_str())));
    for _ in 0..rounds {
        all.iter_mut().for_each(Timed::steps);
    }
    for Timed { name, times, .. } in &mut all {
        times.sort();
        let us = |i: usize| times[i].as_nanos() as f64 / 1e3;
        println!("{name}: median {:.1} us, least {:.1} us of {}", us(times.len() / 2), us(0), times.len());
    }
    println!("an M1, modelled: {:.1} us", Stages::SMALL.total_ns() as f64 / 1e3);
    drop(all);
    stop.store(true, Ordering::Relaxed);
    thread.join().expect("ends").expect("serves");
}
