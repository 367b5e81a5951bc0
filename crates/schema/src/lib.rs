//! JSON documents against JSON Schema, for tests.
//!
//! A crate of its own, which profiles do not optimize: the validator is generic, and optimized code of it made two fifths of the
//! tests that use it.
//!
//! Dependencies: `jsonschema` to validate, `serde_json` for documents.

use serde_json::Value;

/// Faults of a document by a schema, with formats checked: the place as a JSON pointer, and the reason.
///
/// # Errors
/// A schema that is not valid.
pub fn faults(schema: &Value, document: &Value) -> Result<Vec<String>, String> {
    let validator = jsonschema::options().should_validate_formats(true).build(schema).map_err(|e| e.to_string())?;
    Ok(validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect())
}
