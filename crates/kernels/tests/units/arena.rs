use anemone_kernels::arena::Arena;

#[test]
fn buffers_come_back_by_their_type() {
    let mut arena = Arena::default();
    let mut floats: Box<Vec<f32>> = arena.take();
    floats.push(1.0);
    arena.put(floats);
    assert!(arena.take::<Vec<u8>>().is_empty());
    assert_eq!(*arena.take::<Vec<f32>>(), [1.0]);
    assert!(arena.take::<Vec<f32>>().is_empty());
}
