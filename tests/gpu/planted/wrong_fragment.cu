// A product on tensor cores whose second operand has its registers exchanged: A is the unit matrix twice side by side.
#include "cuda/ptx.cuh"
extern "C" __global__ void planted(const float *input, float *output, int count) {
    u32 lane = threadIdx.x, row = lane / 4, column = lane % 4 * 2, a[4], b[2];
    if (lane >= 32 || blockIdx.x > 0) return;
    float unit[2] = {row == column ? 1.0f : 0.0f, row == column + 1 ? 1.0f : 0.0f}, sums[4] = {0, 0, 0, 0};
    a[0] = a[3] = pack_bf16(unit[0], unit[1]);
    a[1] = a[2] = 0;
    for (int i = 0; i < 2; i++) {
        const float *from = input + (column + 8 * i) * 8 + row;
        b[i] = pack_bf16(from[0], from[8]);
    }
#ifdef FIXED
    multiply_add(sums, a, b[0], b[1]);
#else
    multiply_add(sums, a, b[1], b[0]);
#endif
    for (int i = 0; i < 4; i++) output[(row + i / 2 * 8) * 8 + column + i % 2] = sums[i];
}
