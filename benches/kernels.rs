//! How fast the kernels are: `cargo bench --bench kernels`. Products count an item for each FLOP, the rest bytes.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use half::bf16;
use meshwright::execute::element::{Element, Real};
use meshwright::execute::kernels::activation;
use meshwright::execute::kernels::adamw::{self, AdamW};
use meshwright::execute::kernels::cross_entropy::{self, STATISTICS, Shard};
use meshwright::execute::kernels::dropout::{Dropout, Place};
use meshwright::execute::kernels::norm::{self, InputGradient, Norm};
use meshwright::execute::kernels::{embedding, gradient_norm, linear, residual};
use meshwright::execute::matrix::{Matrix, MatrixMut};
use meshwright::execute::pool::Pool;
use meshwright::lower::kernel::Into;
use meshwright::model::layer::{Activation, NormKind};

/// Rows, inputs and outputs of GPT-2's linear layers.
const LINEAR: [(usize, usize, usize); 5] =
    [(1024, 768, 768), (1024, 768, 2304), (1024, 768, 3072), (1024, 3072, 768), (1024, 768, 50304)];
const ROWS: usize = 1024;
const WIDTH: usize = 768;
const WORDS: usize = 50304;

fn main() {
    divan::main();
}

fn values<T: Element>(count: usize) -> Vec<T> {
    (0..count).map(|at| T::narrow(T::Wide::of((at * 7919 % 1000) as f64 / 500.0 - 1.0))).collect()
}

/// Times `work` on one and two threads.
fn on<C: divan::counter::IntoCounter + Clone>(
    bencher: Bencher,
    threads: usize,
    counter: C,
    mut work: impl FnMut(Pool<'_>) + Send,
) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    let pool = if threads == 1 { Pool::Serial } else { Pool::Threads(&pool) };
    bencher.counter(counter).bench_local(|| work(pool));
}

#[divan::bench(types = [f32, bf16], consts = [1, 2], args = LINEAR, sample_count = 10, sample_size = 1)]
fn linear_forward<T: Element, const THREADS: usize>(
    bencher: Bencher,
    (rows, inputs, outputs): (usize, usize, usize),
) {
    let (x, weight) = (values::<T>(rows * inputs), values::<T>(outputs * inputs));
    let mut y = values::<T>(rows * outputs);
    let mut scratch = values(linear::scratch(rows, inputs, outputs));
    on(bencher, THREADS, ItemsCount::new(2 * rows * inputs * outputs), |pool| {
        let out = (MatrixMut::new(&mut y, outputs), Into::Set);
        linear::forward(pool, Matrix::new(&x, inputs), &weight, None, out, &mut scratch);
    });
}

#[divan::bench(types = [f32, bf16], consts = [1, 2], args = LINEAR, sample_count = 10, sample_size = 1)]
fn linear_input_gradient<T: Element, const THREADS: usize>(
    bencher: Bencher,
    (rows, inputs, outputs): (usize, usize, usize),
) {
    let (dy, weight) = (values::<T>(rows * outputs), values::<T>(outputs * inputs));
    let mut dx = values::<T>(rows * inputs);
    let mut scratch = values(linear::scratch(rows, inputs, outputs));
    on(bencher, THREADS, ItemsCount::new(2 * rows * inputs * outputs), |pool| {
        let out = (MatrixMut::new(&mut dx, inputs), Into::Set);
        linear::input_gradient(pool, Matrix::new(&dy, outputs), &weight, out, &mut scratch);
    });
}

#[divan::bench(types = [f32, bf16], consts = [1, 2], args = LINEAR, sample_count = 10, sample_size = 1)]
fn linear_weight_gradient<T: Element<Wide = f32>, const THREADS: usize>(
    bencher: Bencher,
    (rows, inputs, outputs): (usize, usize, usize),
) {
    let (dy, x) = (values::<T>(rows * outputs), values::<T>(rows * inputs));
    let mut dweight = values::<f32>(outputs * inputs);
    let mut scratch = values(linear::scratch(rows, inputs, outputs));
    on(bencher, THREADS, ItemsCount::new(2 * rows * inputs * outputs), |pool| {
        let out = (&mut dweight[..], Into::Add);
        linear::weight_gradient(pool, Matrix::new(&dy, outputs), Matrix::new(&x, inputs), out, &mut scratch);
    });
}

#[divan::bench(types = [f32, bf16], consts = [1, 2])]
fn layer_norm<T: Element, const THREADS: usize>(bencher: Bencher) {
    let norm = Norm { kind: NormKind::Layer, width: WIDTH, epsilon: 1e-5 };
    let (x, weight) = (values::<T>(ROWS * WIDTH), values::<T>(WIDTH));
    let (mut y, mut statistics) = (x.clone(), values(ROWS * 2));
    on(bencher, THREADS, BytesCount::new(2 * size_of_val(&x[..])), |pool| {
        norm::forward(pool, norm, &x, (Some(&weight), Some(&weight)), &mut y, Some(&mut statistics));
    });
}

#[divan::bench(types = [f32, bf16], consts = [1, 2])]
fn layer_norm_backward<T: Element, const THREADS: usize>(bencher: Bencher) {
    let norm = Norm { kind: NormKind::Layer, width: WIDTH, epsilon: 1e-5 };
    let (x, weight, statistics) = (values::<T>(ROWS * WIDTH), values::<T>(WIDTH), values(ROWS * 2));
    let (dy, mut dx) = (x.clone(), x.clone());
    on(bencher, THREADS, BytesCount::new(4 * size_of_val(&x[..])), |pool| {
        let gradient = InputGradient::Apart { dy: &dy, dx: &mut dx, write: Into::Add };
        norm::backward(pool, norm, &x, Some(&weight), Some(&statistics), gradient);
    });
}

