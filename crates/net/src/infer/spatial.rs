//! Extents of convolutions and pooling.

use super::Infer;
use crate::error::Error;
use crate::graph::MAX_ELEMENTS;

/// Number of pooling windows along one axis, or `None` if not even one fits.
pub(crate) fn windows(
    extent: usize,
    window: usize,
    stride: usize,
    pads: (usize, usize),
    ceil_mode: bool,
) -> Option<usize> {
    let span = extent.checked_add(pads.0)?.checked_add(pads.1)?.checked_sub(window)?;
    let mut count = if ceil_mode { span.div_ceil(stride) } else { span / stride } + 1;
    // A window that starts in the padding behind the input covers no element.
    if ceil_mode && (count - 1).checked_mul(stride)? >= extent + pads.0 {
        count -= 1;
    }
    Some(count)
}

impl Infer<'_> {
    /// Checks the lists of a windowed operation, which have one entry per spatial axis; returns the spatial rank.
    fn spatial(&self, lists: &[(&'static str, &[usize])], pads: &[(usize, usize)]) -> Result<usize, Error> {
        let spatial = self.rank(0, 3, 5)? - 2;
        self.length("pads", pads.len(), spatial)?;
        for &(what, list) in lists {
            self.length(what, list.len(), spatial)?;
            for &entry in list {
                self.between(what, entry, 1, MAX_ELEMENTS)?;
            }
        }
        for &(before, after) in pads {
            self.between("pads", before, 0, MAX_ELEMENTS)?;
            self.between("pads", after, 0, MAX_ELEMENTS)?;
        }
        Ok(spatial)
    }

    pub(super) fn bias(&self, channels: usize) -> Result<(), Error> {
        if self.inputs.len() > 2 {
            self.rank(2, 1, 1)?;
            self.extent(2, 0, channels)?;
            self.number(2)?;
        }
        Ok(())
    }

    pub(super) fn conv(
        &self,
        strides: &[usize],
        pads: &[(usize, usize)],
        dilations: &[usize],
        groups: usize,
    ) -> Result<Vec<usize>, Error> {
        let spatial = self.spatial(&[("strides", strides), ("dilations", dilations)], pads)?;
        let (x, w) = (self.inputs[0], self.inputs[1]);
        self.rank(1, spatial + 2, spatial + 2)?;
        self.number(0)?;
        self.number(1)?;
        self.between("groups", groups, 1, x.shape[1])?;
        self.extent(0, 1, w.shape[1].saturating_mul(groups))?;
        if w.shape[0] % groups != 0 {
            return Err(self.multiple(1, 0, groups));
        }
        self.bias(w.shape[0])?;
        let mut shape = vec![x.shape[0], w.shape[0]];
        for i in 0..spatial {
            let window = dilated(w.shape[i + 2], dilations[i]);
            let count = windows(x.shape[i + 2], window, strides[i], pads[i], false);
            shape.push(count.ok_or_else(|| self.no_window(i + 2, window, x.shape[i + 2], pads[i]))?);
        }
        Ok(shape)
    }

    pub(super) fn conv_transpose(
        &self,
        strides: &[usize],
        pads: &[(usize, usize)],
        output_pads: &[usize],
        dilations: &[usize],
        groups: usize,
    ) -> Result<Vec<usize>, Error> {
        let spatial = self.spatial(&[("strides", strides), ("dilations", dilations)], pads)?;
        let (x, w) = (self.inputs[0], self.inputs[1]);
        self.length("output_pads", output_pads.len(), spatial)?;
        self.rank(1, spatial + 2, spatial + 2)?;
        self.number(0)?;
        self.number(1)?;
        self.between("groups", groups, 1, x.shape[1])?;
        self.extent(1, 0, x.shape[1])?;
        if x.shape[1] % groups != 0 {
            return Err(self.multiple(0, 1, groups));
        }
        let channels = w.shape[1].saturating_mul(groups);
        self.bias(channels)?;
        let mut shape = vec![x.shape[0], channels];
        for i in 0..spatial {
            self.between("output_pads", output_pads[i], 0, MAX_ELEMENTS)?;
            let window = dilated(w.shape[i + 2], dilations[i]);
            let full = (x.shape[i + 2] - 1).saturating_mul(strides[i]).saturating_add(window);
            let full = full.saturating_add(output_pads[i]);
            let cut = pads[i].0 + pads[i].1;
            let count = full.checked_sub(cut).filter(|&n| n > 0);
            shape.push(count.ok_or(Error::Window {
                kind: self.name,
                axis: i + 2,
                window: cut as u64,
                extent: full as u64,
            })?);
        }
        Ok(shape)
    }

    fn multiple(&self, operand: usize, axis: usize, of: usize) -> Error {
        let found = self.inputs[operand].shape[axis];
        Error::Extent { kind: self.name, operand, axis, found, expected: found.next_multiple_of(of) }
    }

    fn no_window(&self, axis: usize, window: usize, extent: usize, pads: (usize, usize)) -> Error {
        let extent = (extent as u64).saturating_add(pads.0 as u64).saturating_add(pads.1 as u64);
        Error::Window { kind: self.name, axis, window: window as u64, extent }
    }

    pub(super) fn pool(
        &self,
        kernel: &[usize],
        strides: &[usize],
        pads: &[(usize, usize)],
        ceil_mode: bool,
    ) -> Result<Vec<usize>, Error> {
        let x = self.inputs[0];
        let spatial = self.spatial(&[("kernel", kernel), ("strides", strides)], pads)?;
        self.number(0)?;
        let mut shape = x.shape[..2].to_vec();
        for i in 0..spatial {
            // A window inside the padding would cover no element.
            self.between("pads", pads[i].0, 0, kernel[i] - 1)?;
            self.between("pads", pads[i].1, 0, kernel[i] - 1)?;
            let count = windows(x.shape[i + 2], kernel[i], strides[i], pads[i], ceil_mode);
            let count = count.filter(|&n| n > 0);
            shape.push(count.ok_or_else(|| self.no_window(i + 2, kernel[i], x.shape[i + 2], pads[i]))?);
        }
        Ok(shape)
    }
}

/// Extent of a dilated window, saturating.
fn dilated(extent: usize, dilation: usize) -> usize {
    (extent - 1).saturating_mul(dilation).saturating_add(1)
}
