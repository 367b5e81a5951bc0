use anemone::brief::shorten;
use anemone_program::text::{Entry, Node};

#[test]
fn arrays_fold_and_zeros_are_counted() {
    let entry = |name: &str, raw: u64| Entry {
        name: name.into(),
        value: raw.to_string(),
        raw: Some(raw),
        evidence: Some("B"),
        ..Entry::default()
    };
    let mut entries = Vec::new();
    for i in 0..4 {
        entries.push(entry(&format!("En[{i}]"), 1));
        entries.push(entry(&format!("Hint[{i}]"), 0));
        entries.push(entry(&format!("Base[{i}]"), 64 * i));
    }
    entries.push(entry("Cin", 3));
    entries.push(entry("Shift", 0));
    let mut node = Node { entries, ..Node::default() };
    assert_eq!(shorten(&mut node, true), 5);
    let lines: Vec<String> = node.entries.iter().map(|e| format!("{} = {}", e.name, e.value)).collect();
    assert_eq!(lines, ["En[0..3] = 1", "Base[0..3] = 0 to 192", "Cin = 3"]);
}
