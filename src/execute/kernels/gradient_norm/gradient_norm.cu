// Sums of squares that are the same to the bit however gradients are cut and in whichever order parts are added, and
// what follows from them.
//
// A sum is kept in bins: bin i adds up what squares are worth in whole multiples of its quantum, and those sums are
// exact (after Demmel and Nguyen, "Parallel reproducible summation", 2015, with bins fixed beforehand).
#include "cuda/common.cuh"

const u32 BINS = 4;

struct Bins {
    double sums[BINS];
};

// 1.5 · 2⁵² quanta, whose neighbours are one quantum apart: adding it rounds to whole quanta. Quanta are 2⁻¹⁰, 2⁻³⁰,
// 2⁻⁵⁰ and 2⁻⁷⁰.
DEVICE double shift_of(u32 bin) {
    return __longlong_as_double((1023ll + 42 - 20 * (long long)bin) << 52 | 1ll << 51);
}

DEVICE double total(const double *bins) {
    return ((bins[3] + bins[2]) + bins[1]) + bins[0];
}

// The sum over a block, stored by its first thread.
DEVICE void store_sum(Bins bins, double *to) {
#pragma unroll
    for (u32 bin = 0; bin < BINS; bin++) {
        double sum = block_sum(bins.sums[bin]);
        if (threadIdx.x == 0) {
            to[bin] = sum;
        }
    }
}

// Squares of `count` values, one row of `partials` [blocks, 4] a block.
KERNEL gradient_norm_squares(const Storage *values, double *partials, u64 count) {
    Bins bins = {};
    u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 place = thread_number() * RUN; place < count; place += threads * RUN) {
        Run x = load(values + place, left(count, place));
#pragma unroll
        for (u32 lane = 0; lane < RUN; lane++) {
            double value = x.values[lane], rest = value * value;
#pragma unroll
            for (u32 bin = 0; bin < BINS; bin++) {
                double shift = shift_of(bin), whole = (rest + shift) - shift;
                bins.sums[bin] += whole;
                rest -= whole;
            }
        }
    }
    store_sum(bins, partials + (u64)blockIdx.x * BINS);
}

// The rows of `partials` [rows, 4] of all parts, added up. One block.
KERNEL gradient_norm_sum(const double *partials, double *squares, u32 rows) {
    Bins bins = {};
    for (u32 row = threadIdx.x; row < rows; row += blockDim.x) {
#pragma unroll
        for (u32 bin = 0; bin < BINS; bin++) {
            bins.sums[bin] += partials[(u64)row * BINS + bin];
        }
    }
    store_sum(bins, squares);
}

// What gradients are multiplied by so that their norm is at most `limit`. One thread.
KERNEL gradient_norm_clip(const double *squares, double *clip, double limit) {
    *clip = fmin(limit / (sqrt(total(squares)) + 1e-6), 1.0);
}

// The weight of a loss by the norms of two gradients, each divided by what its loss started with. A weight that is not
// finite is written as it is, for whoever reads the numbers of the step to refuse. One thread.
KERNEL gradient_norm_loss_weight(const double *of, double of_start, const double *own, double own_start, double *weight) {
    double value = sqrt(total(of)) / of_start / (sqrt(total(own)) / own_start + 1e-4);
    value = value < 0.0 ? 0.0 : value;
    *weight = value > 1e4 ? 1e4 : value;
}

// Adds a sum of squares, divided by `width`, to a number of the step. One thread.
KERNEL gradient_norm_add_mean(const double *squares, double *loss, double width) {
    *loss += total(squares) / width;
}
