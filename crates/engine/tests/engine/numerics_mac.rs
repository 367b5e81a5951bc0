//! Published device results against the models: recorded dot products and elementwise results of the M4 and M6. See
//! `docs/numerics.md`; the fingerprints and the probes of the M1 are tests of their own.

use anemone_engine::numerics::{accumulator, rounding};
use anemone_facts::numerics::{self as facts, GENERATIONS, Model, RULES};
use anemone_kernels::exact::{Columns, Weights, product};
use anemone_kernels::num::elementwise::crop;
use anemone_kernels::num::reference;
use anemone_kernels::num::wide::{Exact, Wide};
use anemone_kernels::params::AccumulatorSpec;
use half::f16;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

static FIXED: AccumulatorSpec = accumulator(&facts::FIXED);
static TILED: AccumulatorSpec = accumulator(&facts::TILED);
static TILED_SUM: AccumulatorSpec = accumulator(&facts::TILED_SUM);

/// Prints past the test harness, which would keep the lines of a passing test.
macro_rules! say {
    ($($part:tt)*) => {{
        let _ = writeln!(std::io::stdout(), $($part)*);
    }};
}

#[derive(Default)]
struct Count {
    passed: usize,
    failed: usize,
    /// Cases that the data mark as not following the model.
    skipped: usize,
    /// Marked so, and yet equal.
    agrees: usize,
    /// Equal zeros of different sign: the records compare by value.
    zero_signs: usize,
}

#[test]
fn recorded_results_come_out_bit_for_bit() {
    let Some(dir) = golden_dir() else {
        say!("skipped: no golden data (set ANE_GOLDEN_DIR)");
        return;
    };
    let mut total = Count::default();
    for path in entries(&dir) {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let data = Json::read(&text).unwrap_or_else(|at| panic!("{}: not JSON at byte {at}", path.display()));
        let mut counts: BTreeMap<String, Count> = BTreeMap::new();
        for case in data.get("mac_cases").list() {
            let line = format!("{} {} {}", case.text("chip"), case.text("set"), case.text("section"));
            check(counts.entry(line).or_default(), case, &[dot(case), dot_packed(case)]);
        }
        for case in data.get("elementwise_cases").list() {
            let line = format!("{} {} elementwise {}", case.text("chip"), case.text("set"), case.text("op"));
            check(counts.entry(line).or_default(), case, &[elementwise(case)]);
        }
        for (line, c) in counts {
            say!("{line}: {} passed, {} failed, {} skipped", c.passed, c.failed, c.skipped);
            if c.zero_signs > 0 {
                say!("    {} zeros have the other sign in the record", c.zero_signs);
            }
            total.passed += c.passed;
            total.failed += c.failed;
            total.skipped += c.skipped;
            total.agrees += c.agrees;
        }
    }
    if total.agrees > 0 {
        say!("{} cases marked as different from the model are equal to it", total.agrees);
    }
    say!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
    assert_eq!(total.failed, 0, "see the lines above");
    assert!(total.passed > 0, "{} holds no case", dir.display());
}

/// Counts a case; `found` are results that must all be the recorded one.
fn check(count: &mut Count, case: &Json, found: &[Option<f16>]) {
    let expected = case.number("ane_out").map(f16::from_f64);
    let marked = matches!(case.get("model_agrees"), Json::Bool(false));
    let same = |found: &Option<f16>| match (found, expected) {
        (Some(a), Some(b)) => a == &b || (a.is_nan() && b.is_nan()),
        _ => false,
    };
    let equal = found.iter().all(same);
    match (marked, equal) {
        (true, _) => {
            count.skipped += 1;
            count.agrees += usize::from(equal);
            if equal {
                say!("    marked as different, and equal: {case:?}");
            }
        }
        (false, true) => {
            count.passed += 1;
            let sign = |x: &Option<f16>| x.is_some_and(f16::is_sign_negative);
            count.zero_signs += usize::from(found.iter().any(|f| sign(f) != sign(&expected)));
        }
        (false, false) => {
            count.failed += 1;
            say!("    {expected:?} recorded, {found:?} computed: {case:?}");
        }
    }
}

/// Weight and operand of each term.
fn terms(case: &Json) -> Option<Vec<(f16, f16)>> {
    let half = |j: &Json| Some(f16::from_bits(u16::from_str_radix(j.as_text()?, 16).ok()?));
    case.get("terms_fp16_hex")
        .list()
        .iter()
        .map(|pair| Some((half(pair.list().get(1)?)?, half(pair.list().first()?)?)))
        .collect()
}

fn dot(case: &Json) -> Option<f16> {
    Some(reference::dot(&FIXED, &terms(case)?, case.number("bias").unwrap_or(0.0)))
}

