//! The threads of one rank: kernels split rows of their output over them, never a sum, so results do not depend on
//! their number.

use rayon::prelude::*;

/// Threads that a rank's kernels may use.
#[derive(Clone, Copy, Debug)]
pub enum Pool<'a> {
    /// The calling thread alone.
    Serial,
    Threads(&'a rayon::ThreadPool),
}

impl Pool<'_> {
    /// How many threads there are.
    pub fn threads(&self) -> usize {
        match self {
            Self::Serial => 1,
            Self::Threads(pool) => pool.current_num_threads(),
        }
    }

    /// Runs `work(index of the first row, rows)` over `data`, cut into runs of whole rows of `width` elements.
    pub fn rows<T: Send>(&self, data: &mut [T], width: usize, work: impl Fn(usize, &mut [T]) + Sync) {
        let rows = data.len() / width.max(1);
        let share = rows.div_ceil(self.threads()).max(1);
        match self {
            Self::Threads(pool) if rows > 1 => pool.install(|| {
                data.par_chunks_mut(share * width)
                    .enumerate()
                    .for_each(|(turn, chunk)| work(turn * share, chunk));
            }),
            _ => work(0, data),
        }
    }
}
