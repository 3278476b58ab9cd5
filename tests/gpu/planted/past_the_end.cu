// The last thread reads one element behind its buffer.
extern "C" __global__ void planted(const float *input, float *output, int count) {
    int i = blockIdx.x * 64 + threadIdx.x;
#ifdef FIXED
    if (i + 1 >= count) { output[i] = input[i]; return; }
#endif
    output[i] = input[i] + input[i + 1];
}
