//! `ane run --plan`, `--dump-plan` and `--profile`.

use crate::ane;
use crate::harness::*;

/// Two transpositions and a copy that nobody else reads, then stages that become one.
const MIL: &str = "program(1.3)
{
    func main<ios18>(tensor<fp16, [1, 6, 8, 20]> x) {
        tensor<int32, [4]> p = const()[name = string(\"p\"), val = tensor<int32, [4]>([0, 3, 1, 2])];
        tensor<fp16, [1, 20, 6, 8]> a = transpose(perm = p, x = x)[name = string(\"a\")];
        tensor<fp16, [1, 20, 6, 8]> b = sigmoid(x = a)[name = string(\"b\")];
        tensor<fp16, [1, 20, 6, 8]> y = mul(x = a, y = b)[name = string(\"y\")];
    } -> (y);
}
";

#[test]
fn plans_have_the_bits_of_tasks_and_are_written_and_timed() {
    let scratch = Scratch::new();
    let model = scratch.file("a.mil", MIL);
    let bytes = |path: &String| std::fs::read(path).expect("written");
    let (tasks, planned) = (scratch.out("tasks.npy"), scratch.out("planned.npy"));
    ane!("run", model, "--plan", "unoptimized", "-o", tasks).fine();
    ane!("run", model, "--plan", "optimized", "-o", planned).fine();
    assert_eq!(bytes(&tasks), bytes(&planned));
    let folder = scratch.path("plan");
    ane!("run", model, "--dump-plan", folder).fine();
    let text = |name: &str| std::fs::read_to_string(std::path::Path::new(&folder).join(name)).expect(name);
    assert!(text("00-lift.txt").contains("task 0"));
    let last = text("03-maps.txt");
    assert!(last.lines().count() > 1 && text("13-select.txt").contains("task"), "{last}");
    assert_eq!(text("14-branches.txt"), "", "a single operation");
    let profile = ane!("run", model, "--profile=2", "--json").fine().json("anemone.profile/1");
    let steps = profile["steps"].as_array().expect("steps");
    assert!(!steps.is_empty() && steps.iter().all(|step| step["ns"].as_u64().is_some_and(|ns| ns < u64::MAX)));
    assert_eq!(profile["runs"], 2);
    assert!(ane!("run", model, "--profile=1").fine().out.contains("longest steps"));
    ane!("run", model, "--profile", "--expect", "y.npy").refused(2, "ANE2004", &["--profile"]);
}

/// Every instruction set of this host has the same results, one that it lacks is named.
#[test]
fn instruction_sets_are_forced_by_name() {
    let scratch = Scratch::new();
    let model = scratch.file("a.mil", MIL);
    let run = |host: &str, output: &String| {
        let arguments = ["run", &model, "--plan", "optimized", "-o", output].map(String::from);
        command(&arguments).env("ANE_HOST", host).output().expect("the binary starts")
    };
    let results = ["", "scalar"].map(|host| {
        let output = scratch.out(&format!("y{host}.npy"));
        let ran = run(host, &output);
        assert!(ran.status.success(), "{ran:?}");
        std::fs::read(output).expect("written")
    });
    assert_eq!(results[0], results[1]);
    // The binary under test may be for another processor than this test.
    let told = ane!("doctor").fine().out;
    let (_, names) = told.split_once("ANE_HOST forces one of ").expect("the instruction sets");
    let names: Vec<&str> = names.lines().next().expect("a line").split(", ").collect();
    let missing = if names.contains(&"neon") { "v3" } else { "neon" };
    for (host, said) in [(missing, "this host has no instruction set"), ("sse9", "is no instruction set")] {
        let ran = run(host, &scratch.out("none.npy"));
        let text = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.code() == Some(2) && text.contains(said) && text.contains("scalar"), "{text}");
    }
}
