//! MIL text: the corpus where it is there, round trips, and faults with their places.

mod lex;
mod literals;

use crate::read::{Disk, data_dir, models};
use anemone_net::check::check;
use anemone_net::eval::eval;
use anemone_net::graph::{Data, Tensor};
use anemone_net::mil::*;
use anemone_net::read::{MemoryFiles, Options, read_package, read_program};

const SMALL: &str = r#"program(1.3)
[buildInfo = dict<string, string>({{"a-b", "1"}, {"c", "\"q\""}})]
{
    func main<ios18>(tensor<fp16, [1, 4, 2, 2]> x) {
        tensor<fp16, [1, 4, 2, 2]> y = mul(x = x, y = fp16(-0x1.8p+0))[name = string("y")];
        tensor<fp16, [1, 4, 2, 2]> z = relu(x = y)[name = string("z")];
    } -> (z);
}
"#;

#[test]
fn text_comes_back() {
    let program = parse(SMALL).unwrap();
    let printed = print(&program);
    assert_eq!(parse(&printed).unwrap(), program);
    assert!(printed.contains("fp16(-0x1.8p+0)") && printed.contains("program(1.3)"), "{printed}");
    let (net, _) = read_program(&program, &MemoryFiles::default(), &Options::default()).unwrap();
    check(&net).unwrap();
    let ones = Tensor::f32([1, 4, 2, 2], vec![-2.0; 16]);
    assert_eq!(eval(&net, &[ones]).unwrap()[0].data.to_f32(), vec![3.0; 16]);
}

#[test]
fn every_fault_is_told_with_its_place() {
    let text = SMALL
        .replace("mul(x = x, y = fp16(-0x1.8p+0))", "mul(x = x, y = fp16(hello))")
        .replace("relu(x = y)", "relu(x y)");
    let faults = parse(&text).unwrap_err();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert_eq!((faults[0].line, faults[0].found.as_str(), faults[0].expected.as_str()), (5, "`hello`", "a number"));
    assert_eq!(&text[faults[0].start..faults[0].end], "hello");
    assert_eq!((faults[1].line, faults[1].found.as_str()), (6, "`y`"));
    for damaged in ["", "program", "program(1", "program(1.0){func", &SMALL[..200], &SMALL[..SMALL.len() - 3]] {
        assert!(!parse(damaged).unwrap_err().is_empty(), "{damaged}");
    }
    let deep = format!("program(1.0) [a = {}", "list<".repeat(10_000));
    assert!(parse(&deep).is_err());
    let wrong = SMALL.replace("fp16(-0x1.8p+0)", "tensor<fp16, [3]>([1, 2])");
    assert!(parse(&wrong).unwrap_err()[0].expected.starts_with('3'));
}

#[test]
fn blocks_and_states_are_read() {
    let text = r#"program(1.0) { func main<ios18>(tensor<fp32, [2]> x, state<tensor<fp16, [2]>> s) {
        int32 zero = const()[val = int32(0)];
        int32 n, tensor<fp32, [2]> y = while_loop(loop_vars = (zero, x)) (int32 i, tensor<fp32, [2]> a) {
            bool go = less(x = i, y = int32(3));
        } -> (go), (int32 i, tensor<fp32, [2]> a) {
            int32 next = add(x = i, y = int32(1));
            tensor<fp32, [2]> twice = add(x = a, y = a);
        } -> (next, twice);
        tensor<fp16, [2]> before = read_state(input = s);
        tensor<fp16, [2]> low = cast(x = y, dtype = string("fp16"));
        tensor<fp16, [2]> sum = add(x = before, y = low);
        write_state(input = s, data = sum);
        bool yes = const()[val = bool(true)];
        tensor<fp32, [2]> out = cond(pred = yes) { tensor<fp32, [2]> a = identity(x = y); } -> (a), {
            tensor<fp32, [2]> a = exp(x = y); } -> (a);
    } -> (out); }"#;
    let program = parse(text).unwrap_or_else(|f| panic!("{f:?}"));
    assert_eq!(parse(&print(&program)).unwrap(), program);
    let (net, _) = read_program(&program, &MemoryFiles::default(), &Options::default()).unwrap();
    check(&net).unwrap();
    assert_eq!((net.states.len(), net.inputs.len(), net.outputs.len()), (1, 2, 2));
    let inputs = [Tensor::f32([2], vec![1.0, 2.0]), Tensor::f32([2], vec![10.0, 20.0])];
    let outputs = eval(&net, &inputs).unwrap();
    assert_eq!(outputs[0].data, Data::F32(vec![8.0, 16.0]));
    assert_eq!(outputs[1].data, Data::F32(vec![18.0, 36.0]));
    let data_dependent = text.replace("less(x = i, y = int32(3))", "less(x = i, y = k)").replace(
        "int32 zero =",
        "tensor<int32, [2]> w = cast(x = x, dtype = string(\"int32\")); int32 k = reduce_max(x = w); int32 zero =",
    );
    let error = read_program(&parse(&data_dependent).unwrap(), &MemoryFiles::default(), &Options::default());
    assert!(error.unwrap_err().to_string().contains("static"));
}