#[divan::bench(types = [f32, bf16], consts = [1, 2])]
fn layer_norm_weight_gradient<T: Element, const THREADS: usize>(bencher: Bencher) {
    let norm = Norm { kind: NormKind::Layer, width: WIDTH, epsilon: 1e-5 };
    let (x, statistics) = (values::<T>(ROWS * WIDTH), values(ROWS * 2));
    let (mut dweight, mut dbias) = (values::<T>(WIDTH), values::<T>(WIDTH));
    on(bencher, THREADS, BytesCount::new(2 * size_of_val(&x[..])), |pool| {
        norm::weight_gradient(pool, norm, &x, Some(&statistics), &x, (&mut dweight, Some(&mut dbias)));
    });
}

const ACTIVATIONS: [Activation; 3] = [Activation::Gelu, Activation::GeluTanh, Activation::Silu];

#[divan::bench(types = [f32, bf16], consts = [1, 2], args = ACTIVATIONS)]
fn activation_forward<T: Element, const THREADS: usize>(bencher: Bencher, activation: Activation) {
    let x = values::<T>(ROWS * 4 * WIDTH);
    let mut y = x.clone();
    on(bencher, THREADS, BytesCount::new(2 * size_of_val(&x[..])), |pool| {
        activation::forward(pool, activation, &x, &mut y);
    });
}

#[divan::bench(types = [f32, bf16], consts = [1, 2], args = ACTIVATIONS)]
fn activation_backward<T: Element, const THREADS: usize>(bencher: Bencher, activation: Activation) {
    let x = values::<T>(ROWS * 4 * WIDTH);
    let mut gradient = x.clone();
    on(bencher, THREADS, BytesCount::new(3 * size_of_val(&x[..])), |pool| {
        activation::backward(pool, activation, &x, &mut gradient);
    });
}

#[divan::bench(types = [f32, bf16], consts = [1, 2], args = [false, true])]
fn residual_dropout<T: Element, const THREADS: usize>(bencher: Bencher, dropout: bool) {
    let x = values::<T>(ROWS * WIDTH);
    let mut out = x.clone();
    let rows: Vec<u32> = (0..ROWS as u32).collect();
    let place = Place { start: 0, rows: &rows, width: WIDTH as u64 };
    let dropout = dropout.then(|| (Dropout::new(0.1, 0, 0, 0), place));
    on(bencher, THREADS, BytesCount::new(3 * size_of_val(&x[..])), |pool| {
        residual::forward(pool, WIDTH, &x, (&x, Some(&x[..WIDTH])), dropout, &mut out);
    });
}

#[divan::bench(types = [f32, bf16], consts = [1, 2])]
fn embedding_backward<T: Element, const THREADS: usize>(bencher: Bencher) {
    let indices: Vec<u32> = (0..ROWS).map(|row| (row * 7919 % WORDS) as u32).collect();
    let (dy, mut dtable) = (values::<T>(ROWS * WIDTH), values::<T>(WORDS * WIDTH));
    on(bencher, THREADS, BytesCount::new(3 * size_of_val(&dy[..])), |pool| {
        embedding::backward(pool, WIDTH, &indices, &dy, (&mut dtable[..], 0));
    });
}

#[divan::bench(types = [f32, bf16], consts = [1, 2], sample_count = 10, sample_size = 1)]
fn cross_entropy_both_ways<T: Element, const THREADS: usize>(bencher: Bencher) {
    let shard = Shard { width: WORDS, vocabulary: 0..50257 };
    let targets: Vec<u32> = (0..ROWS).map(|row| (row * 7919 % WORDS) as u32).collect();
    let (mut logits, mut statistics) = (values::<T>(ROWS * WORDS), values(ROWS * STATISTICS));
    on(bencher, THREADS, BytesCount::new(3 * size_of_val(&logits[..])), |pool| {
        cross_entropy::forward(pool, &shard, &logits, &targets, &mut statistics);
        cross_entropy::backward(pool, &shard, &mut logits, &targets, &statistics, 1e-3);
    });
}

#[divan::bench(consts = [1, 2], sample_count = 5, sample_size = 1)]
fn adamw_124m<const THREADS: usize>(bencher: Bencher) {
    let count = 124_439_808;
    let (gradient, mut parameter) = (vec![0.5f32; count], vec![1f32; count]);
    let (mut m, mut v) = (vec![0f32; count], vec![0f32; count]);
    let adamw = AdamW {
        learning_rate: 3e-4,
        betas: (0.9, 0.95),
        epsilon: 1e-8,
        weight_decay: 0.1,
        step: 1,
        clip: 1.0,
    };
    on(bencher, THREADS, BytesCount::new(28 * count), |pool| {
        adamw::step(pool, &adamw, &gradient, &mut parameter, (&mut m, &mut v), None::<&mut [f32]>);
    });
}

#[divan::bench(types = [f32, bf16], consts = [1, 2], sample_count = 10, sample_size = 1)]
fn gradient_norm<T: Element, const THREADS: usize>(bencher: Bencher) {
    let gradient = values::<T>(1 << 24);
    on(bencher, THREADS, BytesCount::new(size_of_val(&gradient[..])), |pool| {
        divan::black_box(gradient_norm::square_sum(pool, &gradient));
    });
}
