//! Results that several layers write in parts.

use crate::ir::*;
use anemone_program::order;

/// View of the whole that layers write in parts: consecutive channels with the same rows; or, with a single row, columns of
/// rows that are `width` wide, or one row each. `None` if the parts do not join.
pub(super) fn joined(mut parts: Vec<View4>, width: usize) -> Option<View4> {
    order::by_key(&mut parts, |part| part.offset_bytes);
    let first = *parts.first()?;
    let one_row = first.height() == 1;
    let rows = |part: &View4| if one_row { part.height() == 1 } else { part.axes[2] == first.axes[2] };
    let alone = |part: &View4| rows(part) && part.groups() == 1 && part.buffer == first.buffer;
    if !parts.iter().all(alone) {
        return None;
    }
    if one_row && parts.iter().all(|part| part.channels() == 1) {
        return joined_columns(&parts, width);
    }
    let channel = first.axes[1].stride_bytes;
    if let Some(view) = interleaved(&parts) {
        return Some(view);
    }
    let alike = |part: &View4| part.width == first.width && part.axes[1].stride_bytes == channel;
    if !parts.iter().all(alike) {
        return None;
    }
    let mut view = first;
    let next = |part: &View4| part.offset_bytes + part.channels() as u64 * channel;
    if parts.windows(2).all(|pair| pair[1].offset_bytes == next(&pair[0])) {
        view.axes[1].extent = parts.iter().map(View4::channels).sum();
        return Some(view);
    }
    if !one_row {
        return None;
    }
    let apart = parts[1].offset_bytes - first.offset_bytes;
    let even = parts
        .windows(2)
        .all(|pair| pair[1].offset_bytes - pair[0].offset_bytes == apart && pair[1].channels() == pair[0].channels());
    view.axes[2] = Axis { extent: parts.len(), stride_bytes: apart };
    (even && apart > 0).then_some(view)
}

/// Parts with every second, third or so channel of the whole.
fn interleaved(parts: &[View4]) -> Option<View4> {
    let first = *parts.first()?;
    let Axis { extent, stride_bytes } = first.axes[1];
    let apart = stride_bytes / parts.len() as u64;
    let alike = |part: &View4| part.axes == first.axes && part.width == first.width;
    let even = parts.windows(2).all(|pair| pair[1].offset_bytes - pair[0].offset_bytes == apart);
    if extent == 1
        || parts.len() == 1
        || apart * parts.len() as u64 != stride_bytes
        || !even
        || !parts.iter().all(alike)
    {
        return None;
    }
    let mut view = first;
    view.axes[1] = Axis { extent: extent * parts.len(), stride_bytes: apart };
    Some(view)
}

/// Rows that are written in ranges of columns, the same for each row.
fn joined_columns(parts: &[View4], width: usize) -> Option<View4> {
    let first = *parts.first()?;
    let mut rows: Vec<(u64, usize)> = Vec::new();
    for part in parts {
        match rows.last_mut() {
            Some((start, wide))
                if *start + *wide as u64 * ELEMENT_BYTES == part.offset_bytes && *wide + part.width <= width =>
            {
                *wide += part.width;
            }
            _ => rows.push((part.offset_bytes, part.width)),
        }
    }
    let mut view = View4 { width: rows[0].1, ..first };
    if let Some(second) = rows.get(1) {
        let apart = second.0 - rows[0].0;
        if !rows.windows(2).all(|w| w[1].0 - w[0].0 == apart && w[1].1 == w[0].1) || apart == 0 {
            return None;
        }
        view.axes[2] = Axis { extent: rows.len(), stride_bytes: apart };
    }
    Some(view)
}