/// Every text of the folder and of the oracles parses, and prints as text that parses back.
#[test]
fn the_corpus_parses() {
    let Some(dir) = data_dir("ANE_GOLDEN_DIR", "../shared/golden") else { return };
    let mut texts = Vec::new();
    let mut folders = vec![dir.join("mil"), dir.join("oracles")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = folder.read_dir() else { continue };
        for path in entries.map(|e| e.unwrap().path()) {
            let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
            if path.is_dir() {
                folders.push(path);
            } else if extension == "mil" {
                texts.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
            } else if extension == "json" {
                let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
                texts.extend(json["mil"].as_str().map(|mil| (path.display().to_string(), mil.to_string())));
            }
        }
    }
    assert!(!texts.is_empty());
    let mut read = 0;
    for (name, text) in &texts {
        let program = parse(text).unwrap_or_else(|f| panic!("{name}: {}", f[0]));
        assert_eq!(parse(&print(&program)).unwrap(), program, "{name}");
        // Their weights are not there: zeros stand in.
        match read_program(&program, &crate::read::Zeros, &Options::default()) {
            Ok((net, _)) => {
                check(&net).unwrap_or_else(|e| panic!("{name}: {e:?}"));
                read += 1;
            }
            Err(error) => println!("{name}: {error}"),
        }
    }
    println!("{} texts parse, {read} become nets", texts.len());
}

/// Packages print as text that parses back to the same net, and written anew they still compute the same.
#[test]
fn packages_survive_the_text() {
    for dir in models() {
        let name = dir.file_name().unwrap().to_string_lossy().into_owned();
        let files = Disk(dir.join("model.mlpackage"));
        let (net, _) = read_package(&files, &Options::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let program = anemone_net::read::package_program(&files).unwrap();
        let weights = Disk(dir.join("model.mlpackage/Data/com.apple.CoreML"));
        let text = print(&program);
        let back = parse(&text).unwrap_or_else(|f| panic!("{name}: {}", f[0]));
        let (again, _) = read_program(&back, &weights, &Options::default()).unwrap();
        assert!(again == net, "{name}: another net");
        let written = write(&net).unwrap_or_else(|e| panic!("{name}: {e}"));
        let text = print(&written.program);
        let files = MemoryFiles([("weights/weight.bin".to_string(), written.weights.into())].into());
        let back = parse(&text).unwrap_or_else(|f| panic!("{name}: {}", f[0]));
        let (rewritten, _) = read_program(&back, &files, &Options::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        check(&rewritten).unwrap();
        assert_eq!(print(&write(&rewritten).unwrap().program), text, "{name}");
        println!("{name}: {} operations", rewritten.ops.len());
    }
}

/// A loop too long to be unrolled stays one; a counter that it gathers by becomes a tensor that is scanned.
#[test]
fn a_long_loop_stays_a_loop() {
    let text = r#"program(1.0) { func main<ios18>(tensor<fp32, [1000, 2]> x, tensor<fp32, [2]> s) {
        int32 zero = const()[val = int32(0)];
        int32 n, tensor<fp32, [2]> y = while_loop(loop_vars = (zero, s)) (int32 i, tensor<fp32, [2]> a) {
            bool go = less(x = i, y = int32(900));
        } -> (go), (int32 i, tensor<fp32, [2]> a) {
            int32 next = add(x = i, y = int32(1));
            int32 at = add(x = i, y = int32(50));
            tensor<fp32, [2]> row = gather(x = x, indices = at, axis = int32(0));
            tensor<fp32, [2]> sum = add(x = a, y = row);
            tensor<fp32, [2]> half = mul(x = sum, y = fp32(0x1p-1));
        } -> (next, half);
        tensor<fp32, [2]> out = relu(x = y);
    } -> (out, n); }"#;
    let program = parse(text).unwrap_or_else(|f| panic!("{f:?}"));
    let (net, _) = read_program(&program, &MemoryFiles::default(), &Options::default()).unwrap();
    check(&net).unwrap();
    let found = net.ops.iter().find_map(|op| if let anemone_net::OpKind::Loop(l) = &op.kind { Some(l) } else { None });
    let found = found.expect("a loop");
    assert_eq!((found.turns, found.carried, found.scanned.len()), (900, 1, 1));
    assert!(found.body.ops.iter().all(|op| op.kind.name() != "gather"), "{:?}", found.body.ops);
    let x: Vec<f32> = (0..2000).map(|i| (i % 37) as f32 / 8.0 - 1.0).collect();
    let (mut a, mut b) = (3.0f32, -1.0f32);
    for row in x.chunks(2).skip(50).take(900) {
        (a, b) = ((a + row[0]) * 0.5, (b + row[1]) * 0.5);
    }
    let inputs = [Tensor::f32([1000, 2], x), Tensor::f32([2], vec![3.0, -1.0])];
    let outputs = eval(&net, &inputs).unwrap();
    assert_eq!(outputs[0].data, Data::F32(vec![a.max(0.0), b.max(0.0)]));
    assert_eq!(outputs[1].data.to_i32(), [900]);
    assert_eq!(eval(&anemone_net::loops::unrolled(&net).unwrap(), &inputs).unwrap(), outputs);
}

