//! The threads of one rank: kernels split rows of their output over them, never a sum, so results do not depend on
//! their number.

use std::ops::Range;

/// Threads that a rank's kernels may use.
#[derive(Clone, Copy, Debug)]
pub enum Pool<'a> {
    /// The calling thread alone.
    Serial,
    Threads(&'a rayon::ThreadPool),
}

/// Shares for each thread, so that one held up by others of the machine does not hold up all.
const SHARES: usize = 4;

impl Pool<'_> {
    /// How many threads there are.
    pub fn threads(&self) -> usize {
        match self {
            Self::Serial => 1,
            Self::Threads(pool) => pool.current_num_threads(),
        }
    }

    /// Runs `work` on a thread of the pool: kernels called in it hand out work without going through the queue that
    /// other threads hand in at, which allocates.
    pub fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match self {
            Self::Serial => work(),
            Self::Threads(pool) => pool.install(work),
        }
    }

    /// Runs `work(index of the first row, rows)` over `data`, cut into runs of whole rows of `width` elements.
    pub fn rows<T: Send>(&self, data: &mut [T], width: usize, work: impl Fn(usize, &mut [T]) + Sync) {
        let rows = data.len() / width.max(1);
        self.each(rows, 1, Rows(data, width), |range, part| work(range.start, part.0));
    }

    /// Runs `work(rows, their parts)` over runs of `count` rows, each run a multiple of `grain` long but the last.
    pub fn each<P: Cut>(&self, count: usize, grain: usize, parts: P, work: impl Fn(Range<usize>, P) + Sync) {
        let shares = (self.threads() * SHARES).min(count.div_ceil(grain.max(1)));
        match self {
            Self::Threads(pool) if self.threads() > 1 && shares > 1 => {
                pool.install(|| halve(0..count, grain, shares, parts, &work));
            }
            _ => work(0..count, parts),
        }
    }

    /// `part` of 0 … `count` − 1, combined two by two, halves upon halves: an order that threads do not change.
    /// None where `count` is 0.
    pub fn reduce<R: Send>(
        &self,
        count: usize,
        part: &(impl Fn(usize) -> R + Sync),
        combine: &(impl Fn(R, R) -> R + Sync),
    ) -> Option<R> {
        match self {
            _ if count == 0 => None,
            Self::Threads(pool) if self.threads() > 1 && count > 1 => {
                Some(pool.install(|| reduce(0..count, true, part, combine)))
            }
            _ => Some(reduce(0..count, false, part, combine)),
        }
    }
}

fn reduce<R: Send>(
    range: Range<usize>,
    together: bool,
    part: &(impl Fn(usize) -> R + Sync),
    combine: &(impl Fn(R, R) -> R + Sync),
) -> R {
    if range.len() == 1 {
        return part(range.start);
    }
    let middle = range.start + range.len() / 2;
    let left = || reduce(range.start..middle, together, part, combine);
    let right = || reduce(middle..range.end, together, part, combine);
    let (left, right) = if together { rayon::join(left, right) } else { (left(), right()) };
    combine(left, right)
}

/// Cuts `range` into `shares` runs, halves upon halves, and works on them side by side.
fn halve<P: Cut>(
    range: Range<usize>,
    grain: usize,
    shares: usize,
    parts: P,
    work: &(impl Fn(Range<usize>, P) + Sync),
) {
    let length = (range.len() * (shares / 2) / shares).next_multiple_of(grain);
    if shares < 2 || length == 0 || length >= range.len() {
        return work(range, parts);
    }
    let (left, right) = parts.cut(length);
    let middle = range.start + length;
    rayon::join(
        || halve(range.start..middle, grain, shares / 2, left, work),
        || halve(middle..range.end, grain, shares - shares / 2, right, work),
    );
}

/// Buffers that are cut at the same row, for threads to share.
pub trait Cut: Sized + Send {
    /// What stands before `row`, and the rest.
    fn cut(self, row: usize) -> (Self, Self);
}

/// A slice as rows of so many elements; the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Rows<D>(pub D, pub usize);

impl Cut for () {
    fn cut(self, _: usize) -> ((), ()) {
        ((), ())
    }
}

impl<T: Sync> Cut for Rows<&[T]> {
    fn cut(self, row: usize) -> (Self, Self) {
        let (head, tail) = self.0.split_at((row * self.1).min(self.0.len()));
        (Self(head, self.1), Self(tail, self.1))
    }
}

impl<T: Send> Cut for Rows<&mut [T]> {
    fn cut(self, row: usize) -> (Self, Self) {
        let at = (row * self.1).min(self.0.len());
        let (head, tail) = self.0.split_at_mut(at);
        (Self(head, self.1), Self(tail, self.1))
    }
}

impl<P: Cut> Cut for Option<P> {
    fn cut(self, row: usize) -> (Self, Self) {
        self.map(|part| part.cut(row)).unzip()
    }
}

macro_rules! cut_together {
    ($($part:ident $index:tt),*) => {
        impl<$($part: Cut),*> Cut for ($($part,)*) {
            fn cut(self, row: usize) -> (Self, Self) {
                let halves = ($(self.$index.cut(row),)*);
                (($(halves.$index.0,)*), ($(halves.$index.1,)*))
            }
        }
    };
}

cut_together!(A 0, B 1);
cut_together!(A 0, B 1, C 2);
cut_together!(A 0, B 1, C 2, D 3);
cut_together!(A 0, B 1, C 2, D 3, E 4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_worked_on_once_by_whole_grains() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        for (count, grain) in [(0, 1), (1, 1), (7, 2), (100, 1), (101, 8), (5, 16)] {
            for pool in [Pool::Serial, Pool::Threads(&pool)] {
                let mut seen = vec![0; count * 2];
                let rows: Vec<usize> = (0..count).collect();
                pool.each(
                    count,
                    grain,
                    (Rows(&mut seen[..], 2), Rows(&rows[..], 1)),
                    |range, (seen, rows)| {
                        assert!(range.start.is_multiple_of(grain));
                        assert_eq!(rows.0, range.clone().collect::<Vec<_>>());
                        assert_eq!(seen.0.len(), range.len() * 2);
                        seen.0.iter_mut().for_each(|times| *times += 1);
                    },
                );
                assert!(seen.iter().all(|&times| times == 1), "{count} {grain}: {seen:?}");
            }
        }
    }
}
