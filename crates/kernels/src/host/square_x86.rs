//! Transposition of squares of 32 by 32 elements in vector registers.

use crate::host::{self, SQUARE};
use bytemuck::cast;
use half::f16;
use std::arch::x86_64::{
    __m512i, _mm512_setzero_si512, _mm512_shuffle_i64x2, _mm512_unpackhi_epi16, _mm512_unpackhi_epi32,
    _mm512_unpackhi_epi64, _mm512_unpacklo_epi16, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

/// Edge length of a block.
const EIGHT: usize = 8;

/// In blocks of 8 by 8.
pub(super) fn turn(from: &[f16], to: &mut [[f16; SQUARE]], stride: usize) {
    for first in (0..SQUARE).step_by(EIGHT) {
        for i in (0..SQUARE).step_by(EIGHT) {
            let mut eights = [[f16::ZERO; EIGHT]; EIGHT];
            for (k, eight) in eights.iter_mut().enumerate() {
                eight.copy_from_slice(&from[(first + k) * stride + i..][..EIGHT]);
            }
            let Some(eights) = host::transpose_8x8(eights) else { return };
            for (to, eight) in to[i..].iter_mut().zip(eights) {
                to[first..][..EIGHT].copy_from_slice(&eight);
            }
        }
    }
}

/// Four blocks of 8 by 8 in each vector, whose lanes are then exchanged.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn turn_long(from: &[f16], to: &mut [[f16; SQUARE]], stride: usize) {
    let mut lanes = [[_mm512_setzero_si512(); EIGHT]; SQUARE / EIGHT];
    for (lanes, first) in lanes.iter_mut().zip((0..SQUARE).step_by(EIGHT)) {
        let line = |k: usize| -> __m512i {
            let mut line = [f16::ZERO; SQUARE];
            line.copy_from_slice(&from[(first + k) * stride..][..SQUARE]);
            cast(line)
        };
        let pairs = |x, y| [_mm512_unpacklo_epi16(x, y), _mm512_unpackhi_epi16(x, y)];
        let fours = |x, y| [_mm512_unpacklo_epi32(x, y), _mm512_unpackhi_epi32(x, y)];
        let all = |x, y| [_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y)];
        let [[ab0, ab1], [cd0, cd1]] = [pairs(line(0), line(1)), pairs(line(2), line(3))];
        let [[ef0, ef1], [gh0, gh1]] = [pairs(line(4), line(5)), pairs(line(6), line(7))];
        let [[left0, left1], [left2, left3]] = [fours(ab0, cd0), fours(ab1, cd1)];
        let [[right0, right1], [right2, right3]] = [fours(ef0, gh0), fours(ef1, gh1)];
        let transposed = [all(left0, right0), all(left1, right1), all(left2, right2), all(left3, right3)];
        lanes.copy_from_slice(transposed.as_flattened());
    }
    for k in 0..EIGHT {
        let [a, b, c, d] = [lanes[0][k], lanes[1][k], lanes[2][k], lanes[3][k]];
        let (ab0, cd0) = (_mm512_shuffle_i64x2::<0x44>(a, b), _mm512_shuffle_i64x2::<0x44>(c, d));
        let (ab1, cd1) = (_mm512_shuffle_i64x2::<0xee>(a, b), _mm512_shuffle_i64x2::<0xee>(c, d));
        let even = [_mm512_shuffle_i64x2::<0x88>(ab0, cd0), _mm512_shuffle_i64x2::<0x88>(ab1, cd1)];
        let odd = [_mm512_shuffle_i64x2::<0xdd>(ab0, cd0), _mm512_shuffle_i64x2::<0xdd>(ab1, cd1)];
        for half in 0..2 {
            to[2 * half * EIGHT + k] = cast(even[half]);
            to[(2 * half + 1) * EIGHT + k] = cast(odd[half]);
        }
    }
}
