//! What Apple's 2026 compiler emitted for small programs, as register words: every set bit must have a row.

mod common;

use anemone_facts::layout::H13;
use anemone_program::{Run, Task};
use common::*;
use serde_json::Value;

fn hex(value: &Value) -> Option<u32> {
    u32::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

fn words(value: &Value) -> Option<Vec<u32>> {
    value.as_array()?.iter().map(hex).collect()
}

fn task(value: &Value) -> Option<Task> {
    let runs = value["records"]
        .as_array()?
        .iter()
        .map(|r| Some(Run { addr: hex(&r[0])?, words: words(&r[1])? }))
        .collect::<Option<Vec<_>>>()?;
    Some(Task { offset: 0, header: words(&value["header"])?, runs })
}

#[test]
fn oracle_words_are_explained() {
    let Some(dir) = golden_dir() else { return };
    let mut score = Score::default();
    for path in entries(&dir.join("oracles/h13")).into_iter().filter(|p| p.extension().is_some_and(|e| e == "json")) {
        let outcome = (|| {
            let text = std::fs::read_to_string(&path).map_err(|e| e.to_string())?;
            let oracle: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
            let Some(tasks) = oracle["tasks"].as_array() else { return Ok("refused by Apple's compiler".into()) };
            for (i, value) in tasks.iter().enumerate() {
                let task = task(value).ok_or(format!("task {i} is not words"))?;
                let left = task.unexplained(&H13);
                if !left.is_empty() {
                    return Err(format!("task {i}: unexplained {left:x?}"));
                }
            }
            Ok(format!("{} tasks", tasks.len()))
        })();
        score.case(&stem(&path), outcome);
    }
    score.close();
}
