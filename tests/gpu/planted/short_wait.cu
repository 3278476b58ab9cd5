// Two groups of asynchronous copies, of which the wait leaves the second under way.
#include "cuda/ptx.cuh"
#ifdef FIXED
#define LEFT 0
#else
#define LEFT 1
#endif
extern "C" __global__ void planted(const float *input, float *output, int count) {
    __shared__ float first[64], second[64];
    copy_async_word(&first[threadIdx.x], &input[blockIdx.x * 64 + threadIdx.x]);
    commit_copies();
    copy_async_word(&second[threadIdx.x], &input[blockIdx.x * 64 + threadIdx.x]);
    commit_copies();
    wait_for_copies<LEFT>();
    output[blockIdx.x * 64 + threadIdx.x] = first[threadIdx.x] + second[threadIdx.x];
}
