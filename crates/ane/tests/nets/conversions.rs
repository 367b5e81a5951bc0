//! Every form of a program, and every chain of two conversions, executes to the same bits; a network that was a netplist compiles to
//! the same bytes.

use crate::common;

use anemone::Model as Source;
use anemone::forms::{Form, WriteOptions, encode, lost_in_stream};
use anemone_compile::{Options as CompileOptions, compile};
use anemone_facts::chips;
use anemone_facts::formats::dialects::{ZIN_421, ZIN_9509};
use anemone_facts::numerics::Model;
use anemone_net::netplist::{self, Version};
use anemone_net::read::{MemoryFiles, Options as ReadOptions, read_netplist};
use anemone_net::{Net, check};
use anemone_program::firmware::Package;
use anemone_program::hwx::{Container, Image, Options};
use anemone_program::{Direction, Program, raw};
use common::Score;
use common::draw::{Draw, choices, drawn};
use common::suite::execute;
use common::{entries, models_dir, stem};
use proptest::prelude::*;

/// Networks per run; `ANE_CASES` asks for more.
const CASES: u32 = 120;

/// A form as it is written, with the dialect of its container.
#[derive(Clone, Copy, Debug)]
enum Way {
    Old,
    New,
    Bin,
    Anec,
    Firmware,
    Loaded,
}

const WAYS: [Way; 6] = [Way::Old, Way::New, Way::Bin, Way::Anec, Way::Firmware, Way::Loaded];

/// The program after a form. `None` where the form says that it loses something.
fn through(program: &Program, way: Way) -> Result<Option<Program>, String> {
    let as_container =
        |dialect| WriteOptions { container: Options { dialect, ..Options::default() }, ..WriteOptions::default() };
    let (form, around) = match way {
        Way::Old => (Form::Hwx, as_container(&ZIN_421)),
        Way::New => (Form::Hwx, as_container(&ZIN_9509)),
        Way::Bin => (Form::Bin, WriteOptions::default()),
        Way::Anec => (Form::Anec, WriteOptions::default()),
        Way::Firmware => (Form::Firmware, WriteOptions::default()),
        Way::Loaded => (Form::Loaded, WriteOptions { base: Some(0x5000_0000), ..WriteOptions::default() }),
    };
    if let (Form::Bin, Some(why)) = (form, lost_in_stream(program)) {
        println!("{why}");
        return Ok(None);
    }
    let bytes = match encode(program, form, &around) {
        Ok(bytes) => bytes,
        // A port beyond what the open driver's header states is refused by name.
        Err(error) if error.message.contains("port") => return Ok(None),
        Err(error) => return Err(error.message),
    };
    let read = match form {
        Form::Hwx => Container::read(&bytes).map_err(|e| e.to_string())?.program().map_err(|e| e.to_string()),
        Form::Bin => raw::read_bin(&bytes).map_err(|e| e.to_string()),
        Form::Anec => raw::read_anec(&bytes).map_err(|e| e.to_string()),
        Form::Loaded => {
            let image = Image::read_signed(&bytes).map_err(|e| e.to_string())?;
            assert_eq!(image.base, 0x5000_0000);
            image.to_file().map_err(|e| e.to_string())?.program().map_err(|e| e.to_string())
        }
        _ => {
            let package = Package::read(&bytes).map_err(|e| e.to_string())?;
            package.programs[0].program().map_err(|e| e.to_string())
        }
    };
    read.map(Some).map_err(|e| format!("{way:?}: {e}"))
}

fn bits(program: &Program, inputs: &[Vec<f32>]) -> Result<Vec<u32>, String> {
    Ok(execute(program, inputs, Model::Fast)?.into_iter().map(f32::to_bits).collect())
}

/// Returns true if the two differ in names alone.
fn same(a: &Program, b: &Program) -> bool {
    let ports = |p: &Program| -> Vec<_> {
        p.ports.iter().map(|p| (p.direction, p.bar, p.shape, p.strides, p.element)).collect()
    };
    (&a.stream, &a.kernel, ports(a)) == (&b.stream, &b.kernel, ports(b))
}

/// Takes a program through every form, and from there through every form again, or with `turn` through one, another for each turn. `lost` counts
/// by form what is said to be lost.
fn every_chain(
    program: &Program,
    inputs: &[Vec<f32>],
    turn: Option<usize>,
    lost: &mut [usize; WAYS.len()],
    chains: &mut usize,
) -> Result<String, String> {
    let wanted = bits(program, inputs)?;
    let executes = |other: &Program, way: &dyn Fn() -> String| {
        let found = if same(other, program) { None } else { Some(bits(other, inputs)) };
        match found.transpose().map_err(|e| format!("{}: {e}", way()))? {
            Some(found) if found != wanted => Err(format!("{} executes to other bits", way())),
            _ => Ok(()),
        }
    };
    for (i, first) in WAYS.into_iter().enumerate() {
        let Some(once) = through(program, first)? else {
            lost[i] += 1;
            continue;
        };
        executes(&once, &|| format!("{first:?}"))?;
        for (_, second) in
            WAYS.into_iter().enumerate().filter(|(at, _)| turn.is_none_or(|t| *at == (i + t) % WAYS.len()))
        {
            let Some(twice) = through(&once, second)? else { continue };
            *chains += 1;
            executes(&twice, &|| format!("{first:?}, then {second:?},"))?;
        }
    }
    Ok(String::new())
}

