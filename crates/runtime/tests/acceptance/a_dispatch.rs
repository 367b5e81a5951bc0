//! A: dispatcher and selector tables.

use crate::nets::*;
use anemone_facts::driver::selectors::{ARGUMENT_BLOCK, CONTROL, DIRECT, RECORD_BYTES, record_bytes};
use anemone_runtime::Code;
use anemone_runtime::driver::WakePort;
use anemone_runtime::driver::client::{Arguments, Client};

fn call(client: &Client, selector: u32, si: usize, bi: usize, so: usize, bo: usize, wake: bool) -> Code {
    let (scalars, input) = (vec![0; si], vec![0; bi]);
    let (mut out, mut output) = (vec![0; so], vec![0; bo]);
    let wake = wake.then(|| WakePort::new().0);
    client.call(
        selector,
        Arguments {
            scalars_in: &scalars,
            struct_in: (bi > 0).then_some(&input),
            scalars_out: &mut out,
            struct_out: (bo > 0).then_some(&mut output),
            wake,
        },
    )
}

#[test]
fn a01_control_table() {
    let sizes: Vec<[u32; 4]> =
        CONTROL.iter().map(|s| [s.scalars_in, s.struct_in_bytes, s.scalars_out, s.struct_out_bytes]).collect();
    let expected = [
        [0, 104, 0, 104],
        [0, 0, 0, 0],
        [1, 2376, 0, 40],
        [0, 32, 0, 0],
        [0, 56, 0, 56],
        [0, 56, 0, 0],
        [0, 16, 0, 0],
        [0, 0, 0, 32],
        [0, 32, 0, 0],
        [0, 16, 0, 24],
        [0, 0, 1, 0],
        [0, 24, 0, 0],
        [0, 0, 0, 0],
        [2, 0, 0, 0],
        [2, 0, 0, 0],
        [0, 0, 0, 0],
        [3, 0, 0, 0],
    ];
    assert_eq!(sizes, expected);
    assert!(CONTROL.iter().enumerate().all(|(i, s)| s.index as usize == i));
    assert_eq!((CONTROL[2].name, CONTROL[16].name), ("ANE_ProgramSendRequest", "ANE_LoadFirmware"));
}

#[test]
fn a02_direct_table() {
    let sizes: Vec<[u32; 4]> =
        DIRECT.iter().map(|s| [s.scalars_in, s.struct_in_bytes, s.scalars_out, s.struct_out_bytes]).collect();
    let expected = [
        [0, 104, 0, 104],
        [0, 0, 0, 0],
        [1, 2376, 0, 40],
        [0, 40, 0, 0],
        [0, 3104, 0, 0],
        [1, 2080, 1, 0],
        [0, 2080, 0, 0],
        [0, 16, 0, 24],
        [0, 32, 0, 0],
    ];
    assert_eq!(sizes, expected);
    assert_eq!(DIRECT[4].name, "ANE_ProgramInputsReady");
}

#[test]
fn a03_record_layout() {
    assert_eq!(RECORD_BYTES, 40);
    for s in CONTROL.iter().chain(DIRECT) {
        let bytes = record_bytes(s);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_ne!(u64::from_le_bytes(bytes[..8].try_into().unwrap()), 0);
        assert_eq!(
            [word(8), word(12), word(16), word(20)],
            [s.scalars_in, s.struct_in_bytes, s.scalars_out, s.struct_out_bytes]
        );
        assert!((8..24).step_by(4).all(|at| word(at) != u32::MAX));
    }
}

