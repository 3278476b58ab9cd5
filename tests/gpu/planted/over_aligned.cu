// Rows of 16 bytes in shared memory that is declared with the alignment of its elements.
extern "C" __global__ void planted(const float *input, float *output, int count) {
#ifdef FIXED
    __shared__ __align__(16) float values[64];
#else
    __shared__ float values[64];
#endif
    values[threadIdx.x] = input[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    if (threadIdx.x % 4 != 0) return;
    float4 four = *(const float4 *)&values[threadIdx.x];
    float *to = output + blockIdx.x * 64 + threadIdx.x;
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}
