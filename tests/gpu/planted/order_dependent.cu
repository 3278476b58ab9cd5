// A floating sum whose order is that of the threads.
extern "C" __global__ void planted(const float *input, float *output, int count) {
    __shared__ float sum, values[64];
    values[threadIdx.x] = input[blockIdx.x * 64 + threadIdx.x];
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
#ifdef FIXED
    if (threadIdx.x == 0)
        for (int i = 0; i < 64; i++) sum += values[i];
#else
    atomicAdd(&sum, values[threadIdx.x]);
#endif
    __syncthreads();
    if (threadIdx.x == 0) output[blockIdx.x] = sum;
}
