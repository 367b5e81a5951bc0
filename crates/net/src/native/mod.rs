//! Native layers: descriptors that a model names directly, with the parameters of the format's own parser.
//!
//! A native layer is one operation of the graph with its parameters as given. [`Native::read`] is the parser:
//! it refuses parameters that the schema does not have. Operands are `[N, C, H, W]`. [`Kind`] has the definition of each; names are
//! those of the format, so `Channel`, `Height` and `Width` are axes 1, 2 and 3.

mod eval;
mod names;
mod params;
mod shape;

pub(crate) use eval::{Operand, eval};
pub use names::{GRAPH_UNITS, GraphUnit, NEURONS, Named, named, nearest};
pub(crate) use params::nearest as nearest_of;
pub use params::{KeyType, Param, Raw};
pub(crate) use shape::result;

use crate::error::Error;

/// Names of the axes, in the order of the format.
pub const AXES: [&str; 4] = ["Batch", "Channel", "Height", "Width"];

/// Prefix of native layers' names as operations of MIL text.
pub const MIL_PREFIX: &str = "anec.";

/// One parameter of a native layer.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name, as written in the format.
    pub name: &'static str,
    /// Type and range of its values.
    pub ty: KeyType,
    /// Default value in the text form; empty if the parameter is required.
    pub default: &'static str,
}

/// Schema of a native layer: its operands and parameters.
#[derive(Debug)]
pub struct Schema {
    /// Kind of layer.
    pub kind: Kind,
    /// `Type` of its unit.
    pub tag: &'static str,
    /// Fewest operands.
    pub least: usize,
    /// Most operands.
    pub most: usize,
    /// Parameters.
    pub keys: &'static [Key],
}

impl Schema {
    /// The schema of a `Type` tag.
    pub fn of_tag(tag: &str) -> Option<&'static Schema> {
        SCHEMAS.iter().find(|s| s.tag == tag)
    }

    /// The schema whose tag or key equals a word except for case and underscores: `sdpa`, `top_k`.
    pub fn of_word(word: &str) -> Option<&'static Schema> {
        SCHEMAS.iter().find(|s| plain(s.tag) == plain(word))
    }

    /// Name as an operation of MIL text: `anec.sdpa`, `anec.pixel_shuffle`.
    pub fn mil_name(&self) -> String {
        let mut name = String::from(MIL_PREFIX);
        let mut before = ' ';
        for c in self.tag.chars() {
            if c.is_uppercase() && before.is_lowercase() {
                name.push('_');
            }
            name.extend(c.to_lowercase());
            before = c;
        }
        name
    }

    /// The list in a netplist's `Params` whose only entry holds the keys, for layers with such a list.
    pub fn entry(&self) -> Option<&'static str> {
        (self.kind == Kind::RingBufferWriter).then_some("RingBufferWriterInfo")
    }

    /// A value in the text form, as a file would give it.
    fn raw(&self, key: &str, text: &str) -> Raw {
        let key = self.keys.iter().find(|k| k.name == key);
        match key.and_then(|key| Param::parse(key, text)) {
            Some(Param::Flag(value)) => Raw::Flag(value),
            Some(Param::Integer(value)) => Raw::Integer(value),
            Some(Param::Real(value)) => Raw::Half(value),
            Some(Param::Word(word)) => Raw::Text(word.to_string()),
            Some(Param::List(list)) => Raw::Positions(list),
            None => Raw::Text(text.to_string()),
        }
    }

    /// The key that equals a word except for case and underscores.
    pub fn key_of_word(&self, word: &str) -> Option<&'static str> {
        self.keys.iter().map(|k| k.name).find(|name| plain(name) == plain(word))
    }
}

fn plain(word: &str) -> String {
    word.chars().filter(|&c| c != '_').flat_map(char::to_lowercase).collect()
}

/// A native layer with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Native {
    /// Kind of layer.
    pub kind: Kind,
    /// Values in the order of the schema's keys, defaults included.
    params: Vec<Param>,
}

impl Native {
    /// Reads the parameters of a unit; `unit` is its name, for errors.
    ///
    /// Errors: [`Error::InvalidParam`] for an unknown key, a missing one, and a value of another
    /// type or out of range.
    pub fn read(schema: &'static Schema, unit: &str, given: &[(String, Raw)]) -> Result<Native, Error> {
        let params = params::read(schema, unit, given)?;
        Ok(Native { kind: schema.kind, params })
    }

