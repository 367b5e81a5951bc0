//! Processors without vectors of 16 lanes: the types below are uninhabited.

use crate::params::{Curve, Reach};
use half::f16;
use pulp::Simd;

#[derive(Clone, Copy)]
enum Never {}

#[derive(Clone, Copy)]
pub(crate) struct Longest(Never);

pub(crate) fn of<S: Simd>(_: S) -> Option<Longest> {
    None
}

impl Longest {
    pub(crate) fn half(self) -> pulp::Scalar {
        match self.0 {}
    }

    pub(crate) fn widen(self, _: [f16; 16]) -> [f32; 16] {
        match self.0 {}
    }

    pub(crate) fn in_common(self, _: [u32; 16], _: [u32; 16]) -> u16 {
        match self.0 {}
    }

    pub(crate) fn below(self, _: [u32; 16], _: [u32; 16]) -> u16 {
        match self.0 {}
    }

    pub(crate) fn places(self, _: u32, _: u16) -> [u32; 16] {
        match self.0 {}
    }

    pub(crate) fn round(self, _: [f32; 16]) -> [f16; 16] {
        match self.0 {}
    }

    pub(crate) fn canonicalize(self, _: [f32; 16]) -> [f32; 16] {
        match self.0 {}
    }

    pub(crate) fn away_from_ties(self, _: [f32; 16]) -> [f32; 16] {
        match self.0 {}
    }

    pub(crate) fn shorten(self, _: [f32; 16]) -> [f32; 16] {
        match self.0 {}
    }

    pub(crate) fn store(self, _: u16, _: [f16; 16], _: &mut [f16; 16]) {
        match self.0 {}
    }

    pub(crate) fn times(self, _: [f32; 16], _: [f32; 16]) -> [f32; 16] {
        match self.0 {}
    }

    pub(crate) fn plus(self, _: [f32; 16], _: [f32; 16]) -> [f32; 16] {
        match self.0 {}
    }

    pub(crate) fn fused(self, _: [f32; 16], _: [f32; 16], _: [f32; 16]) -> [f32; 16] {
        match self.0 {}
    }

    pub(crate) fn curve(self, _: &Curve, _: &[f32; 32], _: &[f32; 32], _: Reach) -> CurveVectors {
        match self.0 {}
    }
}

#[derive(Clone, Copy)]
pub(crate) struct CurveVectors(Never);

impl CurveVectors {
    pub(crate) fn values<const AWAY: bool>(&self, _: [f32; 16]) -> [f32; 16] {
        match self.0 {}
    }

    pub(crate) fn values_above<const AWAY: bool>(&self, _: [f32; 16]) -> [f32; 16] {
        match self.0 {}
    }

    pub(crate) fn values_within(&self, _: [f32; 16]) -> [f32; 16] {
        match self.0 {}
    }
}
