//! Tasks in this project's own encoding, for layers without known registers.

use anemone_facts::native as rows;
use anemone_facts::native::{OWN_PARAMS, ParamType};
use anemone_net::native::{Native, Param};

/// Class and parameters of an own task.
#[derive(Clone, Debug, PartialEq)]
pub struct Own {
    /// `OwnKind`.
    pub class: u32,
    /// `OwnParam`, as the layer's row says.
    pub params: Vec<u32>,
    /// Name of the layer, for listings.
    pub tag: &'static str,
}

impl Own {
    /// The task of a layer; `None` if no row has it, or it has too many parameters.
    pub fn of(native: &Native) -> Option<Own> {
        let row = rows::by_tag(native.schema().tag)?;
        let mut params = Vec::new();
        for param in row.params {
            let (_, value) = native.params().find(|(key, _)| key.name == param.name)?;
            match value {
                Param::Flag(flag) => params.push(u32::from(*flag)),
                Param::Integer(value) => params.push(u32::try_from(*value).ok()?),
                Param::Real(value) => params.push(value.to_bits()),
                Param::Word(word) => {
                    let ParamType::Word(words) = param.ty else { return None };
                    params.push(words.iter().position(|w| w == word)? as u32);
                }
                Param::List(list) => {
                    params.push(list.len() as u32);
                    params.extend(list.iter().map(|&v| v as u32));
                }
            }
        }
        (params.len() <= OWN_PARAMS as usize).then_some(Own { class: row.class()?, params, tag: row.tag })
    }
}