/// Large programs: six packages go through all chains together.
#[test]
fn packages_execute_to_the_same_bits_after_chains_of_two() {
    let Some(dir) = models_dir() else { return };
    let (mut score, mut lost, mut chains) = (Score::default(), [0usize; WAYS.len()], 0);
    for (turn, folder) in entries(&dir).into_iter().enumerate() {
        let Ok(Source::Net { net, .. }) = Source::load(&folder.join("model.mlpackage")) else { continue };
        let compiled = compile(&net, &chips::CHIPS[0], &CompileOptions::default(), &mut ());
        let Ok(program) = compiled else { continue };
        let inputs: Vec<Vec<f32>> = program
            .ports_of(Direction::Input)
            .map(|p| (0..p.shape.elements()).map(|i| ((i * 37 + 11) % 29) as f32 / 8.0 - 1.5).collect())
            .collect();
        score.case(&stem(&folder), every_chain(&program, &inputs, Some(turn), &mut lost, &mut chains));
    }
    println!("{chains} chains; refused or said to be lost: {lost:?} of {WAYS:?}");
    assert!(lost[2] <= 1 && [0, 1, 3, 4, 5].iter().all(|&i| lost[i] == 0), "{lost:?}");
    score.close();
}

proptest! {
    #![proptest_config(drawn(CASES))]

    #[test]
    fn every_chain_of_two_executes_to_the_same_bits(choices in choices()) {
        let case = Draw::choosing(choices).next("drawn");
        let program = case.program();
        // Other tests check that it compiles.
        prop_assume!(program.is_ok());
        let (program, inputs) = program.expect("assumed");
        let (mut lost, mut chains) = ([0usize; WAYS.len()], 0);
        let outcome = every_chain(&program, &inputs, None, &mut lost, &mut chains);
        prop_assert!(outcome.is_ok(), "{}: {:?}", case.summary(), outcome.err());
        // Containers and packages state their ports: nothing is lost in them.
        prop_assert_eq!((lost[0], lost[1], lost[4], lost[5]), (0, 0, 0, 0));
        prop_assert!(chains > 8, "{chains}");
    }
}

/// The container that a network compiles to.
fn container(net: &Net) -> Result<Vec<u8>, String> {
    let program = compile(net, &chips::CHIPS[0], &CompileOptions::default(), &mut ()).map_err(|e| e.to_string())?;
    encode(&program, Form::Hwx, &WriteOptions::default()).map_err(|e| e.message)
}

/// The network after it was a netplist, and its units and how many of them are no units of the schema.
fn through_netplist(net: &Net, version: Version) -> Result<(Net, String), String> {
    let (xml, weights) = netplist::write_as(net, version).map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&xml);
    let count = |what: &str| text.matches(what).count();
    let note = format!("{} units, {} of our own", count("<key>OutputChannels</key>"), count("<string>anemone."));
    let files = MemoryFiles([(netplist::WEIGHTS.to_string(), weights.into())].into());
    let (again, _) = read_netplist(&xml, &files, &ReadOptions::default()).map_err(|e| e.to_string())?;
    check::check(&again).map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    Ok((again, note))
}

#[test]
fn packages_compile_to_the_same_bytes_after_a_netplist() {
    let Some(dir) = models_dir() else { return };
    let mut score = Score::default();
    for folder in entries(&dir) {
        let Ok(Source::Net { net, .. }) = Source::load(&folder.join("model.mlpackage")) else { continue };
        let outcome = || -> Result<String, String> {
            let wanted = container(&net)?;
            let (again, note) = through_netplist(&net, Version::Procedures)?;
            let states = |net: &Net| net.states.iter().map(|s| s.name.clone()).collect::<Vec<_>>();
            if states(&again) != states(&net) {
                return Err("other states".into());
            }
            if container(&again)? == wanted { Ok(note) } else { Err(format!("another program; {note}")) }
        };
        score.case(&stem(&folder), outcome());
    }
    score.close();
}

proptest! {
    #![proptest_config(drawn(CASES))]

    #[test]
    fn operations_compile_to_the_same_bytes_after_a_netplist(choices in choices(), procedures in any::<bool>()) {
        let case = Draw::choosing(choices).next("drawn");
        let net = case.net();
        let wanted = container(&net);
        // Other tests check that it compiles.
        prop_assume!(wanted.is_ok());
        let version = if procedures { Version::Procedures } else { Version::Flat };
        let again = through_netplist(&net, version).and_then(|(again, _)| container(&again));
        prop_assert!(again == wanted, "{}: {:?}", case.summary(), again.err());
    }
}
