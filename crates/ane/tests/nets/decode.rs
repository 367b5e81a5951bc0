//! The example of a decoder: two functions of one package over the same states, token by token as PyTorch continued the prompt.

use anemone::{Array, Choices, Executable, Model};
use anemone_compile::Options;
use anemone_facts::silicon;
use serde_json::Value;
use std::path::PathBuf;

fn example() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/decode"))
}

fn function(name: &str) -> Executable {
    let path = example().join("decoder.mlpackage");
    let mut choices = Choices::default();
    choices.options.function = Some(name.into());
    let model = Model::load_with(&path, &choices).unwrap_or_else(|e| panic!("{name}: {e}"));
    let m1 = silicon::by_name("m1").expect("a chip");
    model.executable(&path, m1, &Options::default(), false).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The most probable token after the last of some, which stand from a position on.
fn next(of: &Executable, ids: &[usize], position: usize, states: &mut [(String, Array)]) -> usize {
    let array = |shape: Vec<usize>, data: Vec<f32>| Array { shape, data };
    let mut inputs = vec![
        ("ids".to_string(), array(vec![1, ids.len()], ids.iter().map(|&i| i as f32).collect())),
        ("position".to_string(), array(vec![1], vec![position as f32])),
    ];
    inputs.extend(states.iter().cloned());
    let mut outputs = of.run(&inputs, anemone_engine::Options::default()).expect("it runs");
    of.keep_states(&mut outputs, states);
    let [(_, logits)] = outputs.as_slice() else { panic!("one output is left besides the states") };
    let last = &logits.data[logits.data.len() - logits.data.len() / ids.len()..];
    (0..last.len()).max_by(|&a, &b| last[a].total_cmp(&last[b])).expect("logits")
}

#[test]
fn a_decoder_continues_a_prompt_as_pytorch_does() {
    let text = std::fs::read_to_string(example().join("expected.json")).expect("the expected tokens");
    let expected: Value = serde_json::from_str(&text).expect("JSON");
    let letters = expected["letters"].as_str().expect("letters");
    let wanted: Vec<usize> =
        expected["tokens"].as_array().expect("tokens").iter().map(|t| t.as_u64().expect("a token") as usize).collect();
    let prompt: Vec<usize> =
        expected["prompt"].as_str().expect("a prompt").chars().map(|c| letters.find(c).expect("a letter")).collect();
    let (prefill, decode) = (function("prefill"), function("decode"));
    let mut states = decode.states_at_start().expect("it keeps states");
    assert_eq!(states.len(), 2, "keys and values");
    let mut tokens = vec![next(&prefill, &prompt, 0, &mut states)];
    assert!(states.iter().all(|(_, array)| array.data.iter().any(|&x| x != 0.0)), "the prompt leaves keys and values");
    while tokens.len() < wanted.len() {
        let last = tokens[tokens.len() - 1];
        tokens.push(next(&decode, &[last], prompt.len() + tokens.len() - 1, &mut states));
    }
    assert_eq!(tokens, wanted);
}
