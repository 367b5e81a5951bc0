//! Einstein sums as transposes, reductions and one matrix product per step.

use super::{Builder, Built};
use crate::error::Error;
use crate::graph::ValueId;
use crate::ops::{Binary, ReduceKind};

/// A value with a letter for each axis.
struct Term {
    id: ValueId,
    letters: Vec<char>,
}

impl Builder {
    /// The sum of an equation such as `bij,bjk->bik`; without an arrow the result has the letters that occur once,
    /// sorted. An ellipsis stands for leading axes.
    pub fn einsum(&mut self, equation: &str, operands: &[ValueId]) -> Built {
        let plain: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match plain.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (plain.as_str(), None),
        };
        let sides: Vec<&str> = left.split(',').collect();
        if sides.len() != operands.len() || operands.is_empty() {
            let reason = format!("equation `{equation}` for {} operands", operands.len());
            return Err(self.unsupported("einsum", reason));
        }
        // Letters of the axes that an ellipsis covers: reserved ones, aligned at the last axis.
        let dots = |side: &str, rank: usize| rank.saturating_sub(side.replace("...", "").chars().count());
        let widest =
            sides.iter().zip(operands).map(|(s, &id)| if s.contains("...") { dots(s, self.rank(id)) } else { 0 });
        let widest = widest.max().unwrap_or(0);
        let spread = |side: &str, covered: usize| {
            let hidden: String = (widest - covered..widest).filter_map(|i| char::from_u32(0xE000 + i as u32)).collect();
            side.replacen("...", &hidden, 1).chars().collect::<Vec<char>>()
        };
        let mut terms = Vec::new();
        for (side, &id) in sides.iter().zip(operands) {
            let letters = spread(side, if side.contains("...") { dots(side, self.rank(id)) } else { 0 });
            if letters.len() != self.rank(id) {
                let reason = format!("`{side}` for an operand of rank {}", self.rank(id));
                return Err(self.unsupported("einsum", reason));
            }
            terms.push(self.diagonal(Term { id, letters })?);
        }
        let wanted = match right {
            Some(right) => spread(right, widest),
            None => {
                let mut all: Vec<char> = sides
                    .iter()
                    .zip(operands)
                    .flat_map(|(s, &id)| spread(s, if s.contains("...") { dots(s, self.rank(id)) } else { 0 }))
                    .collect();
                all.sort_unstable();
                let once = |c: &char| all.iter().filter(|d| *d == c).count() == 1 || *c >= '\u{E000}';
                let mut wanted: Vec<char> = all.iter().filter(|c| once(c)).copied().collect();
                wanted.dedup();
                // Axes of an ellipsis lead.
                let named = wanted.partition_point(|c| *c < '\u{E000}');
                wanted.rotate_left(named);
                wanted
            }
        };
        let mut rest = terms.into_iter();
        let mut sum = rest.next().ok_or_else(|| self.unsupported("einsum", "no operands"))?;
        let mut later: Vec<Term> = rest.collect();
        while !later.is_empty() {
            let next = later.remove(0);
            let keep: Vec<char> = wanted.iter().chain(later.iter().flat_map(|t| &t.letters)).copied().collect();
            sum = self.contract(sum, next, &keep)?;
        }
        let sum = self.sum_out(sum, &wanted)?;
        if let Some(missing) = wanted.iter().find(|c| !sum.letters.contains(c)) {
            return Err(self.unsupported("einsum", format!("`{missing}` of the result is in no operand")));
        }
        let perm: Vec<usize> = wanted.iter().filter_map(|c| sum.letters.iter().position(|d| d == c)).collect();
        if perm.len() != sum.letters.len() {
            return Err(self.unsupported("einsum", "a letter twice in the result"));
        }
        self.transpose(sum.id, &perm)
    }

    /// Replaces two axes of an operand with the same letter by their diagonal.
    fn diagonal(&mut self, mut term: Term) -> Result<Term, Error> {
        while let Some((i, j)) = (0..term.letters.len())
            .flat_map(|j| (0..j).map(move |i| (i, j)))
            .find(|&(i, j)| term.letters[i] == term.letters[j])
        {
            let shape = self.shape(term.id);
            let extent = shape[i];
            let (mut side, ones) = (vec![1; shape.len()], extent * shape[j]);
            (side[i], side[j]) = (extent, shape[j]);
            let mask = (0..ones).map(|k| k / shape[j] == k % shape[j]).collect();
            let mask = self.mask(side, mask);
            let zero = self.scalar(0.0, term.id);
            let kept = self.select(mask, term.id, zero)?;
            term.id = self.reduce(ReduceKind::Sum, kept, &[j], false)?;
            term.letters.remove(j);
        }
        Ok(term)
    }

    /// Sums over the axes that are not needed later.
    fn sum_out(&mut self, mut term: Term, keep: &[char]) -> Result<Term, Error> {
        let axes: Vec<usize> = (0..term.letters.len()).filter(|&i| !keep.contains(&term.letters[i])).collect();
        if !axes.is_empty() {
            term.id = self.reduce(ReduceKind::Sum, term.id, &axes, false)?;
            term.letters.retain(|c| keep.contains(c));
        }
        Ok(term)
    }

    /// Product of two terms, summed over the letters that both have and that are not needed later.
    fn contract(&mut self, x: Term, y: Term, keep: &[char]) -> Result<Term, Error> {
        let needed = |own: &Term, other: &Term| -> Vec<char> {
            own.letters.iter().filter(|c| keep.contains(c) || other.letters.contains(c)).copied().collect()
        };
        let (for_x, for_y) = (needed(&x, &y), needed(&y, &x));
        let (x, y) = (self.sum_out(x, &for_x)?, self.sum_out(y, &for_y)?);
        let shared = |c: &&char| y.letters.contains(c);
        let batch: Vec<char> = x.letters.iter().filter(shared).filter(|c| keep.contains(c)).copied().collect();
        let inner: Vec<char> = x.letters.iter().filter(shared).filter(|c| !keep.contains(c)).copied().collect();
        let rows: Vec<char> = x.letters.iter().filter(|c| !y.letters.contains(c)).copied().collect();
        let columns: Vec<char> = y.letters.iter().filter(|c| !x.letters.contains(c)).copied().collect();
        let extents = |b: &Builder, term: &Term, letters: &[char]| -> Vec<usize> {
            let shape = b.shape(term.id);
            let at = |c: &char| term.letters.iter().position(|d| d == c).map_or(1, |i| shape[i]);
            letters.iter().map(at).collect()
        };
        let mut letters = batch.clone();
        letters.extend(rows.iter().chain(&columns));
        if inner.is_empty() {
            // Nothing is summed: a product with broadcasting.
            let x = self.laid_out(&x, &letters)?;
            let y = self.laid_out(&y, &letters)?;
            return Ok(Term { id: self.binary(Binary::Mul, x, y)?, letters });
        }
        let flat = |extents: &[usize]| extents.iter().product::<usize>();
        // Shared axes may have an extent of one on either side.
        let (bx, by) = (extents(self, &x, &batch), extents(self, &y, &batch));
        let (ix, iy) = (extents(self, &x, &inner), extents(self, &y, &inner));
        if ix != iy {
            return Err(self.unsupported("einsum", format!("summed axes {ix:?} and {iy:?}")));
        }
        let (r, c) = (extents(self, &x, &rows), extents(self, &y, &columns));
        let order = |parts: [&[char]; 3]| parts.concat();
        let left = self.laid_out(&x, &order([&batch, &rows, &inner]))?;
        let right = self.laid_out(&y, &order([&batch, &inner, &columns]))?;
        let left = self.reshape(left, [bx.clone(), vec![flat(&r), flat(&ix)]].concat())?;
        let right = self.reshape(right, [by.clone(), vec![flat(&iy), flat(&c)]].concat())?;
        let product = self.matmul(left, right, false)?;
        let mut shape = self.shape(product);
        shape.truncate(batch.len());
        shape.extend(r.iter().chain(&c));
        Ok(Term { id: self.reshape(product, shape)?, letters })
    }

    /// The term with its axes in this order; missing axes have extent one.
    fn laid_out(&mut self, term: &Term, letters: &[char]) -> Built {
        let perm: Vec<usize> = letters.iter().filter_map(|c| term.letters.iter().position(|d| d == c)).collect();
        let id = self.transpose(term.id, &perm)?;
        let (shape, mut own) = (self.shape(id), 0);
        let extents = letters.iter().map(|c| {
            if !term.letters.contains(c) {
                return 1;
            }
            own += 1;
            shape[own - 1]
        });
        let extents: Vec<usize> = extents.collect();
        self.reshape(id, extents)
    }
}
