//! A network that is wrong by itself is refused for the same reason by every format and every verb.

use crate::ane;
use crate::harness::{Scratch, filled, zeros};

/// A field of a protocol buffer.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 1 << 14, "lengths of one or two bytes");
    let length = match bytes.len() {
        n @ ..128 => vec![n as u8],
        n => vec![n as u8 | 128, (n >> 7) as u8],
    };
    [vec![number << 3 | 2], length, bytes.to_vec()].concat()
}

fn number(field: u8, value: u8) -> Vec<u8> {
    vec![field << 3, value]
}

/// An operation of a wrong network: its name in the three formats, its operands, and its result.
type Op = (&'static str, &'static str, &'static str, &'static [&'static str], &'static str);

/// A tensor of floats as an ONNX model declares it.
fn value(name: &str, extents: [u8; 4]) -> Vec<u8> {
    let extents = extents.map(|n| field(1, &number(1, n))).concat();
    let ty = field(1, &[number(1, 1), field(2, &extents)].concat());
    [field(1, name.as_bytes()), field(2, &ty)].concat()
}

/// An ONNX model of operators on `x`; the result is `y`.
fn onnx(ops: &[Op]) -> Vec<u8> {
    let (x, y) = (value("x", [1, 4, 8, 8]), value("y", [1, 4, 8, 8]));
    onnx_of(ops, &[field(11, &x), field(12, &y)].concat())
}

fn onnx_of(ops: &[Op], ends: &[u8]) -> Vec<u8> {
    let node = |&(_, op, _, inputs, output): &Op| {
        let axis = [field(1, b"axis"), number(3, 1), vec![0xa0, 1, 2]].concat();
        let inputs = inputs.iter().map(|input| field(1, input.as_bytes())).collect::<Vec<_>>().concat();
        let axis = if matches!(op, "Concat" | "Softmax") { field(5, &axis) } else { Vec::new() };
        field(1, &[inputs, field(2, output.as_bytes()), field(4, op.as_bytes()), axis].concat())
    };
    let nodes: Vec<u8> = ops.iter().flat_map(node).collect();
    let graph = [nodes, field(2, b"g"), ends.to_vec()].concat();
    [number(1, 9), field(7, &graph), field(8, &number(2, 18))].concat()
}

/// MIL text of the operations. Operands have the names `x`, `y`, `z`, those of a concatenation are one list.
fn mil(ops: &[Op]) -> String {
    let line = |&(op, _, _, inputs, output): &Op| {
        let named = ["x", "y", "z"].iter().zip(inputs).map(|(name, input)| format!("{name} = {input}"));
        let named: Vec<String> = named.collect();
        let (extents, arguments) = match op {
            "concat" => ([1, 8, 8, 8], format!("axis = ax, interleave = no, values = ({})", inputs.join(", "))),
            "softmax" => ([1, 4, 8, 8], format!("axis = ax, {}", named.join(", "))),
            _ => ([1, 4, 8, 8], named.join(", ")),
        };
        format!("tensor<fp16, {extents:?}> {output} = {op}({arguments})[name = string(\"{output}\")];\n")
    };
    let lines: String = ops.iter().map(line).collect();
    format!(
        "program(1.0)\n{{\nfunc main<ios18>(tensor<fp16, [1, 4, 8, 8]> x) {{\n\
         int32 ax = const()[name = string(\"ax\"), val = int32(1)];\n\
         bool no = const()[name = string(\"no\"), val = bool(false)];\n{lines}}} -> (y);\n}}\n"
    )
}

/// A netplist of the operations as units.
fn netplist(ops: &[Op]) -> String {
    let string = |text: &str| format!("<string>{text}</string>");
    let array = |all: &[&str]| format!("<array>{}</array>", all.iter().map(|one| string(one)).collect::<String>());
    let unit = |&(op, _, unit, inputs, output): &Op| {
        let params = match op {
            "relu" => "<key>Type</key><string>ReLU</string>",
            "add" => "<key>Type</key><string>Add</string>",
            "concat" => "<key>Dimension</key><string>Channel</string>",
            "softmax" => "<key>Dimension</key><array><string>Channel</string></array>",
            _ => "",
        };
        format!(
            "<key>{output}</key><dict><key>Name</key>{}<key>Type</key>{}<key>OutputType</key><string>Float16</string>\
             <key>Bottom</key>{}<key>Params</key><dict>{params}</dict></dict>",
            string(output),
            string(unit),
            array(inputs)
        )
    };
    let port = [("BatchSize", 1), ("InputChannels", 4), ("InputDepth", 1), ("InputHeight", 8), ("InputWidth", 8)];
    let port = port.map(|(key, n)| format!("<key>{key}</key><integer>{n}</integer>")).concat();
    let names: Vec<&str> = ops.iter().map(|op| op.4).collect();
    let units: String = ops.iter().map(unit).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><plist version=\"1.0\"><dict><key>Version</key><string>1.0.10</string>\
         <key>Networks</key>{}<key>net</key><dict><key>Inputs</key>{}<key>Outputs</key>{}<key>Units</key>{}<key>x</key>\
         <dict>{port}<key>InputType</key><string>Float16</string></dict><key>o</key><dict><key>Bottom</key>{}</dict>\
         {units}</dict></dict></plist>",
        array(&["net"]),
        array(&["x"]),
        array(&["o"]),
        array(&names),
        string("y"),
    )
}

