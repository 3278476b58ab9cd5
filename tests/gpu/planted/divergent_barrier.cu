// Half of the threads never come to the barrier.
extern "C" __global__ void planted(const float *input, float *output, int count) {
    __shared__ float values[64];
    values[threadIdx.x] = input[blockIdx.x * 64 + threadIdx.x];
#ifndef FIXED
    if (threadIdx.x < 32)
#endif
        __syncthreads();
    output[blockIdx.x * 64 + threadIdx.x] = values[threadIdx.x];
}
