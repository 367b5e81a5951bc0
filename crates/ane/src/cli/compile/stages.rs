//! Stages of a compilation, kept for `--dump-ir`.

use super::emit::make_folder;
use anemone::{Result, files};
use anemone_compile::{Log, Progress, Stage};
use std::path::{Path, PathBuf};

/// Keeps stages to be written once compilation has ended, one way or the other: a folder a network that is compiled.
pub(super) struct Stages {
    pub(super) kept: Option<Vec<(PathBuf, Stage)>>,
    pub(super) below: PathBuf,
    /// Why the cache did not take a program.
    pub(super) unkept: Option<String>,
    /// Progress bar of the terminal, and the text in front of the layer's number.
    pub(super) bar: (indicatif::ProgressBar, String),
}

impl Log for Stages {
    fn wants(&self) -> bool {
        self.kept.is_some()
    }

    fn stage(&mut self, stage: Stage) {
        self.kept.get_or_insert_default().push((self.below.clone(), stage));
    }

    fn progress(&mut self, progress: Progress) {
        let (bar, text) = &self.bar;
        bar.set_message(format!("{text}: weights of layer {} of {}", progress.done, progress.layers));
    }
}

impl Stages {
    /// A text, a drawing and where there are any the reasons of each stage.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        make_folder(folder)?;
        for (below, Stage { name, text, dot, reasons, .. }) in self.kept.iter().flatten() {
            let folder = &folder.join(below);
            make_folder(folder)?;
            files::write(&folder.join(format!("{name}.txt")), text.as_bytes())?;
            files::write(&folder.join(format!("{name}.dot")), dot.as_bytes())?;
            if !reasons.is_empty() {
                let text = reasons.join("\n") + "\n";
                files::write(&folder.join(format!("{name}-reasons.txt")), text.as_bytes())?;
            }
        }
        Ok(())
    }
}
