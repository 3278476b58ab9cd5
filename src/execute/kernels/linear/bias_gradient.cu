// Gradients of biases: the sums of the columns of the output's gradient, always added in the same order.
//
// A block takes 16 columns, in two runs: each of its 1024 threads sums a run over every 512th row, and then halves of the
// rows are added until one is left. A narrow gradient has few blocks, so a thread has four loads under way at a time.
// -D option beside the type of elements: OUTPUT, the type of the gradient.

#include "cuda/common.cuh"

const u32 RUNS = 2;
const u32 COLUMNS = RUNS * RUN;
const u32 ROWS = 512;
const u32 AT_ONCE = 4;

DEVICE void add(Run &sum, const Run &run) {
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        sum.values[lane] += run.values[lane];
    }
}

// bias (=|+=) the sums over rows of `gradient` (rows, columns), whose rows are `stride` elements apart.
KERNEL __launch_bounds__(RUNS *ROWS)
    bias_gradient(const Storage *gradient, OUTPUT *bias, u32 rows, u32 columns, u64 stride, u32 accumulate) {
    __shared__ float sums[ROWS][COLUMNS];
    u32 begin = threadIdx.x % RUNS * RUN, first = threadIdx.x / RUNS;
    u32 column = blockIdx.x * COLUMNS + begin, count = left(columns, column);
    const Storage *lines = gradient + column;
    Run sum = {};
    u32 row = first;
    if (count == RUN && is_aligned(lines) && (stride * sizeof(Storage) & 15) == 0) {
        for (; row + (AT_ONCE - 1) * ROWS < rows; row += AT_ONCE * ROWS) {
            Run runs[AT_ONCE];
#pragma unroll
            for (u32 index = 0; index < AT_ONCE; index++) {
                load_whole(runs[index], lines + (row + index * ROWS) * stride);
            }
#pragma unroll
            for (u32 index = 0; index < AT_ONCE; index++) {
                add(sum, runs[index]);
            }
        }
    }
    for (; row < rows; row += ROWS) {
        add(sum, load(lines + row * stride, count));
    }
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        sums[first][begin + lane] = sum.values[lane];
    }
    for (u32 half = ROWS / 2; half > 0; half /= 2) {
        __syncthreads();
        for (u32 index = threadIdx.x; index < half * COLUMNS; index += RUNS * ROWS) {
            sums[index / COLUMNS][index % COLUMNS] += sums[index / COLUMNS + half][index % COLUMNS];
        }
    }
    __syncthreads();
    u32 own = blockIdx.x * COLUMNS + threadIdx.x;
    if (threadIdx.x < COLUMNS && own < columns) {
        OUTPUT *place = bias + own;
        float total = sums[0][threadIdx.x];
        *place = narrow<OUTPUT>(accumulate ? wide(*place) + total : total);
    }
}
