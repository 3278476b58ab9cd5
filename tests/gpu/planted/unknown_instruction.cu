// An instruction that the translator doesn't know.
extern "C" __global__ void planted(const float *input, float *output, int count) {
#ifndef FIXED
    asm volatile("nanosleep.u32 1;");
#endif
    output[blockIdx.x * 64 + threadIdx.x] = input[blockIdx.x * 64 + threadIdx.x];
}
