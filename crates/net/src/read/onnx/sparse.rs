//! Sparse constants, which become dense.

use super::{Translator, proto};
use crate::error::Error;
use crate::graph::{Data, MAX_RANK, Tensor, elements};

impl Translator<'_> {
    /// The name of a sparse tensor, and its elements with zeros between the stored ones.
    pub fn sparse(&mut self, message: &proto::SparseTensor) -> Result<(String, Tensor), Error> {
        let name = message.values.as_ref().map(|t| t.name.clone()).unwrap_or_default();
        let place = format!("sparse tensor `{name}`");
        let missing = |key: &str| Error::Missing { place: place.clone(), key: key.to_string() };
        let values = self.tensor(message.values.as_ref().ok_or_else(|| missing("values"))?)?.0;
        let indices = self.tensor(message.indices.as_ref().ok_or_else(|| missing("indices"))?)?.0;
        let shape = message.dims.iter().map(|&d| usize::try_from(d).ok()).collect::<Option<Vec<usize>>>();
        let shape = shape.filter(|s| s.len() <= MAX_RANK);
        let shape = shape.ok_or_else(|| missing("extents that are not negative, at most 8"))?;
        self.build.budget.spend(&shape)?;
        let count = values.data.len();
        // Positions count elements, or give the place along each axis.
        let axes = match indices.shape.as_slice() {
            &[n] if n == count => vec![elements(&shape)],
            &[n, rank] if n == count && rank == shape.len() => shape.clone(),
            other => {
                return Err(Error::WrongType {
                    place,
                    key: "shape of the indices".to_string(),
                    found: format!("{other:?} for {count} values"),
                    expected: "one position, or one place along each axis, for each value",
                });
            }
        };
        let mut places = Vec::with_capacity(count);
        for position in indices.data.to_i32().chunks(axes.len().max(1)) {
            let mut place_of = 0;
            for (&at, &extent) in position.iter().zip(&axes) {
                let inside = usize::try_from(at).ok().filter(|&at| at < extent);
                let at = inside.ok_or_else(|| Error::OutOfRange {
                    place: place.clone(),
                    key: "index".to_string(),
                    found: at.into(),
                    least: 0,
                    most: extent as i64 - 1,
                })?;
                place_of = place_of * extent + at;
            }
            places.push(place_of);
        }
        let dtype = values.data.dtype();
        let data = match dtype.is_float() {
            true => Data::from_f32(dtype, &scattered(elements(&shape), &places, &values.data.to_f32())),
            false => Data::from_i32(dtype, &scattered(elements(&shape), &places, &values.data.to_i32())),
        };
        Ok((name, Tensor { shape, data }))
    }
}

/// Zeros with the values at their places.
fn scattered<T: Copy + Default>(count: usize, places: &[usize], values: &[T]) -> Vec<T> {
    let mut all = vec![T::default(); count];
    places.iter().zip(values).for_each(|(&at, &value)| all[at] = value);
    all
}
