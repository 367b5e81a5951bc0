use anemone_compile::Error;
use anemone_compile::testing::*;

fn view(buffer: u32, rows: usize, width: usize) -> View4 {
    let axis = |extent| Axis { extent, stride_bytes: ROW_ALIGN };
    View4 { buffer: BufferId(buffer), offset_bytes: 0, axes: [axis(1), axis(1), axis(rows)], width }
}

/// A copy of an input of three rows of five columns to scratch, and what is read of that.
fn graph(second: View4) -> Graph {
    let lead = vec![Axis { extent: 3, stride_bytes: ROW_ALIGN }];
    let port = View { buffer: BufferId(0), offset_bytes: 0, lead, width: 5 };
    let buffer = |role, port| Buffer {
        name: "b".into(),
        role,
        bytes: 3 * ROW_ALIGN,
        port,
        element_bytes: ELEMENT_BYTES,
        constant: None,
    };
    let copy = |source: View4, result: View4| Layer {
        name: "y".into(),
        kind: Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::None },
        sources: vec![source],
        broadcast: vec![[false; 3]],
        result,
        transpose: false,
        interleave: 1,
        source_interleave: 1,
        second_relu: false,
        turned: [false; 2],
    };
    let buffers = vec![buffer(Role::Input, Some(port)), buffer(Role::Scratch, None), buffer(Role::Output, None)];
    let layers = vec![copy(view(0, 3, 5), view(1, 3, 5)), copy(second, View4 { buffer: BufferId(2), ..second })];
    Graph { buffers, layers, ..Graph::default() }
}

#[test]
fn what_was_written_is_read() {
    assert_eq!(reads(&graph(view(1, 3, 5))), Ok(()));
    let part = View4 { offset_bytes: ROW_ALIGN, ..view(1, 2, 4) };
    assert_eq!(reads(&graph(part)), Ok(()));
}

#[test]
fn columns_and_rows_beyond_an_operand_are_found() {
    let at = |graph: Graph| match reads(&graph) {
        Err(Error::Reads { at_bytes, row_bytes, .. }) => (at_bytes, row_bytes),
        other => panic!("{other:?}"),
    };
    // A sixth column is padding between rows; a fourth row is behind the operand.
    assert_eq!(at(graph(view(1, 3, 6))), (0, 12));
    assert_eq!(at(graph(view(1, 4, 5))), (3 * ROW_ALIGN, 10));
    // The input has no sixth column either.
    assert_eq!(at(graph(view(0, 3, 6))), (0, 12));
    // The output is never written.
    assert_eq!(at(graph(view(2, 1, 1))), (0, 2));
}