/// Both blocks of a condition computed at run time are computed, and their results and states selected.
#[test]
fn a_condition_at_run_time_selects() {
    let text = r#"program(1.0) { func main<ios18>(tensor<fp32, [2]> x, tensor<fp32, [1]> t, state<tensor<fp16, [2]>> s) {
        tensor<bool, [1]> yes = greater(x = t, y = fp32(0));
        tensor<fp16, [2]> low = cast(x = x, dtype = string("fp16"));
        tensor<fp32, [2]> out = cond(pred = yes) {
            tensor<fp16, [2]> before = read_state(input = s);
            tensor<fp16, [2]> sum = add(x = before, y = low);
            write_state(input = s, data = sum);
            tensor<fp32, [2]> a = cast(x = sum, dtype = string("fp32")); } -> (a), {
            tensor<fp32, [2]> a = sqrt(x = x); } -> (a);
    } -> (out); }"#;
    let program = parse(text).unwrap_or_else(|f| panic!("{f:?}"));
    let (net, _) = read_program(&program, &MemoryFiles::default(), &Options::default()).unwrap();
    check(&net).unwrap();
    let state = Tensor { shape: vec![2], data: Data::from_f32(anemone_net::DType::F16, &[1.0, 2.0]) };
    let run = |x: [f32; 2], t: f32| {
        let inputs = [Tensor::f32([2], x.to_vec()), Tensor::f32([1], vec![t]), state.clone()];
        eval(&net, &inputs).unwrap().iter().map(|o| o.data.to_f32()).collect::<Vec<_>>()
    };
    assert_eq!(run([-4.0, 9.0], 1.0), [[-3.0, 11.0], [-3.0, 11.0]]);
    assert_eq!(run([4.0, 9.0], -1.0), [[2.0, 3.0], [1.0, 2.0]]);
    let other = text
        .replace("a = sqrt(x = x)", "a = reduce_sum(x = x, axes = tensor<int32, [1]>([0]), keep_dims = bool(true))");
    let other = other.replace("tensor<fp32, [2]> a = reduce", "tensor<fp32, [1]> a = reduce");
    let program = parse(&other).unwrap_or_else(|f| panic!("{f:?}"));
    let error = read_program(&program, &MemoryFiles::default(), &Options::default()).unwrap_err().to_string();
    assert!(error.contains("between f32[2] and f32[1]: the graph is static"), "{error}");
}

