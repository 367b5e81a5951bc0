//! Reader of the keys of our own, which [`crate::netplist::own`] lists.

use super::{Builder, Dict, Unit, entry};
use crate::error::Error;
use crate::graph::{State, Tensor, TensorType, elements};
use crate::netplist::own::{FORM, SHAPE, STATES, read_form, read_shape};
use crate::read::property::wrong;

/// Extents that an entry states, with as many elements as those of the schema.
pub(super) fn shape(entry: &Dict, count: usize) -> Result<Option<Vec<usize>>, Error> {
    let stated = stated(entry)?;
    match stated.as_deref().map(elements).filter(|&found| found != count) {
        None => Ok(stated),
        Some(found) => {
            let (place, key) = (entry.place.clone(), format!("elements of {SHAPE}"));
            Err(Error::OutOfRange { place, key, found: found as i64, least: count as i64, most: count as i64 })
        }
    }
}

/// Extents that an entry states.
pub(super) fn stated(entry: &Dict) -> Result<Option<Vec<usize>>, Error> {
    let Some(value) = entry.value(SHAPE) else { return Ok(None) };
    let expected = "a list of at most eight positive integers";
    read_shape(value).map(Some).ok_or_else(|| wrong(&entry.place, SHAPE, value, expected))
}

impl<'a> Builder<'a> {
    /// The constant of that type which an entry holds in a compressed form.
    pub(super) fn form(&mut self, entry: &Dict<'a>, ty: &TensorType) -> Result<Option<Tensor>, Error> {
        let Some(form) = entry.value(FORM) else { return Ok(None) };
        let dictionary = form.as_dictionary().ok_or_else(|| wrong(&entry.place, FORM, form, "a dictionary"))?;
        let place = format!("{}, `{FORM}`", entry.place);
        let missing = || Error::Missing { place: place.clone(), key: "Weights".to_string() };
        let path = *self.weights.paths.first().ok_or_else(missing)?;
        let file = self.weights.file(0, path)?;
        let tensor = read_form(dictionary, &place, &mut |offset, length| {
            let described = || format!("{place}, weight file {path}");
            let part = crate::read::blob::part(&file, offset as u64, length as u64, &described, "data")?;
            Ok(file.slice_ref(part))
        })?;
        if tensor.ty() != *ty {
            return Err(Error::ConstantData {
                value: place,
                ty: ty.clone(),
                found: tensor.ty(),
                elements: tensor.data.len(),
            });
        }
        self.weights.budget.spend(&tensor.shape)?;
        Ok(Some(tensor))
    }

    /// States, given by the numbers of their ports; an output of -1 is the input itself.
    pub(super) fn states(&mut self, network: &Dict<'a>) -> Result<(), Error> {
        for state in network.array(STATES)?.unwrap_or_default() {
            let state = Dict::new(state, &network.place, STATES)?;
            let name = state.string("Name")?.ok_or_else(|| state.missing("Name"))?.to_string();
            let input = state.size("Input", 0)?;
            let wrong = || Error::State { name: name.clone() };
            let input = *self.net.inputs.get(input).ok_or_else(wrong)?;
            let output = match state.integer("Output")? {
                Some(-1) => input,
                _ => *self.net.outputs.get(state.size("Output", 0)?).ok_or_else(wrong)?,
            };
            self.net.states.push(State { name, input, output });
        }
        Ok(())
    }

    /// The input of an entry in the list `States`.
    pub(super) fn state_input(&mut self, network: &Dict<'a>, name: &'a str) -> Result<(), Error> {
        let entry = entry(network, name, "state")?;
        let ty = self.tensor_type(&entry, "Input")?;
        let id = self.define(&entry.place, name, ty, None, None)?;
        self.net.inputs.push(id);
        Ok(())
    }

    /// A state in the list `States`: its next value is the result of the unit that writes it, an output of the network; without
    /// such a unit it keeps its value.
    pub(super) fn live_state(&mut self, name: &str, units: &[Unit<'a>]) -> Result<(), Error> {
        let mut writers = units.iter().filter(|unit| unit.written_state() == Some(name));
        let input = self.values[name];
        let output = match (writers.next(), writers.next()) {
            (None, _) => input,
            (Some(unit), None) => self.values[unit.name],
            (Some(_), Some(second)) => {
                return Err(Error::DefinedTwice { op: second.dict.place.clone(), value: format!("state {name}") });
            }
        };
        let [found, expected] = [output, input].map(|id| self.net.value(id).ty.clone());
        if found != expected {
            let op = format!("state {name}");
            return Err(Error::TypeMismatch { op, value: self.net.value(output).name.clone(), found, expected });
        }
        if output != input && !self.net.outputs.contains(&output) {
            self.net.outputs.push(output);
        }
        self.net.states.push(State { name: name.to_string(), input, output });
        Ok(())
    }
}

impl<'a> Unit<'a> {
    /// Name of the state that the unit writes, if its state operand is one: the first of a ring-buffer writer, the
    /// second of a mover.
    pub(super) fn written_state(&self) -> Option<&'a str> {
        match (self.kind, self.bottoms.as_slice()) {
            ("RingBufferWriter", &[state, _]) | ("TensorToTensorBuffer", &[_, state]) => Some(state),
            _ => None,
        }
    }
}
