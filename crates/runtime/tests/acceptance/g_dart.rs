//! G: the translation unit.

use crate::nets::*;
use anemone_facts::driver::limits::{APERTURE_BYTES, PAGE_BYTES};
use anemone_runtime::Code;
use anemone_runtime::dart::{Dart, Rebase, State, table_base};
use anemone_runtime::driver::InjectedFault;
use anemone_runtime::driver::client::{Arguments, Client};
use anemone_runtime::os::shared::Shared;
use std::sync::Arc;

#[test]
fn g01_one_byte() {
    let mut dart = Dart::default();
    let iova = dart.map(1, 1, 1, 1, 0).expect("maps");
    assert!(iova % 0x4000 == 0 && iova < 0xe000_0000);
    let segments = dart.segments(1, iova);
    assert_eq!(segments.len(), 1);
    assert_eq!(segments[0].bytes()[16..24], 16384u64.to_le_bytes());
}

#[test]
fn g02_leaves_and_classes() {
    let mut dart = Dart::default();
    let all: Vec<u64> = [1, 2, 8].iter().map(|&usage| dart.map(1, usage, 20000, usage, 0).expect("maps")).collect();
    for &iova in &all {
        let leaf = dart.leaf(1, iova);
        assert_eq!(leaf >> 63, 1);
        assert_eq!(leaf & (1 << 62 | 1 << 60 | 1 << 59 | 0x3fff), 0);
    }
    let classes: Vec<u32> = dart.mappings(1).map(|m| m.protection).collect();
    assert_eq!(classes, [3, 1, 3]);
    for (i, usage) in [1, 2, 8].into_iter().enumerate() {
        dart.unmap(1, usage, usage).expect("unmaps");
        assert_eq!(dart.leaf(1, all[i]), 0);
    }
    assert_eq!(dart.map(1, 1, 1, 5, 0), Err(Code::BAD_ARGUMENT));
}

#[test]
fn g03_a_load_maps_nine() {
    let (driver, signer) = start();
    let _loaded = load(&driver, &signer, &task(1), ADD_ONE);
    let context = 1;
    let usages: Vec<u32> = driver.with_dart(|d| d.mappings(context).map(|m| m.usage).collect());
    assert_eq!(usages, [1, 2, 8, 9, 11, 7, 9, 4121, 4122]);
}

#[test]
fn g04_in_place() {
    let mut dart = Dart::default();
    let (a, b) = (dart.map(1, 5, 100, 1, 0).unwrap(), dart.map(1, 5, 100, 2, 0).unwrap());
    assert_ne!(a, b);
    assert_eq!(dart.leaf(1, a), dart.leaf(1, b));
    assert_eq!(dart.map(1, 5, 100, 1, 0), Ok(a));
}

#[test]
fn g05_pressure() {
    let mut dart = Dart::new(4 * PAGE_BYTES);
    for surface in 0..4 {
        dart.map(1, surface, 1, 1, 0).expect("space");
    }
    dart.begin(1, 0, 1).expect("used");
    dart.map(1, 9, 1, 1, 0).expect("the oldest idle one gives way");
    let gone: Vec<u32> = dart.mappings(1).filter(|m| m.state == State::Evicted).map(|m| m.surface).collect();
    assert_eq!(gone, [1]);
    for surface in [2, 3, 9] {
        dart.begin(1, surface, 1).expect("used");
    }
    assert_eq!(dart.map(1, 10, 1, 1, 0), Err(Code::NO_RESOURCES));
    assert_eq!(dart.begin(1, 1, 1), Err(Code::NO_RESOURCES));
}

#[test]
fn g06_rebase() {
    let r = Rebase { dva_base: 0x4000, region_bytes: 0x8000, mapped_base: 0x7000_0000 };
    assert_eq!((r.apply(0x4000), r.apply(0xbfff)), (Ok(0x7000_0000), Ok(0x7000_7fff)));
    assert!(r.apply(0xc000).is_err() && r.apply(0x3fff).is_err());
    assert_eq!(table_base(0x9002_2320), Some(0x100_2232_0000));
    assert_eq!(table_base(0x1002_2320), None);
}

#[test]
fn g07_isolation() {
    let mut dart = Dart::default();
    let a = dart.map(1, 1, 1, 1, 0).unwrap();
    let b = dart.map(2, 2, 1, 1, 0).unwrap();
    let c = dart.map(2, 3, 1, 1, 0).unwrap();
    let reach = |d: &mut Dart, context, iova| d.translate(context, 0, iova, false, 0xa0);
    let (own, other) = (reach(&mut dart, 1, a), reach(&mut dart, 2, b));
    assert!(own.is_some() && other.is_some() && own != other);
    assert_eq!(reach(&mut dart, 1, c), None);
}

#[test]
fn g08_fault() {
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), ADD_ONE);
    for word in [0x20, 0xa0] {
        driver.trouble(InjectedFault::StrayAddress(word));
        l.client.submit(&l.submit()).expect("benign");
    }
    let before = driver.now_ns();
    driver.trouble(InjectedFault::StrayAddress(0));
    assert_eq!(l.client.submit(&l.submit()), Err(Code::ABORTED));
    assert!(driver.now_ns() - before >= 250_000_000);
    assert_eq!(driver.with_firmware(|f| f.restarts), 1);
    l.client.submit(&l.submit()).expect("recovered");
    let mut dart = Dart::default();
    dart.translate(1, 2, 0x1_0000, true, 0);
    let fault = dart.fault().expect("latched").clone();
    assert_eq!((fault.status, fault.write, fault.address), (0x8000_0002, true, 0x1_0000));
    dart.translate(1, 0, 0x2_0000, true, 0);
    assert_eq!(dart.fault(), Some(&fault), "the latch is sticky");
    assert_eq!(dart.recover(), Some(fault));
}

pub fn map(client: &Client, session: u64, surface: u32, usage: u32) -> (Code, u64) {
    let mut input = [0; 2080];
    input[8..12].copy_from_slice(&usage.to_le_bytes());
    input[16..20].copy_from_slice(&1u32.to_le_bytes());
    input[32..36].copy_from_slice(&surface.to_le_bytes());
    let mut out = [u64::MAX];
    let a =
        Arguments { scalars_in: &[session], struct_in: Some(&input), scalars_out: &mut out, ..Arguments::default() };
    (client.call(5, a), out[0])
}

#[test]
fn g09_memory_map() {
    let (driver, _) = start();
    let client = driver.open(&task(1), 1).expect("open");
    let session = client.open().expect("handshake");
    let surface = client.add_surface(Arc::new(Shared::new(100).unwrap())).unwrap();
    let (code, address) = map(&client, session, surface, 1);
    assert_eq!(code, Code::SUCCESS);
    assert!(address < APERTURE_BYTES && address % PAGE_BYTES == 0);
    assert_eq!(map(&client, session + 1, surface, 1).0, Code::NOT_FOUND);
    assert_eq!(map(&client, session, surface + 1, 1).0, Code::NOT_FOUND);
}
