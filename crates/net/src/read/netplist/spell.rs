//! Aliases of units: names of the compiler's catalogue and of its backend's dialect.

use crate::native::named;
use plist::{Dictionary, Value};

/// Replaces the alias of every unit of every network by its `Type`, and adds the parameters that the alias implies
/// unless they are stated. Units of an unknown type are left to the reader, which refuses them.
pub fn units(root: &mut Value) {
    let Some(root) = root.as_dictionary_mut() else { return };
    for (_, network) in root.iter_mut() {
        let Some(network) = network.as_dictionary_mut() else { continue };
        for (_, entry) in network.iter_mut() {
            if let Some(entry) = entry.as_dictionary_mut().filter(|e| e.contains_key("Bottom")) {
                unit(entry);
            }
        }
    }
}

fn unit(entry: &mut Dictionary) {
    let Some(named) = entry.get("Type").and_then(Value::as_string).and_then(named) else { return };
    if entry.get("Type").and_then(Value::as_string) == Some(named.tag) {
        return;
    }
    entry.insert("Type".into(), named.tag.into());
    if named.implied.is_empty() {
        return;
    }
    if !entry.contains_key("Params") {
        entry.insert("Params".into(), Dictionary::new().into());
    }
    let Some(params) = entry.get_mut("Params").and_then(Value::as_dictionary_mut) else { return };
    for (key, value) in named.implied {
        if !params.contains_key(key) {
            params.insert((*key).to_string(), (*value).into());
        }
    }
}
