use super::Pieces;
use half::f16;
use pulp::Simd;

#[derive(Clone, Copy)]
pub(super) enum Longest {}

pub(super) fn of<S: Simd>(_: S) -> Option<Longest> {
    None
}

impl Longest {
    pub(super) fn widen(self, _: [f16; 16]) -> [f32; 16] {
        match self {}
    }

    pub(super) fn larger(self, _: [f32; 16], _: [f32; 16]) -> [f32; 16] {
        match self {}
    }

    pub(super) fn smaller(self, _: [f32; 16], _: [f32; 16]) -> [f32; 16] {
        match self {}
    }

    pub(super) fn in_common(self, _: [u32; 16], _: [u32; 16]) -> u16 {
        match self {}
    }

    pub(super) fn below(self, _: [u32; 16], _: [u32; 16]) -> u16 {
        match self {}
    }

    pub(super) fn places(self, _: u32, _: u16) -> [u32; 16] {
        match self {}
    }

    pub(super) fn pairs(self, _: [f32; 16], _: [f32; 16]) -> [[f32; 16]; 2] {
        match self {}
    }

    pub(super) fn interleave(self, _: [f32; 16], _: [f32; 16]) -> [[f32; 16]; 2] {
        match self {}
    }

    pub(super) fn widen_eight(self, _: [f16; 8]) -> [f32; 8] {
        match self {}
    }

    pub(super) fn round(self, _: [f32; 16]) -> [f16; 16] {
        match self {}
    }

    pub(super) fn round_eight(self, _: [f32; 8]) -> [f16; 8] {
        match self {}
    }

    pub(super) fn affine(self, _: [f32; 16], _: f32, _: f32) -> [f32; 16] {
        match self {}
    }

    pub(super) fn curve(self, _: &Pieces) -> CurveVectors {
        match self {}
    }
}

#[derive(Clone, Copy)]
pub(super) enum CurveVectors {}

impl CurveVectors {
    pub(super) fn values(&self, _: [f32; 16]) -> [f32; 16] {
        match *self {}
    }
}
