//! Arrays made element by element. `array::map` and `array::from_fn` of the standard library go through fallible iterators: about 480 lines of
//! LLVM IR for each closure, ten times those of a loop.

/// [`array::map`] for two to four elements.
pub trait MapEach<T> {
    /// The array of results.
    type Of<U>;

    /// Maps the elements in ascending order.
    fn map_each<U>(self, f: impl FnMut(T) -> U) -> Self::Of<U>;
}

macro_rules! map_each {
    ($($count: literal: $($x: ident)+;)+) => {
        $(
            impl<T> MapEach<T> for [T; $count] {
                type Of<U> = [U; $count];

                #[inline(always)]
                fn map_each<U>(self, mut f: impl FnMut(T) -> U) -> [U; $count] {
                    let [$($x),+] = self;
                    [$(f($x)),+]
                }
            }
        )+
    };
}

map_each! {
    2: a b;
    3: a b c;
    4: a b c d;
}

/// [`std::array::from_fn`] for elements that can be copied. `of(0)` is called even if the array is empty.
#[inline(always)]
pub fn array_of<T: Copy, const N: usize>(mut of: impl FnMut(usize) -> T) -> [T; N] {
    let mut all = [of(0); N];
    for i in 1..N {
        all[i] = of(i);
    }
    all
}
