//! C: program lifecycle, trust, residency. Caching and compiling are in `j_e5rt`.

use crate::nets::*;
use anemone_facts::driver::selectors::CONTROL;
use anemone_program::firmware::Package;
use anemone_program::{Direction, firmware};
use anemone_runtime::Code;
use anemone_runtime::driver::client::{Create, Submit};
use anemone_runtime::driver::sign::Signer;
use anemone_runtime::driver::task::Task;
use anemone_runtime::os::shared::Shared;
use std::sync::Arc;

fn create(image: &[u8]) -> Create<'static> {
    Create { image: image.to_vec().into(), name: "main", ..Create::default() }
}

#[test]
fn c01_lifecycle() {
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), ADD_ONE);
    l.fill(0, 4.0);
    l.client.submit(&l.submit()).expect("submit");
    assert_eq!(l.first(1), 5.0);
    l.client.unprepare(l.created.token).expect("unprepare");
    assert_eq!(l.client.submit(&l.submit()), Err(Code::NOT_READY));
    l.client.destroy(l.created.token).expect("destroy");
    assert_eq!((driver.loaded(), driver.resident()), ((0, 0), vec![0]));
    let sizes: Vec<_> =
        [3, 4, 2, 5, 6].iter().map(|&i: &usize| (CONTROL[i].struct_in_bytes, CONTROL[i].struct_out_bytes)).collect();
    assert_eq!(sizes, [(32, 0), (56, 56), (2376, 40), (56, 0), (16, 0)]);
}

#[test]
fn c01_the_other_representation() {
    let (driver, signer) = start();
    let client = control(&driver, &task(1));
    let program = compile(ADD_ONE);
    let package = firmware::from_programs(&[&program]).expect("a package").write();
    let created = client.create(create(&signer.sign(&package))).expect("operations in a package");
    client.prepare(created.token).expect("prepare");
    let surface = || client.add_surface(Arc::new(Shared::new(program.ports[0].bytes).unwrap())).unwrap();
    let (x, y) = (surface(), surface());
    client.submit(&Submit::new(created.token, &[x], &[y])).expect("runs");
    assert_eq!(client.create(create(&signer.sign(&package[..200]))).err(), Some(Code::BAD_ARGUMENT));
    let d = direct(&driver, &task(1));
    let status = d.method("ShowModelMemoryStatus", &[]).expect("lines");
    assert!(format!("{status:?}").contains("operations on engine 0"));
}

#[test]
fn c02_trust() {
    let (driver, signer) = start();
    let client = control(&driver, &task(1));
    let container = image(&compile(ADD_ONE));
    let good = signer.sign(&container);
    for at in [0, 100, good.len() / 2, good.len() - 1] {
        let mut bad = good.to_vec();
        bad[at] ^= 1;
        assert_eq!(client.create(create(&bad)).err(), Some(Code::NOT_PERMITTED));
    }
    let own = Signer::foreign().expect("a key").sign(&container);
    assert_eq!(client.create(create(&own)).err(), Some(Code::NOT_PERMITTED));
    assert_eq!(client.create(create(&container)).err(), Some(Code::NOT_PERMITTED));
    assert_eq!(driver.loaded(), (0, 0));
    assert_eq!(driver.counters().doorbells, 0);
}

#[test]
fn c03_bytes_used_are_bytes_checked() {
    let (driver, signer) = start();
    let task = task(1);
    let client = control(&driver, &task);
    let file = signer.sign(&image(&compile(ADD_ONE)));
    let at = task.stage(&file).expect("staged");
    let mut blob = [0; 192];
    blob[..8].copy_from_slice(&at.to_le_bytes());
    blob[8..16].copy_from_slice(&(file.len() as u64).to_le_bytes());
    let created = client.create_at(&blob).expect("the signed bytes");
    // Replaced afterwards: the loaded program does not change, and the new bytes are refused.
    task.put(at + 4000, &[0xff; 64]).expect("overwritten");
    assert_eq!(client.create_at(&blob).err(), Some(Code::NOT_PERMITTED));
    client.prepare(created.token).expect("prepare");
    let bytes = compile(ADD_ONE).ports[0].bytes;
    let surface = || client.add_surface(Arc::new(Shared::new(bytes).unwrap())).unwrap();
    let (x, y) = (surface(), surface());
    client.submit(&Submit::new(created.token, &[x], &[y])).expect("runs");
}

#[test]
fn c04_magic() {
    let (driver, signer) = start();
    let client = control(&driver, &task(1));
    let container = image(&compile(ADD_ONE));
    assert_eq!(container[..4], [0xce, 0xfa, 0xef, 0xbe]);
    client.create(create(&signer.sign(&container))).expect("the magic of program images");
    let mut other = container;
    other[..4].copy_from_slice(&[0xcf, 0xfa, 0xed, 0xfe]);
    assert_eq!(client.create(create(&signer.sign(&other))).err(), Some(Code::BAD_ARGUMENT));
}

