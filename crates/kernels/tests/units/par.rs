use anemone_kernels::par::{busy_join, on_all_threads, share};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[test]
fn works_come_from_several_threads_and_a_panic_ends_one() {
    let sum = |n: usize| {
        let sum = AtomicUsize::new(0);
        on_all_threads(true, &mut || busy_join(n, &|i| _ = sum.fetch_add(i + 1, Relaxed)));
        sum.into_inner()
    };
    std::thread::scope(|scope| {
        for n in 1..5 {
            scope.spawn(move || (0..50).for_each(|i| assert_eq!(sum(10 * n + i), (10 * n + i) * (10 * n + i + 1) / 2)));
        }
    });
    assert!(catch_unwind(|| on_all_threads(true, &mut || panic!("of the test"))).is_err());
    assert_eq!(sum(100), 5050);
}

#[test]
fn every_item_is_done_once_and_a_panic_is_passed_on() {
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        for (count, awake) in [0, 1, 2, 50].into_iter().flat_map(|count| [(count, false), (count, true)]) {
            let mut items = vec![0; count];
            let parts: Vec<&mut usize> = items.iter_mut().collect();
            pool.install(|| share(parts, true, awake, &|i, item| *item += i + 1));
            assert!(items.iter().enumerate().all(|(i, item)| *item == i + 1), "{items:?}");
        }
        // A panic in the item that this thread takes, and in one that another thread takes.
        for bad in [0, 7] {
            let items: Vec<AtomicUsize> = (0..20).map(|_| AtomicUsize::new(0)).collect();
            let one = |i: usize| {
                items[i].fetch_add(1, Relaxed);
                assert!(i != bad);
            };
            let ended = catch_unwind(AssertUnwindSafe(|| pool.install(|| busy_join(items.len(), &one))));
            assert!(ended.is_err());
            assert!(items.iter().all(|item| item.load(Relaxed) <= 1));
        }
    }
}
