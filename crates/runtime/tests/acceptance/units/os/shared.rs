use anemone_runtime::os::shared::{FileBytes, Shared};

#[test]
fn large_files_are_mapped_and_outlive_their_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    };
    let long: Vec<u8> = (0..FileBytes::MAPPED_BYTES + 3).map(|i| i as u8).collect();
    let (large, small) = (at("large", &long), at("small", b"abc"));
    let mapped = FileBytes::open(&large).expect("opened");
    let read = FileBytes::open(&small).expect("opened");
    assert!(mapped.is_mapped() && !read.is_mapped());
    std::fs::rename(&small, &large).expect("replaced");
    assert_eq!(mapped.as_ref(), long);
    assert_eq!(read.as_ref(), b"abc");
    assert!(FileBytes::open(folder.path()).is_err());
    assert_eq!(FileBytes::open(&at("empty", b"")).expect("opened").as_ref(), b"");
}

#[test]
fn odd_lengths_survive() {
    let shared = Shared::new(13).expect("memory");
    let bytes: Vec<u8> = (1..=13).collect();
    shared.write(&bytes);
    assert_eq!(shared.to_vec(), bytes);
    shared.write(&[9, 9, 9]);
    assert_eq!(&shared.to_vec()[..5], &[9, 9, 9, 4, 5]);
    assert!(Shared::new(0).is_err());
}
