use anemone_facts::layout::H13;
use anemone_net::{Data, Tensor};
use anemone_program::{Run, Task};
use half::f16;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;
fn constant(family: &str, payload: u32, index: usize, elements: usize) -> Vec<f32> {
    if family.starts_with("chain_pair") {
        return vec![f16::from_bits(0x3400 + index as u16).to_f32(); elements];
    }
    let mut head = [0u16; 64];
    for (i, v) in [(0, 1), (2, 2), (32, 0xbeef), (33, 0xdead), (34, payload as u16), (35, (payload >> 16) as u16), (38, 0x80)] {
        head[i] = v;
    }
    (0..elements).map(|i| f16::from_bits(*head.get(i).unwrap_or(&0x3800)).to_f32()).collect()
}
fn flat(t: &Task) -> Vec<(bool, u32, u32)> {
    let mut v: Vec<(bool, u32, u32)> = t.header.iter().enumerate().map(|(i, &w)| (true, 4 * i as u32, w)).collect();
    for r in &t.runs {
        for (i, &w) in r.words.iter().enumerate() {
            v.push((false, r.addr + 4 * i as u32, w));
        }
    }
    v
}
fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let verbose = std::env::args().nth(2).is_some();
    let mut fam: std::collections::BTreeMap<String, [usize; 5]> = Default::default();
    let mut paths: Vec<_> = std::fs::read_dir("/tmp/o/nets").unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    for p in paths {
        let d: Value = serde_json::from_slice(&std::fs::read(&p).unwrap()).unwrap();
        let case = d["case"].as_str().unwrap();
        if !case.contains(&filter) {
            continue;
        }
        let family = d["family"].as_str().unwrap();
        let payload = d["payload"].as_u64().unwrap_or(0) as u32;
        let blobs: Vec<Arc<Tensor>> = d["blobs"].as_array().unwrap().iter().enumerate().map(|(i, s)| {
            let shape: Vec<usize> = s.as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as usize).collect();
            let n = shape.iter().product();
            Arc::new(Tensor { shape, data: Data::F32(constant(family, payload, i, n)) })
        }).collect();
        let net = match anemone_net::text::parse(d["net"].as_str().unwrap(), &blobs) {
            Ok(n) => n,
            Err(e) => { println!("{case}: net {e}"); continue; }
        };
        let apple: Vec<Task> = d["words"].as_array().unwrap().iter().map(|t| Task {
            offset: 0,
            header: t["header"].as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as u32).collect(),
            runs: t["records"].as_array().unwrap().iter().map(|r| Run { addr: r[0].as_u64().unwrap() as u32, words: r[1].as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as u32).collect() }).collect(),
        }).collect();
        let chip = anemone_facts::chips::by_name("h13").unwrap();
        let program = match anemone_compile::compile(&net, chip, &anemone_compile::Options { compat: Default::default(), ..Default::default() }, &mut ()) {
            Ok(p) => p,
            Err(e) => { println!("{case}: compile {e}"); fam.entry(family.into()).or_default()[1] += apple.iter().map(|t| flat(t).len()).sum::<usize>(); fam.entry(family.into()).or_default()[3] += 1; continue; }
        };
        let ours = program.tasks().unwrap();
        let (mut equal, mut total) = (0, 0);
        let mut text = String::new();
        for (i, a) in apple.iter().enumerate() {
            let fa = flat(a);
            total += fa.len();
            let Some(o) = ours.get(i) else { continue };
            let fo = flat(o);
            for w in &fa {
                if fo.contains(w) {
                    equal += 1;
                } else {
                    let o = fo.iter().find(|x| x.0 == w.0 && x.1 == w.1);
                    let space = if w.0 { anemone_facts::Space::Header } else { anemone_facts::Space::Register };
                    let mut names = String::new();
                    for row in H13.rows.iter().filter(|r| r.space == space && r.addr <= w.1 && w.1 < r.addr + 4 * r.count as u32) {
                        let m = row.max();
                        let (x, y) = ((w.2 >> row.lo) & m, o.map(|o| (o.2 >> row.lo) & m));
                        if Some(x) != y { names += &format!(" {:?}: apple {x:#x} ours {:x?}", row.field, y); }
                    }
                    text += &format!("    TD{i} {}{:#x}:{names}\n", if w.0 { "h" } else { "r" }, w.1);
                }
            }
            if fa.len() != fo.len() { text += &format!("    TD{i} words apple {} ours {}\n", fa.len(), fo.len()); }
        }
        let hash: String = Sha256::digest(&program.kernel).iter().map(|b| format!("{b:02x}")).collect();
        let constant_equal = hash == d["const"]["sha256"].as_str().unwrap();
        let whole = equal == total && ours.len() == apple.len();
        println!("{case}: tasks {}/{} words {equal}/{total} const {} ({} / {}){}", ours.len(), apple.len(), if constant_equal { "=" } else { "DIFF" }, program.kernel.len(), d["const"]["size"], if whole && constant_equal { "  OK" } else { "" });
        if verbose { print!("{text}"); }
        let f = fam.entry(family.into()).or_default();
        f[0] += equal; f[1] += total; f[2] += (whole && constant_equal) as usize; f[3] += 1; f[4] += constant_equal as usize;
    }
    let mut t = [0; 5];
    for (k, v) in &fam { println!("{k:20} words {}/{} whole {}/{} const {}", v[0], v[1], v[2], v[3], v[4]); for i in 0..5 { t[i] += v[i]; } }
    println!("TOTAL words {}/{} whole {}/{} const {}", t[0], t[1], t[2], t[3], t[4]);
}
