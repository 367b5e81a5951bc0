use anemone_runtime::Code;
use anemone_runtime::driver::balancer::Balancer;

#[test]
fn one_engine_passes_through() {
    let mut one = Balancer::new(1).expect("an engine");
    assert_eq!([7, 8, 7].map(|p| one.place(p)), [0, 0, 0]);
    assert_eq!((one.resident(), one.engine_of(9)), (vec![2], None));
}

#[test]
fn programs_go_where_there_is_least_and_stay() {
    let mut four = Balancer::new(4).expect("engines");
    let placed: Vec<usize> = (0..6).map(|p| four.place(p)).collect();
    assert_eq!(placed, [0, 1, 2, 3, 0, 1]);
    four.remove(2);
    assert_eq!((four.engine_of(2), four.place(3), four.place(9)), (None, 3, 2));
    assert_eq!(four.resident(), [2, 2, 1, 1]);
}

#[test]
fn engines_that_no_chip_has() {
    assert_eq!([0, 5].map(|n| Balancer::new(n).err()), [Some(Code::BAD_ARGUMENT); 2]);
}
