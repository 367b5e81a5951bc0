//! Batches whose images are groups or channels of one task, and volumes that are resized as groups: exact results within a number of tasks
//! that one task for each image or plane would exceed.

use crate::few_tasks::{exact_in_few_tasks, filled};

/// Input type and operations of a network, the name of its result, and the largest number of tasks.
const CASES: [(&str, &str, &str, usize); 6] = [
    (
        "a strided convolution with biases and a limit",
        "f16[5, 3, 9, 7]",
        "const %w: f16[4, 3, 3, 3] = [W108]\n  const %b: f16[4] = [1.0, -2.0, 3.0, 4.0]\n  %c: f16[5, 4, 5, 4] = conv(%x0, %w, %b) strides=[2, 2] pads=[[1, 1], [1, 1]] dilations=[1, 1] groups=1\n  %y: f16[5, 4, 5, 4] = relu(%c)",
        1,
    ),
    (
        "a convolution by groups",
        "f16[5, 4, 9, 7]",
        "const %w: f16[6, 2, 3, 3] = [W108]\n  %y: f16[5, 6, 7, 5] = conv(%x0, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=2",
        1,
    ),
    (
        "a convolution of each channel",
        "f16[5, 4, 9, 7]",
        "const %w: f16[4, 1, 3, 3] = [W36]\n  const %b: f16[4] = [1.0, -2.0, 3.0, 4.0]\n  %y: f16[5, 4, 9, 7] = conv(%x0, %w, %b) strides=[1, 1] pads=[[1, 1], [1, 1]] dilations=[1, 1] groups=4",
        1,
    ),
    (
        "a convolution of each channel of a part",
        "f16[5, 6, 9, 7]",
        "const %w: f16[4, 1, 3, 3] = [W36]\n  %s: f16[5, 4, 9, 7] = slice(%x0) begin=[0, 1, 0, 0] end=[5, 5, 9, 7] stride=[1, 1, 1, 1]\n  %y: f16[5, 4, 9, 7] = conv(%s, %w) strides=[1, 1] pads=[[1, 1], [1, 1]] dilations=[1, 1] groups=4",
        5,
    ),
    (
        "a volume of twice the extents",
        "f16[2, 3, 4, 5, 6]",
        "%y: f16[2, 3, 8, 10, 12] = resize(%x0) mode=nearest coordinates=asymmetric",
        4,
    ),
    (
        "volumes of twice the extents beside others",
        "f16[2, 3, 4, 5, 6]",
        "%r: f16[2, 3, 8, 10, 12] = resize(%x0) mode=nearest coordinates=asymmetric\n  %n: f16[2, 3, 8, 10, 12] = neg(%r)\n  %y: f16[2, 6, 8, 10, 12] = concat(%r, %n) axis=1",
        7,
    ),
];

#[test]
fn images_share_a_task() {
    for (name, input, ops, most) in CASES {
        exact_in_few_tasks(name, &[input], &filled(ops), most);
    }
}
