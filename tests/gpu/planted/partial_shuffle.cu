// A shuffle that names lanes which have ended.
extern "C" __global__ void planted(const float *input, float *output, int count) {
    int i = blockIdx.x * 64 + threadIdx.x;
#ifndef FIXED
    if (threadIdx.x % 32 >= 16) return;
#endif
    output[i] = __shfl_xor_sync(0xffffffff, input[i], 1);
}
