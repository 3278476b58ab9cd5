// A store of 16 bytes to an address that is a multiple of 4 only.
extern "C" __global__ void planted(const float *input, float *output, int count) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i % 4 != 0) return;
#ifdef FIXED
    *(float4 *)(output + i) = make_float4(input[i], input[i + 1], input[i + 2], input[i + 3]);
#else
    if (i == 124) return;
    *(float4 *)(output + i + 1) = make_float4(input[i], input[i + 1], input[i + 2], input[i + 3]);
#endif
}
