// Residual sums with bias and dropout: output = stream + dropout(branch + bias). A thread takes a run of a row.
#include "cuda/dropout.cuh"

// `bias` may be null, and `scalars` where nothing is dropped out. Local row r is row `start + row_places[r]` of the
// whole tensor.
KERNEL residual_forward(const Storage *stream, const Storage *branch, const Storage *bias, Storage *output, u32 rows,
                        u32 width, const double *scalars, const u32 *row_places, u64 start, u64 site, u64 threshold,
                        float scale) {
    Spot at = spot(thread_number(), rows, width);
    u64 place = (u64)at.row * width + at.column;
    if (at.count == 0) {
        return;
    }
    Run sum = load(stream + place, at.count), term = load(branch + place, at.count);
    Run b = load(bias + at.column, bias ? at.count : 0);
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        term.values[lane] += b.values[lane];
    }
    if (scalars) {
        Dropout dropout = dropout_of(scalars, site, threshold, scale);
        u64 first = (start + row_places[at.row]) * width + at.column;
#pragma unroll
        for (u32 lane = 0; lane < RUN; lane++) {
            sum.values[lane] = fmaf(term.values[lane], factor(dropout, first + lane), sum.values[lane]);
        }
    } else {
#pragma unroll
        for (u32 lane = 0; lane < RUN; lane++) {
            sum.values[lane] += term.values[lane];
        }
    }
    store(output + place, sum, at.count);
}
