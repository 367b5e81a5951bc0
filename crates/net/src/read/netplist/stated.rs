//! The units of a netplist as stated, for validators: without translation, so that an error in one does not hide the others.

use crate::error::Error;
use crate::read::property::{Dict, parse};
use std::collections::HashMap;

/// A unit as stated.
#[derive(Clone, Debug, Default)]
pub struct UnitOutline {
    /// Name.
    pub name: String,
    /// `Type` tag.
    pub kind: String,
    /// Extents of each operand that is an input or a constant; `None` for others.
    pub bottoms: Vec<Option<Vec<usize>>>,
    /// `OutputChannels`, if it is stated.
    pub output_channels: Option<usize>,
    /// Parameters that are integers.
    pub numbers: HashMap<String, i64>,
}

/// Outline of a netplist: the units of its networks as stated.
#[derive(Clone, Debug, Default)]
pub struct NetplistOutline {
    /// Version of the schema.
    pub schema: [u32; 3],
    /// True if a network requests two bonded engines.
    pub bonded: bool,
    /// Units of all networks, in the order of their lists.
    pub units: Vec<UnitOutline>,
}

/// Reads the statements of a netplist about its units. Errors: not a property list, and lists or entries of a wrong type.
pub fn outline_netplist(bytes: &[u8]) -> Result<NetplistOutline, Error> {
    let unpacked = crate::read::packed::unpack(bytes)?;
    let root = parse(unpacked.as_deref().unwrap_or(bytes), "netplist")?;
    let root = Dict::new(&root, "netplist", "root")?;
    let mut outline = NetplistOutline { schema: [1, 0, 9], ..NetplistOutline::default() };
    if let Some(version) = root.string("Version")? {
        for (number, text) in outline.schema.iter_mut().zip(version.split('.')) {
            *number = text.parse().unwrap_or(u32::MAX);
        }
    }
    outline.bonded = ["Bonded", "BondedNetwork"]
        .into_iter()
        .map(|key| root.flag(key))
        .collect::<Result<Vec<_>, _>>()?
        .contains(&true);
    for name in root.strings("Networks")?.unwrap_or_default() {
        let Some(network) = root.dict(name)? else { return Err(root.missing(name)) };
        let units = match network.strings("Units")? {
            Some(units) => units,
            None => network.strings("OperationList")?.unwrap_or_default(),
        };
        for unit in units {
            outline.units.push(self::unit(&network, unit)?);
        }
    }
    Ok(outline)
}

fn unit(network: &Dict, name: &str) -> Result<UnitOutline, Error> {
    let dict = network.dict(name)?.ok_or_else(|| network.missing(name))?;
    let mut unit = UnitOutline { name: name.to_string(), ..UnitOutline::default() };
    unit.kind = dict.string("Type")?.unwrap_or_default().to_string();
    for bottom in dict.strings("Bottom")?.unwrap_or_default() {
        unit.bottoms.push(network.dict(bottom)?.map(|entry| extents(&entry)).transpose()?.flatten());
    }
    if dict.has("OutputChannels") {
        unit.output_channels = Some(dict.extent("OutputChannels", 1)?);
    }
    for source in [Some(dict.clone()), dict.dict("Params")?].into_iter().flatten() {
        for key in source.keys() {
            // The reader checks keys of other types.
            if let Ok(Some(number)) = source.integer(key) {
                unit.numbers.insert(key.to_string(), number);
            }
        }
    }
    Ok(unit)
}

/// Batch, channels, depth if above one, height and width of an input or constant.
fn extents(entry: &Dict) -> Result<Option<Vec<usize>>, Error> {
    for prefix in ["Input", "Constant"] {
        let key = |name: &str| format!("{prefix}{name}");
        if !entry.has(&key("Channels")) && !entry.has(&key("Width")) {
            continue;
        }
        let batch = if prefix == "Input" { "BatchSize".to_string() } else { key("BatchSize") };
        let mut all = vec![entry.extent(&batch, 1)?, entry.extent(&key("Channels"), 1)?];
        match entry.extent(&key("Depth"), 1)? {
            1 => {}
            depth => all.push(depth),
        }
        all.extend([entry.extent(&key("Height"), 1)?, entry.extent(&key("Width"), 1)?]);
        return Ok(Some(all));
    }
    Ok(None)
}