#[test]
fn formats_and_verbs_refuse_a_wrong_network_for_one_reason() {
    let scratch = Scratch::new();
    let relu = ("relu", "Relu", "Neuron");
    let concat = ("concat", "Concat", "Concat");
    let softmax = ("softmax", "Softmax", "Softmax");
    let add = ("add", "Add", "ElementWise");
    let one = |(mil, onnx, unit): (&'static str, &'static str, &'static str), inputs: &'static [&'static str]| {
        [(mil, onnx, unit, inputs, "y")]
    };
    let cycle = [("relu", "Relu", "Neuron", &["y"] as &[&str], "a"), ("relu", "Relu", "Neuron", &["a"], "y")];
    let cases: [(&[Op], &str); 9] = [
        (&one(concat, &["x", "y"]), "operand `y` is used before it is defined"),
        (&cycle, "operand `y` is used before it is defined"),
        (&one(concat, &["x", "nope"]), "no value is named `nope`"),
        (&one(relu, &["nope"]), "no value is named `nope`"),
        (&one(relu, &["x", "x"]), "has 2 operands, takes 1"),
        (&one(softmax, &["x", "x"]), "has 2 operands, takes 1"),
        (&one(add, &["x"]), "add has 1 operand, takes 2"),
        (&one(add, &["x", "x", "x"]), "add has 3 operands, takes 2"),
        (&one(("matmul", "MatMul", "MatrixMultiplication"), &["x"]), "has 1 operand, takes 2"),
    ];
    for (ops, reason) in cases {
        let files = [
            scratch.file("net.mil", mil(ops)),
            scratch.file("net.onnx", onnx(ops)),
            scratch.file("net.plist", netplist(ops)),
        ];
        for file in files {
            for ran in [ane!("check", file), ane!("compile", file, "-o", scratch.out("a.hwx"))] {
                assert_eq!(ran.code, Some(2), "{file}: {ran:?}");
                assert!(ran.err.contains("ANE2002") && ran.err.to_lowercase().contains(reason), "{file}: {ran:?}");
            }
            let ran = ane!("validate", file, "-t", "m1");
            assert_eq!(ran.code, Some(1), "{file}: {ran:?}");
            let told = ran.out.lines().filter(|line| line.to_lowercase().contains(reason)).count();
            assert_eq!(told, 2, "both exports: {file}: {ran:?}");
            assert!(!ran.out.contains("operands is"), "the validator counts otherwise: {file}: {ran:?}");
        }
    }
}

#[test]
fn an_operand_left_out_in_the_middle_is_missing() {
    let scratch = Scratch::new();
    let conv = [("", "Conv", "", &["x", "", "x"] as &[&str], "y")];
    let file = scratch.file("net.onnx", onnx(&conv));
    for verb in ["check", "compile"] {
        ane!(verb, file).refused(2, "ANE2002", &["Conv `y`: `input 1` is missing"]);
    }
    let conv = [("", "Conv", "", &["x"] as &[&str], "y")];
    let file = scratch.file("net.onnx", onnx(&conv));
    ane!("compile", file).refused(2, "ANE2002", &["Conv has 1 operand, takes 2 to 3"]);
}

#[test]
fn inputs_without_elements_are_given_like_others() {
    let scratch = Scratch::new();
    let (x, none) = (value("x", [1, 4, 8, 8]), value("none", [1, 4, 0, 8]));
    let ends = [field(11, &x), field(11, &none), field(12, &value("y", [1, 4, 8, 8]))].concat();
    let file = scratch.file("net.onnx", onnx_of(&[("concat", "Concat", "Concat", &["none", "x"], "y")], &ends));
    let (x, none) = (filled(&[1, 4, 8, 8], 0.5), zeros(&[1, 4, 0, 8]));
    let (x, none) = (scratch.file("x.npy", x), scratch.file("none.npy", none));
    let (x_given, none_given) = (format!("x={x}"), format!("none={none}"));
    ane!("run", file, "-i", x_given, "-i", none_given, "--expect", x).fine();
    ane!("run", file, "-i", x_given, "-i", none_given, "--reference", "--expect", x).fine();
}
