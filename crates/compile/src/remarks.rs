//! Log of a compilation for people: the text of each stage, and remarks on decisions.

/// The result of a pass, for people.
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

/// Sees each stage as it is made.
pub trait Log {
    /// Returns true if stages are logged: texts are made only then.
    fn wants(&self) -> bool;
    /// Called after every pass, where wanted.
    fn stage(&mut self, stage: Stage);
    /// Called once a program is about to be emitted, with a name for each task in stream order: that of the operation it computes,
    /// or one that continues it behind a dot.
    fn tasks(&mut self, _names: Vec<String>) {}
    /// Called as long work goes on: after the weights of a layer were looked at, or packed.
    fn progress(&mut self, _: Progress) {}
}

/// Progress of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Layers that are done, of `layers`.
    pub done: usize,
    /// All of them.
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

/// Optimization remarks: one line for each fusion, split, change of order and cut. Kept only where somebody reads them.
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
