// Gradients of biases: the sums of the columns of the output's gradient, always added in the same order.
//
// A block takes 16 columns: each of its 512 threads sums two of them over every 64th row, and then halves of the rows are
// added until one is left. -D option beside the type of elements: OUTPUT, the type of the gradient.

#include "cuda/common.cuh"

const u32 COLUMNS = 16;
const u32 ROWS = 64;

// The element at `column`, or zero behind the last.
DEVICE float at(const Storage *row, u32 column, u32 columns) {
    return column < columns ? wide(row[column]) : 0;
}

// bias (=|+=) the sums over rows of `gradient` (rows, columns), whose rows are `stride` elements apart.
KERNEL __launch_bounds__(COLUMNS / 2 * ROWS)
    bias_gradient(const Storage *gradient, OUTPUT *bias, u32 rows, u32 columns, u64 stride, u32 accumulate) {
    __shared__ float sums[ROWS][COLUMNS];
    u32 pair = threadIdx.x % (COLUMNS / 2) * 2, first = threadIdx.x / (COLUMNS / 2);
    u32 column = blockIdx.x * COLUMNS + pair;
    float even = 0, odd = 0;
#pragma unroll 4
    for (u32 row = first; row < rows; row += ROWS) {
        const Storage *line = gradient + row * stride;
        even += at(line, column, columns);
        odd += at(line, column + 1, columns);
    }
    sums[first][pair] = even;
    sums[first][pair + 1] = odd;
    for (u32 half = ROWS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (first < half) {
            sums[first][pair] += sums[first + half][pair];
            sums[first][pair + 1] += sums[first + half][pair + 1];
        }
    }
    if (first == 0) {
        for (u32 index = 0; index < 2; index++) {
            if (column + index < columns) {
                OUTPUT *place = bias + column + index;
                *place = narrow<OUTPUT>(accumulate ? wide(*place) + sums[0][pair + index] : sums[0][pair + index]);
            }
        }
    }
}
