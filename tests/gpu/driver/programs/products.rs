//! Products of matrices through cublasLt: right ones of all kinds, and what must not pass.

use crate::setup::{Setup, text};
use cudarc::cublaslt::result as lt;
use cudarc::cublaslt::sys::{
    self, cublasLtEpilogue_t as Epilogue, cublasLtMatmulDescAttributes_t as Of,
    cublasLtMatmulPreferenceAttributes_t as Wish, cudaDataType_t as Type,
};
use cudarc::driver::{CudaStream, result};
use gpu::compare::{from_bf16, to_bf16};
use std::ffi::c_void;

const WORKSPACE: usize = 4096;

/// output (3, 4) = left (3, depth) · right (depth, 4), and what else a product may have.
#[derive(Clone, Copy)]
struct Trial {
    depth: usize,
    bf16: bool,
    turned: [bool; 2],
    bias: bool,
    adds: bool,
    /// Columns begin at multiples of as many elements.
    alignment: usize,
    /// Of the workspace that was asked for, as much is passed.
    passed: usize,
}

const PLAIN: Trial = Trial {
    depth: 40,
    bf16: false,
    turned: [false; 2],
    bias: false,
    adds: false,
    alignment: 8,
    passed: WORKSPACE,
};

struct Matrix {
    at: u64,
    layout: sys::cublasLtMatrixLayout_t,
    values: Vec<f32>,
    stride: usize,
}

impl Matrix {
    /// Small whole numbers, which no type rounds.
    fn new(
        setup: &Setup,
        trial: Trial,
        (rows, columns): (usize, usize),
        seed: usize,
    ) -> Result<Self, String> {
        let stride = rows.next_multiple_of(trial.alignment);
        let values: Vec<f32> = (0..stride * columns).map(|at| ((at * 7 + seed) % 5) as f32 - 2.0).collect();
        let at = setup.allocate(values.len())?;
        let kind = if trial.bf16 { Type::CUDA_R_16BF } else { Type::CUDA_R_32F };
        if trial.bf16 {
            let halves: Vec<u16> = values.iter().map(|value| to_bf16(*value)).collect();
            unsafe { result::memcpy_htod_sync(at, &halves) }.map_err(text)?;
        } else {
            unsafe { result::memcpy_htod_sync(at, &values) }.map_err(text)?;
        }
        setup.context.synchronize().map_err(text)?;
        let layout =
            lt::create_matrix_layout(kind, rows as u64, columns as u64, stride as i64).map_err(text)?;
        Ok(Matrix { at, layout, values, stride })
    }

    fn value(&self, row: usize, column: usize) -> f32 {
        self.values[column * self.stride + row]
    }
}

/// A product that is ready.
struct Ready {
    setup: Setup,
    trial: Trial,
    handle: sys::cublasLtHandle_t,
    product: sys::cublasLtMatmulDesc_t,
    left: Matrix,
    right: Matrix,
    output: Matrix,
    bias: Vec<f32>,
    algorithm: sys::cublasLtMatmulAlgo_t,
    workspace: u64,
}

impl Ready {
    fn new(trial: Trial) -> Result<Ready, String> {
        let setup = Setup::new(0)?;
        let handle = lt::create_handle().map_err(text)?;
        let turned = |(rows, columns), turn| if turn { (columns, rows) } else { (rows, columns) };
        let left = Matrix::new(&setup, trial, turned((3, trial.depth), trial.turned[0]), 1)?;
        let right = Matrix::new(&setup, trial, turned((trial.depth, 4), trial.turned[1]), 2)?;
        let output = Matrix::new(&setup, trial, (3, 4), 3)?;
        let sums = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
        let product = lt::create_matmul_desc(sums, Type::CUDA_R_32F).map_err(text)?;
        let set = |of, value: *const c_void, bytes| {
            unsafe { lt::set_matmul_desc_attribute(product, of, value, bytes) }.map_err(text)
        };
        let turns = trial.turned.map(i32::from);
        set(Of::CUBLASLT_MATMUL_DESC_TRANSA, (&raw const turns[0]).cast(), 4)?;
        set(Of::CUBLASLT_MATMUL_DESC_TRANSB, (&raw const turns[1]).cast(), 4)?;
        let mut bias = vec![];
        if trial.bias {
            let of_bias = Matrix::new(&setup, trial, (3, 1), 4)?;
            let epilogue = Epilogue::CUBLASLT_EPILOGUE_BIAS;
            set(Of::CUBLASLT_MATMUL_DESC_EPILOGUE, (&raw const epilogue).cast(), 4)?;
            set(Of::CUBLASLT_MATMUL_DESC_BIAS_POINTER, (&raw const of_bias.at).cast(), 8)?;
            bias = of_bias.values;
        }
        let preference = lt::create_matmul_pref().map_err(text)?;
        let most = WORKSPACE;
        let wish = Wish::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        unsafe { lt::set_matmul_pref_attribute(preference, wish, (&raw const most).cast(), 8) }
            .map_err(text)?;
        let layouts = [&left, &right, &output, &output].map(|matrix| matrix.layout);
        let [a, b, c, d] = layouts;
        let found = unsafe { lt::get_matmul_algo_heuristic(handle, product, a, b, c, d, preference) };
        let algorithm = found.map_err(text)?.algo;
        let workspace = setup.allocate(WORKSPACE / 4)?;
        Ok(Ready { setup, trial, handle, product, left, right, output, bias, algorithm, workspace })
    }

