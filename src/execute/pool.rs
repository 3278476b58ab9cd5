//! The threads of one rank: kernels split rows of their output over them, never a sum, so results do not depend on
//! their number.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

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
                inside(pool, || halve(0..count, grain, shares, parts, &work));
            }
            _ => work(0..count, parts),
        }
    }

    /// Runs `work(step, piece)` for the `pieces(step)` pieces of each of `steps` steps. Threads take pieces in order, and a
    /// piece begins when all of the steps before its own are done; so threads meet without falling asleep, and one that
    /// comes late holds up nobody.
    pub fn steps(
        &self,
        steps: usize,
        pieces: impl Fn(usize) -> usize + Sync,
        work: impl Fn(usize, usize) + Sync,
    ) {
        let (taken, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let run = || {
            let (mut step, mut before) = (0, 0);
            loop {
                let ticket = taken.fetch_add(1, Ordering::Relaxed);
                while step < steps && ticket >= before + pieces(step) {
                    before += pieces(step);
                    step += 1;
                }
                if step == steps {
                    return;
                }
                // Pieces that others took are being worked on, so this ends whatever else the machine does.
                wait(|| done.load(Ordering::Acquire) >= before);
                let _done = Done(&done);
                work(step, ticket - before);
            }
        };
        match self {
            Self::Threads(pool) if self.threads() > 1 => inside(pool, || fork(self.threads(), &run)),
            _ => run(),
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

/// Counts a piece as done, also one that panics: nobody waits for it then, and the panic ends all of the work.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// How often a thread looks before it lets others of its core run.
const LOOKS: usize = 1000;

fn wait(is_done: impl Fn() -> bool) {
    for look in 0.. {
        if is_done() {
            return;
        }
        if look < LOOKS { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}

/// Runs `work` so many times, on as many threads as are free.
fn fork(times: usize, work: &(dyn Fn() + Sync)) {
    if times < 2 {
        return work();
    }
    both(|| fork(times / 2, work), || fork(times - times / 2, work));
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

/// Cuts `range` into `shares` runs, halves upon halves, and works on them side by side. Work is called through a pointer: else
/// this, and rayon's part of it, would be compiled once more for each kernel.
fn halve<P: Cut>(
    range: Range<usize>,
    grain: usize,
    shares: usize,
    parts: P,
    work: &(dyn Fn(Range<usize>, P) + Sync),
) {
    let length = (range.len() * (shares / 2) / shares).next_multiple_of(grain);
    if shares < 2 || length == 0 || length >= range.len() {
        return work(range, parts);
    }
    let (left, right) = parts.cut(length);
    let middle = range.start + length;
    both(
        || halve(range.start..middle, grain, shares / 2, left, work),
        || halve(middle..range.end, grain, shares - shares / 2, right, work),
    );
}

/// Runs `work` on a thread of `pool`. Rayon gets a pointer: else its part would be compiled once more for each kernel.
fn inside(pool: &rayon::ThreadPool, work: impl FnOnce() + Send) {
    fn erased(pool: &rayon::ThreadPool, work: &mut (dyn FnMut() + Send)) {
        pool.install(work);
    }
    let mut work = Some(work);
    erased(pool, &mut || {
        if let Some(work) = work.take() {
            work();
        }
    });
}

/// Runs `left` and `right` side by side. Rayon gets pointers, so that its part is compiled once for all kernels.
pub fn both(left: impl FnOnce() + Send, right: impl FnOnce() + Send) {
    fn erased(left: &mut (dyn FnMut() + Send), right: &mut (dyn FnMut() + Send)) {
        rayon::join(left, right);
    }
    let (mut left, mut right) = (Some(left), Some(right));
    let mut left = || {
        if let Some(left) = left.take() {
            left();
        }
    };
    let mut right = || {
        if let Some(right) = right.take() {
            right();
        }
    };
    erased(&mut left, &mut right);
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

    #[test]
    fn a_step_begins_when_the_one_before_is_done() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        for pool in [Pool::Serial, Pool::Threads(&pool)] {
            // Every third step has no pieces.
            let pieces = |step: usize| step % 3 * 7;
            let done: Vec<AtomicUsize> = (0..40).map(|_| AtomicUsize::new(0)).collect();
            pool.steps(done.len(), pieces, |step, piece| {
                assert!(piece < pieces(step));
                for (before, done) in done.iter().enumerate().take(step) {
                    assert_eq!(done.load(Ordering::Relaxed), pieces(before), "step {before} before {step}");
                }
                done[step].fetch_add(1, Ordering::Relaxed);
            });
            assert!(done.iter().enumerate().all(|(step, done)| done.load(Ordering::Relaxed) == pieces(step)));
        }
    }

    #[test]
    fn a_piece_that_panics_ends_all_of_the_work() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let work = || Pool::Threads(&pool).steps(8, |_| 5, |step, piece| assert!((step, piece) != (3, 2)));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err());
    }
}
