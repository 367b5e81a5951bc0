//! The verifier: invariants of a [`Net`] that every other part relies on.

use crate::error::Error;
use crate::graph::{Counted, Net, TensorType, Value, ValueId};
use crate::infer::{infer, sized};
use crate::ops::OpKind;
use std::collections::HashMap;

/// Collects every violation: names are unique, every value is defined once and before use, operands and results have the types of
/// [`infer`], data of constants have the stated type, outputs are defined, states lead from an input to an output of the same type, counted
/// outputs have their number in another, every id exists.
pub fn check(net: &Net) -> Result<(), Vec<Error>> {
    let mut errors = Vec::new();
    check_values(net, &mut errors);
    let mut defined: Vec<bool> = net.values.iter().map(|v| v.data.is_some()).collect();
    for &input in &net.inputs {
        define(net, "the input list", input, &mut defined, &mut errors);
    }
    for op in &net.ops {
        let operands: Vec<Option<&TensorType>> = op
            .inputs
            .iter()
            .map(|&id| {
                let value = lookup(net, &op.name, id, &mut errors)?;
                if !defined[id.0 as usize] {
                    errors.push(Error::NotDefined { op: op.name.clone(), value: value.name.clone() });
                }
                Some(&value.ty)
            })
            .collect();
        for &output in &op.outputs {
            define(net, &op.name, output, &mut defined, &mut errors);
        }
        if let OpKind::Loop(l) = &op.kind
            && let Err(inside) = check(&l.body)
        {
            errors.extend(inside.into_iter().map(|error| error.in_op(&op.name)));
            continue;
        }
        let Some(operands) = operands.into_iter().collect::<Option<Vec<_>>>() else { continue };
        let results: Option<Vec<&Value>> = op.outputs.iter().map(|&id| net.get(id)).collect();
        let Some(results) = results else { continue };
        match infer(&op.kind, &operands, results.first().map(|v| &v.ty)) {
            Err(error) => errors.push(error.in_op(&op.name)),
            Ok(types) if types.len() != results.len() => {
                let error = Error::Results { kind: op.kind.name(), found: results.len(), expected: types.len() };
                errors.push(error.in_op(&op.name));
            }
            Ok(types) => {
                for (value, expected) in results.iter().zip(types).filter(|(v, ty)| v.ty != *ty) {
                    let (op, value, found) = (op.name.clone(), value.name.clone(), value.ty.clone());
                    errors.push(Error::TypeMismatch { op, value, found, expected });
                }
            }
        }
    }
    for &output in &net.outputs {
        if let Some(value) = lookup(net, "the output list", output, &mut errors)
            && !defined[output.0 as usize]
        {
            errors.push(Error::OutputNotDefined { value: value.name.clone() });
        }
    }
    for state in &net.states {
        let kept =
            net.inputs.contains(&state.input) && (state.output == state.input || net.outputs.contains(&state.output));
        let types = (net.get(state.input).map(|v| &v.ty), net.get(state.output).map(|v| &v.ty));
        if !kept || types.0 != types.1 {
            errors.push(Error::State { name: state.name.clone() });
        }
    }
    for Counted { rows, count, axis } in &net.counted {
        let both = net.outputs.contains(rows) && net.outputs.contains(count);
        let fits = |rows: &Value, count: &Value| *axis < rows.ty.shape.len() && count.ty.elements() == 1;
        if !both || !net.get(*rows).zip(net.get(*count)).is_some_and(|(rows, count)| fits(rows, count)) {
            let name = net.get(*rows).map_or_else(String::new, |value| value.name.clone());
            errors.push(Error::Counted { name, axis: *axis });
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn check_values(net: &Net, errors: &mut Vec<Error>) {
    let mut names: HashMap<&str, u32> = HashMap::with_capacity(net.values.len());
    for (id, value) in net.values.iter().enumerate() {
        let second = id as u32;
        if let Some(first) = names.insert(&value.name, second) {
            errors.push(Error::NameTwice { name: value.name.clone(), first, second });
        }
        if let Err(error) = sized(&value.ty, || format!("`{}`", value.name)) {
            errors.push(error);
        }
        if let Some(data) = &value.data
            && (data.ty() != value.ty || data.data.len() != value.ty.elements())
        {
            let (found, elements) = (data.ty(), data.data.len());
            errors.push(Error::ConstantData { value: value.name.clone(), ty: value.ty.clone(), found, elements });
        }
    }
}

fn lookup<'a>(net: &'a Net, op: &str, id: ValueId, errors: &mut Vec<Error>) -> Option<&'a Value> {
    let value = net.get(id);
    if value.is_none() {
        errors.push(Error::NoSuchValue { op: op.to_string(), id: id.0, count: net.values.len() });
    }
    value
}

fn define(net: &Net, op: &str, id: ValueId, defined: &mut [bool], errors: &mut Vec<Error>) {
    if let Some(value) = lookup(net, op, id, errors)
        && std::mem::replace(&mut defined[id.0 as usize], true)
    {
        errors.push(Error::DefinedTwice { op: op.to_string(), value: value.name.clone() });
    }
}
