//! Integer quotients and remainders by constants behind addends and factors, for every integer that fp16 represents.

use crate::common;

use anemone_compile::{Options, compile};
use anemone_facts::chips;
use anemone_facts::numerics::Model;
use anemone_net::{Tensor, check, eval, text};
use common::suite::execute;

/// Divisors, among them those whose quotients have the nearest fractions.
const DIVISORS: [i32; 10] = [3, 5, 7, 10, 100, 80, 683, 1025, 1365, 2047];

/// Factor and addend before a division.
const BEFORE: [[i32; 2]; 7] = [[1, 0], [1, 3], [1, -5], [3, 3], [-7, 0], [-1, 3], [2, -5]];

/// Operations before and after: text with `%x`, a value `%n` as dividend, the quotient `%q`, and the result `%y`.
const AFTER: [&str; 3] =
    ["%y: i32[17, 241] = identity(%q)", "%y: i32[17, 241] = add(%q, %a)", "%y: i32[17, 241] = sub(%n, %q)"];

#[test]
fn quotients_by_constants_are_exact_behind_affines() {
    let mut compared = 0;
    for (i, divisor) in DIVISORS.into_iter().enumerate() {
        for (j, [factor, addend]) in BEFORE.into_iter().enumerate() {
            for (k, f) in ["div", "floor_div", "mod"].into_iter().enumerate() {
                let after = AFTER[(i + j + k) % AFTER.len()];
                let scaled = match factor {
                    1 => "identity(%x)",
                    _ => "mul(%x, %f)",
                };
                let source = format!(
                    "net \"n\" {{\n  input %x: i32[17, 241]\n  const %f: i32[] = [{factor}]\n  const %a: i32[] = [{addend}]\n  \
                     const %d: i32[] = [{divisor}]\n  %s: i32[17, 241] = {scaled}\n  %n: i32[17, 241] = add(%s, %a)\n  \
                     %q: i32[17, 241] = {f}(%n, %d)\n  {after}\n  output %y\n}}\n"
                );
                let net = text::parse(&source, &[]).unwrap_or_else(|e| panic!("{source}: {e}"));
                check::check(&net).expect("the net is valid");
                let fits = |x: i32| [x * factor, x * factor + addend].iter().all(|v| v.abs() <= 2048);
                let within = |x: i32| if fits(x) { x as f32 } else { 0.0 };
                let x = Tensor::f32(vec![17, 241], (-2048..=2048).map(within).collect());
                let expected = eval::eval_typed(&net, &[x.clone().cast(net.value(net.inputs[0]).ty.dtype)]);
                let expected = expected.expect("evaluates")[0].data.to_f32();
                let program = compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()).expect("compiles");
                for model in Model::ALL {
                    let y = execute(&program, &[x.data.to_f32()], model).expect("runs");
                    let wrong = (0..y.len()).find(|&at| expected[at].abs() <= 2048.0 && y[at] != expected[at]);
                    let wrong = wrong.map(|at| (x.data.to_f32()[at], y[at], expected[at]));
                    assert_eq!(wrong, None, "{f} by {divisor} of {factor} x + {addend} in {model:?}, {after}");
                }
                compared += 1;
            }
        }
    }
    assert_eq!(compared, DIVISORS.len() * BEFORE.len() * 3);
}
