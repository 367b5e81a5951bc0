//! `ane lut`: activation tables compared with their functions, and functions composed from layers.

use super::{Verbosity, print};
use anemone::convert::{NetForm, encode};
use anemone::lut::{self, Curve, Record, finite, plot};
use anemone::{Code, Diagnostic, Result, files, os, reference, tensor};
use anemone_compile::functions::{self, FUNCTIONS, OTHERS, ReluSum};
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane lut                                     every function that has a table
  ane lut tanh
  ane lut tanh --json
  ane lut log2 --svg log2.svg --png log2.png
  ane lut gaussian --compose
  ane lut knots.npy --compose --from -2 --to 2 -o bump.mlpackage")]
pub struct Flags {
    /// A function, or with --compose a .npy file with the values at equidistant knots
    function: Option<String>,
    /// Compose the function from layers: a linear layer, relu, a linear layer
    #[arg(long)]
    compose: bool,
    /// First knot [default: that of the function; -4 for a file]
    #[arg(long, value_name = "X", requires = "compose", allow_negative_numbers = true)]
    from: Option<f64>,
    /// Last knot [default: that of the function; 4 for a file]
    #[arg(long, value_name = "X", requires = "compose", allow_negative_numbers = true)]
    to: Option<f64>,
    /// Number of knots for a function by name
    #[arg(long, default_value_t = 33, requires = "compose", value_parser = clap::value_parser!(u16).range(2..=1024))]
    knots: u16,
    /// Number of elements of the network's input
    #[arg(long, default_value_t = 1024, requires = "output", value_parser = clap::value_parser!(u16).range(1..=16384))]
    count: u16,
    /// Package (.mlpackage) to write the network to
    #[arg(short, long, value_name = "FILE", requires = "compose")]
    output: Option<PathBuf>,
    /// Draw the curve and its error as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The same as PNG, without text
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
}

pub fn run(flags: Flags, verbosity: Verbosity) -> Result<u8> {
    let Some(name) = flags.function.clone() else { return list(verbosity) };
    let is_file = Path::new(&name).extension().is_some_and(|e| e.eq_ignore_ascii_case("npy"));
    if flags.compose {
        return compose(&flags, &name, is_file, verbosity);
    }
    if is_file {
        return Err(lut::refused("a custom table").at(&name));
    }
    let Some(function) = lut::function(&name) else {
        return Err(match lut::known(&name) {
            Some(_) => lut::refused(&format!("{name} has no table")),
            None => unknown(&name),
        });
    };
    let record = Record::of(function);
    let curve = Curve::of_table(function)?;
    draw(&flags, &curve)?;
    if verbosity.json {
        let mut document = json!({
            "schema": "anemone.lut/1", "name": function.name, "meaning": function.meaning, "table": record.json(),
        });
        document["error"] = errors(&curve);
        return print(&format!("{document}\n")).map(|()| 0);
    }
    print(&format!("{}: {}\n{}{}", function.name, function.meaning, record.text(), said(&curve))).map(|()| 0)
}

fn unknown(name: &str) -> Diagnostic {
    let names = || FUNCTIONS.iter().map(|f| f.name).chain(OTHERS.iter().map(|o| o.0));
    let help = format!("{}known: {}", reference::nearest(name, names()), names().collect::<Vec<_>>().join(", "));
    Diagnostic::new(Code::Usage, format!("no function is known as {name}")).help(help)
}

fn list(verbosity: Verbosity) -> Result<u8> {
    if verbosity.json {
        let tables: Vec<_> =
            FUNCTIONS.iter().map(|f| json!({ "name": f.name, "meaning": f.meaning, "domain": f.domain })).collect();
        let others: Vec<_> = OTHERS.iter().map(|(name, _, domain)| json!({ "name": name, "domain": domain })).collect();
        let document = json!({ "schema": "anemone.luts/1", "tables": tables, "composed": others });
        return print(&format!("{document}\n")).map(|()| 0);
    }
    let mut text = String::new();
    for f in FUNCTIONS {
        text += &format!("{:12} {}\n", f.name, f.meaning);
    }
    let others: Vec<&str> = OTHERS.iter().map(|o| o.0).collect();
    text += &format!("without a table, composed from layers by --compose: {}\n", others.join(", "));
    print(&text).map(|()| 0)
}

