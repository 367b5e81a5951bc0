use anemone_engine::numerics::{Parameters, accumulator, rounding};
use anemone_facts::numerics::Model;

/// For each model, the parameters equal the rows that the facts name.
#[test]
fn models_compute_by_their_rows() {
    for model in Model::ALL {
        assert_eq!(model.accumulator().copied(), model.mac().map(accumulator));
        assert_eq!(model.adders().copied(), model.reduction().map(accumulator));
        assert_eq!(model.rounding().copied(), model.planar().map(rounding));
    }
}
