// Products of bf16 matrices on tensor cores: c (=|+=) a · b (+ bias in each row), summed in f32 and rounded once.
//
// A block computes one tile of c. Tiles of both factors wait in a ring of STAGES buffers, filled asynchronously ahead of
// their use. -D options: TILE_M, TILE_N, TILE_K, WARPS_M, WARPS_N and STAGES; LEFT_TRANSPOSED if `a` holds the transposed
// left factor (k, m), RIGHT_TRANSPOSED if `b` holds the transposed right one (n, k); LEFT_UNALIGNED, RIGHT_UNALIGNED if
// its lines do not begin at multiples of 16 bytes; OUTPUT, the type of c.

#include "cuda/common.cuh"
#include "cuda/tile.cuh"

typedef OUTPUT Output;
#ifdef LEFT_TRANSPOSED
using Left = Tile<TILE_K, TILE_M>;
#else
using Left = Tile<TILE_M, TILE_K>;
#endif
#ifdef RIGHT_TRANSPOSED
using Right = Tile<TILE_N, TILE_K>;
#else
using Right = Tile<TILE_K, TILE_N>;
#endif
#ifdef LEFT_UNALIGNED
constexpr bool LEFT_ALIGNED = false;
#else
constexpr bool LEFT_ALIGNED = true;
#endif
#ifdef RIGHT_UNALIGNED
constexpr bool RIGHT_ALIGNED = false;
#else
constexpr bool RIGHT_ALIGNED = true;
#endif

constexpr int THREADS = WARPS_M * WARPS_N * 32;
// Rows and columns of a warp in units of a tensor core's result.
constexpr int ROWS = TILE_M / WARPS_M / 16;
constexpr int COLUMNS = TILE_N / WARPS_N / 8;
static_assert(ROWS * WARPS_M * 16 == TILE_M && COLUMNS % 2 == 0 && COLUMNS * WARPS_N * 8 == TILE_N, "warps share tiles");
// Rows of tiles that are computed at about the same time, so that they share columns of b in the cache.
constexpr u32 BAND = 8;

struct Place {
    int row, column;
};

// Where this block's tile begins.
DEVICE Place tile_of_block(u32 m, u32 n) {
    u32 rows = (m + TILE_M - 1) / TILE_M, columns = (n + TILE_N - 1) / TILE_N;
    u32 first = blockIdx.x / (BAND * columns) * BAND, within = blockIdx.x % (BAND * columns);
    u32 height = min(rows - first, BAND);
    return {(int)((first + within % height) * TILE_M), (int)(within / height * TILE_N)};
}

// Operands of one step of 16 along the depth.
DEVICE void load_left(u32 (&operand)[4], Left tile, int row, int depth) {
#ifdef LEFT_TRANSPOSED
    tile.left_transposed(operand, depth, row / 8);
#else
    tile.left(operand, row, depth / 8);
#endif
}

DEVICE void load_right(u32 (&operands)[4], Right tile, int column, int depth) {
#ifdef RIGHT_TRANSPOSED
    tile.right_transposed(operands, column, depth / 8);
#else
    tile.right(operands, depth, column / 8);
#endif
}

// One element of the result. Without a bias, `bias` is null.
DEVICE void finish(Output *c, float sum, const Bf16 *bias, u32 column, u32 accumulate) {
    if (bias != nullptr) {
        sum += wide(bias[column]);
    }
    *c = narrow<Output>(accumulate ? wide(*c) + sum : sum);
}

// Two elements side by side, whose place is aligned.
DEVICE void finish_pair(Output *c, float first, float second, const Bf16 *bias, u32 column, u32 accumulate) {
    if (bias != nullptr) {
        first += wide(bias[column]);
        second += wide(bias[column + 1]);
    }
    if (sizeof(Output) == sizeof(float)) {
        float2 *place = (float2 *)c;
        float2 before = accumulate ? *place : make_float2(0, 0);
        *place = make_float2(before.x + first, before.y + second);
    } else {
        u32 *place = (u32 *)c;
        u32 before = accumulate ? *place : 0;
        *place = pack_bf16(__uint_as_float(before << 16) + first, __uint_as_float(before & 0xffff0000) + second);
    }
}

