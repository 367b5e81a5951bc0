//! Tests of single modules; the tree mirrors that of `src/`.

mod build;
mod check;
mod compress;
mod eval;
mod infer;
mod loops;
mod mil;
mod netplist;
mod ops {
    mod unary;
}
mod opset;
mod read;
mod tensor {
    mod stored;
}
mod text;