#[test]
fn a_product_with_a_vector_has_no_axis_for_it() {
    let text = r#"program(1.0) { func main<ios18>(tensor<fp32, [2]> x, tensor<fp32, [3, 2, 2]> w) {
        tensor<fp32, [3, 2]> row = matmul(x = x, y = w);
        tensor<fp32, [3, 2]> column = matmul(x = w, y = x, transpose_y = bool(true));
        tensor<fp32, []> dot = matmul(x = x, y = x);
        tensor<fp32, [3, 2]> sum = add(x = row, y = column);
        tensor<fp32, [3, 2]> y = add(x = sum, y = dot);
    } -> (y); }"#;
    let program = parse(text).unwrap_or_else(|f| panic!("{f:?}"));
    let (net, _) = read_program(&program, &MemoryFiles::default(), &Options::default()).unwrap();
    check(&net).unwrap();
    let inputs = [Tensor::f32([2], vec![1.0, 2.0]), Tensor::f32([3, 2, 2], (0..12).map(|i| i as f32).collect())];
    // The dot product is 5; rows give (4, 7) and so on, columns (2, 8).
    assert_eq!(eval(&net, &inputs).unwrap()[0].data.to_f32(), [11.0, 20.0, 35.0, 44.0, 59.0, 68.0]);
}

/// A loop over a list of states, as coremltools writes PyTorch's GRU; `one` minus the update gate weighs the candidate.
fn gru_text(one: &str) -> String {
    let linear = |name: &str, x: &str, columns: usize, seed: usize| {
        let values = |count: usize| {
            (0..count)
                .map(|i| format!("{:?}", ((i * 7 + seed * 5) % 9) as f32 / 8.0 - 0.5))
                .collect::<Vec<_>>()
                .join(", ")
        };
        format!(
            "tensor<fp32, [2, 2]> {name} = linear(x = {x}, weight = tensor<fp32, [2, {columns}]>([{}]), bias = tensor<fp32, [2]>([{}]));",
            values(2 * columns),
            values(2)
        )
    };
    let products: Vec<String> = ["r", "z", "n"]
        .iter()
        .enumerate()
        .flat_map(|(i, g)| [linear(&format!("x{g}"), "row", 3, i), linear(&format!("h{g}"), "h", 2, i + 3)])
        .collect();
    format!(
        r#"program(1.0) {{ func main<ios18>(tensor<fp32, [5, 2, 3]> x, tensor<fp32, [1, 2, 2]> start) {{
        tensor<int32, [1]> zero = const()[val = tensor<int32, [1]>([0])];
        tensor<fp32, [5, 2, 2]> later = const()[val = tensor<fp32, [5, 2, 2]>([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])];
        tensor<fp32, [6, 2, 2]> list = concat(values = (start, later), axis = int32(0), interleave = bool(false));
        tensor<int32, [1]> last, tensor<fp32, [6, 2, 2]> y = while_loop(loop_vars = (zero, list)) (tensor<int32, [1]> i, tensor<fp32, [6, 2, 2]> a) {{
            tensor<bool, [1]> go = less(x = i, y = int32(5));
        }} -> (go), (tensor<int32, [1]> i, tensor<fp32, [6, 2, 2]> a) {{
            tensor<fp32, [1, 2, 3]> part = gather(x = x, indices = i, axis = int32(0));
            tensor<fp32, [1, 2, 2]> before = gather(x = a, indices = i, axis = int32(0));
            tensor<fp32, [2, 3]> row = squeeze(x = part, axes = tensor<int32, [1]>([0]));
            tensor<fp32, [2, 2]> h = squeeze(x = before, axes = tensor<int32, [1]>([0]));
            {}
            tensor<fp32, [2, 2]> rs = add(x = xr, y = hr);
            tensor<fp32, [2, 2]> r = sigmoid(x = rs);
            tensor<fp32, [2, 2]> zs = add(x = xz, y = hz);
            tensor<fp32, [2, 2]> z = sigmoid(x = zs);
            tensor<fp32, [2, 2]> seen = mul(x = r, y = hn);
            tensor<fp32, [2, 2]> ns = add(x = xn, y = seen);
            tensor<fp32, [2, 2]> n = tanh(x = ns);
            tensor<fp32, [2, 2]> rest = sub(x = fp32({one}), y = z);
            tensor<fp32, [2, 2]> fresh = mul(x = rest, y = n);
            tensor<fp32, [2, 2]> kept = mul(x = z, y = h);
            tensor<fp32, [2, 2]> new = add(x = fresh, y = kept);
            tensor<int32, [1]> next = add(x = i, y = int32(1));
            tensor<fp32, [1, 2, 2]> update = expand_dims(x = new, axes = tensor<int32, [1]>([0]));
            tensor<fp32, [6, 2, 2]> b = scatter(data = a, indices = next, updates = update, axis = int32(0), mode = string("add"), validate_indices = bool(false));
        }} -> (next, b);
    }} -> (y, last); }}"#,
        products.join("\n")
    )
}

