//! Stages of a compilation, collected for `--dump-ir`.

use super::emit::make_folder;
use anemone::{Result, files};
use anemone_compile::{Log, Progress, Stage};
use std::path::{Path, PathBuf};

/// Collects stages until compilation has ended, successfully or not: a folder for each compiled network.
pub(super) struct Stages {
    pub(super) kept: Option<Vec<(PathBuf, Stage)>>,
    pub(super) below: PathBuf,
    /// Reason why the program was not cached.
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
    /// Writes text, drawing, and reasons if there are any, of each stage.
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
