//! Log of a compilation: the text of each stage, and remarks on decisions.

/// Result of a pass, for dumps.
#[derive(Clone, Debug)]
pub struct Stage {
    /// A file-name-safe word.
    pub name: &'static str,
    /// Operations of the network, or layers: one task each.
    pub count: usize,
    /// The stage's text form.
    pub text: String,
    /// Graph of the stage in Graphviz's DOT language.
    pub dot: String,
    /// Remarks of the pass, a line each.
    pub reasons: Vec<String>,
}

/// Receives each stage of a compilation.
pub trait Log {
    /// Returns true if stages are logged; their texts are made only then.
    fn wants(&self) -> bool;
    /// Called after every pass, if stages are logged.
    fn stage(&mut self, stage: Stage);
    /// Called after every pass: parts of files that it read are not needed soon.
    fn pass(&mut self) {}
    /// Called before a program is emitted, with a name for each task in stream order: that of the operation it computes,
    /// or that name with a suffix behind a dot.
    fn tasks(&mut self, _names: Vec<String>) {}
    /// Called during long work: after the weights of a layer were inspected or packed.
    fn progress(&mut self, _: Progress) {}
    /// Returns true if the result is no longer needed. Asked before every pass and after the weights of every layer; the
    /// compilation then ends with [`Error::Stopped`](crate::Error::Stopped).
    fn stopped(&self) -> bool {
        false
    }
}

/// Progress of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of layers done.
    pub done: usize,
    /// Number of layers in all.
    pub layers: usize,
    /// Bytes of weights of the layer that was done last.
    pub bytes: u64,
}

/// Ignores every stage.
impl Log for () {
    fn wants(&self) -> bool {
        false
    }

    fn stage(&mut self, _: Stage) {}
}

/// Optimization remarks: one line for each fusion, split, reordering and partition. Kept only if they are read.
#[derive(Default)]
pub struct Remarks {
    pub(crate) wanted: bool,
    pub(crate) lines: Vec<String>,
}

impl Remarks {
    /// One line.
    pub fn say(&mut self, line: impl FnOnce() -> String) {
        if self.wanted {
            self.lines.push(line());
        }
    }
}