/// The loop of a GRU becomes a recurrent layer: one product for each step, and no list. Another cell stays
/// the loop that it is. Both have the values of the cell.
#[test]
fn the_loop_of_a_gru_is_a_recurrent_layer() {
    for (one, products) in [("0x1p+0", 5), ("0x1p+1", 30)] {
        let program = parse(&gru_text(one)).unwrap_or_else(|f| panic!("{f:?}"));
        let (net, _) = read_program(&program, &MemoryFiles::default(), &Options::default()).unwrap();
        check(&net).unwrap();
        let count = |names: &[&str]| net.ops.iter().filter(|op| names.contains(&op.kind.name())).count();
        assert_eq!((count(&["linear", "conv"]), count(&["scatter_nd"])), (products, if products == 5 { 0 } else { 5 }));
        let x: Vec<f32> = (0..30).map(|i| (i * 5 % 13) as f32 / 6.0 - 1.0).collect();
        let start = [0.5, -0.25, 1.0, -1.0f32];
        let outputs = eval(&net, &[Tensor::f32([5, 2, 3], x.clone()), Tensor::f32([1, 2, 2], start.to_vec())]).unwrap();
        let weight = |i: usize, seed: usize| ((i * 7 + seed * 5) % 9) as f32 / 8.0 - 0.5;
        let linear = |v: &[f32], row: usize, seed: usize| -> f32 {
            v.iter().enumerate().map(|(i, v)| v * weight(row * if seed < 3 { 3 } else { 2 } + i, seed)).sum::<f32>()
                + weight(row, seed)
        };
        let one = if products == 5 { 1.0 } else { 2.0 };
        let (mut h, mut expected) = (start.to_vec(), start.to_vec());
        for step in x.chunks(6) {
            let mut new = Vec::new();
            for (row, before) in step.chunks(3).zip(h.chunks(2)) {
                for unit in 0..2 {
                    let sums = |gate: usize| (linear(row, unit, gate), linear(before, unit, gate + 3));
                    let sigmoid = |(a, b): (f32, f32)| 1.0 / (1.0 + (-a - b).exp());
                    let (r, z, (a, b)) = (sigmoid(sums(0)), sigmoid(sums(1)), sums(2));
                    new.push((one - z) * (a + r * b).tanh() + z * before[unit]);
                }
            }
            expected.extend(&new);
            h = new;
        }
        let found = outputs[0].data.to_f32();
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?} {expected:?}");
        assert_eq!(outputs[1].data.to_i32(), [5]);
    }
}

/// The converter names extents of list elements that it does not know, such as the batch of a recurrent layer: the elements written give them.
#[test]
fn elements_of_a_list_have_the_extents_that_are_written() {
    let text = r#"program(1.0) { func main<ios17>(tensor<fp32, [3, 1, 2]> x) {
        string batch = const()[val = string("is7")];
        int32 width = const()[val = int32(2)];
        list<tensor<fp32, [?, 2]>, 3> empty = make_list(init_length = int32(3), dtype = string("fp32"), elem_shape = (batch, width));
        list<tensor<fp32, [?, 2]>, 3> parts = list_scatter(ls = empty, indices = tensor<int32, [3]>([0, 1, 2]), value = x);
        tensor<fp32, [?, 2]> part = list_read(ls = parts, index = int32(1));
        tensor<fp32, [?, 2]> twice = add(x = part, y = part);
        list<tensor<fp32, [?, 2]>, 3> made = list_write(ls = empty, index = int32(0), value = twice);
        tensor<fp32, [1, ?, 2]> all = list_gather(ls = made, indices = tensor<int32, [1]>([0]));
    } -> (all); }"#;
    let program = parse(text).unwrap_or_else(|f| panic!("{f:?}"));
    let (net, _) = read_program(&program, &MemoryFiles::default(), &Options::default()).unwrap();
    let x = Tensor::f32([3, 1, 2], (0..6).map(|i| i as f32).collect());
    assert_eq!(eval(&net, &[x]).unwrap(), [Tensor::f32([1, 1, 2], vec![4.0, 6.0])]);
    let unwritten = text.replace("indices = tensor<int32, [1]>([0])", "indices = tensor<int32, [1]>([2])");
    let program = parse(&unwritten).unwrap_or_else(|f| panic!("{f:?}"));
    let error = read_program(&program, &MemoryFiles::default(), &Options::default()).unwrap_err().to_string();
    assert!(error.contains("not written"), "{error}");
}
