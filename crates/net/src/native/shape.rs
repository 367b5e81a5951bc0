//! Result extents of native layers, and the constraints on their operands.

use super::{AXES, Kind, Native};
use crate::error::Error;
use crate::types::TensorType;

/// Type of the result. Operands are `[N, C, H, W]`; results have the element type of the first.
pub fn result(native: &Native, inputs: &[&TensorType]) -> Result<TensorType, Error> {
    let schema = native.schema();
    let name = schema.tag;
    for (operand, input) in inputs.iter().enumerate() {
        let found = input.shape.len();
        if found != 4 {
            return Err(Error::Rank { kind: name, operand, found, least: 4, most: 4 });
        }
        if !input.dtype.is_float() && operand == 0 {
            return Err(Error::ElementType { kind: name, operand, found: input.dtype, expected: "floats" });
        }
    }
    let shapes: Vec<[usize; 4]> = inputs.iter().map(|t| [t.shape[0], t.shape[1], t.shape[2], t.shape[3]]).collect();
    let shape = Shapes { native, name, shapes: &shapes }.result()?;
    Ok(TensorType { dtype: inputs[0].dtype, shape: shape.to_vec() })
}

struct Shapes<'a> {
    native: &'a Native,
    name: &'static str,
    shapes: &'a [[usize; 4]],
}

