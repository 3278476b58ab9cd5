// Two blocks write the same element.
extern "C" __global__ void planted(const float *input, float *output, int count) {
#ifdef FIXED
    int i = blockIdx.x * 64 + threadIdx.x;
#else
    int i = threadIdx.x;
#endif
    output[i] = input[i];
}
