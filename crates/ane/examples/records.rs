//! Prints task words of containers as lines: header, then runs.
use anemone_program::hwx::Container;
fn main() {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).unwrap();
        let program = Container::read(&bytes).unwrap().program().unwrap();
        println!("== {path} kernel {}", program.kernel.len());
        for (i, t) in program.tasks().unwrap().iter().enumerate() {
            let hex = |w: &[u32]| w.iter().map(|x| format!("{x:x}")).collect::<Vec<_>>().join(" ");
            println!("T{i} {}", hex(&t.header));
            for r in &t.runs {
                println!("  {:x}: {}", r.addr, hex(&r.words));
            }
        }
    }
}
