// Tiles of bf16 matrices in shared memory: how they are filled, and how tensor cores take their operands from them.
#pragma once

#include "cuda/common.cuh"
#include "cuda/ptx.cuh"

// LINES lines of WIDTH elements. The chunks of 16 bytes of a line are permuted by its number, so that the eight rows of a
// matrix that a warp loads at once lie in different banks. Tiles begin at multiples of 128 bytes.
template <int LINES, int WIDTH>
struct Tile {
    static constexpr int CHUNKS = WIDTH / 8;
    static constexpr u32 BYTES = LINES * WIDTH * 2;
    static_assert(CHUNKS == 4 || CHUNKS % 8 == 0, "lines are 32 elements, or whole rows of banks");

    u32 address;

    __device__ __forceinline__ u32 at(int line, int chunk) const {
        int place = CHUNKS == 4 ? chunk ^ ((line >> 1) & 3) : chunk ^ (line & 7);
        return address + (line * CHUNKS + place) * 16;
    }

    // Fills the tile from a matrix whose lines are `stride` elements apart; what is outside of its `lines` lines and
    // `width` columns becomes zero. Without ALIGNED, addresses need not be multiples of 16 bytes, and nothing is under
    // way afterwards.
    template <int THREADS, bool ALIGNED>
    __device__ __forceinline__ void fill(const Bf16 *from, u64 stride, int lines, int width) const {
        constexpr int STEP = THREADS / CHUNKS;
        static_assert(STEP * CHUNKS == THREADS && LINES % STEP == 0, "every thread copies as many chunks");
        int chunk = threadIdx.x % CHUNKS, line = threadIdx.x / CHUNKS;
        int exists = min(max(width - chunk * 8, 0), 8);
        const Bf16 *source = from + line * stride + chunk * 8;
#pragma unroll
        for (int copy = 0; copy < LINES / STEP; copy++, line += STEP, source += STEP * stride) {
            int count = line < lines ? exists : 0;
            if (ALIGNED) {
                copy_async(at(line, chunk), count > 0 ? source : from, count * 2);
            } else {
                u16 values[8];
#pragma unroll
                for (int element = 0; element < 8; element++) {
                    values[element] = element < count ? source[element].bits : 0;
                }
                auto pair = [&](int first) { return values[first] | (u32)values[first + 1] << 16; };
                store_shared(at(line, chunk), make_uint4(pair(0), pair(2), pair(4), pair(6)));
            }
        }
    }

    // Operands begin at a line and a chunk that are multiples of 16 and 2. The left one (16, 16):
    __device__ __forceinline__ void left(u32 (&operand)[4], int line, int chunk) const {
        load_matrices(operand, matrices(line, chunk, threadIdx.x & 15, threadIdx.x >> 4 & 1));
    }

    // The left operand of which the tile holds the transposed matrix.
    __device__ __forceinline__ void left_transposed(u32 (&operand)[4], int line, int chunk) const {
        load_matrices_transposed(operand, matrices(line, chunk, (threadIdx.x & 7) | (threadIdx.x >> 1 & 8), threadIdx.x >> 3 & 1));
    }

    // Two right operands (16, 8), one beside the other.
    __device__ __forceinline__ void right(u32 (&operands)[4], int line, int chunk) const {
        load_matrices_transposed(operands, matrices(line, chunk, threadIdx.x & 15, threadIdx.x >> 4 & 1));
    }

    // Two right operands of which the tile holds the transposed matrices, one below the other.
    __device__ __forceinline__ void right_transposed(u32 (&operands)[4], int line, int chunk) const {
        load_matrices(operands, matrices(line, chunk, (threadIdx.x & 7) | (threadIdx.x >> 1 & 8), threadIdx.x >> 3 & 1));
    }

private:
    // `at` with the lane's own line and chunk added. The permutation is an exclusive or, so the chunk of the operand may
    // come after it: few addresses serve many operands.
    __device__ __forceinline__ u32 matrices(int line, int chunk, int own_line, int own_chunk) const {
        return (at(own_line, own_chunk) ^ (chunk & 7) * 16) + line * CHUNKS * 16 + chunk / 8 * 128;
    }
};

// Two neighbouring results (16, 8) become one left operand (16, 16) in bf16.
DEVICE void pack_left(u32 (&operand)[4], const float (&first)[4], const float (&second)[4]) {
    operand[0] = pack_bf16(first[0], first[1]);
    operand[1] = pack_bf16(first[2], first[3]);
    operand[2] = pack_bf16(second[0], second[1]);
    operand[3] = pack_bf16(second[2], second[3]);
}

// results (16, RIGHT) += lines of `left` from `line` on, times the transposed lines of `right`.
template <int LEFT, int RIGHT, int WIDTH>
DEVICE void add_products(float (&results)[RIGHT / 8][4], Tile<LEFT, WIDTH> left, int line, Tile<RIGHT, WIDTH> right) {
#pragma unroll 2
    for (int depth = 0; depth < WIDTH; depth += 16) {
        u32 own[4];
        left.left(own, line, depth / 8);
#pragma unroll
        for (int pair = 0; pair < RIGHT / 16; pair++) {
            u32 other[4];
            right.right_transposed(other, pair * 16, depth / 8);
            multiply_add(results[pair * 2], own, other[0], other[1]);
            multiply_add(results[pair * 2 + 1], own, other[2], other[3]);
        }
    }
}

// results (16, WIDTH) += weights, two neighbouring results (16, 8), times 16 lines of `right` from `line` on.
template <int LINES, int WIDTH>
DEVICE void add_weighted(float (&results)[WIDTH / 8][4], const float (&first)[4], const float (&second)[4],
                         Tile<LINES, WIDTH> right, int line) {
    u32 weights[4];
    pack_left(weights, first, second);
#pragma unroll
    for (int pair = 0; pair < WIDTH / 16; pair++) {
        u32 lines[4];
        right.right(lines, line, pair * 2);
        multiply_add(results[pair * 2], weights, lines[0], lines[1]);
        multiply_add(results[pair * 2 + 1], weights, lines[2], lines[3]);
    }
}

// Writes a warp's results (16, 8 · COLUMNS), times `scale`, to lines from `line` on of a matrix of `lines` lines whose pairs
// of elements are aligned, or adds them.
template <int COLUMNS>
DEVICE void store_results(Bf16 *to, u64 stride, int line, int lines, const float (&results)[COLUMNS][4], float scale,
                          u32 accumulate) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int own = line + half * 8 + lane / 4;
        if (own >= lines) {
            continue;
        }
        u32 *pairs = (u32 *)(to + own * stride) + lane % 4;
#pragma unroll
        for (int column = 0; column < COLUMNS; column++) {
            u32 before = accumulate ? pairs[column * 4] : 0;
            float first = __uint_as_float(before << 16), second = __uint_as_float(before & 0xffff0000);
            first = fmaf(results[column][half * 2], scale, first);
            second = fmaf(results[column][half * 2 + 1], scale, second);
            pairs[column * 4] = pack_bf16(first, second);
        }
    }
}
