//! Processors without the instructions: the type is uninhabited.

use half::f16;
use pulp::Simd;

#[derive(Clone, Copy)]
pub(crate) enum Extra {}

pub(crate) fn of<S: Simd>(_: S) -> Option<Extra> {
    None
}

impl Extra {
    pub(crate) fn widen(self, _: [f16; 16]) -> [f32; 16] {
        match self {}
    }

    pub(crate) fn widen_eight(self, _: [f16; 8]) -> [f32; 8] {
        match self {}
    }

    pub(crate) fn round(self, _: [f32; 16]) -> [f16; 16] {
        match self {}
    }

    pub(crate) fn round_eight(self, _: [f32; 8]) -> [f16; 8] {
        match self {}
    }

    pub(crate) fn larger_eight(self, _: [f32; 8], _: [f32; 8]) -> [f32; 8] {
        match self {}
    }

    pub(crate) fn larger(self, _: [f32; 16], _: [f32; 16]) -> [f32; 16] {
        match self {}
    }

    pub(crate) fn smaller_eight(self, _: [f32; 8], _: [f32; 8]) -> [f32; 8] {
        match self {}
    }

    pub(crate) fn smaller(self, _: [f32; 16], _: [f32; 16]) -> [f32; 16] {
        match self {}
    }

    pub(crate) fn pairs(self, _: [f32; 16], _: [f32; 16]) -> [[f32; 16]; 2] {
        match self {}
    }

    pub(crate) fn interleave(self, _: [f32; 16], _: [f32; 16]) -> [[f32; 16]; 2] {
        match self {}
    }

    pub(crate) fn interleave_eight(self, _: [f32; 8], _: [f32; 8]) -> [[f32; 8]; 2] {
        match self {}
    }
}