fn dot_packed(case: &Json) -> Option<f16> {
    let terms = terms(case)?;
    let signalling = |x: f16| x.is_nan() && x.to_bits() & 0x200 == 0;
    if terms.iter().any(|&(w, x)| signalling(w) || signalling(x)) {
        // Packed operands are fp32, which has made the NaN quiet: nothing to compare.
        return dot(case);
    }
    Some(sum_packed(&FIXED, &terms, case.number("bias").unwrap_or(0.0) as f32))
}

fn sum_packed(mac: &AccumulatorSpec, terms: &[(f16, f16)], bias: f32) -> f16 {
    let (w, x): (Vec<f32>, Vec<f32>) = terms.iter().map(|(w, x)| (w.to_f32(), x.to_f32())).unzip();
    let mut out = [0.0];
    let weights = Weights::pack(mac, 1, terms.len(), &w);
    product(&weights, &Columns::pack(mac, terms.len(), 1, &x), &[bias], &mut out);
    f16::from_f32(out[0])
}

fn elementwise(case: &Json) -> Option<f16> {
    let (a, b) = (exact(f16::from_f64(case.number("a")?)), exact(f16::from_f64(case.number("b")?)));
    let op: fn(Exact, Exact) -> Exact = match case.text("op") {
        "add" => Exact::add,
        "sub" => |a, b| a.add(b.mul(Exact::wide(-1.0))),
        "mul" => Exact::mul,
        "max" | "maximum" => Exact::max,
        "min" | "minimum" => Exact::min,
        _ => return None,
    };
    Some(settled(op(a, b)))
}

/// An operand.
fn exact(x: f16) -> Exact {
    Exact::canonicalize(x.to_f32())
}

/// A result: of fp16 already, so nothing is rounded here.
fn settled(x: Exact) -> f16 {
    f16::from_f32(x.round_result(&rounding(&facts::PLANAR)))
}

fn h(x: f64) -> f16 {
    f16::from_f64(x)
}

#[test]
fn a_reduction_holds_the_range_of_fp16() {
    let of = |mac: &AccumulatorSpec, values: &[f64]| {
        let terms: Vec<(f16, f16)> = values.iter().map(|&x| (f16::ONE, h(x))).collect();
        reference::dot(mac, &terms, 0.0)
    };
    assert_eq!(of(&TILED_SUM, &[60000.0, 5504.0]), f16::MAX);
    assert_eq!(of(&TILED_SUM, &[40000.0, 40000.0]), f16::INFINITY);
    assert_eq!(of(&TILED, &[60000.0]), f16::INFINITY);
}

#[test]
fn exponent_31_is_read_as_each_model_says() {
    let (inf, nan) = (f16::INFINITY, f16::NAN);
    let of = |mac: &AccumulatorSpec, terms: &[(f16, f16)]| {
        let found = reference::dot(mac, terms, 0.0);
        assert_eq!(sum_packed(mac, terms, 0.0).to_bits(), found.to_bits(), "{mac:?} {terms:?}");
        found
    };
    // Numbers: 65536 / 4 = 16384, 98304 / 4 = 24576; zero times one of them is zero.
    let quarter = h(0.25);
    assert_eq!(of(&FIXED, &[(quarter, inf)]), h(16384.0));
    assert_eq!(of(&FIXED, &[(quarter, nan)]), h(24576.0));
    assert_eq!(of(&FIXED, &[(quarter, inf), (quarter, -inf)]), f16::ZERO);
    assert_eq!(of(&FIXED, &[(f16::ZERO, nan)]), f16::ZERO);
    // Infinities: NaN is the positive one; what has no value is plus zero.
    assert_eq!(of(&TILED, &[(quarter, nan)]), inf);
    assert_eq!(of(&TILED, &[(-quarter, nan)]), -inf);
    assert_eq!(of(&TILED, &[(quarter, inf), (quarter, -inf)]).to_bits(), 0);
    assert_eq!(of(&TILED, &[(f16::ZERO, inf)]).to_bits(), 0);
    assert_eq!(of(&TILED, &[(f16::ONE, h(5.0)), (f16::ZERO, inf)]), h(5.0));
}

