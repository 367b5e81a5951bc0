use anemone_facts::legal::{Bound, MatchParams, Quantity, RULES, When};

#[test]
fn every_rule_reads_without_names_of_the_code() {
    for rule in RULES {
        let text = format!("{}; {}", rule.matches.text(), rule.cases());
        let code = ["Number", "Hal", "Of(", "Has", "\""].into_iter().find(|name| text.contains(name));
        assert_eq!(code, None, "{text}");
    }
    let width = MatchParams::Between(Quantity::KernelWidth, Bound::Number(1), Bound::Hal("max_kernel_width_fp16"));
    assert_eq!(width.text(), "kernel width from 1 to 13 or 15 by chip (max_kernel_width_fp16)");
    assert_eq!(When::Lacks(Quantity::Authored).text(), "not authored directly");
}
