use anemone_program::e5::{Carried, HostCall, HostTensor, Mark, Repeat, Scanned, Source};

fn tensor(name: &str, shape: &[u64]) -> HostTensor {
    HostTensor { name: name.into(), storage: 3, shape: shape.to_vec() }
}

fn example() -> Repeat {
    Repeat {
        name: "sums".into(),
        turns: 3,
        carried: vec![Carried {
            start: Source::Constant(vec![0; 4]),
            now: tensor("now", &[2]),
            next: "next".into(),
            last: "last".into(),
        }],
        scanned: vec![Scanned {
            whole: Source::Tensor("x".into()),
            part: tensor("part", &[2, 2, 5]),
            axis: 1,
            backwards: true,
        }],
        collected: vec![Scanned {
            whole: Source::Tensor("all".into()),
            part: tensor("next", &[2]),
            axis: 0,
            backwards: false,
        }],
    }
}

#[test]
fn a_loop_comes_back_from_its_calls() {
    let repeat = example();
    let (begin, end) = (repeat.begin(), repeat.end());
    assert_eq!((Mark::of(&begin), Mark::of(&end)), (Some(Mark::Begin), Some(Mark::End)));
    assert_eq!(Repeat::of(&begin, &end), Ok(repeat));
    assert_eq!(begin.inputs, [tensor("x", &[2, 6, 5])]);
    let mut short = begin.clone();
    short.constants.pop();
    assert!(Repeat::of(&short, &end).is_err());
    for code in ["begin 0\n", "begin 3\ncarry constant\nscan tensor 3 forwards\n", "begin 3\nturn\n"] {
        assert!(Repeat::of(&HostCall { code: code.into(), ..begin.clone() }, &end).is_err(), "{code}");
    }
}

#[test]
fn parts_lie_in_runs() {
    let runs: Vec<_> = example().scanned[0].runs(0, 3).collect();
    assert_eq!(runs, [(20, 0, 10), (50, 10, 10)]);
}
