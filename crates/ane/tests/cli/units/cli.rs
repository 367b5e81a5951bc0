mod guard;
mod run {
    mod by_layer;
    mod report;
}

use anemone::testing::{Args, GROUPS};
use clap::CommandFactory;

#[test]
fn every_verb_is_in_one_group_of_the_help() {
    let command = Args::command();
    for verb in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        let groups = GROUPS.iter().filter(|(_, verbs)| verbs.contains(&verb.get_name())).count();
        assert_eq!(groups, 1, "{}", verb.get_name());
    }
}