#[test]
fn c05_c06_residency() {
    let (driver, signer) = start();
    let owner = load(&driver, &signer, &task(1), ADD_ONE);
    let other = |pid, team: &str, digest: &str| Arc::new(Task::new(pid, identity(team, digest), all_keys()));
    let same = control(&driver, &other(2, "A", "X"));
    let attached = same.create_instance(owner.created.token, &[]).expect("attaches");
    assert_eq!(attached.intermediate, owner.created.intermediate);
    assert_eq!(driver.loaded(), (1, 2));
    // The balancer knows programs, not instances.
    assert_eq!(driver.resident(), [1]);
    for (pid, team, digest) in [(3, "A", "Y"), (4, "B", "X"), (5, "B", "Y")] {
        let stranger = control(&driver, &other(pid, team, digest));
        assert_eq!(stranger.create_instance(owner.created.token, &[]).err(), Some(Code::NOT_PERMITTED));
        assert_eq!(stranger.submit(&owner.submit()), Err(Code::NOT_FOUND));
        assert_eq!(stranger.prepare(owner.created.token), Err(Code::NOT_FOUND));
        assert_eq!(stranger.remove_surface(owner.outputs[0]), Err(Code::NOT_FOUND));
    }
}

#[test]
fn c07_adapters_share_the_base() {
    let (driver, signer) = start();
    let base = load(&driver, &signer, &task(1), &tiny());
    let adapter = |byte: u8| {
        let mut out = 0u64.to_le_bytes().to_vec();
        out.extend_from_slice(&16u64.to_le_bytes());
        out.extend_from_slice(&[byte; 16]);
        out
    };
    base.fill(0, 1.0);
    let run = |token| {
        base.client.submit(&Submit::new(token, &base.inputs, &base.outputs)).expect("runs");
        base.memory[1].to_vec()
    };
    let plain = run(base.created.token);
    let mut results = Vec::new();
    for byte in [0x10, 0x31] {
        let made = base.client.create_instance(base.created.token, &adapter(byte)).expect("adapter");
        base.client.prepare(made.token).expect("prepare");
        assert_eq!(made.program, base.created.program);
        results.push(run(made.token));
    }
    assert_eq!(driver.loaded(), (1, 3));
    assert!(results[0] != plain && results[1] != plain && results[0] != results[1]);
    assert_eq!(run(base.created.token), plain);
    assert_eq!(base.client.create_instance(base.created.token, &adapter(1)[..20]).err(), Some(Code::BAD_ARGUMENT));
}

#[test]
fn c08_slots() {
    let (driver, signer) = start();
    let file = signer.sign(&image(&compile(ADD_ONE)));
    let client = control(&driver, &task(1));
    for i in 0..128 {
        client.create(create(&file)).unwrap_or_else(|e| panic!("{i}: {e}"));
    }
    assert_eq!(client.create(create(&file)).err(), Some(Code::NO_RESOURCES));
    assert!(client.why_not_created(Code::NO_RESOURCES).to_string().contains("must re-compile"));
    let second = control(&driver, &task(2));
    let ids: Vec<u32> = (0..16).map(|_| second.create(create(&file)).expect("to 144").program).collect();
    assert_eq!(ids.last(), Some(&143));
    assert_eq!(second.create(create(&file)).err(), Some(Code::NO_RESOURCES));
}

#[test]
fn c09_destroyed() {
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), ADD_ONE);
    l.client.destroy(l.created.token).expect("destroy");
    assert_eq!(l.client.submit(&l.submit()), Err(Code::NOT_FOUND));
    assert_eq!(l.client.destroy(l.created.token), Err(Code::NOT_FOUND));
}

fn read(bytes: &[u8]) -> Result<Package, Code> {
    Package::read(bytes).map_err(|_| Code::BAD_ARGUMENT)
}

#[test]
fn c10_audit() {
    let (driver, _) = start();
    let good = firmware::from_programs(&[&compile(ADD_ONE)]).expect("a package");
    let mut overlap = good.clone();
    overlap.programs[0].sections[1].offset = overlap.programs[0].sections[2].offset;
    let mut unknown = good.clone();
    unknown.programs[0].sections[0].kind = 99;
    let mut outside = good.write();
    // The offset of the first section, beyond the file.
    outside[24 + 8 + 56 + 8] = 0xff;
    outside[24 + 8 + 56 + 12] = 0xff;
    for bytes in [overlap.write(), unknown.write(), outside, good.write()[..64].to_vec()] {
        assert_eq!(
            driver.with_firmware(|f| read(&bytes).and_then(|package| f.load(&package))),
            Err(Code::BAD_ARGUMENT)
        );
    }
    driver.with_firmware(|f| {
        assert!(f.is_ready() && f.restarts == 0);
        f.load(&good).expect("the sound one");
    });
}

#[test]
fn c11_magics_on_disk() {
    let program = compile(ADD_ONE);
    let bytes = firmware::from_programs(&[&program]).expect("a package").write();
    let at = Package::read(&bytes).expect("reads").programs[0].offset as usize;
    assert_eq!((&bytes[..4], &bytes[at..at + 4], &bytes[at + 56..at + 60]), (&b"HENA"[..], &b"PENA"[..], &b"SENA"[..]));
}

#[test]
fn c14_expanded_once() {
    let (driver, signer) = start();
    let l = load(&driver, &signer, &task(1), ADD_ONE);
    assert_eq!(driver.expansions(l.created.token), Some(0));
    for _ in 0..3 {
        l.client.submit(&l.submit()).expect("submit");
        assert_eq!(driver.expansions(l.created.token), Some(1));
    }
    let stream = &l.program.stream;
    assert!(l.memory.iter().all(|m| !m.to_vec().windows(64).any(|w| w == &stream[..64])));
    assert_eq!(l.program.ports_of(Direction::Input).count(), 1);
}