#[test]
fn a04_exact_sizes() {
    let (driver, _) = start();
    let task = task(1);
    let (control, direct) = (control(&driver, &task), direct(&driver, &task));
    let before = driver.counters();
    for (client, table) in [(&control, CONTROL), (&direct, DIRECT)] {
        for s in table {
            let exact = [s.scalars_in, s.struct_in_bytes, s.scalars_out, s.struct_out_bytes].map(|n| n as usize);
            for i in 0..4 {
                for delta in [1, -1isize] {
                    let mut sizes = exact;
                    let Some(n) = sizes[i].checked_add_signed(delta) else { continue };
                    sizes[i] = n;
                    let code = call(client, s.index, sizes[0], sizes[1], sizes[2], sizes[3], false);
                    assert_eq!(code, Code::BAD_ARGUMENT, "{} {sizes:?}", s.name);
                }
            }
            for i in [1, 3] {
                if exact[i] > 0 {
                    let mut sizes = exact;
                    sizes[i] = 0;
                    assert_eq!(
                        call(client, s.index, sizes[0], sizes[1], sizes[2], sizes[3], false),
                        Code::BAD_ARGUMENT
                    );
                }
            }
        }
    }
    assert_eq!(driver.counters(), before);
}

#[test]
fn a05_no_overloading_control() {
    let (driver, _) = start();
    let task = task(1);
    let control = control(&driver, &task);
    assert_eq!(call(&control, 3, 0, 40, 0, 0, false), Code::BAD_ARGUMENT);
    // Create instance with null pointers; never the direct client's set-active.
    assert_eq!(call(&control, 8, 0, 32, 0, 0, false), Code::BAD_ARGUMENT);
    assert_eq!(control.create_instance(1234, &[]), Err(Code::NOT_FOUND));
}

#[test]
fn a06_direct_three() {
    let (driver, _) = start();
    let task = task(1);
    let direct = direct(&driver, &task);
    assert_eq!(call(&direct, 3, 0, 40, 0, 0, false), Code::NOT_FOUND);
    assert_eq!(call(&direct, 3, 0, 32, 0, 0, false), Code::BAD_ARGUMENT);
}

#[test]
fn a07_memory_map_sizes() {
    let (driver, _) = start();
    let task = task(1);
    let direct = direct(&driver, &task);
    assert_eq!(call(&direct, 5, 1, 2080, 1, 0, false), Code::NOT_FOUND);
    assert_eq!(call(&direct, 5, 1, 0, 0, 2080, false), Code::BAD_ARGUMENT);
}

#[test]
fn a08_beyond_the_tables() {
    let (driver, _) = start();
    let task = task(1);
    let (control, direct) = (control(&driver, &task), direct(&driver, &task));
    for selector in [17, 21, 22, u32::MAX] {
        assert_eq!(call(&control, selector, 0, 0, 0, 0, false), Code::BAD_ARGUMENT);
    }
    assert_eq!(call(&direct, 9, 0, 0, 0, 0, false), Code::BAD_ARGUMENT);
}

#[test]
fn a09_load_firmware() {
    let (driver, _) = start();
    let task = task(1);
    let control = control(&driver, &task);
    assert_eq!(call(&control, 16, 3, 0, 0, 0, false), Code::UNSUPPORTED);
    assert_eq!(call(&control, 16, 2, 0, 0, 0, false), Code::BAD_ARGUMENT);
}

#[test]
fn a10_wake_port_only_for_two() {
    let (driver, _) = start();
    let task = task(1);
    let (control, direct) = (control(&driver, &task), direct(&driver, &task));
    for (client, table) in [(&control, CONTROL), (&direct, DIRECT)] {
        for s in table.iter().filter(|s| s.index != 2) {
            let n = [s.scalars_in, s.struct_in_bytes, s.scalars_out, s.struct_out_bytes].map(|n| n as usize);
            assert_eq!(call(client, s.index, n[0], n[1], n[2], n[3], true), Code::BAD_ARGUMENT, "{}", s.name);
        }
    }
}

#[test]
fn a11_argument_block() {
    let offsets: Vec<usize> = ARGUMENT_BLOCK.iter().map(|r| r.0).collect();
    assert_eq!(offsets, [0x08, 0x10, 0x20, 0x30, 0x38, 0x48, 0x50, 0x58, 0x60]);
    assert_eq!(ARGUMENT_BLOCK[0].1, "asyncWakePort");
    assert_eq!(ARGUMENT_BLOCK[8].1, "structureOutputSize");
}
