//! Checks of the driver when it loads a program: of the records of procedures and tensors, each tensor by the check
//! for its form. Linear tensors have the same record kind in every sample; any other kind is taken as tiled and compressed.

use anemone_facts::formats::hwx::{self as rows, tensor};
use anemone_facts::validators::{LOAD_FORMS, LOAD_THREAD, LoadForm, RECORD_TOO_SHORT, UNKNOWN_DIRECTION};

use super::defs::{Container, TensorRecord, Thread};

/// A defect for which a load is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadFinding {
    /// Function of the driver whose check it is.
    pub function: &'static str,
    /// Byte offset of the record in the file.
    pub offset: u64,
    /// Value found and value allowed.
    pub message: String,
    /// The driver's text, if it is known.
    pub apple: Option<&'static str>,
}

/// The form of a tensor, by its number of planes and whether it is tiled and compressed.
fn form(thread: &Thread) -> &'static LoadForm {
    let (planes, compressed) = (thread.word(tensor::INTERLEAVE) > 1, thread.word(tensor::KIND) != tensor::KIND_VALUE);
    let fits = |f: &&LoadForm| f.planes == planes && f.compressed == compressed;
    LOAD_FORMS.iter().find(fits).unwrap_or(&LOAD_FORMS[0])
}

impl Container {
    /// Defects for which a load is refused; empty if it succeeds, as far as records determine it.
    pub fn load_findings(&self) -> Vec<LoadFinding> {
        validate(self)
    }
}

/// Checks every run state and tensor record of a container. Empty if the load succeeds, as far as records determine it.
fn validate(container: &Container) -> Vec<LoadFinding> {
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
                thread_says("the procedure has no task".into(), None);
            }
            procedures.push(run.name());
        } else if let Some(record) = thread.tensor() {
            if thread.words.len() < tensor::WORDS {
                let (found, need) = (thread.words.len(), tensor::WORDS);
                thread_says(format!("the tensor record has {found} words, needs {need}"), Some(RECORD_TOO_SHORT));
                continue;
            }
            if !matches!(record.direction(), tensor::INPUT | tensor::OUTPUT) {
                thread_says(
                    format!("direction {} is neither input (1) nor output (2)", record.direction()),
                    Some(UNKNOWN_DIRECTION),
                );
            }
            findings.extend(tensor_findings(offset, thread, &record));
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

/// Defects of one tensor by the check for its form: a linear tensor needs the bytes that its strides reach, a compressed one, whose
/// size depends on its data, only a non-zero size.
fn tensor_findings(offset: u64, thread: &Thread, record: &TensorRecord) -> Vec<LoadFinding> {
    let form = form(thread);
    let mut findings = Vec::new();
    let mut says = |message: String| {
        findings.push(LoadFinding { function: form.function, offset, message, apple: None });
    };
    let name = record.names()[0].clone();
    if name.is_empty() {
        says("the tensor has no name".into());
    }
    let extents = [tensor::N, tensor::C, tensor::H, tensor::W].map(|at| u64::from(thread.word(at)));
    if extents.contains(&0) {
        says(format!("`{name}` has an extent of 0: {extents:?}"));
        return findings;
    }
    let [n, c, h, w] = extents;
    let Some(element) = rows::type_name(thread.word(tensor::TYPE)) else {
        says(format!("`{name}` has the unknown element type {}", thread.word(tensor::TYPE)));
        return findings;
    };
    let strides =
        [tensor::ELEMENT_STRIDE, tensor::ROW_STRIDE, tensor::PLANE_STRIDE, tensor::BATCH_STRIDE, tensor::BYTES];
    let [column, row, plane, batch, bytes] = strides.map(|at| thread.quantity(at));
    if form.compressed {
        if bytes == 0 {
            says(format!("`{name}` ({element}, tiled and compressed) has no bytes"));
        }
        return findings;
    }
    // Interleaved channels are adjacent in a row.
    let planes = u64::from(thread.word(tensor::INTERLEAVE).max(1));
    let steps = [
        ("a row", w.saturating_mul(column).saturating_mul(planes), row),
        ("a plane", h.saturating_mul(row), plane),
        ("a batch", c.div_ceil(planes).saturating_mul(plane), batch),
        ("the buffer", n.saturating_mul(batch), bytes),
    ];
    for (what, need, have) in steps {
        if have < need {
            says(format!("`{name}` ({element}): {what} needs {need} bytes, the record gives {have}"));
        }
    }
    findings
}