    /// Reads the `Params` of a netplist's unit: as [`Native::read`], from the only entry of the list that some layers have.
    pub fn read_unit(schema: &'static Schema, unit: &str, given: &[(String, Raw)]) -> Result<Native, Error> {
        match schema.entry() {
            Some(list) => Native::read(schema, unit, params::entry(schema, list, unit, given)?),
            None => Native::read(schema, unit, given),
        }
    }

    /// A layer by its `Type` tag, independent of case and underscores, with parameters in the text form: numbers as they are,
    /// axes in lists as positions. Programs create layers with it; files use [`Native::read`].
    ///
    /// Errors: [`Error::Unsupported`] for a tag that is not known, and those of [`Native::read`].
    ///
    /// ```
    /// # use anemone_net::native::Native;
    /// let attention = Native::named("SDPA", &[("SubtractMax", "true")])?;
    /// assert!(attention.flag("SubtractMax"));
    /// let error = Native::named("SDPA", &[("SubtractMx", "true")]).unwrap_err();
    /// assert!(error.to_string().contains("the nearest is `SubtractMax`"));
    /// # Ok::<(), anemone_net::Error>(())
    /// ```
    pub fn named(tag: &str, params: &[(&str, &str)]) -> Result<Native, Error> {
        let schema = Schema::of_word(tag).ok_or_else(|| Error::Unsupported {
            op: tag.to_string(),
            output: tag.to_string(),
            reason: "no native layer has this name".to_string(),
        })?;
        let given: Vec<(String, Raw)> =
            params.iter().map(|(key, text)| (key.to_string(), schema.raw(key, text))).collect();
        Native::read(schema, tag, &given)
    }

    /// A layer with all parameters given, in the schema's order.
    pub(crate) fn of(schema: &Schema, params: Vec<Param>) -> Native {
        Native { kind: schema.kind, params }
    }

    /// The layer's schema.
    pub fn schema(&self) -> &'static Schema {
        self.kind.schema()
    }

    /// Keys with their values, defaults included.
    pub fn params(&self) -> impl Iterator<Item = (&'static Key, &Param)> {
        self.schema().keys.iter().zip(&self.params)
    }

    fn get(&self, key: &str) -> Option<&Param> {
        self.params().find(|(k, _)| k.name == key).map(|(_, v)| v)
    }

    /// A flag; false if the layer has no such key.
    pub fn flag(&self, key: &str) -> bool {
        self.get(key) == Some(&Param::Flag(true))
    }

    /// An integer; 0 if the layer has no such key.
    pub fn integer(&self, key: &str) -> i64 {
        match self.get(key) {
            Some(Param::Integer(value)) => *value,
            _ => 0,
        }
    }

    /// As [`Native::integer`], for sizes, which the schema keeps from being negative.
    pub fn size(&self, key: &str) -> usize {
        usize::try_from(self.integer(key)).unwrap_or(0)
    }

    /// A number; 0 if the layer has no such key.
    pub fn real(&self, key: &str) -> f32 {
        match self.get(key) {
            Some(Param::Real(value)) => *value,
            _ => 0.0,
        }
    }

    /// A word; empty if the layer has no such key.
    pub fn word(&self, key: &str) -> &'static str {
        match self.get(key) {
            Some(Param::Word(word)) => word,
            _ => "",
        }
    }

    /// A list; empty if the layer has no such key. Axes are positions, lists by axis are pairs.
    pub fn list(&self, key: &str) -> &[i64] {
        match self.get(key) {
            Some(Param::List(list)) => list,
            _ => &[],
        }
    }

    /// Position of the axis that a key selects.
    pub fn axis(&self, key: &str) -> usize {
        let word = self.word(key);
        AXES.iter().position(|a| *a == word).unwrap_or(AXES.len() - 1)
    }
}

macro_rules! natives {
    ( $( $(#[$doc:meta])* $kind:ident $tag:literal $least:literal ..= $most:literal {
        $( $key:literal $ty:expr, $default:literal; )*
    } )* ) => {
        /// Kind of native layer, each with its definition. `x` is the first operand.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind { $( $(#[$doc])* $kind ),* }

        /// Every native layer.
        pub static SCHEMAS: &[Schema] = &[ $( Schema {
            kind: Kind::$kind, tag: $tag, least: $least, most: $most,
            keys: &[ $( Key { name: $key, ty: $ty, default: $default } ),* ],
        } ),* ];
    };
}

impl Kind {
    /// The schema of the kind.
    pub fn schema(self) -> &'static Schema {
        &SCHEMAS[self as usize]
    }
}

