//! Loops that a pool's threads share, and sums, compiled for the widest vectors of this machine.

use crate::execute::element::{Element, Real};
use crate::execute::vector::{LANES, total};

/// Elements that are handed to a thread at least.
pub(super) const GRAIN: usize = 4096;

/// `closure` itself, so that one bound to a name can bear `#[inline(always)]`.
#[inline(always)]
pub(super) const fn bound<F>(closure: F) -> F {
    closure
}

/// A closure that what calls it takes in: what is not inlined into [`vectorised`] does not use its vectors.
macro_rules! inlined {
    (|$($argument:ident: $type:ty),*| $work:expr) => {
        $crate::execute::kernels::each::bound(
            #[inline(always)]
            |$($argument: $type),*| $work,
        )
    };
}

/// Does `$work` compiled for the widest vectors that this machine has: loops over slices in it then use them. Every
/// operation is rounded as written, so the results do not depend on the machine.
macro_rules! vectorised {
    ($work:expr) => {{
        let once = $crate::execute::kernels::each::Once;
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || {
                let _once = once;
                $work
            },
        )
    }};
}

/// A closure that moves this out can be called only once, so it is called directly. Any other is called through a small
/// function, which is not compiled for the same vectors.
pub(super) struct Once;

/// [`Pool::each`](crate::execute::pool::Pool::each) in the widest vectors.
macro_rules! each {
    ($pool:expr, $count:expr, $grain:expr, $parts:expr, |$range:pat_param, $part:pat_param| $work:expr) => {
        $pool.each($count, $grain, $parts, |$range, $part| {
            $crate::execute::kernels::each::vectorised!($work);
        })
    };
}

/// Does `$work` for each element of slices of one length, the first of which is written: a name is the slice outside
/// and its element inside, as in `each_element!(pool, |y, x| *y = *x)`.
macro_rules! each_element {
    ($pool:expr, |$first:ident $(, $other:ident)*| $work:expr) => {{
        use $crate::execute::kernels::each::{GRAIN, each, nested};
        use $crate::execute::pool::Rows;
        let (count, $first) = ($first.len(), Rows($first, 1));
        $(let $other = Rows($other, 1);)*
        each!($pool, count, GRAIN, nested!($first $(, $other)*), |_, nested!($first $(, $other)*)| {
            for nested!($first $(, $other)*) in $first.0.iter_mut()$(.zip($other.0))* {
                $work;
            }
        });
    }};
}

/// Pairs upon pairs, as one zip upon another makes them.
macro_rules! nested {
    ($pairs:tt) => { $pairs };
    ($pairs:tt, $next:ident $(, $rest:ident)*) => {
        $crate::execute::kernels::each::nested!(($pairs, $next) $(, $rest)*)
    };
}

pub(super) use {each, each_element, inlined, nested, vectorised};

/// The sum of `value` over a row, in partial sums.
#[inline(always)]
pub(super) fn sum<T: Element>(row: &[T], value: impl Fn(T::Wide) -> T::Wide) -> T::Wide {
    let mut lanes = [T::Wide::ZERO; LANES];
    let (blocks, rest) = row.as_chunks::<LANES>();
    for block in blocks {
        for lane in 0..LANES {
            lanes[lane] += value(block[lane].wide());
        }
    }
    lanes.iter_mut().zip(rest).for_each(|(lane, x)| *lane += value(x.wide()));
    total(lanes)
}
