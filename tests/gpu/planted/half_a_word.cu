// Two threads write the halves of a word, and one of them reads the whole: the other half may not be there yet.
extern "C" __global__ void planted(const float* input, float* output, int count) {
    __shared__ __align__(4) unsigned short halves[128];
    const int thread = threadIdx.x, other = thread ^ 1, first = blockIdx.x * blockDim.x;
    if (first + blockDim.x > count) return;
    volatile unsigned* words = reinterpret_cast<volatile unsigned*>(halves);
    words[thread] = 0;
    __syncthreads();
    halves[2 * thread] = __float_as_uint(2.0f * input[first + thread]) & 0xffff;
    halves[2 * other + 1] = __float_as_uint(2.0f * input[first + other]) >> 16;
#ifdef FIXED
    __syncthreads();
#endif
    output[first + thread] = __uint_as_float(words[thread]);
}