impl Shapes<'_> {
    fn size(&self, key: &str) -> usize {
        self.native.size(key)
    }

    /// Requires an extent of an operand.
    fn holds(&self, operand: usize, axis: usize, expected: usize) -> Result<(), Error> {
        let found = self.shapes[operand][axis];
        if found == expected {
            return Ok(());
        }
        Err(Error::Extent { kind: self.name, operand, axis, found, expected })
    }

    fn all(&self, operand: usize, expected: [usize; 4]) -> Result<(), Error> {
        (0..4).try_for_each(|axis| self.holds(operand, axis, expected[axis]))
    }

    /// Requires an extent of an operand to be 1 or another number.
    fn repeats(&self, operand: usize, axis: usize, expected: usize) -> Result<(), Error> {
        if self.shapes[operand][axis] == 1 { Ok(()) } else { self.holds(operand, axis, expected) }
    }

    fn attribute(&self, what: &'static str, found: usize, least: usize, most: usize) -> Result<(), Error> {
        if (least..=most).contains(&found) {
            return Ok(());
        }
        Err(Error::Attribute { kind: self.name, what, found: found as u64, least: least as u64, most: most as u64 })
    }

    /// `extent / by`, which must have no remainder.
    fn divided(&self, axis: usize, by: usize) -> Result<usize, Error> {
        let extent = self.shapes[0][axis];
        if extent.is_multiple_of(by) {
            return Ok(extent / by);
        }
        Err(Error::Extent { kind: self.name, operand: 0, axis, found: extent, expected: extent.next_multiple_of(by) })
    }

    /// Number of windows of this height and width over the padded first operand.
    fn windows(&self, height: usize, width: usize) -> Result<[usize; 2], Error> {
        let [_, _, h, w] = self.shapes[0];
        let rows = h + self.size("PadTop") + self.size("PadBot");
        let columns = w + self.size("PadLeft") + self.size("PadRight");
        for (axis, window, extent) in [(2, height, rows), (3, width, columns)] {
            if window > extent {
                let (window, extent) = (window as u64, extent as u64);
                return Err(Error::Window { kind: self.name, axis, window, extent });
            }
        }
        Ok([rows - height + 1, columns - width + 1])
    }

    fn result(&self) -> Result<[usize; 4], Error> {
        let x = self.shapes[0];
        let [n, c, h, w] = x;
        let (fx, fy) = (self.size("FactorX"), self.size("FactorY"));
        if self.native.get("FactorZ").is_some() {
            self.attribute("FactorZ", self.size("FactorZ"), 1, 1)?;
        }
        let second = self.shapes.get(1).copied().unwrap_or([1; 4]);
        let multiplied = |a: usize, b: usize| a.saturating_mul(b);
        Ok(match self.native.kind {
            Kind::Sdpa => {
                // Query, key, value; scale; mask.
                self.all(1, [n, second[1], h, w])?;
                self.all(2, [n, second[1], h, self.shapes[2][3]])?;
                self.all(3, [1, 1, 1, 1])?;
                if self.shapes.len() > 4 {
                    self.repeats(4, 0, n)?;
                    self.repeats(4, 1, c)?;
                    self.repeats(4, 2, h)?;
                    self.repeats(4, 3, second[1])?;
                }
                [n, c, h, self.shapes[2][3]]
            }
            Kind::Sort | Kind::TopK => {
                let (along, vector) = (self.native.axis("SortDimension"), self.native.axis("VectorDimension"));
                if along == vector {
                    return Err(Error::Attribute {
                        kind: self.name,
                        what: "VectorDimension, which is SortDimension",
                        found: vector as u64,
                        least: 0,
                        most: 3,
                    });
                }
                let lane = self.native.list("SortIndices").first().copied().unwrap_or(0);
                self.attribute("SortIndices", usize::try_from(lane).unwrap_or(0), 0, x[vector] - 1)?;
                let mut shape = x;
                if self.native.kind == Kind::TopK {
                    self.attribute("K", self.size("K"), 1, x[along])?;
                    shape[along] = self.size("K");
                }
                if self.native.flag("Indices") {
                    shape[vector] = 1;
                }
                shape
            }
            Kind::ArgMinMax if self.native.word("Mode").starts_with("Channel") => [n, 1, h, w],
            Kind::ArgMinMax => {
                let (height, width) = (self.size("KernelHeight"), self.size("KernelWidth"));
                for (what, pad, kernel) in [
                    ("PadLeft", self.size("PadLeft"), width),
                    ("PadRight", self.size("PadRight"), width),
                    ("PadTop", self.size("PadTop"), height),
                    ("PadBot", self.size("PadBot"), height),
                ] {
                    self.attribute(what, pad, 0, kernel - 1)?;
                }
                let [rows, columns] = self.windows(height, width)?;
                [n, c, rows, columns]
            }
            Kind::GlobalArgMinMax => {
                let mut shape = x;
                shape[self.native.axis("Dimension")] = 1;
                shape
            }
            Kind::PixelShuffle | Kind::ChannelToSpace => {
                [n, self.divided(1, fx * fy)?, multiplied(h, fy), multiplied(w, fx)]
            }
            Kind::PixelUnshuffle | Kind::SpaceToChannel => {
                [n, multiplied(c, fx * fy), self.divided(2, fy)?, self.divided(3, fx)?]
            }
            Kind::SpaceToBatch => [multiplied(n, fx * fy), c, self.divided(2, fy)?, self.divided(3, fx)?],
            Kind::BatchToSpace => [self.divided(0, fx * fy)?, c, multiplied(h, fy), multiplied(w, fx)],
            Kind::Lrn => {
                self.attribute("KernelChannel", self.size("KernelChannel"), 1, c)?;
                x
            }
            Kind::DynamicGoc => {
                let operands = if self.native.flag("BiasOnly") { 2 } else { 3 };
                if self.shapes.len() != operands {
                    let found = self.shapes.len();
                    return Err(Error::Arity { kind: self.name.to_string(), found, least: operands, most: operands });
                }
                for operand in 1..operands {
                    self.repeats(operand, 1, c)?;
                    [0, 2, 3].into_iter().try_for_each(|axis| self.holds(operand, axis, 1))?;
                }
                x
            }
            Kind::CrossCorrelation => {
                let (height, width) = (self.size("TemplateHeight"), self.size("TemplateWidth"));
                self.holds(0, 1, 1)?;
                self.all(1, [1, 1, 1, height.saturating_mul(width)])?;
                let [rows, columns] = self.windows(height, width)?;
                [n, 1, rows, columns]
            }
            Kind::CrossProduct => {
                self.all(0, [n, 3, 1, 1])?;
                self.all(1, x)?;
                x
            }
            Kind::FurthestPointSampling => {
                self.all(0, [1, 3, 1, w])?;
                self.attribute("number of points", w, 2, 8192)?;
                self.attribute("CentroidCount", self.size("CentroidCount"), 2, w)?;
                [1, 3, 1, self.size("CentroidCount")]
            }
            Kind::RadiusSearch => {
                self.all(0, [1, 3, 1, w])?;
                self.all(1, [1, 3, 1, second[3]])?;
                [1, 1, second[3], w]
            }
            Kind::CostVolume => {
                let range = self.size("DisparityRange");
                self.all(1, [n, c, h, second[3]])?;
                self.attribute("columns of the reference", second[3], w + range, usize::MAX)?;
                for key in ["ScaleFactorX", "ScaleFactorY"] {
                    if self.native.real(key) != 1.0 {
                        return Err(Error::Attribute {
                            kind: self.name,
                            what: "scale factor, whose meaning no source gives",
                            found: self.native.real(key) as u64,
                            least: 1,
                            most: 1,
                        });
                    }
                }
                [n, range + 1, h, w]
            }
            Kind::DynamicSlice => {
                let order = self.native.list("DynamicSliceAxisOrder");
                let mut shape = x;
                for pair in self.native.list("DynamicSliceInfo").chunks(2) {
                    let axis = usize::try_from(pair[0]).unwrap_or(0);
                    shape[axis] = usize::try_from(pair[1]).unwrap_or(0);
                    self.attribute("SliceSize", shape[axis], 1, x[axis])?;
                    if !order.contains(&pair[0]) {
                        self.attribute("DynamicSliceInfo, whose axis has no start", axis, 4, 4)?;
                    }
                }
                if self.shapes.len() > 1 {
                    // Numbers of a start beyond the number of axes are ignored.
                    self.attribute("starts", second.iter().product(), order.len(), usize::MAX)?;
                }
                shape
            }
            Kind::Tile => {
                let mut shape = x;
                for (extent, axis) in shape.iter_mut().zip(AXES) {
                    *extent = multiplied(*extent, self.size(&format!("Tile{axis}")));
                }
                shape
            }
            Kind::Flatten => [n, 1, 1, c * h * w],
            Kind::Unflatten => {
                let shape = [
                    n,
                    self.size("DestinationChannels"),
                    self.size("DestinationHeight"),
                    self.size("DestinationWidth"),
                ];
                let (found, expected) = (n * c * h * w, shape.iter().fold(1, |a, &b| multiplied(a, b)));
                if found != expected {
                    return Err(Error::ElementCount { kind: self.name, found, expected });
                }
                shape
            }
            Kind::Dropout => {
                if self.native.real("DropoutRate") != 0.0 {
                    self.attribute("DropoutRate, which inference has not", 1, 0, 0)?;
                }
                x
            }
            Kind::MatrixMult => {
                let (rows, inner) = if self.native.flag("TransposeLhs") { (w, c) } else { (c, w) };
                if self.native.flag("TransposeRhs") {
                    self.all(1, [n, second[1], h, inner])?;
                    [n, rows, h, second[1]]
                } else {
                    self.all(1, [n, inner, h, second[3]])?;
                    [n, rows, h, second[3]]
                }
            }
            Kind::LayerNorm => {
                let groups = self.size("NumGroups");
                self.divided(1, groups)?;
                // Groups are computed as separate images, so statistics over several images are not possible.
                let most = if self.native.list("Dimension").contains(&0) { 1 } else { c };
                self.attribute("NumGroups", groups, 1, most)?;
                x
            }
            Kind::L2Norm => x,
            Kind::InstanceNorm | Kind::MinMaxNorm => x,
            Kind::Pad => {
                if self.native.word("PaddingMode") == "Reflective" {
                    let pads = [("PadLeft", w), ("PadRight", w), ("PadTop", h), ("PadBot", h)];
                    pads.into_iter()
                        .try_for_each(|(key, extent)| self.attribute("padding", self.size(key), 0, extent - 1))?;
                }
                let [rows, columns] = self.windows(1, 1)?;
                [n, c, rows, columns]
            }
            Kind::Gather => {
                let axes = self.native.list("GatherNDAxes");
                self.attribute("GatherNDAxes, of which one is read", axes.len(), 1, 1)?;
                let axis = usize::try_from(axes[0]).unwrap_or(0);
                // One index for a whole slice: the others are one.
                (0..4).filter(|&a| a != axis).try_for_each(|a| self.holds(1, a, 1))?;
                let mut shape = x;
                shape[axis] = second[axis];
                shape
            }
            Kind::Resize => [n, c, self.size("Height"), self.size("Width")],
            Kind::ResizeAs => [n, c, second[2], second[3]],
            Kind::CropResize => {
                self.holds(0, 0, 1)?;
                self.all(1, [1, 4, 1, second[3]])?;
                [second[3], c, self.size("CropHeight"), self.size("CropWidth")]
            }
            Kind::Resample => {
                self.holds(1, 0, n)?;
                self.attribute("channels of the coordinates", second[1], 1, 2)?;
                [n, c, second[2], second[3]]
            }
            Kind::AffineTransform => {
                self.all(1, [1, 1, 1, 6])?;
                [n, c, self.size("Height"), self.size("Width")]
            }
            Kind::RingBufferWriter => {
                let axis = self.native.axis("Dimension");
                (0..4).filter(|&a| a != axis).try_for_each(|a| self.holds(1, a, x[a]))?;
                self.fits(x[axis], second[axis])?;
                x
            }
            Kind::RingBufferReader => {
                let axis = self.native.axis("Dimension");
                self.fits(x[axis], self.size("Size"))?;
                let mut shape = x;
                shape[axis] = self.size("Size");
                shape
            }
            Kind::Shape => [1, 1, 1, 4],
        })
    }

    /// Requires a part of a buffer to start within it, and to end there too unless the buffer is a ring.
    fn fits(&self, extent: usize, part: usize) -> Result<(), Error> {
        let offset = self.size("Offset");
        self.attribute("Offset", offset, 0, extent - 1)?;
        let most = if self.native.flag("Circular") { extent } else { extent - offset };
        self.attribute("elements of the part", part, 1, most)
    }
}
