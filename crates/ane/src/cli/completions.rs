//! `ane completions` and `ane man`: shell completions and manual pages.

use super::{Args as Ane, Verbosity, print};
use anemone::{Code, Diagnostic, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane completions bash > ~/.local/share/bash-completion/completions/ane
  ane completions zsh > ~/.zfunc/_ane
  ane completions fish > ~/.config/fish/completions/ane.fish")]
pub struct Flags {
    /// Shell
    shell: Shell,
}

pub fn run(flags: Flags, _: Verbosity) -> Result<u8> {
    let mut out = Vec::new();
    clap_complete::generate(flags.shell, &mut Ane::command(), "ane", &mut out);
    print(&String::from_utf8_lossy(&out))?;
    Ok(0)
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane man | man -l -
  ane man check > ane-check.1")]
pub struct ManFlags {
    /// Verb; the program's own page if omitted
    verb: Option<String>,
}

pub fn man(flags: ManFlags, _: Verbosity) -> Result<u8> {
    let ane = Ane::command();
    let title = flags.verb.as_ref().map_or("ane".to_string(), |verb| format!("ane-{verb}"));
    let page = match &flags.verb {
        None => ane,
        Some(verb) => {
            let found = ane.get_subcommands().find(|c| c.get_name() == verb).cloned();
            found.ok_or_else(|| {
                let known = anemone::reference::nearest(verb, Ane::command().get_subcommands().map(|c| c.get_name()));
                Diagnostic::new(Code::Usage, format!("no verb is called {verb}"))
                    .help(format!("{known}`ane --help` lists them"))
            })?
        }
    };
    let mut out = Vec::new();
    let unwritable = |e: std::io::Error| Diagnostic::new(Code::Unwritable, e.to_string());
    clap_mangen::Man::new(page).title(title).render(&mut out).map_err(unwritable)?;
    print(&String::from_utf8_lossy(&out))?;
    Ok(0)
}
