//! Every form of literal and type, and several faults told at once.

use super::{parse, print};
use anemone_net::testing::mil::*;

/// The value that an attribute of the program has, written so.
fn value(literal: &str) -> Value {
    let text = format!("program(1.0) [a = {literal}] {{}}");
    let mut program = parse(&text).unwrap_or_else(|f| panic!("{literal}: {}", f[0]));
    let printed = print(&program);
    // The text and not the values: what is no number equals nothing.
    assert_eq!(parse(&printed).map(|p| print(&p)).as_ref(), Ok(&printed));
    program.attributes.remove("a").unwrap()
}

fn immediate(literal: &str) -> Immediate {
    match value(literal).source {
        Some(Source::Immediate(ImmediateValue { value: Some(value) })) => value,
        other => panic!("{literal}: {other:?}"),
    }
}

fn elements(literal: &str) -> Elements {
    match immediate(literal) {
        Immediate::Tensor(TensorValue { elements: Some(elements) }) => elements,
        other => panic!("{literal}: {other:?}"),
    }
}

fn strings(values: &[Value]) -> Vec<String> {
    let one = |v: &Value| match &v.source {
        Some(Source::Immediate(ImmediateValue { value: Some(Immediate::Tensor(t)) })) => match &t.elements {
            Some(Elements::Strings(s)) => s.values.join(","),
            Some(Elements::Ints(i)) => format!("{:?}", i.values),
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    };
    values.iter().map(one).collect()
}

#[test]
fn numbers_of_every_form() {
    let floats = |literal: &str| match elements(literal) {
        Elements::Floats(f) => f.values,
        other => panic!("{literal}: {other:?}"),
    };
    for (literal, expected) in [
        ("fp32(-1.5)", -1.5),
        ("fp32(-0x1.8p+0)", -1.5),
        ("fp32(0x1p-2)", 0.25),
        ("fp32(0X1.0P3)", 8.0),
        ("fp32(1e3)", 1000.0),
        ("fp32(2.5E-1)", 0.25),
        ("fp32(7)", 7.0),
        ("fp32(-inf)", f32::NEG_INFINITY),
        ("fp32(inf)", f32::INFINITY),
    ] {
        assert_eq!(floats(literal), [expected], "{literal}");
    }
    assert!(floats("fp32(-0x0p+0)")[0].is_sign_negative());
    assert!(floats("fp32(nan)")[0].is_nan());
    assert_eq!(floats("tensor<fp32, [2, 2]>([[1, -2], [3, 0x1p+2]])"), [1.0, -2.0, 3.0, 4.0]);
    assert_eq!(elements("tensor<int32, [3]>([-1, 0, 7])"), Elements::Ints(Ints { values: vec![-1, 0, 7] }));
    assert_eq!(elements("int64(-9223372036854775808)"), Elements::LongInts(LongInts { values: vec![i64::MIN] }));
    assert_eq!(elements("int32(-0x10)"), Elements::Ints(Ints { values: vec![-16] }));
    let bools = Elements::Bools(Bools { values: vec![true, false] });
    assert_eq!(elements("tensor<bool, [2]>([true, false])"), bools);
    // Halves and small integers are packed.
    assert_eq!(elements("fp16(-0x1p+0)"), Elements::Bytes(Bytes { values: vec![0x00, 0xbc].into() }));
    assert_eq!(elements("tensor<uint4, [3]>([1, 2, 15])"), Elements::Bytes(Bytes { values: vec![0x21, 0x0f].into() }));
}

#[test]
fn texts_with_escapes() {
    let Elements::Strings(texts) = elements(r#"string("a\"b\\c\nd\te")"#) else { panic!() };
    assert_eq!(texts.values, ["a\"b\\c\nd\te"]);
    let Elements::Strings(texts) = elements(r#"tensor<string, [2]>(["", "größe"])"#) else { panic!() };
    assert_eq!(texts.values, ["", "größe"]);
}

#[test]
fn compound_values_and_types() {
    let Immediate::Dictionary(pairs) = immediate(r#"dict<string, int32>({{"a", 1}, {"b", int32(-2)}})"#) else {
        panic!()
    };
    let keys: Vec<Value> = pairs.pairs.iter().flat_map(|p| p.key.clone()).collect();
    let values: Vec<Value> = pairs.pairs.iter().flat_map(|p| p.value.clone()).collect();
    assert_eq!((strings(&keys), strings(&values)), (vec!["a".into(), "b".into()], vec!["[1]".into(), "[-2]".into()]));
    let Immediate::Tuple(parts) = immediate(r#"tuple<int32, string>((3, "x"))"#) else { panic!() };
    assert_eq!(strings(&parts.values), ["[3]", "x"]);
    let Immediate::List(parts) = immediate(r#"list<string, 2>(["x", "y"])"#) else { panic!() };
    assert_eq!(strings(&parts.values), ["x", "y"]);
    let Some(Source::BlobFile(blob)) =
        value(r#"tensor<fp16, [4]>(BLOBFILE(path = string("@model_path/w.bin"), offset = uint64(64)))"#).source
    else {
        panic!()
    };
    assert_eq!((blob.file_name.as_str(), blob.offset), ("@model_path/w.bin", 64));
    for ty in [
        "state<tensor<fp16, [1, 2]>>",
        "list<tensor<fp32, [2]>, 4>",
        "list<tensor<fp32, [2]>, ?>",
        "tuple<tensor<fp32, [2]>, int32>",
        "dict<string, tensor<fp32, [2]>>",
        "tensor<fp32, [?, 3]>",
        "tensor<fp32, []>",
    ] {
        let text = format!("program(1.0) {{ func main<ios18>({ty} x) {{ }} -> (x); }}");
        let program = parse(&text).unwrap_or_else(|f| panic!("{ty}: {}", f[0]));
        let printed = print(&program);
        assert_eq!(parse(&printed).as_ref(), Ok(&program), "{printed}");
        let kind = program.functions["main"].inputs[0].ty.as_ref().and_then(|t| t.kind.as_ref());
        let fits = match kind {
            Some(TypeKind::State(_)) => "state",
            Some(TypeKind::List(_)) => "list",
            Some(TypeKind::Tuple(_)) => "tuple",
            Some(TypeKind::Dictionary(_)) => "dict",
            Some(TypeKind::Tensor(_)) => "tensor",
            None => "nothing",
        };
        assert!(ty.starts_with(fits), "{ty}: {kind:?}");
    }
}

#[test]
fn numbers_that_do_not_fit_are_faults() {
    for (literal, expected) in [
        ("int8(128)", "an integer of that type"),
        ("uint4(16)", "an integer of that type"),
        ("uint8(-1)", "an integer of that type"),
        ("int32(1.5)", "an integer of that type"),
        ("bool(2)", "`true` or `false`"),
        ("string(1)", "a text in quotes"),
        ("fp32(\"1\")", "a number"),
        ("tensor<int32, [2]>([1])", "2, as the type has"),
        ("state<tensor<fp32, [1]>>(1)", "a type that has values"),
    ] {
        let faults = parse(&format!("program(1.0) [a = {literal}] {{}}")).unwrap_err();
        assert_eq!(faults[0].expected, expected, "{literal}: {}", faults[0]);
    }
}

#[test]
fn faults_of_all_statements_are_told_once_each() {
    let statement = |i: usize| {
        if i.is_multiple_of(3) {
            format!("fp32 v{i:02} = relu(x ? x);")
        } else {
            format!("fp32 v{i:02} = relu(x = x);")
        }
    };
    let body: Vec<String> = (0..30).map(statement).collect();
    let text = format!("program(1.0) {{ func main<ios18>(fp32 x) {{\n{}\n}} -> (v01); }}", body.join("\n"));
    let faults = parse(&text).unwrap_err();
    let lines: Vec<usize> = faults.iter().map(|f| f.line).collect();
    assert_eq!(lines, (0..10).map(|i| 2 + 3 * i).collect::<Vec<_>>());
    assert!(faults.iter().all(|f| &text[f.start..f.end] == "?" && f.column == 19), "{faults:?}");
    // A fault in the head of the function does not hide those of its body.
    let head = text.replace("main<ios18>(fp32 x)", "main<ios18>(half x)");
    let faults = parse(&head).unwrap_err();
    assert_eq!((faults.len(), faults[0].line, faults[0].found.as_str()), (11, 1, "`half`"));
    // No more than twenty.
    let all = text.replace("x = x", "x");
    assert_eq!(parse(&all).unwrap_err().len(), 20);
}
