// One element of the output is written by no thread.
extern "C" __global__ void planted(const float *input, float *output, int count) {
    int i = blockIdx.x * 64 + threadIdx.x;
#ifndef FIXED
    if (i != 77)
#endif
        output[i] = input[i];
}