use KeyType::{Axes, Flag, Half, Integer, Integers, PerAxis, Real, Word};

pub(crate) const EXTENT: KeyType = Integer(1, 1 << 20);
const PAD: KeyType = Integer(0, 1 << 16);
const FACTOR: KeyType = Integer(1, 1 << 12);
pub(crate) const AXIS: KeyType = Word(&AXES);
const ONE_AXIS: KeyType = Word(&["Channel", "Height", "Width"]);
const PADDING: KeyType = Word(&["Background", "Border"]);
const METHOD: KeyType = Word(&["NearestNeighbor", "Linear"]);

natives! {
    /// `(q, k, v, scale, [mask])`: channels are positions, rows are heads, columns are features. The softmax of
    /// `scale * q · kᵀ + mask` over the positions of `k`, times `v`. The mask is `[1, positions of q, 1 or heads, positions
    /// of k]`. Without `SubtractMax` the exponentials are taken as they are: they leave the range of half precision.
    Sdpa "SDPA" 4..=5 { "SubtractMax" Flag, "false"; }
    /// `(x)`: elements along `SortDimension` in the order of the first of the slices along `VectorDimension` that
    /// `SortIndices` names; equals keep their order. With `Indices`, the positions in place of the elements.
    Sort "Sort" 1..=1 {
        "Direction" Word(&["Ascending", "Descending"]), "";
        "SortDimension" AXIS, "";
        "VectorDimension" AXIS, "Channel";
        "SortIndices" Integers(0, 1 << 16), "[0]";
        "Indices" Flag, "false";
    }
    /// `(x)`: the first `K` elements in the order of [`Kind::Sort`], greatest first for `Max`, least first for `Min`.
    TopK "TopK" 1..=1 {
        "Type" Word(&["Max", "Min"]), "";
        "K" EXTENT, "";
        "SortDimension" AXIS, "";
        "VectorDimension" AXIS, "Channel";
        "SortIndices" Integers(0, 1 << 16), "[0]";
        "Indices" Flag, "false";
    }
    /// `(x)`: position of the extreme element, the first of equals: in each window of rows and columns, counted along its
    /// rows, or among the channels.
    ArgMinMax "ArgMinMax" 1..=1 {
        "Mode" Word(&["SpatialArgMax", "ChannelArgMax", "SpatialArgMin", "ChannelArgMin"]), "";
        "KernelWidth" EXTENT, "";
        "KernelHeight" EXTENT, "";
        "PadLeft" PAD, "0";
        "PadRight" PAD, "0";
        "PadTop" PAD, "0";
        "PadBot" PAD, "0";
    }
    /// `(x)`: position of the extreme element along an axis, the first of equals.
    GlobalArgMinMax "GlobalArgMinMax" 1..=1 { "Type" Word(&["Max", "Min"]), ""; "Dimension" AXIS, ""; }
    /// `(x)`: channel `(c FactorY + i) FactorX + j` becomes row `i` and column `j` of the blocks of channel `c`.
    PixelShuffle "PixelShuffle" 1..=1 { "FactorX" FACTOR, ""; "FactorY" FACTOR, ""; "FactorZ" FACTOR, "1"; }
    /// `(x)`: the inverse of [`Kind::PixelShuffle`].
    PixelUnshuffle "PixelUnshuffle" 1..=1 { "FactorX" FACTOR, ""; "FactorY" FACTOR, ""; "FactorZ" FACTOR, "1"; }
    /// `(x)`: as [`Kind::PixelShuffle`] from channel `(i FactorX + j) C + c`, `C` being the channels of the result.
    ChannelToSpace "ChannelToSpace" 1..=1 { "FactorX" FACTOR, ""; "FactorY" FACTOR, ""; "FactorZ" FACTOR, "1"; }
    /// `(x)`: the inverse of [`Kind::ChannelToSpace`].
    SpaceToChannel "SpaceToChannel" 1..=1 { "FactorX" FACTOR, ""; "FactorY" FACTOR, ""; "FactorZ" FACTOR, "1"; }
    /// `(x)`: element `(i, j)` of every block of image `n` goes to image `(n FactorY + i) FactorX + j`.
    SpaceToBatch "SpaceToBatch" 1..=1 { "FactorX" FACTOR, ""; "FactorY" FACTOR, ""; "FactorZ" FACTOR, "1"; }
    /// `(x)`: the inverse of [`Kind::SpaceToBatch`].
    BatchToSpace "BatchToSpace" 1..=1 { "FactorX" FACTOR, ""; "FactorY" FACTOR, ""; "FactorZ" FACTOR, "1"; }
    /// `(x)`: `(x - min) / (max - min + Epsilon)` along an axis.
    MinMaxNorm "MinMaxNormalization" 1..=1 { "Dimension" ONE_AXIS, ""; "Epsilon" Half, ""; }
    /// `(x)`: `x / (K + Alpha / KernelChannel * sum of squares) ^ Beta`, sum and result over the first `KernelChannel`
    /// channels; the others are copied.
    Lrn "LocalResponseNormalization" 1..=1 {
        "Type" Word(&["Channel"]), "Channel";
        "KernelWidth" Integer(1, 1), "1";
        "KernelHeight" Integer(1, 1), "1";
        "KernelChannel" EXTENT, "";
        "Alpha" Half, "";
        "Beta" Real, "";
        "K" Real, "";
    }
    /// `(x, scale, bias)`: `x * scale + bias`, or `(x, bias)` with `BiasOnly`; both one number per channel.
    DynamicGoc "DynamicGOC" 2..=3 {
        "BiasOnly" Flag, "false";
        "Type" Word(&["TERNARY_DYNAMIC_GOC"]), "TERNARY_DYNAMIC_GOC";
    }
    /// `(x, template)`: sum of products of every window of one channel with the template, which is not flipped. The rows of the
    /// template are consecutive along its columns.
    CrossCorrelation "CrossCorrelation" 2..=2 {
        "TemplateWidth" EXTENT, "";
        "TemplateHeight" EXTENT, "";
        "PadLeft" PAD, "0";
        "PadRight" PAD, "0";
        "PadTop" PAD, "0";
        "PadBot" PAD, "0";
        "NumGroups" Integer(1, 1), "1";
    }
    /// `(x, z)`: cross product of vectors of three channels.
    CrossProduct "CrossProduct" 2..=2 { "Type" Word(&["CrossProduct"]), "CrossProduct"; }
    /// `(points)`: of points in columns with three channels each, the first, then repeatedly the point farthest from those
    /// selected. The distance is Euclidean for every metric.
    FurthestPointSampling "FurthestPointSampling" 1..=1 {
        "CentroidCount" Integer(2, 1024), "";
        "DistanceMetric" Word(&["L1", "L2"]), "L2";
    }
    /// `(centroids, points)`: row `i`, column `j` is 1 where point `i` is within `Radius` of centroid `j`, else 0.
    RadiusSearch "RadiusSearch" 2..=2 { "Radius" Real, ""; }
    /// `(aux, ref)`: channel `d` is the sum over channels of `|aux[x] - ref[x + d]|`.
    CostVolume "CostVolume" 2..=2 {
        "DisparityDirection" Integer(0, 0), "0";
        "DisparityRange" Integer(0, 1 << 12), "";
        "ScaleFactorX" Real, "1.0";
        "ScaleFactorY" Real, "1.0";
    }
    /// `(x, [start])`: a window of fixed size along axes from a start given at run time, one number per axis of
    /// `DynamicSliceAxisOrder`; outside the operand it reads `BackgroundValue`, or the border repeated.
    DynamicSlice "DynamicSlice" 1..=2 {
        "DynamicSliceAxisOrder" Axes, "";
        "DynamicSliceInfo" PerAxis("SliceSize", &[]), "";
        "CoordinateInfo" PerAxis("CoordinateMode", &["NonNormalized"]), "[]";
        "CoordinateMode" Word(&["NonNormalized"]), "NonNormalized";
        "PaddingInfo" PerAxis("PaddingMode", &["Background", "Border"]), "[]";
        "BackgroundValue" Real, "0.0";
    }
    /// `(x)`: repeated along its axes.
    Tile "Tile" 1..=1 {
        "TileBatch" FACTOR, "1";
        "TileChannel" FACTOR, "1";
        "TileHeight" FACTOR, "1";
        "TileWidth" FACTOR, "1";
    }
    /// `(x)`: all elements of an image along the columns, channels outermost or innermost.
    Flatten "Flatten" 1..=1 { "FlattenType" Word(&["NCHW", "NHWC"]), "NCHW"; "Mode" Word(&["NCHW", "NHWC"]), "NCHW"; }
    /// `(x)`: the same elements with other extents.
    Unflatten "Unflatten" 1..=1 {
        "Mode" Word(&["NCHW", "NHWC"]), "NCHW";
        "DestinationChannels" EXTENT, "";
        "DestinationHeight" EXTENT, "";
        "DestinationWidth" EXTENT, "";
    }
    /// `(x)`: `x`, since inference drops no elements.
    Dropout "Dropout" 1..=1 { "DropoutRate" Real, "0.0"; "Seed" Integer(0, 1 << 31), "0"; }
    /// `(x, z)`: product of the matrices of channels by columns, for each row, over the columns of `x` and the channels of `z`.
    /// A flag exchanges the channels and columns of its operand.
    MatrixMult "MatrixMultiplication" 2..=2 { "TransposeLhs" Flag, "false"; "TransposeRhs" Flag, "false"; }
    /// `(x)`: normalized to mean 0 and variance 1 over axes; with groups, over the channels of each group.
    LayerNorm "LayerNormalization" 1..=1 { "Dimension" Axes, ""; "Epsilon" Half, ""; "NumGroups" EXTENT, "1"; }
    /// `(x)`: normalized to mean 0 and variance 1 over rows and columns of each channel.
    InstanceNorm "InstanceNormalization" 1..=1 { "Epsilon" Half, ""; }
    /// `(x)`: divided by the square root of `Epsilon` plus the sum of squares over axes.
    L2Norm "L2Normalization" 1..=1 { "Dimension" Axes, ""; "Epsilon" Half, ""; }
    /// `(x)`: padded along rows and columns.
    Pad "Padding" 1..=1 {
        "PadLeft" PAD, "0";
        "PadRight" PAD, "0";
        "PadTop" PAD, "0";
        "PadBot" PAD, "0";
        "PaddingMode" Word(&["Background", "Reflective", "Replication"]), "Background";
        "PaddingValue" Half, "0.0";
    }
    /// `(x, indices)`: the elements of `x`, with the position along one axis replaced by the index.
    Gather "Gather" 2..=2 { "GatherNDAxes" Axes, ""; }
    /// `(x)`: resampled to given rows and columns, with aligned corners or by half pixels.
    Resize "Resize" 1..=1 {
        "Height" EXTENT, "";
        "Width" EXTENT, "";
        "SamplingMethod" METHOD, "Linear";
        "AlignCorners" Flag, "false";
    }
    /// `(x, like)`: as [`Kind::Resize`] to the extents of the second operand.
    ResizeAs "ResizeAs" 2..=2 { "SamplingMethod" METHOD, "Linear"; "AlignCorners" Flag, "false"; }
    /// `(x, boxes)`: column `i` of the boxes is the top, left, bottom and right of a part of `x`, in elements; each part is
    /// resampled with aligned corners and becomes an image of the result.
    CropResize "CropResize" 2..=2 {
        "CropHeight" EXTENT, "";
        "CropWidth" EXTENT, "";
        "SamplingMethod" METHOD, "Linear";
        "PaddingMode" PADDING, "Background";
        "BackgroundValue" Real, "0.0";
    }
    /// `(x, warp)`: `x` at the positions in the warp's channels, in elements: columns and rows, or columns only.
    Resample "Resample" 2..=2 {
        "SamplingMethod" METHOD, "Linear";
        "PaddingMode" PADDING, "Background";
        "BackgroundValue" Real, "0.0";
    }
    /// `(x, matrix)`: `x` at `(m0 column + m1 row + m2, m3 column + m4 row + m5)`, the six numbers along the columns of the
    /// second operand.
    AffineTransform "AffineTransform" 2..=2 {
        "Height" EXTENT, "";
        "Width" EXTENT, "";
        "SamplingMethod" METHOD, "Linear";
        "PaddingMode" PADDING, "Background";
        "BackgroundValue" Real, "0.0";
    }
    /// `(state, x)`: the state with `x` written along `Dimension` from `Offset` on; with `Circular`, elements beyond the end
    /// wrap to the start.
    RingBufferWriter "RingBufferWriter" 2..=2 {
        "Dimension" ONE_AXIS, "";
        "Offset" PAD, "0";
        "Circular" Flag, "false";
    }
    /// `(state)`: `Size` elements along `Dimension` from `Offset` on; with `Circular`, the start follows the end.
    RingBufferReader "RingBufferReader" 1..=1 {
        "Dimension" ONE_AXIS, "";
        "Offset" PAD, "0";
        "Size" EXTENT, "";
        "Circular" Flag, "false";
    }
    /// `(x)`: the extents of `x`, batch first, along the columns.
    Shape "Shape" 1..=1 {}
}
