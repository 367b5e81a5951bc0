use anemone::check::times::{Times, whole_or_before_dot};

#[test]
fn names_of_tasks_lead_to_the_longest_operation_they_continue() {
    let parts: Vec<&str> = whole_or_before_dot("a.b.turned.between").collect();
    assert_eq!(parts, ["a.b.turned.between", "a.b.turned", "a.b", "a"]);
}

#[test]
fn the_longest_come_first_and_nothing_is_left_out() {
    let times = Times { by_op: vec![1.0, 0.0, 5.0], other: 2.0 };
    assert_eq!((times.longest(), times.total()), (vec![2, 0], 8.0));
}
