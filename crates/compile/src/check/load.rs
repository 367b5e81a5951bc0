//! Checks that the driver repeats when it loads a program: on the records of its procedures and tensors.

use anemone_facts::formats::hwx::{self as rows, tensor};
use anemone_facts::validators::{LOAD_FORMS, LOAD_THREAD, LoadForm};
use anemone_program::hwx::Container;

/// Something that a load would refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadFinding {
    /// Function of the driver whose check it is.
    pub function: &'static str,
    /// Byte offset of the record in the file.
    pub offset: u64,
    /// Value found and value allowed.
    pub message: String,
    /// The driver's text, where one is known.
    pub apple: Option<&'static str>,
}

/// The form of a tensor: how many planes it has, and whether it is tiled and compressed.
pub fn form(planes: u32, compressed: bool) -> &'static LoadForm {
    let fits = |f: &&LoadForm| f.planes == (planes > 1) && f.compressed == compressed;
    LOAD_FORMS.iter().find(fits).unwrap_or(&LOAD_FORMS[0])
}

/// Checks every run state and tensor record of a container. An empty answer: it loads, as far as records go.
pub fn validate(container: &Container) -> Vec<LoadFinding> {
    let mut findings = Vec::new();
    let mut procedures = Vec::new();
    for (offset, thread) in container.threads() {
        let mut thread_says = |message: String, apple| {
            findings.push(LoadFinding { function: LOAD_THREAD, offset, message, apple });
        };
        if let Some(run) = thread.run_state() {
            if run.name().is_empty() {
                thread_says("the procedure has no name".into(), None);
            }
            if run.tasks() == 0 {
                thread_says("the procedure has no task".into(), Some("Too many operations in the procedure"));
            }
            procedures.push(run.name());
        } else if let Some(record) = thread.tensor() {
            if thread.words.len() < tensor::WORDS {
                let (found, need) = (thread.words.len(), tensor::WORDS);
                let text = "Error: thread argument buffer overrun.";
                thread_says(format!("the tensor record has {found} words, needs {need}"), Some(text));
                continue;
            }
            if !matches!(record.direction(), tensor::INPUT | tensor::OUTPUT) {
                let text = "Error: thread argument is not supported.";
                thread_says(
                    format!("direction {} is neither input (1) nor output (2)", record.direction()),
                    Some(text),
                );
            }
            let words = |at: usize| u64::from(thread.word(at));
            let planes = thread.word(tensor::INTERLEAVE);
            let checked = form(planes, false).function;
            let mut tensor_says =
                |message: String| findings.push(LoadFinding { function: checked, offset, message, apple: None });
            let name = record.names()[0].clone();
            if name.is_empty() {
                tensor_says("the tensor has no name".into());
            }
            let extents = [tensor::N, tensor::C, tensor::H, tensor::W].map(words);
            if extents.contains(&0) {
                tensor_says(format!("`{name}` has an extent of 0: {extents:?}"));
                continue;
            }
            let [n, c, h, w] = extents;
            let Some(element) = rows::type_name(thread.word(tensor::TYPE)) else {
                tensor_says(format!("`{name}` has element type {}, which is not known", thread.word(tensor::TYPE)));
                continue;
            };
            let strides =
                [tensor::ELEMENT_STRIDE, tensor::ROW_STRIDE, tensor::PLANE_STRIDE, tensor::BATCH_STRIDE, tensor::BYTES];
            let [column, row, plane, batch, bytes] = strides.map(|at| thread.quantity(at));
            let steps = [
                ("a row", w.saturating_mul(column), row),
                ("a plane", h.saturating_mul(row), plane),
                ("a batch", c.saturating_mul(plane), batch),
                ("the buffer", n.saturating_mul(batch), bytes),
            ];
            for (what, need, have) in steps {
                if have < need {
                    tensor_says(format!("`{name}` ({element}): {what} needs {need} bytes, the record gives {have}"));
                }
            }
        }
    }
    let first = container.threads().next().map_or(0, |(offset, _)| offset);
    if procedures.is_empty() {
        let message = "no run state: the container has no procedure".to_string();
        findings.push(LoadFinding { function: LOAD_THREAD, offset: first, message, apple: None });
    }
    for (offset, thread) in container.threads() {
        let Some(record) = thread.tensor() else { continue };
        let procedure = record.procedure();
        if !procedures.is_empty() && !procedures.contains(&procedure) {
            let message = format!("a tensor belongs to procedure `{procedure}`, which the container does not have");
            findings.push(LoadFinding { function: LOAD_THREAD, offset, message, apple: None });
        }
    }
    findings
}
