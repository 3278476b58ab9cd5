// The launch reads through the cache for unchanging data what it writes; the caller passes one buffer twice.
extern "C" __global__ void planted(const float *input, float *output, int count) {
    int i = blockIdx.x * 64 + threadIdx.x;
#ifdef FIXED
    output[i] = ((volatile const float *)input)[i] * 2;
#else
    output[i] = __ldg(input + i) * 2;
#endif
}
