//! The measured results of the numbers' literature through real programs: each row of `facts::probes` is compiled and
//! executed from its words, in every model, and the models that give the measured result are those of the row.

use crate::common;

use anemone::{Array, execute};
use anemone_compile::{Compat, Options, compile};
use anemone_engine::Options as EngineOptions;
use anemone_facts::chips;
use anemone_facts::numerics::Model;
use anemone_facts::probes::{FINITE, PROBES, Probe};
use anemone_net::{Data, Tensor, check, text};
use common::Score;
use half::f16;
use std::sync::Arc;

fn results(probe: &Probe) -> Result<Vec<Vec<f32>>, String> {
    let elements: usize = probe.shape.iter().product();
    let shape = probe.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let source = format!(
        "net \"probe\" {{ input %x: f16[{shape}] const %ones: f16[{shape}] = blob 0 {} output %y }}",
        probe.program
    );
    let ones = Tensor { shape: probe.shape.to_vec(), data: Data::F16(vec![f16::ONE; elements]) };
    let net = text::parse(&source, &[Arc::new(ones)]).map_err(|e| e.to_string())?;
    check::check(&net).map_err(|e| format!("{e:?}"))?;
    // Apple's compiler leaves an addition of zero standing, which makes plus zero of minus zero.
    let options = Options { compat: Compat::Zin9509, ..Options::default() };
    let program = compile(&net, &chips::CHIPS[0], &options, &mut ()).map_err(|e| e.to_string())?;
    let row = probe.input.iter().flat_map(|&(value, n)| std::iter::repeat_n(value, n));
    let row: Vec<f32> = row.collect();
    let x = Array { shape: probe.shape.to_vec(), data: row.into_iter().cycle().take(elements).collect() };
    let of = |model| {
        let options = EngineOptions { model, ..EngineOptions::default() };
        execute(&program, &[("x".into(), x.clone())], options).map(|run| run.outputs[0].1.data.clone())
    };
    Model::ALL.into_iter().map(|model| of(model).map_err(|e| e.to_string())).collect()
}

fn gives(found: &[f32], measured: &[f32]) -> bool {
    let same = |(&f, &m): (&f32, &f32)| {
        if m == FINITE { f.is_finite() } else { f16::from_f32(f).to_bits() == f16::from_f32(m).to_bits() }
    };
    found.len() == measured.len() && found.iter().zip(measured).all(same)
}

#[test]
fn probes_meet_the_models_that_their_rows_name() {
    let mut score = Score::default();
    let mut met_by = [0; Model::ALL.len()];
    for probe in PROBES {
        let outcome = results(probe).and_then(|all| {
            let met: Vec<Model> = Model::ALL
                .into_iter()
                .zip(&all)
                .filter(|(_, found)| gives(found, probe.measured))
                .map(|(m, _)| m)
                .collect();
            met.iter().for_each(|m| met_by[*m as usize] += 1);
            let say = |x: &[f32]| format!("{:?}", &x[..x.len().min(4)]);
            let found: Vec<String> =
                Model::ALL.into_iter().zip(&all).map(|(m, f)| format!("{} {}", m.name(), say(f))).collect();
            let note = format!("measured {}, {}", say(probe.measured), found.join(", "));
            if met == probe.met {
                Ok(note)
            } else {
                Err(format!("met by {met:?}, the row says {:?}; {note}", probe.met))
            }
        });
        score.case(probe.name, outcome);
    }
    for (model, met) in Model::ALL.into_iter().zip(met_by) {
        println!("{}: {met} of {} probes", model.name(), PROBES.len());
    }
    score.close();
}

/// Ten values for nine columns, so that each row begins with another one.
const SPECIALS: [(f32, usize); 10] = [
    (f32::NAN, 1),
    (f32::INFINITY, 1),
    (f32::NEG_INFINITY, 1),
    (-0.0, 1),
    (0.0, 1),
    (-1.0, 1),
    (65504.0, 1),
    (-65504.0, 1),
    (6e-8, 1),
    (2.0, 1),
];

/// A NaN never leaves the exact models, whatever goes in: "the engine never produces a NaN anywhere".
#[test]
fn exact_models_have_no_nan() {
    for program in [
        "%y: f16[9, 9] = add(%x, %x)",
        "%a: f16[9, 9] = transpose(%x) perm=[1, 0] %y: f16[9, 9] = sub(%x, %a)",
        "%a: f16[9, 9] = transpose(%x) perm=[1, 0] %y: f16[9, 9] = mul(%x, %a)",
        "%a: f16[9, 9] = transpose(%x) perm=[1, 0] %y: f16[9, 9] = matmul(%x, %a) transpose_x=false transpose_y=false",
        "%y: f16[9, 9] = linear(%x, %ones)",
        "%y: f16[9, 9] = softmax(%x) axis=1",
        "%y: f16[9, 1] = reduce_sum(%x) axes=[1] keep_dims=true",
        "%y: f16[9, 1] = reduce_max(%x) axes=[1] keep_dims=true",
        "%y: f16[9, 9] = sqrt(%x)",
        "%y: f16[9, 9] = gelu(%x) mode=exact",
        "%y: f16[9, 9] = log(%x) epsilon=0.0",
        "%y: f16[9, 9] = layer_norm(%x) axes=[1] epsilon=1e-5",
    ] {
        let (shape, input) = (&[9, 9], &SPECIALS);
        let probe = Probe { name: "", program, shape, input, measured: &[], source: "", met: &[], note: "" };
        let all = results(&probe).unwrap_or_else(|e| panic!("{program}: {e}"));
        for (model, found) in Model::ALL.into_iter().zip(&all).filter(|(m, _)| m.planar().is_some()) {
            assert!(found.iter().all(|x| !x.is_nan()), "{program}, {}: {found:?}", model.name());
        }
    }
}
