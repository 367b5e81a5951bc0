use anemone_facts::code::*;
use anemone_facts::{Coding, Field};

#[test]
fn values_have_their_names() {
    let rows = [
        (Field::InFmt, format::UINT8, "uint8"),
        (Field::InFmt, format::INT8, "int8"),
        (Field::InFmt, format::FP16, "fp16"),
        (Field::KernelFmt, format::UINT8, "uint8"),
        (Field::KernelFmt, format::INT8, "int8"),
        (Field::KernelFmt, format::FP16, "fp16"),
        (Field::DstMemFmt, format::FP16, "fp16"),
        (Field::TaskClass, class::NEURAL, "ne"),
        (Field::TaskClass, class::PLANAR_ONE, "pe1"),
        (Field::TaskClass, class::PLANAR_TWO, "pe2"),
        (Field::TaskClass, class::PLANAR_AFFINE, "pe-affine"),
        (Field::TaskClass, class::PLANAR_REDUCE, "pe-reduce"),
        (Field::TaskClass, class::PLANAR_REDUCE_TWO, "pe-reduce2"),
        (Field::SrcType, residency::L2, "l2"),
        (Field::SrcType, residency::DMA_KEEP, "dma-l2"),
        (Field::SrcType, residency::DMA, "dma"),
        (Field::ResType, residency::CHAIN, "chain"),
        (Field::NeOpMode, neural::MAC, "mac"),
        (Field::NeOpMode, neural::MULTIPLY, "multiply"),
        (Field::NeOpMode, neural::MAX, "max"),
        (Field::NeOpMode, neural::BYPASS, "bypass"),
        (Field::KernelMode, kernel::REAL, "kernel"),
        (Field::KernelMode, kernel::UNITY, "unity"),
        (Field::NonlinearMode, nonlinear::NONE, "none"),
        (Field::NonlinearMode, nonlinear::RELU, "relu"),
        (Field::NonlinearMode, nonlinear::LUT, "lut"),
        (Field::PePool, pool::SUM, "sum"),
        (Field::PePool, pool::MAX, "max"),
        (Field::PeOp, planar::ADD, "add"),
        (Field::PeOp, planar::MUL, "mul"),
        (Field::PeOp, planar::MAX, "max"),
        (Field::PeOp, planar::MIN, "min"),
        (Field::PeOp, planar::SQUARE_SUM, "square-sum"),
        (Field::PeFirst, first::SOURCE, "src1"),
        (Field::PeFirst, first::NEGATED, "neg-src1"),
        (Field::PeSecond, second::NONE, "none"),
        (Field::PeSecond, second::SOURCE, "src2"),
        (Field::PeSecond, second::NEGATED, "neg-src2"),
        (Field::PeCond, condition::NONE, "none"),
        (Field::PeCond, condition::ABS, "abs"),
        (Field::PeNonlinear, planar_nonlinear::NONE, "none"),
        (Field::PeNonlinear, planar_nonlinear::RECIPROCAL, "reciprocal"),
        (Field::PeNonlinear, planar_nonlinear::RSQRT, "rsqrt"),
        (Field::PaddingMode, padding::NEGATIVE, "negative"),
    ];
    for (field, value, name) in rows {
        let Coding::Names(names) = field.info().coding else { panic!("{field:?} is not coded by names") };
        assert_eq!(names[value as usize], name, "{field:?}");
    }
}
