//! Findings of `ane check` and the validators that check, compiler and load share.

mod lint;
mod units {
    //! Tests of single modules; the tree mirrors that of `src/`.

    mod legal;
}
mod validators;