// Strides are of lines, batch strides of the matrices of blockIdx.z, outer strides of the batches of blockIdx.y, all in
// elements. With a split_depth, blockIdx.z is a part of the depth instead, and c its share of the sum.
KERNEL __launch_bounds__(THREADS)
    gemm(const Bf16 *a, const Bf16 *b, Output *c, const Bf16 *bias, u32 m, u32 n, u32 k,
         u64 a_stride, u64 b_stride, u64 c_stride,
         u64 a_batch, u64 b_batch, u64 c_batch, u64 a_outer, u64 b_outer, u64 c_outer, u32 split_depth,
         u32 accumulate) {
    extern __shared__ __align__(128) u8 memory[];
    int depth = split_depth == 0 ? k : min(split_depth, k - min(k, blockIdx.z * split_depth));
    Place place = tile_of_block(m, n);
    int rows = m - place.row, columns = n - place.column;
    a += blockIdx.z * a_batch + blockIdx.y * a_outer;
    b += blockIdx.z * b_batch + blockIdx.y * b_outer;
    u32 left_memory = shared_address(memory), right_memory = left_memory + STAGES * Left::BYTES;
    auto fill = [&](int step) {
        int from = step * TILE_K, slot = step % STAGES;
        Left left = {left_memory + slot * Left::BYTES};
        Right right = {right_memory + slot * Right::BYTES};
        if (from < depth) {
#ifdef LEFT_TRANSPOSED
            left.fill<THREADS, LEFT_ALIGNED>(a + from * a_stride + place.row, a_stride, depth - from, rows);
#else
            left.fill<THREADS, LEFT_ALIGNED>(a + place.row * a_stride + from, a_stride, rows, depth - from);
#endif
#ifdef RIGHT_TRANSPOSED
            right.fill<THREADS, RIGHT_ALIGNED>(b + place.column * b_stride + from, b_stride, columns, depth - from);
#else
            right.fill<THREADS, RIGHT_ALIGNED>(b + from * b_stride + place.column, b_stride, depth - from, columns);
#endif
        }
        commit_copies();
    };

    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int warp_row = warp / WARPS_N * ROWS * 16, warp_column = warp % WARPS_N * COLUMNS * 8;
    float sums[ROWS][COLUMNS][4] = {};
#pragma unroll
    for (int step = 0; step < STAGES - 1; step++) {
        fill(step);
    }
    for (int step = 0; step * TILE_K < depth; step++) {
        // All have what was copied for this step, and none still reads the buffer that is filled next.
        wait_for_copies<STAGES - 2>();
        __syncthreads();
        fill(step + STAGES - 1);
        Left left = {left_memory + step % STAGES * Left::BYTES};
        Right right = {right_memory + step % STAGES * Right::BYTES};
#pragma unroll
        for (int part = 0; part < TILE_K; part += 16) {
            u32 lefts[ROWS][4], rights[COLUMNS / 2][4];
#pragma unroll
            for (int row = 0; row < ROWS; row++) {
                load_left(lefts[row], left, warp_row + row * 16, part);
            }
#pragma unroll
            for (int pair = 0; pair < COLUMNS / 2; pair++) {
                load_right(rights[pair], right, warp_column + pair * 16, part);
            }
#pragma unroll
            for (int row = 0; row < ROWS; row++) {
#pragma unroll
                for (int column = 0; column < COLUMNS; column++) {
                    const u32(&pair)[4] = rights[column / 2];
                    multiply_add(sums[row][column], lefts[row], pair[column % 2 * 2], pair[column % 2 * 2 + 1]);
                }
            }
        }
    }

    // Not before: the pointer would take registers of the loop.
    c += blockIdx.z * c_batch + blockIdx.y * c_outer;
    bool pairs = (c_stride % 2 | (u64)c % (2 * sizeof(Output))) == 0;
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int line = warp_row + row * 16 + half * 8 + lane / 4;
            Output *out = c + (place.row + line) * c_stride;
#pragma unroll
            for (int column = 0; column < COLUMNS; column++) {
                int at = warp_column + column * 8 + lane % 4 * 2, whole = place.column + at;
                float first = sums[row][column][half * 2], second = sums[row][column][half * 2 + 1];
                if (line >= rows || at >= columns) {
                    continue;
                }
                if (pairs && at + 1 < columns) {
                    finish_pair(out + whole, first, second, bias, whole, accumulate);
                } else {
                    finish(out + whole, first, bias, whole, accumulate);
                    if (at + 1 < columns) {
                        finish(out + whole + 1, second, bias, whole + 1, accumulate);
                    }
                }
            }
        }
    }
}
