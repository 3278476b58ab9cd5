// Blocks count together by updates that only the threads of one block need see.
extern "C" __global__ void planted(const float *input, float *output, int count) {
    int i = blockIdx.x * 64 + threadIdx.x;
#ifdef FIXED
    output[i] = input[i];
#else
    atomicExch_block(output + i, input[i]);
#endif
}
