// A slot that is written again while other threads may still read it.
extern "C" __global__ void planted(const float *input, float *output, int count) {
    __shared__ float slot;
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        if (threadIdx.x == 0) slot = input[blockIdx.x * 64 + i];
        __syncthreads();
        sum += slot;
#ifdef FIXED
        __syncthreads();
#endif
    }
    output[blockIdx.x * 64 + threadIdx.x] = sum;
}
