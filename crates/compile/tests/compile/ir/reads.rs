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

/// A view at a drawn place, with drawn strides of which some contain each other.
fn drawn(buffer: u32, mut draw: impl FnMut(u64) -> u64) -> View4 {
    let offset_bytes = ELEMENT_BYTES * draw(12);
    let mut axis = || Axis {
        extent: 1 + draw(3) as usize,
        stride_bytes: ELEMENT_BYTES * [0, 1, 2, 3, 4, 6, 8, 12][draw(8) as usize],
    };
    let axes = [axis(), axis(), axis()];
    View4 { buffer: BufferId(buffer), offset_bytes, axes, width: 1 + draw(4) as usize }
}

/// Offsets of the elements of a view.
fn offsets(view: &View4) -> std::collections::HashSet<u64> {
    let [groups, channels, rows] = view.axes.map(|a| (0..a.extent as u64).map(move |i| i * a.stride_bytes));
    let starts =
        groups.flat_map(|g| channels.clone().map(move |c| g + c)).flat_map(|at| rows.clone().map(move |r| at + r));
    let row = |start: u64| (0..view.width as u64).map(move |i| view.offset_bytes + start + i * ELEMENT_BYTES);
    starts.flat_map(row).collect()
}

#[test]
fn drawn_views_are_accepted_if_every_element_was_written() {
    let mut seed = 56u64;
    let mut draw = |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut graph = graph(view(1, 3, 5));
        let mut layer = graph.layers.remove(0);
        graph.layers.clear();
        let mut written = std::collections::HashSet::new();
        for _ in 0..1 + draw(2) {
            layer.result = drawn(1, &mut draw);
            written.extend(offsets(&layer.result));
            graph.layers.push(layer.clone());
        }
        // The second read may be part of the first one.
        let mut all = true;
        for _ in 0..2 {
            let source = drawn(1, &mut draw);
            all &= offsets(&source).is_subset(&written);
            let result = View4 { buffer: BufferId(2), ..source };
            graph.layers.push(Layer { sources: vec![source], result, ..layer.clone() });
        }
        assert_eq!(
            reads(&graph).is_ok(),
            all,
            "{:?}",
            graph.layers.iter().map(|l| (l.sources[0], l.result)).collect::<Vec<_>>()
        );
        accepted += usize::from(all);
    }
    assert!(accepted > 500, "{accepted} accepted");
}
