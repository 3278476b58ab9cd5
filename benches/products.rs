//! Matrix products of GPT-2 124M as shares of the machine's own rate, in turns: `cargo bench --bench products`.
//!
//! The rate is that of multiply-adds on operands that are not constant and lie in the first-level cache, with as many
//! sums at a time as the vector registers hold.

use std::hint::black_box;
use std::time::Instant;

use meshwright::execute::kernels::linear;
use meshwright::execute::matrix::{Matrix, MatrixMut};
use meshwright::execute::pool::Pool;
use meshwright::lower::kernel::Into;
use pulp::{Arch, Simd, WithSimd};

/// Rows, inputs and outputs of the model's linear layers at 4 x 256 tokens.
const LINEAR: [(usize, usize, usize); 5] =
    [(1024, 768, 768), (1024, 768, 2304), (1024, 768, 3072), (1024, 3072, 768), (1024, 768, 50304)];
const TURNS: usize = 15;
/// Depth of the panels that the loop reads again and again.
const DEPTH: usize = 192;
const REPEATS: usize = 10_000;

/// Numbers that do not repeat: what a product computes with changes how fast some processors run.
fn values(count: usize) -> Vec<f32> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Multiply-adds of `ROWS` broadcast numbers with `VECTORS` vectors for each depth.
struct Rate<'a> {
    left: &'a [f32],
    right: &'a [f32],
}

impl WithSimd for Rate<'_> {
    /// Multiply-adds done.
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        if S::REGISTER_COUNT >= 32 { self.turn::<S, 8, 3>(simd) } else { self.turn::<S, 6, 2>(simd) }
    }
}

impl Rate<'_> {
    #[inline(always)]
    fn turn<S: Simd, const ROWS: usize, const VECTORS: usize>(self, simd: S) -> usize {
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
        let width = size_of::<S::f32s>() / size_of::<f32>();
        let right = &S::as_simd_f32s(self.right).0[..DEPTH * VECTORS];
        let left = &self.left[..DEPTH * ROWS];
        for _ in 0..REPEATS {
            let panels = black_box(left).as_chunks::<ROWS>().0.iter().zip(right.as_chunks::<VECTORS>().0);
            for (left, right) in panels {
                for row in 0..ROWS {
                    let factor = simd.splat_f32s(left[row]);
                    for vector in 0..VECTORS {
                        sums[row][vector] = simd.mul_add_f32s(factor, right[vector], sums[row][vector]);
                    }
                }
            }
        }
        black_box(sums);
        REPEATS * DEPTH * ROWS * VECTORS * width
    }
}

/// FLOP/s of all threads of a pool that run the loop at once.
fn rate(pool: &rayon::ThreadPool, left: &[f32], right: &[f32]) -> f64 {
    let begin = Instant::now();
    let done = pool.broadcast(|_| Arch::new().dispatch(Rate { left, right }));
    2.0 * done.into_iter().sum::<usize>() as f64 / begin.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (left, right) = (values(DEPTH * 8), values(DEPTH * 48));
    println!(
        "| rows x inputs x outputs | threads | GFLOP/s of the loop | x Wt | dy W | dyt x | shares of the loop |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for threads in [1, cores] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        for (rows, inputs, outputs) in LINEAR {
            let turns = if outputs > 10_000 { 5 } else { TURNS };
            let turns = shape(&pool, (rows, inputs, outputs), turns, || rate(&pool, &left, &right));
            let of = |value: &dyn Fn(&[f64; 4]) -> f64| median(turns.iter().map(value).collect());
            let [forward, input, weight] = [1, 2, 3].map(|place| of(&|turn| turn[place] / 1e9));
            let shares = [1, 2, 3].map(|place| of(&|turn| turn[place] / turn[0]));
            println!(
                "| {rows} x {inputs} x {outputs} | {threads} | {:.0} | {forward:.0} | {input:.0} | {weight:.0} | {} |",
                of(&|turn| turn[0] / 1e9),
                shares.map(|share| format!("{share:.2}")).join(" "),
            );
        }
    }
}

/// FLOP/s in each turn: of the loop before and behind, and of the three products of a linear layer.
fn shape(
    pool: &rayon::ThreadPool,
    (rows, inputs, outputs): (usize, usize, usize),
    turns: usize,
    rate: impl Fn() -> f64,
) -> Vec<[f64; 4]> {
    let (x, dy, weight) = (values(rows * inputs), values(rows * outputs), values(outputs * inputs));
    let (mut y, mut dx, mut dweight) = (dy.clone(), x.clone(), weight.clone());
    let mut scratch = values(linear::scratch(rows, inputs, outputs));
    let pool = if pool.current_num_threads() == 1 { Pool::Serial } else { Pool::Threads(pool) };
    let speed = |work: &mut dyn FnMut()| {
        let begin = Instant::now();
        work();
        (2 * rows * inputs * outputs) as f64 / begin.elapsed().as_secs_f64()
    };
    let mut turn = || {
        let before = rate();
        let forward = speed(&mut || {
            let out = (MatrixMut::new(&mut y, outputs), Into::Set);
            linear::forward(pool, Matrix::new(&x, inputs), &weight, None, out, &mut scratch);
        });
        let input = speed(&mut || {
            let out = (MatrixMut::new(&mut dx, inputs), Into::Set);
            linear::input_gradient(pool, Matrix::new(&dy, outputs), &weight, out, &mut scratch);
        });
        let weight = speed(&mut || {
            let (dy, x) = (Matrix::new(&dy, outputs), Matrix::new(&x, inputs));
            linear::weight_gradient(pool, dy, x, (&mut dweight, Into::Set), &mut scratch);
        });
        [(before + rate()) / 2.0, forward, input, weight]
    };
    // The first turn touches everything for the first time.
    turn();
    (0..turns).map(|_| turn()).collect()
}
