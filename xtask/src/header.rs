//! The header of the C library, made from its source.

use crate::repo;

/// Path of the header.
pub const HEADER: &str = "crates/e5rt/include/anemone_e5rt.h";

/// The header's text.
pub fn text() -> Result<String, String> {
    let config = cbindgen::Config::from_file(repo::at("crates/e5rt/cbindgen.toml"))?;
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in ["handle", "compiler", "execution"] {
        builder = builder.with_src(repo::at(&format!("crates/e5rt/src/{file}.rs")));
    }
    let bindings = builder.generate().map_err(|e| e.to_string())?;
    let mut out = Vec::new();
    bindings.write(&mut out);
    String::from_utf8(out).map_err(|e| e.to_string())
}
