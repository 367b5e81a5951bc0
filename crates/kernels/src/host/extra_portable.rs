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

    pub(crate) fn widened<V>(self, _: &[f16]) -> Option<V> {
        match self {}
    }

    pub(crate) fn rounded<V>(self, _: V, _: &mut [f16]) {
        match self {}
    }

    pub(crate) fn larger<V>(self, _: V, _: V) -> V {
        match self {}
    }

    pub(crate) fn smaller<V>(self, _: V, _: V) -> V {
        match self {}
    }

    pub(crate) fn pairs(self, _: [f32; 16], _: [f32; 16]) -> [[f32; 16]; 2] {
        match self {}
    }

    pub(crate) fn interleaved<V>(self, _: V, _: V) -> [V; 2] {
        match self {}
    }
}
