use anemone_compile::testing::{ROUNDING, SMALL_ERROR, TOTAL_ERROR, small_error, verify_passes};
use anemone_compile::{Options, compile};
use anemone_facts::chips::CHIPS;

#[test]
fn a_factor_between_a_convolution_and_a_clip_stays_a_factor() {
    let _verified = verify_passes();
    // The weights grow by a power of two, since terms are small.
    let weights = ["0.001953125"; 16].join(", ");
    let net = format!(
        r#"net "n" {{
  input %x: f16[1, 4, 8, 8]
  const %w: f16[4, 4, 1, 1] = [{weights}]
  %t: f16[1, 4, 8, 8] = tanh(%x)
  %c: f16[1, 4, 8, 8] = conv(%t, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1
  %y: f16[1, 4, 8, 8] = relu6(%c)
  output %y
}}
"#
    );
    let net = anemone_net::text::parse(&net, &[]).expect("a network");
    let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("a program");
    let tasks = program.tasks().expect("a stream");
    let scale = |t: &anemone_program::Task| t.get(program.layout, anemone_facts::Field::PostScale);
    assert_eq!(tasks.iter().map(scale).collect::<Vec<_>>(), [Some(0x3c00), Some(0x3000)]);
}

#[test]
fn a_function_before_an_output_stays_steps_in_a_large_network() {
    let _verified = verify_passes();
    let tasks = |products: usize| {
        let step = |i: usize| format!("  %c{}: f16[1, 80, 8, 8] = mul(%c{i}, %d)\n", i + 1);
        let steps: String = (0..products).map(step).collect();
        let net = format!(
            "net \"n\" {{\n  input %c0: f16[1, 80, 8, 8]\n  input %d: f16[1, 80, 8, 8]\n{steps}  %y: f16[1, 80, 8, 8] = sigmoid(%c{products})\n  output %y\n}}\n"
        );
        let net = anemone_net::text::parse(&net, &[]).expect("a network");
        let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("a program");
        program.tasks().expect("a stream").len() - products
    };
    assert_eq!((tasks(2), tasks(20)), (1, 2));
}

#[test]
fn errors_of_many_tables_add_up() {
    let small_error = |errors| small_error(errors, TOTAL_ERROR);
    assert_eq!(small_error(vec![1e-3; 47]), SMALL_ERROR);
    assert_eq!(small_error(vec![1e-3; 49]), ROUNDING);
    // The few of the greater error go first.
    assert_eq!(small_error([vec![6e-4; 50], vec![1.9e-3; 20]].concat()), 6e-4);
    assert_eq!(small_error(vec![1e-5; 1000]), SMALL_ERROR);
}

/// The gate of a gelu is a table where that of a silu is off by too much, and in networks with so many that their errors add up.
#[test]
fn gates_become_tables() {
    let _verified = verify_passes();
    let tasks = |function: &str, count: usize| {
        let step = |i: usize| {
            let next = i + 1;
            format!(
                "  %g{i}: f16[1, 80, 8, 8] = {}\n  %c{next}: f16[1, 80, 8, 8] = mul(%g{i}, %d)\n",
                function.replace("{}", &format!("%c{i}"))
            )
        };
        let steps: String = (0..count).map(step).collect();
        let net = format!(
            "net \"n\" {{\n  input %c0: f16[1, 80, 8, 8]\n  input %d: f16[1, 80, 8, 8]\n{steps}  output %c{count}\n}}\n"
        );
        let net = anemone_net::text::parse(&net, &[]).expect("a network");
        let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("a program");
        program.tasks().expect("a stream").len() - count
    };
    assert_eq!([10, 40].map(|count| tasks("gelu({}) mode=exact", count)), [20, 120]);
    assert_eq!(tasks("silu({})", 10), 30);
}

/// The error of a table has one sign over values of one size, so that a mean keeps it: small values that means alone read stay steps.
#[test]
fn small_values_that_are_averaged_stay_steps() {
    let _verified = verify_passes();
    let tasks = |weight: f32, reader: &str| {
        let weights = vec![weight.to_string(); 256].join(", ");
        let net = format!(
            r#"net "n" {{
  input %x: f16[1, 16, 32, 32]
  const %w: f16[16, 16, 1, 1] = [{weights}]
  %c: f16[1, 16, 32, 32] = conv(%x, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1
  %g: f16[1, 16, 32, 32] = sigmoid_hard(%c) alpha=0.16666667 beta=0.5
  %h: f16[1, 16, 32, 32] = mul(%c, %g)
{reader}
  output %y
}}
"#
        );
        let net = anemone_net::text::parse(&net, &[]).expect("a network");
        compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("a program").tasks().expect("a stream").len()
    };
    let mean = "  %y: f16[1, 16, 1, 1] = reduce_mean(%h) axes=[2, 3] keep_dims=true";
    let product =
        "  %y: f16[1, 16, 32, 32] = conv(%h, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1";
    // Usual values of 1/2 and 1/16, of which hard swish makes about half. The gate, of which straight lines are exact, is one table.
    assert_eq!([0.125, 0.015625].map(|weight| tasks(weight, mean) - 1), [1, 3]);
    assert_eq!([0.125, 0.015625].map(|weight| tasks(weight, product) - 1), [1, 1]);
}

/// Tables of many hard swishes are off by more than a network admits, and a factor and an addend behind each change nothing of that.
#[test]
fn a_scaled_activation_counts_as_the_activation() {
    let _verified = verify_passes();
    let tasks = |count: usize, factor: f32| {
        let weights = vec!["0.125"; 256].join(", ");
        let part = |i: usize| {
            format!(
                r#"  %c{i}: f16[1, 16, 32, 32] = conv(%h{i}, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1
  %g{i}: f16[1, 16, 32, 32] = sigmoid_hard(%c{i}) alpha=0.16666667 beta=0.5
  %m{i}: f16[1, 16, 32, 32] = mul(%c{i}, %g{i})
  %s{i}: f16[1, 16, 32, 32] = mul(%m{i}, %f)
  %h{}: f16[1, 16, 32, 32] = add(%s{i}, %o)
"#,
                i + 1
            )
        };
        let parts: String = (0..count).map(part).collect();
        let net = format!(
            "net \"n\" {{\n  input %h0: f16[1, 16, 32, 32]\n  const %w: f16[16, 16, 1, 1] = [{weights}]\n  const %f: f16[] = [{factor}]\n  \
             const %o: f16[] = [0.05]\n{parts}  %y: f16[1, 16, 32, 32] = conv(%h{count}, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] \
             dilations=[1, 1] groups=1\n  output %y\n}}\n"
        );
        let net = anemone_net::text::parse(&net, &[]).expect("a network");
        compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("a program").tasks().expect("a stream").len()
    };
    assert_eq!([tasks(1, 0.5), tasks(1, 0.3)], [2, 2]);
    let many = [1.0, 0.5, 0.3].map(|factor| tasks(6, factor));
    assert!(many.iter().all(|&count| count >= 19), "{many:?}");
}
