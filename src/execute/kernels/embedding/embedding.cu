// Rows of a table by index, and their gradients; the table may be a shard of a larger one, whose row `first` it begins
// with.
#include "cuda/common.cuh"

// output[r] (=|+=) table[indices[r] − first]; indices outside the shard give rows of 0. A thread takes a run of a row.
KERNEL embedding_forward(const Storage *table, const u32 *indices, Storage *output, u32 rows, u32 width, u32 first,
                         u32 shard, u32 add) {
    Spot at = spot(thread_number(), rows, width);
    if (at.count == 0) {
        return;
    }
    u32 row = indices[at.row] - first;
    Run x = load(table + (u64)row * width + at.column, row < shard ? at.count : 0);
    Storage *to = output + (u64)at.row * width + at.column;
    if (add) {
        Run before = load(to, at.count);
#pragma unroll
        for (u32 lane = 0; lane < RUN; lane++) {
            x.values[lane] += before.values[lane];
        }
    }
    store(to, x, at.count);
}

// Rows that are added at a time.
const u32 TOGETHER = 4;

// table[indices[r] − first] += output_gradient[r], rows in order.
//
// The block of the first row that names an index adds all rows that do, for a run of columns a thread, so every element
// has one writer and its sum one order.
KERNEL embedding_gradient(const u32 *indices, const Storage *output_gradient, Gradient *table, u32 rows, u32 width,
                          u32 first, u32 shard) {
    // Rows of this block's index among those of one look, in order.
    __shared__ u32 found[1024];
    __shared__ u32 of_warps[MAX_WARPS];
    u32 index = indices[blockIdx.x], row_of_table = index - first;
    if (row_of_table >= shard) {
        return;
    }
    bool named_before = false;
    for (u32 row = threadIdx.x; row < blockIdx.x && !named_before; row += blockDim.x) {
        named_before = indices[row] == index;
    }
    if (__syncthreads_or(named_before)) {
        return;
    }
    u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    u32 column = (blockIdx.y * blockDim.x + threadIdx.x) * RUN, count = left(width, column);
    Gradient *to = table + (u64)row_of_table * width + column;
    Run sum = load(to, count);
    for (u32 start = blockIdx.x; start < rows; start += blockDim.x) {
        u32 row = start + threadIdx.x;
        bool names = row < rows && indices[row] == index;
        u32 names_in_warp = __ballot_sync(ALL, names);
        if (lane == 0) {
            of_warps[warp] = __popc(names_in_warp);
        }
        __syncthreads();
        u32 before = 0, all = 0;
        for (u32 other = 0; other < blockDim.x / WARP; other++) {
            before += other < warp ? of_warps[other] : 0;
            all += of_warps[other];
        }
        if (names) {
            found[before + __popc(names_in_warp & ((1u << lane) - 1))] = row;
        }
        __syncthreads();
        for (u32 next = 0; next < all; next += TOGETHER) {
            Run dy[TOGETHER];
#pragma unroll
            for (u32 ahead = 0; ahead < TOGETHER; ahead++) {
                bool there = next + ahead < all;
                u64 place = (u64)found[there ? next + ahead : next] * width + column;
                dy[ahead] = load(output_gradient + place, there ? count : 0);
            }
#pragma unroll
            for (u32 ahead = 0; ahead < TOGETHER; ahead++) {
#pragma unroll
                for (u32 place = 0; place < RUN; place++) {
                    sum.values[place] += dy[ahead].values[place];
                }
            }
        }
    }
    store(to, sum, count);
}
