// What the softmax takes off the gradients of its scores: the sum of output times its gradient, of each query and head.

#include "cuda/common.cuh"

// `delta` [rows], of `output` and `gradient` [rows, width], a row for each query and head. A warp takes a row.
KERNEL attention_delta(const Storage *output, const Storage *gradient, float *delta, u32 rows, u32 width) {
    u32 row = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (row >= rows) {
        return;
    }
    u64 first = row * (u64)width;
    float sum = 0;
    for (u32 column = lane; column < width; column += WARP) {
        sum = fmaf(wide(output[first + column]), wide(gradient[first + column]), sum);
    }
    sum = warp_sum(sum);
    if (lane == 0) {
        delta[row] = sum;
    }
}
