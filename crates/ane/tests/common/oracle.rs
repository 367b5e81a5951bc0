//! Records of what Apple's compiler made of small programs: their words, and the weight files they were compiled with
//! (`docs/evidence.md`, key `h13-oracles`).
#![allow(dead_code)]

use super::{entries, stem};
use anemone_program::{Run, Task};
use half::f16;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Every record for the M1, by name.
pub fn records(golden: &Path) -> Vec<(String, Value)> {
    let files = entries(&golden.join("oracles/h13")).into_iter().filter(|p| p.extension().is_some_and(|e| e == "json"));
    files
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("the record can be read");
            (stem(&path), serde_json::from_str(&text).expect("the record is JSON"))
        })
        .collect()
}

pub fn hex(value: &Value) -> Option<u32> {
    u32::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

pub fn words(value: &Value) -> Option<Vec<u32>> {
    value.as_array()?.iter().map(hex).collect()
}

/// The record's tasks; `None` where the program was refused.
pub fn tasks(record: &Value) -> Option<Result<Vec<Task>, String>> {
    let list = record["tasks"].as_array()?;
    Some(list.iter().map(|t| task(t).ok_or_else(|| "a task is not words".to_string())).collect())
}

fn task(value: &Value) -> Option<Task> {
    let runs = value["records"]
        .as_array()?
        .iter()
        .map(|r| Some(Run::consecutive(hex(&r[0])?, words(&r[1])?)))
        .collect::<Option<Vec<_>>>()?;
    Some(Task { offset: 0, header: words(&value["header"])?, runs })
}

/// Returns true if the record's weight file has a value of its own for each constant.
pub fn has_own_values(record: &Value) -> bool {
    record["weights"]["record_offsets"].is_array()
}

/// Element of the constant of that index, where each has its own.
pub fn own_value(index: usize) -> f16 {
    f16::from_bits(0x3400 + index as u16)
}

/// The campaign's weight file.
pub fn weight_file(record: &Value) -> Vec<u8> {
    let weights = &record["weights"];
    let payload = weights["payload_bytes"].as_u64().unwrap_or(0);
    let mut file = vec![0; 64];
    file[4] = 2;
    let extents = |s: &Value| s.as_array().into_iter().flatten().filter_map(Value::as_u64).product::<u64>();
    let shapes: Vec<u64> = weights["shapes"].as_array().into_iter().flatten().map(extents).collect();
    if has_own_values(record) {
        // Records of 24 bytes side by side.
        file[0] = shapes.len() as u8;
        let mut at = (64 + 24 * shapes.len()).next_multiple_of(64) as u64;
        let mut data = Vec::new();
        for (i, elements) in shapes.iter().enumerate() {
            let size = 2 * elements;
            file.extend(0xdead_beef_u32.to_le_bytes());
            file.extend(1u32.to_le_bytes());
            file.extend(size.to_le_bytes());
            file.extend(at.to_le_bytes());
            data.extend((0..*elements).flat_map(|_| own_value(i).to_le_bytes()));
            at += size;
        }
        file.resize(file.len().next_multiple_of(64), 0);
        file.extend(data);
    } else {
        // One record, its fields packed after the sentinel, and 0.5 throughout.
        file[0] = 1;
        file.extend(0xdead_beef_u32.to_le_bytes());
        file.extend(payload.to_le_bytes());
        file.extend(0x80u64.to_le_bytes());
        file.resize(128, 0);
        file.extend((0..payload / 2).flat_map(|_| f16::from_bits(0x3800).to_le_bytes()));
    }
    file
}

/// Writes the record's text with its weights beside it.
pub fn write_model(record: &Value, folder: &Path) -> Result<PathBuf, String> {
    let file = folder.join("model.mil");
    std::fs::write(&file, record["mil"].as_str().ok_or("no MIL")?).map_err(|e| e.to_string())?;
    std::fs::write(folder.join("weights.bin"), weight_file(record)).map_err(|e| e.to_string())?;
    Ok(file)
}
