//! Netplists with several entry points and of both schema versions; what is written reads as the same net.

use super::*;

/// A network of one unit under a name.
fn network(name: &str, kind: &str, lists: [&str; 3]) -> String {
    let [inputs, units, outputs] = lists;
    let list = |key: &str, name: &str| format!("<key>{key}</key><array><string>{name}</string></array>");
    format!(
        "<key>{name}</key><dict>{}{}{}\
         <key>x</key><dict><key>BatchSize</key><integer>1</integer><key>InputChannels</key><integer>2</integer>\
         <key>InputDepth</key><integer>1</integer><key>InputHeight</key><integer>1</integer>\
         <key>InputWidth</key><integer>3</integer><key>InputInterleave</key><integer>1</integer>\
         <key>InputType</key><string>Float16</string></dict>\
         <key>n</key><dict><key>Name</key><string>n</string><key>Type</key><string>Neuron</string>\
         <key>Bottom</key><string>x</string><key>OutputType</key><string>Float16</string>\
         <key>Params</key><dict><key>Type</key><string>{kind}</string></dict></dict>\
         <key>y</key><dict><key>Bottom</key><string>n</string><key>OutputType</key><string>Float16</string></dict></dict>",
        list(inputs, "x"),
        list(units, "n"),
        list(outputs, "y"),
    )
}

fn file(version: &str, head: &str) -> Vec<u8> {
    let first = network("first", "ReLU", ["Inputs", "Units", "Outputs"]);
    let second = network("second", "Tanh", ["InputList", "OperationList", "OutputList"]);
    format!(
        "<?xml version=\"1.0\"?><plist version=\"1.0\"><dict><key>Version</key><string>{version}</string>\
         <key>Networks</key><array><string>first</string><string>second</string></array>{head}{first}{second}</dict></plist>"
    )
    .into_bytes()
}

fn read_function(bytes: &[u8], function: Option<&str>) -> Result<Reading, Error> {
    let options = Options { function: function.map(str::to_string), ..Options::default() };
    let (net, notes) = read_netplist(bytes, &MemoryFiles::default(), &options)?;
    check(&net).map_err(|mut e| e.swap_remove(0))?;
    Ok((net, notes))
}

const PROCEDURES: &str = "<key>ProcedureList</key><array>\
    <dict><key>Name</key><string>run</string><key>Networks</key><array><string>second</string></array></dict>\
    <dict><key>Name</key><string>both</string><key>Networks</key><array><string>first</string><string>second</string></array></dict>\
    </array>";

fn kinds(net: &anemone_net::graph::Net) -> Vec<&'static str> {
    net.ops.iter().map(|op| op.kind.name()).collect()
}

#[test]
fn a_network_or_procedure_is_chosen() {
    let plain = file("1.0.10", "");
    let (net, notes) = read_function(&plain, None).unwrap();
    assert_eq!((net.name.as_str(), kinds(&net)), ("first", vec!["relu"]));
    assert!(notes.join("\n").contains("first, second; `first` is read"), "{notes:?}");
    assert_eq!(kinds(&read_function(&plain, Some("second")).unwrap().0), ["tanh"]);
    let error = read_function(&plain, Some("third")).unwrap_err().to_string();
    assert!(error.contains("third") && error.contains("first, second"), "{error}");
    // A procedure that runs several networks is refused when it is asked for, and named.
    let several = read_function(&file("1.0.10", PROCEDURES), Some("both")).unwrap_err().to_string();
    assert!(several.contains("both") && several.contains("2 networks"), "{several}");
    let one =
        &PROCEDURES.replace("<string>first</string><string>second</string></array>", "<string>first</string></array>");
    let listed = file("1.0.10", one);
    assert_eq!(kinds(&read_function(&listed, Some("run")).unwrap().0), ["tanh"]);
    assert_eq!(kinds(&read_function(&listed, Some("both")).unwrap().0), ["relu"]);
}

#[test]
fn schema_versions_read_alike_and_others_are_said() {
    let net = |version| read_function(&file(version, ""), None).unwrap();
    let ((old, old_notes), (new, new_notes), (odd, odd_notes)) = (net("1.0.9"), net("1.0.10"), net("1.0.7"));
    assert!(old == new && new == odd);
    assert_eq!(old_notes, new_notes);
    assert!(odd_notes[0].contains("1.0.7") && odd_notes[0].contains("1.0.9 and 1.0.10"), "{odd_notes:?}");
    for newer in ["1.0.11", "2.0.0"] {
        let error = read_function(&file(newer, ""), None).unwrap_err().to_string();
        assert!(error.contains(newer) && error.contains("newer than 1.0.10"), "{error}");
    }
}

/// A procedure's own lists stand in the place of its network's.
#[test]
fn procedures_list_inputs_operations_and_outputs() {
    let lists = ["InputList", "OperationList", "OutputList"];
    let list = |key: &str, name: &str| format!("<key>{key}</key><array><string>{name}</string></array>");
    let procedure = |name: &str, own: &str| format!("<dict><key>Name</key><string>{name}</string>{own}</dict>");
    let own: String = lists.iter().zip(["x", "n", "y"]).map(|(key, name)| list(key, name)).collect();
    // Networks without lists.
    let head = |version: &str| {
        let bare = network("only", "Tanh", ["A", "B", "C"]);
        format!(
            "<?xml version=\"1.0\"?><plist version=\"1.0\"><dict><key>Version</key><string>{version}</string>\
             <key>Networks</key><array><string>only</string></array>\
             <key>ProcedureList</key><array>{}</array>{bare}</dict></plist>",
            procedure("main", &own)
        )
        .into_bytes()
    };
    for function in [None, Some("main")] {
        let (net, _) = read_function(&head("1.0.10"), function).unwrap();
        assert_eq!((kinds(&net), net.outputs.len()), (vec!["tanh"], 1));
    }
    // Beside lists of the network, those of the procedure that is asked for hold.
    let two = procedure("p2", &(own.replace("<string>y</string>", "<string>z</string>") + &list("Networks", "first")));
    let beside = file("1.0.10", &format!("<key>ProcedureList</key><array>{two}</array>"));
    let error = read_function(&beside, Some("p2")).unwrap_err().to_string();
    assert!(error.contains('z'), "{error}");
    assert_eq!(kinds(&read_function(&beside, None).unwrap().0), ["relu"]);
}

/// A written net reads back with the same operations, types and extents, and computes the same bits.
#[test]
fn written_netplists_read_as_the_same_net() {
    for function in ["first", "second"] {
        let (net, _) = read_function(&file("1.0.9", ""), Some(function)).unwrap();
        let (xml, _) = anemone_net::netplist::write(&net).unwrap();
        let (again, _) = read_function(&xml, None).unwrap();
        assert_eq!(kinds(&again), kinds(&net));
        let names = |net: &anemone_net::graph::Net| -> Vec<(String, anemone_net::graph::TensorType)> {
            net.values.iter().map(|v| (v.name.clone(), v.ty.clone())).collect()
        };
        assert_eq!(names(&again), names(&net));
        let x =
            Tensor { shape: vec![1, 2, 1, 3], data: Data::from_f32(DType::F16, &[-2.0, -0.5, 0.0, 0.25, 1.0, 3.0]) };
        assert_eq!(eval(&again, std::slice::from_ref(&x)).unwrap(), eval(&net, &[x]).unwrap());
        let (third, _) = anemone_net::netplist::write(&again).unwrap();
        assert_eq!(String::from_utf8(third), String::from_utf8(xml));
    }
}
