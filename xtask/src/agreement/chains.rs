//! Recorded chains of equal layers, by name: `m2048_p4v2_L32` is 32 products with a 2048 by 2048 matrix in a 4-bit palette of
//! vectors of two. The programs are MIL text with references to weights, which are not read.

use std::fmt::Write;

/// Form of the weights.
enum Weights {
    Plain,
    Sparse,
    /// Integers of `bits`, with a scale for each output channel, or for each `block` of its elements.
    Integers {
        bits: u32,
        block: Option<usize>,
    },
    /// Palette of `2^bits` vectors, one for each of `groups` of output channels.
    Palette {
        bits: u32,
        groups: usize,
        vector: usize,
    },
}

/// Elements of a block of int4 weights in the records.
const BLOCK: usize = 32;
/// Channels of the recorded convolutions of one row.
const CHANNELS: usize = 64;

fn weights(form: &str) -> Option<Weights> {
    Some(match form {
        "fp16" => Weights::Plain,
        "w8" | "lin" => Weights::Integers { bits: 8, block: None },
        "w4" => Weights::Integers { bits: 4, block: Some(BLOCK) },
        form => match form.strip_prefix('p') {
            Some(palette) => {
                let (bits, rest) = palette.split_at_checked(1)?;
                let number = |prefix: &str| rest.strip_prefix(prefix).map(str::parse::<usize>);
                let groups = number("g").transpose().ok()?.unwrap_or(1);
                let vector = number("v").transpose().ok()?.unwrap_or(1);
                Weights::Palette { bits: bits.parse().ok()?, groups, vector }
            }
            None if form.starts_with("ch") => Weights::Plain,
            None if form.starts_with("nm") || form.starts_with(['s', 'r']) => Weights::Sparse,
            None => return None,
        },
    })
}

/// The operation that creates weights of these extents under a name, as MIL text.
fn made(weights: &Weights, shape: &[usize], name: &str) -> String {
    let list = |shape: &[usize]| shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let extents = list(shape);
    let stored = |ty: &str| format!("{ty}(BLOBFILE(path = string(\"@model_path/weights.bin\"), offset = uint64(64)))");
    let ty = format!("tensor<fp16, [{extents}]>");
    let op = |op: &str, arguments: &[(&str, String)]| {
        let arguments: Vec<String> = arguments.iter().map(|(key, ty)| format!("{key} = {}", stored(ty))).collect();
        format!("{ty} {name} = {op}({})[name = string(\"{name}\")];\n", arguments.join(", "))
    };
    let ones = |first: usize, last: usize| {
        let mut all = vec![1; shape.len()];
        (all[0], all[1]) = (first, last);
        list(&all)
    };
    match *weights {
        Weights::Plain => {
            format!("{ty} {name} = const()[name = string(\"{name}\"), val = {}];\n", stored(&ty))
        }
        Weights::Sparse => {
            let kept = shape.iter().product::<usize>() / 2;
            let arguments =
                [("nonzero_data", format!("tensor<fp16, [{kept}]>")), ("mask", format!("tensor<uint1, [{extents}]>"))];
            op("constexpr_sparse_to_dense", &arguments)
        }
        Weights::Integers { bits, block } => {
            let scales = ones(shape[0], block.map_or(1, |block| shape[1] / block));
            let arguments =
                [("data", format!("tensor<int{bits}, [{extents}]>")), ("scale", format!("tensor<fp16, [{scales}]>"))];
            op("constexpr_blockwise_shift_scale", &arguments)
        }
        Weights::Palette { bits, groups, vector } => {
            let mut indices = shape.to_vec();
            indices[0] /= vector;
            let lut = format!("{}, {}, {vector}", ones(groups, 1), 1 << bits);
            let arguments = [
                ("indices", format!("tensor<uint{bits}, [{}]>", list(&indices))),
                ("lut", format!("tensor<fp16, [{lut}]>")),
            ];
            op("constexpr_lut_to_dense", &arguments)
        }
    }
}

/// The program for a record's name; none for names of another kind.
pub fn of_name(name: &str) -> Option<String> {
    let name = name.strip_prefix("sparse/").or(name.strip_prefix("conv_chain_")).unwrap_or(name);
    let parts: Vec<&str> = name.split('_').collect();
    let count: usize = parts.last()?.strip_prefix('L')?.parse().ok()?;
    let after = |text: &str, prefix: char| text.strip_prefix(prefix)?.parse::<usize>().ok();
    // Extents of the operand and of the weights.
    let (x, shape, form) = match parts[..] {
        ["m2048", form, _] => (vec![1, 2048], vec![2048, 2048], form),
        ["k1x9", form, _] => (vec![1, CHANNELS, 1, 1024], vec![CHANNELS, CHANNELS, 1, 9], form),
        ["c1x1", form, _] => (vec![1, CHANNELS, 32, 32], vec![CHANNELS, CHANNELS, 1, 1], form),
        ["c3x3", form, _] => (vec![1, CHANNELS, 32, 32], vec![CHANNELS, CHANNELS, 3, 3], form),
        ["k1", channels, extents, _] => {
            let channels = after(channels, 'c')?;
            let (rows, columns) = extents.strip_prefix('h')?.split_once('w')?;
            let x = vec![1, channels, rows.parse().ok()?, columns.parse().ok()?];
            (x, vec![channels, channels, 1, 1], "fp16")
        }
        _ => return None,
    };
    let form = form.split("p4").next().filter(|f| !f.is_empty()).unwrap_or(form);
    let weights = weights(form)?;
    let extents = x.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let ty = format!("tensor<fp16, [{extents}]>");
    let mut text = format!("program(1.3)\n{{\n  func main<ios18>({ty} x0) {{\n");
    if shape.len() == 4 {
        text += "string pt = const()[name = string(\"pt\"), val = string(\"same\")];\n\
                 tensor<int32, [2]> st = const()[name = string(\"st\"), val = tensor<int32, [2]>([1, 1])];\n\
                 tensor<int32, [4]> pd = const()[name = string(\"pd\"), val = tensor<int32, [4]>([0, 0, 0, 0])];\n\
                 int32 gp = const()[name = string(\"gp\"), val = int32(1)];\n";
    }
    for layer in 0..count {
        text += &made(&weights, &shape, &format!("w{layer}"));
        let next = layer + 1;
        let call = match shape.len() {
            2 => format!("linear(weight = w{layer}, x = x{layer})"),
            _ => format!(
                "conv(dilations = st, groups = gp, pad = pd, pad_type = pt, strides = st, weight = w{layer}, x = x{layer})"
            ),
        };
        writeln!(text, "{ty} x{next} = {call}[name = string(\"x{next}\")];").ok()?;
    }
    text += &format!("  }} -> (x{count});\n}}\n");
    Some(text)
}