    fn submit(&self, stream: &CudaStream) -> Result<(), String> {
        let (scale, kept) = (1f32, if self.trial.adds { 1f32 } else { 0.0 });
        let at = |address: u64| address as *mut c_void;
        let Ready { left, right, output, .. } = self;
        unsafe {
            lt::matmul(
                self.handle,
                self.product,
                (&raw const scale).cast(),
                (&raw const kept).cast(),
                at(left.at),
                left.layout,
                at(right.at),
                right.layout,
                at(output.at),
                output.layout,
                at(output.at),
                output.layout,
                &self.algorithm,
                at(self.workspace),
                self.trial.passed,
                stream.cu_stream().cast(),
            )
        }
        .map_err(text)
    }

    /// What the output must be after `times` products.
    fn expect(&self, times: usize) -> Result<(), String> {
        let Ready { trial, left, right, output, .. } = self;
        let count = output.values.len();
        let mut found = vec![0f32; count];
        if trial.bf16 {
            let mut halves = vec![0u16; count];
            unsafe { result::memcpy_dtoh_sync(&mut halves, output.at) }.map_err(text)?;
            found = halves.into_iter().map(from_bf16).collect();
        } else {
            unsafe { result::memcpy_dtoh_sync(&mut found, output.at) }.map_err(text)?;
        }
        let turned = |turn: bool, matrix: &Matrix, row, column| {
            if turn { matrix.value(column, row) } else { matrix.value(row, column) }
        };
        for (row, column) in (0..4).flat_map(|column| (0..3).map(move |row| (row, column))) {
            let terms = (0..trial.depth).map(|depth| {
                turned(trial.turned[0], left, row, depth) * turned(trial.turned[1], right, depth, column)
            });
            let once = terms.sum::<f32>() + if trial.bias { self.bias[row] } else { 0.0 };
            let (kept, times) = if trial.adds { (output.value(row, column), times) } else { (0.0, 1) };
            let (expected, found) = (kept + times as f32 * once, found[column * output.stride + row]);
            if found != expected {
                return Err(format!("row {row}, column {column}: {found}, not {expected}"));
            }
        }
        Ok(())
    }
}

/// Every kind.
pub fn products() -> Result<(), String> {
    for index in 0..64 {
        let bit = |bit: usize| index >> bit & 1 == 1;
        let trial = Trial {
            depth: if bit(0) { 40 } else { 5 },
            bf16: bit(1),
            turned: [bit(2), bit(3)],
            bias: bit(4),
            adds: bit(5),
            ..PLAIN
        };
        let ready = Ready::new(trial)?;
        ready.submit(&*ready.setup.stream()?)?;
        ready.setup.context.synchronize().map_err(text)?;
        ready.expect(1).map_err(|error| format!("trial {index}: {error}"))?;
    }
    Ok(())
}

/// A graph with a product in it, three times.
pub fn in_a_graph() -> Result<(), String> {
    use cudarc::driver::sys::{CUstreamCaptureMode as Mode, cuGraphInstantiateWithFlags};
    let ready = Ready::new(Trial { adds: true, ..PLAIN })?;
    let stream = ready.setup.stream()?;
    let mode = Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    unsafe { result::stream::begin_capture(stream.cu_stream(), mode) }.map_err(text)?;
    ready.submit(&stream)?;
    let graph = unsafe { result::stream::end_capture(stream.cu_stream()) }.map_err(text)?;
    let mut executable = std::ptr::null_mut();
    unsafe { cuGraphInstantiateWithFlags(&mut executable, graph, 0) }.result().map_err(text)?;
    for _ in 0..3 {
        unsafe { result::graph::launch(executable, stream.cu_stream()) }.map_err(text)?;
    }
    ready.setup.context.synchronize().map_err(text)?;
    ready.expect(3)
}

/// Two streams add to the same output, and nothing puts one before the other.
pub fn without_order() -> Result<(), String> {
    let ready = Ready::new(Trial { adds: true, ..PLAIN })?;
    let (first, second) = (ready.setup.stream()?, ready.setup.stream()?);
    ready.submit(&first)?;
    ready.submit(&second)?;
    ready.setup.context.synchronize().map_err(text)
}

/// Lines that begin anywhere.
pub fn unaligned() -> Result<(), String> {
    Ready::new(Trial { bf16: true, alignment: 1, ..PLAIN }).map(drop)
}

/// Less workspace than the algorithm asked for.
pub fn little_workspace() -> Result<(), String> {
    let ready = Ready::new(Trial { passed: 64, ..PLAIN })?;
    ready.submit(&*ready.setup.stream()?)
}

/// An algorithm that was proposed for another product.
pub fn foreign_algorithm() -> Result<(), String> {
    let other = Ready::new(Trial { depth: 5, ..PLAIN })?;
    let ready = Ready { algorithm: other.algorithm, ..Ready::new(PLAIN)? };
    ready.submit(&*ready.setup.stream()?)
}

pub fn destroyed() -> Result<(), String> {
    let ready = Ready::new(PLAIN)?;
    unsafe { lt::destroy_matrix_layout(ready.left.layout) }.map_err(text)?;
    ready.submit(&*ready.setup.stream()?)
}

/// The program doesn't tell of the workspace.
pub fn outside_ranges() -> Result<(), String> {
    let ready = Ready::new(PLAIN)?;
    let stream = ready.setup.stream()?;
    let all = [&ready.left, &ready.right, &ready.output];
    let ranges = all.map(|matrix| (matrix.at, matrix.values.len() as u64 * 4, 3));
    crate::wrong::tell_ranges(&stream, &ranges)?;
    ready.submit(&stream)?;
    ready.setup.context.synchronize().map_err(text)
}

pub fn without_context() -> Result<(), String> {
    lt::create_handle().map(drop).map_err(text)
}
