//! The header of the C library, generated from its source: signatures by cbindgen, and content and ownership of every argument.

use crate::repo;

/// Path of the header.
pub const HEADER: &str = "crates/e5rt/include/anemone_e5rt.h";

/// Prefix of the declarations of calls.
const CALL: &str = "int64_t e5rt_";
/// The section that Rust requires for unsafe functions; for readers of C, the head of the header and the lines on arguments replace it.
const SAFETY: &str = "//\n// # Safety\n";

/// Arguments that are not objects, by declaration, with content and ownership.
const ARGUMENTS: [(&str, &str); 25] = [
    ("bool *done", "out: true if the event has fired; memory of the caller"),
    ("bool *ended", "out: true if the compile has ended; memory of the caller"),
    ("bool *required", "out: true if a compile would run; memory of the caller"),
    ("char *answer", "out: memory of the caller for `bytes`; receives a text with a zero at its end, cut to fit"),
    ("char *counters", "out: memory of the caller for `bytes`; receives a text with a zero at its end, cut to fit"),
    ("char *entry", "out: memory of the caller for `bytes`; receives a text with a zero at its end, cut to fit"),
    ("char *name", "out: memory of the caller for `bytes`; receives a text with a zero at its end, cut to fit"),
    ("char *text", "out: memory of the caller for `bytes`; receives a text with a zero at its end, cut to fit"),
    ("const char *entry", "in: key of a program in the cache, null for all of them; copied"),
    ("const char *key", "in: name of the setting, one of those above; copied"),
    ("const char *name", "in: name as the model has it; copied"),
    ("const char *path", "in: path of a file or package; copied"),
    ("const char *value", "in: the setting's text; copied"),
    ("const uint64_t *numbers", "in: the method's numbers, null where it takes none; copied"),
    ("e5rt_progress progress", "in: called with each step, null for nobody"),
    ("void *context", "in: handed to `progress`; memory of the caller, which outlives the calls"),
    ("int64_t value", "in: the setting's number; of a switch, 0 is off"),
    ("uint32_t kind", "in: type of the memory; 0"),
    ("uint64_t *removed", "out: number of programs that were removed; memory of the caller"),
    ("uint64_t *submission", "out: number of the submission; memory of the caller"),
    ("uint64_t timeout_ms", "in: milliseconds to wait at most"),
    ("uintptr_t *bytes", "out: number of bytes; memory of the caller"),
    ("uintptr_t count", "in: number of them"),
    ("uintptr_t bytes", "in: number of bytes"),
    ("void **data", "out: address of the bytes; the memory belongs to the buffer object"),
];

/// The header's text.
pub fn text() -> Result<String, String> {
    let config = cbindgen::Config::from_file(repo::at("crates/e5rt/cbindgen.toml"))?;
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in ["handle", "compiler", "compilation", "device", "execution"] {
        builder = builder.with_src(repo::at(&format!("crates/e5rt/src/{file}.rs")));
    }
    let bindings = builder.generate().map_err(|e| e.to_string())?;
    let mut out = Vec::new();
    bindings.write(&mut out);
    explained(&String::from_utf8(out).map_err(|e| e.to_string())?)
}

/// Adds a line for each argument of every call to the header.
fn explained(header: &str) -> Result<String, String> {
    let mut out = String::with_capacity(2 * header.len());
    let mut rest = header;
    while let Some(at) = rest.find(CALL) {
        let (before, call) = rest.split_at(at);
        let (declaration, after) = call.split_once(");").ok_or("a declaration without an end")?;
        let (name, arguments) = declaration.split_once('(').ok_or("a declaration without arguments")?;
        let name = name.trim_start_matches("int64_t ");
        let (doc, _) = before.rsplit_once(SAFETY).unwrap_or((before, ""));
        out += doc;
        out += "//\n";
        let all: Vec<String> =
            arguments.split(',').map(|a| a.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for argument in &all {
            let label = argument.rsplit(['*', ' ']).next().unwrap_or(argument);
            out += &format!("//   {label}: {}\n", explanation(name, argument)?);
        }
        out += &format!("{declaration});");
        rest = after;
    }
    Ok(out + rest)
}

/// One argument of a call: direction, content, owner.
fn explanation(call: &str, argument: &str) -> Result<String, String> {
    if let Some((_, text)) = ARGUMENTS.iter().find(|(declared, _)| *declared == argument) {
        return Ok(text.to_string());
    }
    let kind = argument.trim_start_matches("const ").split([' ', '*']).next().unwrap_or_default();
    match (argument.contains("**"), call.ends_with("_release")) {
        _ if !kind.starts_with("e5rt_") => {
            Err(format!("{HEADER}: `{argument}` of {call} has no explanation in {}", file!()))
        }
        (true, true) => Ok("in and out: the caller's object; it is released, and the pointer set to null".into()),
        (true, false) => Ok(format!("out: receives a new object of the caller, released with {kind}_release")),
        // Calls that compile accept null for the defaults; calls that set an option do not.
        (false, _) if kind == "e5rt_e5_compiler_options" && !call.starts_with(kind) => {
            Ok("in: borrowed for the call; null for the defaults".into())
        }
        (false, _) => Ok("in: borrowed for the call".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_is_explained() {
        let header = "// Makes a buffer.\n//\n// # Safety\n// Pointers are null.\n\
                      int64_t e5rt_buffer_object_alloc(e5rt_buffer_object **buffer,\n                uintptr_t bytes);\n";
        let explained = explained(header).expect("known arguments");
        assert!(explained.contains(
            "//   buffer: out: receives a new object of the caller, released with e5rt_buffer_object_release\n"
        ));
        assert!(
            explained.contains("//   bytes: in: number of bytes\nint64_t e5rt_buffer_object_alloc("),
            "{explained}"
        );
        assert!(!explained.contains("Safety"));
    }

    #[test]
    fn an_argument_without_explanation_is_an_error() {
        assert!(explained("int64_t e5rt_x(float weight);").is_err());
    }
}
