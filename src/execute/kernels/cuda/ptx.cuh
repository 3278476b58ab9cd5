// Instructions that CUDA C++ has no words for, as inline PTX: tensor cores, matrix loads and asynchronous copies.
// All of them exist since compute capability 8.0.
#pragma once

#include "cuda/common.cuh"

// An address in shared memory, as instructions of the shared space take it.
DEVICE u32 shared_address(const void *pointer) {
    return (u32)__cvta_generic_to_shared(pointer);
}

// Starts a copy of 16 bytes from global to shared memory, of which all behind the first `bytes` are zeros. Both
// addresses are multiples of 16.
DEVICE void copy_async(u32 to, const void *from, u32 bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
}

// Starts a copy of an aligned word of 4 bytes to shared memory.
DEVICE void copy_async_word(void *to, const void *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)) : "memory");
}

// Ends a group of asynchronous copies.
DEVICE void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most the newest PENDING groups of this thread are still under way.
template <int PENDING>
DEVICE void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

DEVICE void store_shared(u32 to, uint4 value) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
                 : "memory");
}

// Four 8x8 matrices of 16-bit elements, whose rows of 16 bytes lie where lanes 8i to 8i + 7 say for matrix i. A lane
// gets the elements of row lane / 4 in columns 2 (lane % 4) and the next.
DEVICE void load_matrices(u32 (&matrices)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(from));
}

// The same of the transposed matrices.
DEVICE void load_matrices_transposed(u32 (&matrices)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(from));
}

// sums += a · b, with a (16, 16) in bf16, b (16, 8) in bf16 and sums (16, 8) in f32. Of the sums, a lane has those of rows
// lane / 4 and lane / 4 + 8 in columns 2 (lane % 4) and the next.
DEVICE void multiply_add(float (&sums)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two numbers rounded to bf16, ties to even, the first in the low half.
DEVICE u32 pack_bf16(float low, float high) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

// 2 to the power of x, with a relative error of about 2^-22; tiny results are zero.
DEVICE float fast_exp2(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
