// One slot of shared memory is read that no thread writes.
extern "C" __global__ void planted(const float *input, float *output, int count) {
    __shared__ float values[64];
#ifndef FIXED
    if (threadIdx.x != 17)
#endif
        values[threadIdx.x] = input[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    output[blockIdx.x * 64 + threadIdx.x] = values[63 - threadIdx.x];
}
