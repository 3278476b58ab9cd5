//! What an emulator that counts says of a launch, where it is known beforehand.

use gpu::{Argument, Flops, Gpu, Launch, Order, Traffic};

/// As many multiply-adds in a thread as its number says.
const SOURCE: &str = "extern \"C\" __global__ void counted(const float *from, float *to) {\n\
    float sum = 1;\n\
    for (unsigned step = 0; step < threadIdx.x; step++) sum = fmaf(sum, from[threadIdx.x % 8], 1);\n\
    to[blockIdx.x * blockDim.x + threadIdx.x] = sum;\n\
    }\n";
const THREADS: u64 = 64;
const BLOCKS: u64 = 3;

fn launch() -> Launch {
    let [grid, block] = [BLOCKS, THREADS].map(|count| [count as u32, 1, 1]);
    Launch { kernel: "counted", grid, block, shared_bytes: 0 }
}

fn arguments(gpu: &mut Gpu) -> [Argument; 2] {
    let from = gpu.upload(&[0.5f32; 16]);
    [from, gpu.uninitialised::<f32>((THREADS * BLOCKS) as usize)].map(Argument::Buffer)
}

#[test]
fn what_is_executed_is_counted() {
    let mut gpu = Gpu::counting();
    let module = gpu.load_text("counted.cu", SOURCE, &[]).unwrap();
    let arguments = arguments(&mut gpu);
    let multiply_adds = BLOCKS * THREADS * (THREADS - 1) / 2;
    // The second launch counts anew.
    for _ in 0..2 {
        let counted = gpu.counted(module, &launch(), &arguments).unwrap();
        assert_eq!(counted.flops, Flops { single: 2 * multiply_adds, ..Flops::default() });
        let Traffic { read_once, written, written_once, .. } = counted.traffic;
        assert_eq!((read_once, written, written_once), (8 * 4, 4 * BLOCKS * THREADS, 4 * BLOCKS * THREADS));
    }
}

#[test]
fn kernels_that_do_not_count_are_refused() {
    let mut gpu = Gpu::emulated(Order::Forward, false);
    let module = gpu.load_text("counted.cu", SOURCE, &[]).unwrap();
    let arguments = arguments(&mut gpu);
    let text = gpu.counted(module, &launch(), &arguments).unwrap_err().to_string();
    assert!(text.contains("don't count"), "{text}");
}
