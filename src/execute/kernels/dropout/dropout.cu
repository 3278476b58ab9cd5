// Dropout of rows in place, forward or backward. A thread takes a run of a row.
#include "cuda/dropout.cuh"

// Local row r is row `start + row_places[r]` of the whole tensor.
KERNEL dropout_rows(Storage *data, u32 rows, u32 width, const double *scalars, const u32 *row_places, u64 start,
                    u64 site, u64 threshold, float scale) {
    Spot at = spot(thread_number(), rows, width);
    u64 place = (u64)at.row * width + at.column;
    if (at.count == 0) {
        return;
    }
    Run x = load(data + place, at.count);
    Dropout dropout = dropout_of(scalars, site, threshold, scale);
    u64 first = (start + row_places[at.row]) * width + at.column;
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        x.values[lane] *= factor(dropout, first + lane);
    }
    store(data + place, x, at.count);
}
