//! Differences between systems: line ends, names of files, folders that are absent or cannot be written.

use crate::ane;
use crate::harness::*;

const MIL: &str = "program(1.3)
{
    // A comment ends with its line.
    func main<ios18>(tensor<fp16, [1, 3, 1, 16]> x) {
        tensor<fp16, [1, 3, 1, 16]> y = relu(x = x)[name = string(\"y\")];
    } -> (y);
}
";

#[test]
fn text_inputs_may_end_their_lines_as_windows_does() {
    let scratch = Scratch::new();
    let windows = |text: &str| text.replace('\n', "\r\n");
    let (plain, other) = (scratch.file("a.mil", MIL), scratch.file("b.mil", windows(MIL)));
    let (one, two) = (scratch.out("a.bin"), scratch.out("b.bin"));
    ane!("compile", plain, "-o", one).fine();
    ane!("compile", other, "-o", two).fine();
    let bytes = |path: &String| std::fs::read(path).expect("written");
    assert_eq!(bytes(&one), bytes(&two));
    let wrong = scratch.file("c.mil", windows(&MIL.replace("fp16, [1, 3, 1, 16]> y", "half, [1]> y")));
    ane!("compile", wrong, "-o", scratch.out("c.hwx")).refused(2, "ANE2002", &["c.mil:5:"]);
    // A netplist, a listing, labels.
    let netplist = scratch.relu();
    let text = std::fs::read_to_string(&netplist).expect("XML");
    std::fs::write(&netplist, windows(&text)).expect("written");
    ane!("compile", netplist, "-o", scratch.out("d.hwx")).fine();
    let (container, again) = (scratch.out("e.hwx"), scratch.out("f.hwx"));
    ane!("compile", plain, "-o", container).fine();
    let listing = scratch.file("e.asm", windows(&ane!("dump", container, "--asm").fine().out));
    ane!("asm", listing, "-o", again).fine();
    assert_eq!(bytes(&again), bytes(&container));
    let [package, image, _] = digits();
    let names = std::fs::read_to_string(example("labels.txt")).expect("labels");
    let labels = scratch.file("labels.txt", windows(&names));
    let ran = ane!("run", package, "-i", image, "--labels", labels).fine();
    assert!(ran.out.contains("class 8, probability"), "{ran:?}");
}

#[test]
fn names_with_spaces_and_letters_of_any_language() {
    let scratch = Scratch::new();
    let [package, image, _] = digits();
    let out = scratch.out("mein Netz \u{e4}\u{6f22}.hwx");
    ane!("compile", package, "-o", out).fine();
    ane!("run", out, "-i", image).fine();
    let listed = ane!("dump", out, "--part", "header").fine();
    assert!(!listed.out.is_empty());
    let absent = scratch.path("kein Netz \u{e4}.hwx");
    ane!("run", absent).refused(2, "ANE2001", &[&absent]);
}

#[test]
fn a_cache_that_cannot_be_written_costs_time_and_no_result() {
    let scratch = Scratch::new();
    let [package, ..] = digits();
    let file = scratch.file("file", "x");
    let (plain, other) = (scratch.out("a.bin"), scratch.out("b.bin"));
    ane!("compile", package, "-o", plain).fine();
    ane!("compile", package, "-o", other, "--cache", format!("{file}/below")).fine();
    let bytes = |path: &String| std::fs::read(path).expect("written");
    assert_eq!(bytes(&plain), bytes(&other));
}

#[test]
fn folders_of_the_user_that_are_not_known() {
    let [package, image, _] = digits();
    let bare = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|a| a.to_string()).collect();
        let mut command = command(&arguments);
        for variable in ["HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "LOCALAPPDATA"] {
            command.env_remove(variable);
        }
        finish(command.spawn().expect("starts"), &arguments)
    };
    bare(&["cache", "ls"]).refused(2, "ANE2004", &["where the cache is", "is set", "--cache FOLDER"]);
    bare(&["stat"]).refused(2, "ANE2004", &["where the broker's socket is", "--socket PATH"]);
    // Commands that need none of them work.
    bare(&["run", &package, "-i", &image]).fine();
    let doctor = bare(&["doctor"]).fine();
    assert!(doctor.out.contains("cache folder") && doctor.out.contains("broker"), "{doctor:?}");
}