#[test]
fn elementwise_probes_of_the_m1() {
    let (zero, minus_zero, one) = (exact(f16::ZERO), exact(f16::NEG_ZERO), exact(f16::ONE));
    let (inf, nan, minus_inf) = (exact(f16::INFINITY), exact(f16::NAN), exact(f16::NEG_INFINITY));
    for bits in 1..=0x3ff {
        let x = f16::from_bits(bits);
        assert_eq!(settled(exact(x).add(zero)), x, "subnormal numbers pass a sum");
        assert_eq!(settled(exact(x).mul(one)), x, "and a product");
    }
    let plus_zero = [inf.add(minus_inf), zero.mul(inf), exact(h(-1.0)).rsqrt(), minus_zero.add(zero)];
    assert!(plus_zero.iter().all(|&x| settled(x).to_bits() == 0), "{plus_zero:?}");
    let infinite = [
        nan.add(zero),
        nan.max(one),
        one.max(nan),
        minus_zero.reciprocal(),
        minus_zero.rsqrt(),
        exact(h(256.0)).mul(exact(h(256.0))),
    ];
    assert_eq!(infinite.map(settled), [f16::INFINITY; 6]);
    assert_eq!(settled(nan.min(one)), f16::ONE);
    assert_eq!(settled(exact(h(255.875)).mul(exact(h(255.875)))), h(65472.0));
    assert_eq!([4094.0, 4096.0, -4096.0, 1e-7].map(|x| crop(4, x)), [4094.0, f32::INFINITY, f32::NEG_INFINITY, 1e-7]);
}

#[test]
fn every_source_of_a_rule_has_its_section() {
    let document = include_str!("../../../../docs/numerics.md");
    let sections: Vec<&str> = document.lines().filter_map(|l| l.strip_prefix("## ")).collect();
    for rule in RULES {
        assert!(sections.contains(&rule.source), "{}: no section {}", rule.subject, rule.source);
    }
    for g in GENERATIONS {
        assert!(g.mac == Model::Fixed, "{}: the documentation says that one model serves all", g.generation);
    }
}

fn golden_dir() -> Option<PathBuf> {
    let golden = match std::env::var_os("ANE_GOLDEN_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden"),
    };
    Some(golden.join("numerics")).filter(|dir| dir.is_dir())
}

/// Data files in name order.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(dir).into_iter().flatten().filter_map(|e| Some(e.ok()?.path()));
    let mut all: Vec<PathBuf> = all.filter(|p| p.extension().is_some_and(|e| e == "json")).collect();
    all.sort();
    all
}

/// JSON, with the NaN and Infinity that some writers add.
#[derive(Debug)]
enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Map(Vec<(String, Json)>),
}

impl Json {
    /// The document, or the offset where it stops making sense.
    fn read(text: &str) -> Result<Json, usize> {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        reader.blanks();
        if reader.at == text.len() { Ok(value) } else { Err(reader.at) }
    }

    fn get(&self, key: &str) -> &Json {
        match self {
            Json::Map(all) => all.iter().find(|(k, _)| k == key).map_or(&Json::Null, |(_, v)| v),
            _ => &Json::Null,
        }
    }

    fn list(&self) -> &[Json] {
        if let Json::List(all) = self { all } else { &[] }
    }

    fn as_text(&self) -> Option<&str> {
        if let Json::Text(text) = self { Some(text) } else { None }
    }

    fn text(&self, key: &str) -> &str {
        self.get(key).as_text().unwrap_or_default()
    }

    /// A number, or a text that names one.
    fn number(&self, key: &str) -> Option<f64> {
        match self.get(key) {
            Json::Number(x) => Some(*x),
            Json::Text(text) => text.parse().ok(),
            _ => None,
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.blanks();
        let found = self.text[self.at..].starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json, usize> {
        if depth > 64 {
            return Err(self.at);
        }
        if self.eat("[") {
            let mut all = Vec::new();
            while !self.eat("]") {
                if !all.is_empty() && !self.eat(",") {
                    return Err(self.at);
                }
                all.push(self.value(depth + 1)?);
            }
            return Ok(Json::List(all));
        }
        if self.eat("{") {
            let mut all = Vec::new();
            while !self.eat("}") {
                if !all.is_empty() && !self.eat(",") {
                    return Err(self.at);
                }
                self.blanks();
                let key = self.string()?;
                if !self.eat(":") {
                    return Err(self.at);
                }
                all.push((key, self.value(depth + 1)?));
            }
            return Ok(Json::Map(all));
        }
        for (token, value) in [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))] {
            if self.eat(token) {
                return Ok(value);
            }
        }
        if self.text[self.at..].starts_with('"') {
            return Ok(Json::Text(self.string()?));
        }
        let rest = &self.text[self.at..];
        let end = rest.find([',', ']', '}', ' ', '\n', '\r', '\t']).unwrap_or(rest.len());
        let number = rest[..end].parse().map_err(|_| self.at)?;
        self.at += end;
        Ok(Json::Number(number))
    }

    fn string(&mut self) -> Result<String, usize> {
        let start = self.at;
        if !self.eat("\"") {
            return Err(start);
        }
        let mut text = String::new();
        let mut chars = self.text[self.at..].char_indices();
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += i + 1;
                    return Ok(text);
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'u')) => {
                        let code: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                        let code = u32::from_str_radix(&code, 16).map_err(|_| start)?;
                        text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    Some((_, c)) => text.push(c),
                    None => return Err(start),
                },
                c => text.push(c),
            }
        }
        Err(start)
    }
}
