//! Descriptor of a native layer: its tensors with five axes, and the numbers that rules compare.

use anemone_facts::legal::Quantity;
use std::collections::BTreeMap;

/// A tensor of a layer: extents by axis.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the axes are what their names say
pub struct Tensor {
    pub batch: u64,
    pub depth: u64,
    pub channels: u64,
    pub height: u64,
    pub width: u64,
    /// Rank in the program.
    pub rank: usize,
    /// Element type as MIL spells it.
    pub element: String,
}

impl Tensor {
    /// Extents as the program has them, innermost axis last: `[N, C, D, H, W]`, `[N, C, H, W]`, `[C, H, W]`, `[H, W]`,
    /// `[W]`. Of a higher rank only the last five are kept.
    pub fn new(extents: &[usize], element: &str) -> Tensor {
        let rank = extents.len();
        let kept = &extents[rank.saturating_sub(5)..];
        let from_end = |i: usize| kept.len().checked_sub(i + 1).map_or(1, |at| kept[at] as u64);
        let (depth, channels, batch) = match kept.len() {
            5 => (from_end(2), from_end(3), from_end(4)),
            _ => (1, from_end(2), from_end(3)),
        };
        let element = element.to_string();
        Tensor { batch, depth, channels, height: from_end(1), width: from_end(0), rank, element }
    }

    /// A sequence `[N, C, W]`, the operand of a convolution or pooling with one spatial axis.
    pub fn sequence(extents: &[usize], element: &str) -> Tensor {
        match extents {
            &[n, c, w] => Tensor { rank: 3, ..Tensor::new(&[n, c, 1, w], element) },
            _ => Tensor::new(extents, element),
        }
    }

    /// Number of elements, saturating.
    pub fn elements(&self) -> u64 {
        [self.batch, self.depth, self.channels, self.height, self.width].iter().fold(1, |n, &d| n.saturating_mul(d))
    }
}

/// A native layer as a validator sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// Stem of its validator, such as `Conv`.
    pub kind: String,
    /// Name, for messages.
    pub name: String,
    /// A word that its reject strings may use, such as the name of a mode.
    pub word: String,
    /// Operands.
    pub bottoms: Vec<Tensor>,
    /// Results.
    pub tops: Vec<Tensor>,
    /// Numbers that the tensors do not determine.
    pub values: BTreeMap<Quantity, i64>,
}

impl Layer {
    /// A layer without tensors.
    pub fn new(kind: &str, name: &str) -> Layer {
        Layer { kind: kind.to_string(), name: name.to_string(), ..Layer::default() }
    }

    /// Adds an operand with these extents; see [`Tensor::new`].
    pub fn bottom(mut self, extents: &[usize], element: &str) -> Layer {
        self.bottoms.push(Tensor::new(extents, element));
        self
    }

    /// Adds a result with these extents.
    pub fn top(mut self, extents: &[usize], element: &str) -> Layer {
        self.tops.push(Tensor::new(extents, element));
        self
    }

    /// Adds a number.
    pub fn with(mut self, quantity: Quantity, value: i64) -> Layer {
        self.values.insert(quantity, value);
        self
    }

    /// A number of the layer, explicit or derived from its tensors.
    pub fn get(&self, quantity: Quantity) -> Option<i64> {
        if let Some(&value) = self.values.get(&quantity) {
            return Some(value);
        }
        let first = self.bottoms.first();
        let of = |read: fn(&Tensor) -> u64, tensor: Option<&Tensor>| tensor.map(|t| read(t) as i64);
        match quantity {
            Quantity::Operands => Some(self.bottoms.len() as i64),
            Quantity::Rank => self.bottoms.iter().chain(&self.tops).map(|t| t.rank as i64).max(),
            Quantity::InputBatch => of(|t| t.batch, first),
            Quantity::InputDepth => of(|t| t.depth, first),
            Quantity::InputChannels => of(|t| t.channels, first),
            Quantity::InputHeight => of(|t| t.height, first),
            Quantity::InputWidth => of(|t| t.width, first),
            Quantity::OutputChannels => of(|t| t.channels, self.tops.first()),
            Quantity::SecondDepth => of(|t| t.depth, self.bottoms.get(1)),
            _ => None,
        }
    }
}
