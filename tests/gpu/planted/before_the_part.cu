// The first thread reads what lies before the part of the buffer that it was given.
extern "C" __global__ void planted(const float *input, float *output, int count) {
    int i = blockIdx.x * 64 + threadIdx.x;
#ifdef FIXED
    if (i == 0) { output[i] = input[i]; return; }
#endif
    output[i] = input[i] + input[i - 1];
}
