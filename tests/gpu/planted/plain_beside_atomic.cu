// The counter is set to zero while other threads may count already.
extern "C" __global__ void planted(const float *input, float *output, int count) {
    __shared__ int above;
    if (threadIdx.x == 0) above = 0;
#ifdef FIXED
    __syncthreads();
#endif
    if (input[blockIdx.x * 64 + threadIdx.x] > 0) atomicAdd(&above, 1);
    __syncthreads();
    if (threadIdx.x == 0) output[blockIdx.x] = above;
}