/// The piecewise linear function through knots of a function, or of a file.
fn compose(flags: &Flags, name: &str, is_file: bool, verbosity: Verbosity) -> Result<u8> {
    let (knots, exact, name): (Vec<_>, Box<dyn Fn(f64) -> f64>, &str) = if is_file {
        let array = tensor::read_npy(Path::new(name))?;
        let (low, high) = (flags.from.unwrap_or(-4.0), flags.to.unwrap_or(4.0));
        let places = functions::knots(|_| 0.0, [low, high], array.data.len());
        let knots: Vec<_> = places.iter().zip(&array.data).map(|(k, &y)| (k.0, f64::from(y))).collect();
        let line = knots.clone();
        (knots, Box::new(move |x| lut::line(&line, x)), "line")
    } else {
        let (exact, [low, high]) = lut::known(name).ok_or_else(|| unknown(name))?;
        let domain = [flags.from.unwrap_or(low), flags.to.unwrap_or(high)];
        (functions::knots(exact, domain, flags.knots.into()), Box::new(exact), name)
    };
    let chain = functions::chain(&knots).map_err(|e| {
        Diagnostic::new(Code::BadTensor, format!("{name}: {e}")).help("other knots: --from, --to, --knots")
    })?;
    let domain = [knots[0].0, knots[knots.len() - 1].0];
    let curve = Curve::new(name, domain, |x| chain.value(x).to_f64(), exact);
    draw(flags, &curve)?;
    if let Some(target) = &flags.output {
        write(target, &chain, name, flags.count.into())?;
    }
    let met = lut::exact_knots(&chain, &knots);
    if verbosity.json {
        let document = json!({
            "schema": "anemone.chain/1", "name": name, "units": chain.units(), "domain": domain,
            "knots": knots.iter().map(|&(x, y)| json!([finite(x), finite(y)])).collect::<Vec<_>>(),
            "knots_met": met, "start": chain.start.to_f64(),
            "places": chain.places.iter().map(|p| p.to_f64()).collect::<Vec<_>>(),
            "slopes": chain.slopes.iter().map(|s| s.to_f64()).collect::<Vec<_>>(),
            "ways": chain.ways,
            "error": errors(&curve),
        });
        return print(&format!("{document}\n")).map(|()| 0);
    }
    let (count, units) = (knots.len(), chain.units());
    let mut text = format!(
        "{name}: linear (1 to {units}), relu, linear ({units} to 1); for arguments in {domain:?}, clip others first\n"
    );
    text += &format!("{met} of {count} knots are met exactly in fp16\n{}", said(&curve));
    print(&text).map(|()| 0)
}

fn write(target: &Path, chain: &ReluSum, name: &str, count: usize) -> Result<()> {
    let parts = encode(&chain.net(name, count), NetForm::Mlpackage)?;
    let paths: Vec<PathBuf> = parts.iter().map(|(relative, _)| target.join(relative)).collect();
    for folder in paths.iter().filter_map(|p| p.parent()) {
        std::fs::create_dir_all(folder).map_err(|e| {
            Diagnostic::new(Code::Unwritable, format!("cannot make the folder: {}", os::reason(&e)))
                .at(folder.display())
        })?;
    }
    let files: Vec<_> = paths.iter().zip(&parts).map(|(p, (_, bytes))| (p.as_path(), bytes.as_slice())).collect();
    files::write_all(&files)
}

fn draw(flags: &Flags, curve: &Curve) -> Result<()> {
    let fault = |e: String| Diagnostic::new(Code::Defect, format!("the picture cannot be drawn: {e}"));
    let mut drawn: Vec<(&Path, Vec<u8>)> = Vec::new();
    if let Some(path) = &flags.svg {
        drawn.push((path, plot::svg(curve).map_err(fault)?.into_bytes()));
    }
    if let Some(path) = &flags.png {
        drawn.push((path, plot::png(curve).map_err(fault)?));
    }
    let files: Vec<_> = drawn.iter().map(|(path, bytes)| (*path, bytes.as_slice())).collect();
    files::write_all(&files)
}

/// The largest errors over every fp16 argument of the domain: a bound, not a sample.
fn said(curve: &Curve) -> String {
    let (Some(worst), Some(steps)) = (curve.worst(), curve.worst_steps()) else { return "no arguments\n".into() };
    let [low, high] = [&curve.points[0], &curve.points[curve.points.len() - 1]].map(|p| p.x);
    format!(
        "error     at most {:.3e}, at {} ({} for {:.8}); at most {:.1} steps of fp16, at {}\n          over all {} fp16 \
         arguments from {low} to {high}\n",
        worst.error(),
        worst.x,
        worst.given,
        worst.exact,
        steps.steps(),
        steps.x,
        curve.points.len()
    )
}

fn errors(curve: &Curve) -> Value {
    let point = |p: Option<&lut::Point>| {
        p.map(|p| {
            json!({ "x": finite(p.x), "given": finite(p.given), "exact": finite(p.exact), "absolute": finite(p.error()),
                    "steps": finite(p.steps()) })
        })
    };
    json!({ "arguments": curve.points.len(), "largest": point(curve.worst()), "most_steps": point(curve.worst_steps()) })
}
