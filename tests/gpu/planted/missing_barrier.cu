// A block sum that reads what other threads write, with no barrier between.
extern "C" __global__ void planted(const float *input, float *output, int count) {
    __shared__ float values[64];
    values[threadIdx.x] = 0;
    __syncthreads();
    values[threadIdx.x] = input[blockIdx.x * 64 + threadIdx.x];
#ifdef FIXED
    __syncthreads();
#endif
    if (threadIdx.x != 0) return;
    float sum = 0;
    for (int i = 0; i < 64; i++) sum += values[i];
    output[blockIdx.x] = sum;
}
