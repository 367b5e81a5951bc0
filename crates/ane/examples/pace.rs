//! Runs a model again and again at another program's word: each number read from standard input is answered by the
//! nanoseconds of so many runs, one line each. The word `exact` behind the model asks for the device's arithmetic; `compile`
//! for the time from the package's path to the program, in place of runs.
//! `ANE_HOST` selects the instruction set. `scripts/benchmark.py` takes turns with it.

use anemone::{Code, Diagnostic, Result};
use anemone_compile::Options;
use anemone_engine::{Plan, kernels::isa};
use anemone_facts::chips;
use anemone_facts::numerics::Model;
use anemone_program::Direction;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

fn main() -> Result<()> {
    if let Ok(name) = std::env::var("ANE_HOST") {
        isa::force(&name).map_err(|e| Diagnostic::new(Code::Usage, e.to_string()))?;
    }
    let path = std::env::args().nth(1).unwrap_or_default();
    let compile = || anemone::Model::load(Path::new(&path))?.compile(&chips::CHIPS[0], &Options::default(), &mut ());
    let kind = std::env::args().nth(2).unwrap_or_default();
    if kind == "compile" {
        return at_each_word(|| compile().map(|compiled| drop(compiled.program)));
    }
    let program = compile()?.program;
    let model = if kind == "exact" { Model::Fixed } else { Model::Fast };
    let mut plan = Plan::new(&program, anemone_engine::Options { model, ..Default::default() })?;
    let mut memory = plan.memory();
    for port in program.ports_of(Direction::Input) {
        if let Some(region) = memory.region_mut(port.bar) {
            // fp16 numbers around 0.06: no unit is quicker on them than on others.
            region.bytes_mut().chunks_exact_mut(2).enumerate().for_each(|(i, b)| b.copy_from_slice(&[i as u8, 0x2b]));
        }
    }
    at_each_word(|| plan.run(&mut memory).map(drop).map_err(Into::into))
}

/// Works once, then as often as each line says.
fn at_each_word(mut work: impl FnMut() -> Result<()>) -> Result<()> {
    work()?;
    let mut out = std::io::stdout().lock();
    let mut say = |line: String| {
        // A reader that has gone away ends the loop below.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    };
    say("ready".into());
    for line in std::io::stdin().lock().lines().map_while(|line| line.ok()) {
        let times: usize = line.trim().parse().unwrap_or(1);
        let start = Instant::now();
        for _ in 0..times {
            work()?;
        }
        say(start.elapsed().as_nanos().to_string());
    }
    Ok(())
}
