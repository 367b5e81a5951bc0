//! Netplists of several procedures: one container, an entry point for each, by name and number through every route; and what a
//! load refuses.

use crate::ane;
use crate::harness::*;
use anemone_program::hwx::Container;

/// Two procedures over one network: a ReLU, and the hyperbolic tangent of it.
pub const TWO: &str = r#"<plist version="1.0"><dict>
<key>Version</key><string>1.0.10</string>
<key>Networks</key><array><string>net</string></array>
<key>ProcedureList</key><array>
<dict><key>Name</key><string>p1</string><key>InputList</key><array><string>x</string></array>
<key>OperationList</key><array><string>a</string></array><key>OutputList</key><array><string>y</string></array></dict>
<dict><key>Name</key><string>p2</string><key>InputList</key><array><string>x</string></array>
<key>OperationList</key><array><string>a</string><string>b</string></array>
<key>OutputList</key><array><string>z</string></array></dict>
</array>
<key>net</key><dict>
<key>x</key><dict><key>InputChannels</key><integer>8</integer><key>InputHeight</key><integer>1</integer>
<key>InputWidth</key><integer>16</integer><key>InputType</key><string>Float16</string></dict>
<key>a</key><dict><key>Type</key><string>Neuron</string><key>Bottom</key><string>x</string>
<key>OutputType</key><string>Float16</string><key>Params</key><dict><key>Type</key><string>ReLU</string></dict></dict>
<key>b</key><dict><key>Type</key><string>Neuron</string><key>Bottom</key><string>a</string>
<key>OutputType</key><string>Float16</string><key>Params</key><dict><key>Type</key><string>Tanh</string></dict></dict>
<key>y</key><dict><key>Bottom</key><string>a</string><key>OutputType</key><string>Float16</string></dict>
<key>z</key><dict><key>Bottom</key><string>b</string><key>OutputType</key><string>Float16</string></dict>
</dict></dict></plist>
"#;

#[test]
fn two_procedures_are_one_container_with_two_entry_points() {
    let scratch = Scratch::new();
    let net = scratch.file("two.plist", TWO);
    let ones = scratch.file("x.npy", filled(&[1, 8, 1, 16], 1.0));
    for compat in [None, Some("zin-9.509")] {
        let out = scratch.out(&format!("{}.hwx", compat.unwrap_or("own")));
        let mut arguments = vec!["compile".to_string(), net.clone(), "-o".into(), out.clone()];
        arguments.extend(compat.into_iter().flat_map(|name| ["--compat".to_string(), name.into()]));
        run(&arguments).fine();
        let container = Container::read(&std::fs::read(&out).expect("written")).expect("reads");
        assert_eq!(container.procedures(), ["p1", "p2"]);
        assert_eq!(container.write(), std::fs::read(&out).expect("written"));
        ane!("check", out).fine();
        let dumped = ane!("dump", out).fine();
        assert!(
            dumped.out.contains("procedure 0, p1: 1 task") && dumped.out.contains("procedure 1, p2: "),
            "{dumped:?}"
        );
        for file in [&out, &net] {
            for via in [None, Some("inprocess")] {
                for (function, name, value) in [("p1", "y", 1.0), ("p2", "z", 1f32.tanh())] {
                    let input = format!("x={ones}");
                    let mut arguments: Vec<String> =
                        ["run", file.as_str(), "--function", function, "-i", &input].map(String::from).to_vec();
                    arguments.extend(via.into_iter().flat_map(|via| ["--via".to_string(), via.into()]));
                    let ran = run(&arguments).fine();
                    let first = ran.out.lines().next().unwrap_or_default();
                    let told = format!("{name} [1, 8, 1, 16]: 128 elements from ");
                    let last = first.rsplit(' ').next().and_then(|word| word.parse::<f32>().ok());
                    let near = last.is_some_and(|last| (last - value).abs() < 1e-3);
                    assert!(first.starts_with(&told) && near, "{function} {via:?}: {ran:?}");
                }
            }
        }
        ane!("run", out, "--function", "p3").refused(2, "ANE2002", &["p3", "p1, p2"]);
    }
    // Other forms hold one.
    let other = scratch.path("two.e5");
    ane!("compile", net, "-o", other, "--emit", "e5").refused(2, "ANE2004", &["p1, p2", "--function"]);
    ane!("compile", net, "-o", scratch.out("p2.bin"), "--emit", "bin", "--function", "p2").fine();
}

#[test]
fn what_the_check_of_a_container_refuses_does_not_load() {
    use anemone_facts::formats::hwx::tensor;
    let scratch = Scratch::new();
    let out = scratch.out("net.hwx");
    ane!("compile", scratch.relu(), "-o", out).fine();
    let good = std::fs::read(&out).expect("written");
    // One form of a tensor after the other: kind, interleave, the check that names it.
    let forms = [
        (3, 1, "ZinComputeProgramValidateNamesFromSinglePlaneLinear"),
        (3, 2, "ZinComputeProgramValidateNamesFromMultiPlaneLinear"),
        (1, 1, "ZinComputeProgramValidateNamesFromSinglePlaneTiledCompressed"),
        (1, 2, "ZinComputeProgramValidateNamesFromMultiPlaneTiledCompressed"),
    ];
    for (kind, planes, function) in forms {
        let mut container = Container::read(&good).expect("reads");
        for command in &mut container.commands {
            if let anemone_program::hwx::Command::Thread(thread) = command
                && thread.tensor().is_some()
            {
                (thread.words[tensor::KIND], thread.words[tensor::INTERLEAVE]) = (kind, planes);
                thread.words[tensor::ROW_STRIDE] = 1;
                thread.words[tensor::BYTES] = 0;
            }
        }
        let bad = scratch.file("bad.hwx", container.write());
        let checked = ane!("check", bad);
        assert!(checked.code == Some(1) && checked.out.contains(function), "{checked:?}");
        ane!("run", bad).refused(2, "ANE2002", &["refused at load", function]);
        ane!("run", bad, "--via", "inprocess").refused(2, "ANE2002", &["refused at load", function]);
    }
}
