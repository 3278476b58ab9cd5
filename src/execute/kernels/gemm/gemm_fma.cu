// Products of matrices without tensor cores, for f32 and for factors of different types: c (=|+=) a · b (+ bias in each
// row). Every element is one chain of fused multiply-adds over the depth.
//
// A block of 256 threads computes a square tile of c, each thread a grid of 4x4 squares of it. -D options: LEFT, RIGHT and
// OUTPUT, the types of a (and of bias), b and c; TILE, 64 or 128; LEFT_TRANSPOSED if `a` holds the transposed left factor
// (k, m), RIGHT_TRANSPOSED if `b` holds the transposed right one (n, k).

#include "cuda/common.cuh"

const u32 THREADS = 256;
const u32 DEPTH = 16;
// Squares of a thread in each direction; they lie 64 apart.
const u32 SQUARES = TILE / 64;
// Elements that a thread loads of each tile.
const u32 LOADS = TILE * DEPTH / THREADS;
// Room behind each line keeps vectors aligned and spreads columns over the banks.
const u32 PITCH = TILE + 4;
#ifdef LEFT_TRANSPOSED
const bool LEFT_ALONG = true;
#else
const bool LEFT_ALONG = false;
#endif
#ifdef RIGHT_TRANSPOSED
const bool RIGHT_ALONG = false;
#else
const bool RIGHT_ALONG = true;
#endif

// Where element `load` of this thread lies in a tile: along rows of c (or its columns), and in depth. Neighbouring threads
// take neighbouring elements in memory.
template <bool ALONG> DEVICE void place_of(u32 load, u32 &across, u32 &depth) {
    u32 index = load * THREADS + threadIdx.x;
    across = ALONG ? index % TILE : index / DEPTH;
    depth = ALONG ? index / TILE : index % DEPTH;
}

template <bool ALONG, typename T>
DEVICE void fetch(float (&values)[LOADS], const T *from, u64 stride, u32 across_left, u32 depth_left) {
#pragma unroll
    for (u32 load = 0; load < LOADS; load++) {
        u32 across, depth;
        place_of<ALONG>(load, across, depth);
        bool exists = across < across_left && depth < depth_left;
        values[load] = exists ? wide(from[ALONG ? depth * stride + across : across * stride + depth]) : 0;
    }
}

template <bool ALONG> DEVICE void keep(float (*tile)[PITCH], const float (&values)[LOADS]) {
#pragma unroll
    for (u32 load = 0; load < LOADS; load++) {
        u32 across, depth;
        place_of<ALONG>(load, across, depth);
        tile[depth][across] = values[load];
    }
}

// Strides are of lines, batch strides of the matrices of blockIdx.z, outer strides of the batches of blockIdx.y, all in
// elements. Without a bias, it is null.
KERNEL __launch_bounds__(THREADS, 2)
    gemm_fma(const LEFT *a, const RIGHT *b, OUTPUT *c, const LEFT *bias, u32 m, u32 n, u32 k, u64 a_stride, u64 b_stride,
             u64 c_stride, u64 a_batch, u64 b_batch, u64 c_batch, u64 a_outer, u64 b_outer, u64 c_outer, u32 accumulate) {
    __shared__ __align__(16) float lefts[2][DEPTH][PITCH];
    __shared__ __align__(16) float rights[2][DEPTH][PITCH];
    u32 columns_of_tiles = (n + TILE - 1) / TILE, row_of_tiles = blockIdx.x / columns_of_tiles;
    // Not a remainder: it would take a register more.
    u32 row = row_of_tiles * TILE, column = (blockIdx.x - row_of_tiles * columns_of_tiles) * TILE;
    a += blockIdx.z * a_batch + blockIdx.y * a_outer + row * (LEFT_ALONG ? 1 : a_stride);
    b += blockIdx.z * b_batch + blockIdx.y * b_outer + column * (RIGHT_ALONG ? 1 : b_stride);
    u32 rows = m - row, columns = n - column;
    u32 thread_row = threadIdx.x / 16 * 4, thread_column = threadIdx.x % 16 * 4;
    float sums[4 * SQUARES][4 * SQUARES] = {};
    float next_left[LOADS], next_right[LOADS];
    auto fetch_both = [&](u32 from) {
        fetch<LEFT_ALONG>(next_left, a + from * (LEFT_ALONG ? a_stride : 1), a_stride, rows, k - from);
        fetch<RIGHT_ALONG>(next_right, b + from * (RIGHT_ALONG ? b_stride : 1), b_stride, columns, k - from);
    };
    if (k > 0) {
        fetch_both(0);
    }
    for (u32 from = 0, slot = 0; from < k; from += DEPTH, slot ^= 1) {
        keep<LEFT_ALONG>(lefts[slot], next_left);
        keep<RIGHT_ALONG>(rights[slot], next_right);
        // The other slot was read before this barrier, and is written only behind it.
        __syncthreads();
        if (from + DEPTH < k) {
            fetch_both(from + DEPTH);
        }
#pragma unroll
        for (u32 depth = 0; depth < DEPTH; depth++) {
            float left[4 * SQUARES], right[4 * SQUARES];
#pragma unroll
            for (u32 square = 0; square < SQUARES; square++) {
                *(float4 *)&left[square * 4] = *(const float4 *)&lefts[slot][depth][square * 64 + thread_row];
                *(float4 *)&right[square * 4] = *(const float4 *)&rights[slot][depth][square * 64 + thread_column];
            }
#pragma unroll
            for (u32 i = 0; i < 4 * SQUARES; i++) {
#pragma unroll
                for (u32 j = 0; j < 4 * SQUARES; j++) {
                    sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
                }
            }
        }
    }
    // Not before: the pointer would take registers of the loop.
    c += blockIdx.z * c_batch + blockIdx.y * c_outer;
#pragma unroll
    for (u32 i = 0; i < 4 * SQUARES; i++) {
        u32 line = i / 4 * 64 + thread_row + i % 4;
#pragma unroll
        for (u32 j = 0; j < 4 * SQUARES; j++) {
            u32 at = j / 4 * 64 + thread_column + j % 4;
            if (line < rows && at < columns) {
                OUTPUT *place = c + (row + line) * c_stride + column + at;
                float sum = sums[i][j] + (bias != nullptr ? wide(bias[column + at]) : 0);
                *place = narrow<OUTPUT>(accumulate ? wide(*place) + sum : sum);
            }
        }
    }
}
