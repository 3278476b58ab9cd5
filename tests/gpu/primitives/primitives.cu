// The warp's instructions one by one: registers go from and to global memory as they are, so that the tables of the
// manual say what belongs where. What the kernels use comes from their own header.
#include "cuda/ptx.cuh"

extern "C" __global__ void multiply_bf16(const u32 *a, const u32 *b, const float *c, float *d) {
    u32 lane = threadIdx.x, of_a[4];
    float sums[4];
    for (int i = 0; i < 4; i++) of_a[i] = a[4 * lane + i], sums[i] = c[4 * lane + i];
    multiply_add(sums, of_a, b[2 * lane], b[2 * lane + 1]);
    for (int i = 0; i < 4; i++) d[4 * lane + i] = sums[i];
}

extern "C" __global__ void multiply_tf32(const u32 *a, const u32 *b, const float *c, float *d) {
    u32 lane = threadIdx.x;
    const u32 *of_a = a + 4 * lane, *of_b = b + 2 * lane;
    float sums[4];
    for (int i = 0; i < 4; i++) sums[i] = c[4 * lane + i];
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(of_a[0]), "r"(of_a[1]), "r"(of_a[2]), "r"(of_a[3]), "r"(of_b[0]), "r"(of_b[1]));
    for (int i = 0; i < 4; i++) d[4 * lane + i] = sums[i];
}

// `rows` says for each lane which row of 16 bytes its address is.
extern "C" __global__ void load_matrix(const uint4 *memory, const u32 *rows, u32 *result, int count, int transposed) {
    __shared__ uint4 shared[64];
    u32 lane = threadIdx.x, matrices[4] = {0, 0, 0, 0};
    shared[lane] = memory[lane], shared[lane + 32] = memory[lane + 32];
    __syncthreads();
    u32 from = shared_address(&shared[rows[lane]]);
    if (count == 4 && transposed) load_matrices_transposed(matrices, from);
    if (count == 4 && !transposed) load_matrices(matrices, from);
    if (count == 2 && transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                     : "=r"(matrices[0]), "=r"(matrices[1]) : "r"(from));
    if (count == 2 && !transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                     : "=r"(matrices[0]), "=r"(matrices[1]) : "r"(from));
    if (count == 1 && transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(matrices[0]) : "r"(from));
    if (count == 1 && !transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(matrices[0]) : "r"(from));
    for (int i = 0; i < 4; i++) result[4 * lane + i] = matrices[i];
}

// Four copies of 16 bytes a thread in groups of their own, the last of which brings `bytes` and zeros behind.
extern "C" __global__ void copy_groups(const uint4 *from, uint4 *to, u32 bytes) {
    __shared__ uint4 shared[4][32];
    u32 lane = threadIdx.x;
    for (int group = 0; group < 4; group++) {
        copy_async(shared_address(&shared[group][lane]), &from[32 * group + lane], group == 3 ? bytes : 16);
        commit_copies();
    }
    wait_for_copies<2>();
    to[lane] = shared[0][lane], to[32 + lane] = shared[1][lane];
    wait_for_copies<0>();
    to[64 + lane] = shared[2][lane], to[96 + lane] = shared[3][lane];
}

extern "C" __global__ void pack(const float *low, const float *high, u32 *packed, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) packed[i] = pack_bf16(low[i], high[i]);
}

// Each mode of the shuffle by a distance, then the votes and the integer sum of the warp.
extern "C" __global__ void exchange(const u32 *values, u32 *result, u32 distance) {
    u32 lane = threadIdx.x, value = values[lane], all = 0xffffffffu;
    result[lane] = __shfl_xor_sync(all, value, distance);
    result[32 + lane] = __shfl_down_sync(all, value, distance);
    result[64 + lane] = __shfl_up_sync(all, value, distance);
    result[96 + lane] = __shfl_sync(all, value, distance, 8);
    result[128 + lane] = __ballot_sync(all, value & 1);
    result[160 + lane] = __reduce_add_sync(all, value);
    result[192 + lane] = __any_sync(all, value == 7) + 2 * __all_sync(all, value < 1000);
}
