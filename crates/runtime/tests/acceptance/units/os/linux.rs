use anemone_runtime::os::shared::{FileBytes, Shared};

#[test]
fn the_same_memory_through_a_descriptor() {
    let a = Shared::new(100).expect("memory");
    let file = a.descriptor().expect("a memfd").try_clone_to_owned().expect("descriptor");
    let b = Shared::adopt(file, 100).expect("sealed");
    a.write(&[7; 100]);
    assert_eq!(b.to_vec(), [7; 100]);
    let file = a.descriptor().expect("a memfd").try_clone_to_owned().expect("descriptor");
    assert!(Shared::adopt(file, 4096).is_err());
}

#[test]
fn devices_read_as_files() {
    assert_eq!(FileBytes::open(std::path::Path::new("/dev/null")).expect("opened").as_ref(), b"");
}
