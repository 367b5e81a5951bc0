//! `ane cache`: the cache of compiled programs, with export and import.

use super::{Verbosity, print};
use anemone::places::{cache, cache_folder, refused};
use anemone::{Code, Diagnostic, Result, files};
use anemone_runtime::broker::client::{Remote, Route};
use anemone_runtime::cache::Key;
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane cache ls
  ane cache verify
  ane cache export 3f9a -o program.entry
  ane cache import program.entry
  ane cache purge
  ane cache purge --socket /run/user/1000/anemone/aned.sock")]
pub struct Flags {
    /// Folder of the cache
    #[arg(long, global = true, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Entries, least recently used first
    Ls,
    /// Check all entries; exit code 1 if any is invalid
    Verify,
    /// Remove invalid entries, leftovers of interrupted writers, and entries beyond the size limit
    Gc,
    /// Remove an entry, or all of them; with --socket those of a broker, all of which need its key
    Purge {
        /// Key of the entry; all entries if omitted
        key: Option<String>,
        /// Socket of the broker
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
    },
    /// Write an entry as one file
    Export {
        /// Key of the entry, or its first digits
        key: String,
        /// File to write
        #[arg(short, long)]
        output: PathBuf,
    },
    /// Import an exported entry
    Import {
        /// The file
        file: PathBuf,
    },
}

pub fn run(flags: Flags, verbosity: Verbosity) -> Result<u8> {
    let folder = cache_folder(flags.cache.clone())?;
    let cache = cache(flags.cache)?;
    match flags.what {
        What::Ls => {
            let entries = cache.list();
            if verbosity.json {
                let all: Vec<_> = entries.iter().map(|e| json!({ "key": e.key.text(), "bytes": e.bytes })).collect();
                print(&format!("{}\n", json!({ "schema": "anemone.cache/1", "entries": all })))?;
            } else {
                let bytes: u64 = entries.iter().map(|e| e.bytes).sum();
                let limit = anemone::places::CACHE_BYTES >> 20;
                verbosity.note(format!(
                    "{}: {} programs, {} of {limit} MiB",
                    folder.display(),
                    entries.len(),
                    bytes >> 20
                ));
                for (build, programs) in cache.of_others() {
                    verbosity.note(format!("not read: {programs} programs of another version, {}", build.display()));
                }
                let lines: String = entries.iter().map(|e| format!("{} {}\n", e.key.text(), e.bytes)).collect();
                print(&lines)?;
            }
            Ok(0)
        }
        What::Verify => {
            let bad = cache.verify();
            bad.iter().for_each(|e| verbosity.note(e.to_string()));
            print(&format!("{} entries, {} invalid\n", cache.list().len(), bad.len()))?;
            Ok(u8::from(!bad.is_empty()))
        }
        What::Gc => {
            print(&format!("{} removed\n", cache.collect()))?;
            Ok(0)
        }
        What::Purge { key, socket: Some(socket) } => {
            let remote = Remote::connect(&socket, Route::Broker).map_err(refused)?;
            print(&format!("{} removed\n", remote.purge(key).map_err(refused)?))?;
            Ok(0)
        }
        What::Purge { key, socket: None } => {
            let wanted = key.as_deref().map(Key::parse).transpose().map_err(refused)?;
            let entries = cache.list();
            let all = entries.iter().filter(|e| wanted.as_ref().is_none_or(|key| *key == e.key));
            print(&format!("{} removed\n", all.filter(|e| cache.remove(&e.key)).count()))?;
            Ok(0)
        }
        What::Export { key, output } => {
            let entries = cache.list();
            let mut found = entries.iter().filter(|e| e.key.text().starts_with(&key));
            let (Some(entry), None) = (found.next(), found.next()) else {
                let message = format!("{key} matches no entry, or several");
                return Err(Diagnostic::new(Code::Usage, message).help("`ane cache ls` lists them"));
            };
            files::write(&output, &cache.export(&entry.key).map_err(refused)?)?;
            verbosity.note(format!("{}: {}", output.display(), entry.key.text()));
            Ok(0)
        }
        What::Import { file } => {
            let key: Key = cache.import(&files::read(&file)?).map_err(|e| refused(e).at(file.display()))?;
            print(&format!("{}\n", key.text()))?;
            Ok(0)
        }
    }
}
