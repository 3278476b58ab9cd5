// Shared memory is read by an instruction for global memory.
extern "C" __global__ void planted(const float *input, float *output, int count) {
    __shared__ float values[64];
    values[threadIdx.x] = input[blockIdx.x * 64 + threadIdx.x];
    float value;
#ifdef FIXED
    value = values[threadIdx.x];
#else
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(&values[threadIdx.x]) : "memory");
#endif
    output[blockIdx.x * 64 + threadIdx.x] = value;
}
