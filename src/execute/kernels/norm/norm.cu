// Layer norm and RMS norm over rows: the output with the statistics of its rows, and the gradients.
//
// A block takes a row. Statistics of a row are what is taken off, 0 by RMS norm, and what the rest is multiplied by.
#include "cuda/common.cuh"

struct Statistics {
    float mean, scale;
};

// The statistics of a row; the variance is that of what the mean leaves.
DEVICE Statistics statistics_of(const Storage *row, u32 width, bool centred, float epsilon) {
    Statistics found;
    found.mean = 0.0f;
    u32 first = threadIdx.x * RUN, step = blockDim.x * RUN;
    if (centred) {
        float sum = 0.0f;
        for (u32 column = first; column < width; column += step) {
            Run x = load(row + column, left(width, column));
#pragma unroll
            for (u32 lane = 0; lane < RUN; lane++) {
                sum += x.values[lane];
            }
        }
        found.mean = block_sum(sum) / width;
    }
    float squares = 0.0f;
    for (u32 column = first; column < width; column += step) {
        Run x = load(row + column, left(width, column), found.mean);
#pragma unroll
        for (u32 lane = 0; lane < RUN; lane++) {
            float rest = x.values[lane] - found.mean;
            squares = fmaf(rest, rest, squares);
        }
    }
    found.scale = 1.0f / sqrtf(block_sum(squares) / width + epsilon);
    return found;
}

// A run of a row of parameters, or one value for all where there are none.
DEVICE Run load_or(const Storage *parameters, u32 column, u32 count, float otherwise) {
    return load(parameters + column, parameters ? count : 0, otherwise);
}

DEVICE Statistics read(const float *statistics, u64 row) {
    return {statistics[2 * row], statistics[2 * row + 1]};
}

// output = x̂ · weight + bias. Weight, bias and statistics may be null.
KERNEL norm_forward(const Storage *input, const Storage *weight, const Storage *bias, Storage *output, float *statistics,
                    u32 width, u32 centred, float epsilon) {
    u64 row = blockIdx.x;
    const Storage *x_row = input + row * width;
    Statistics of_row = statistics_of(x_row, width, centred, epsilon);
    if (statistics && threadIdx.x == 0) {
        statistics[2 * row] = of_row.mean;
        statistics[2 * row + 1] = of_row.scale;
    }
    for (u32 column = threadIdx.x * RUN; column < width; column += blockDim.x * RUN) {
        u32 count = left(width, column);
        Run x = load(x_row + column, count);
        Run w = load_or(weight, column, count, 1.0f), b = load_or(bias, column, count, 0.0f);
#pragma unroll
        for (u32 lane = 0; lane < RUN; lane++) {
            x.values[lane] = fmaf((x.values[lane] - of_row.mean) * of_row.scale, w.values[lane], b.values[lane]);
        }
        store(output + row * width + column, x, count);
    }
}

// The statistics alone, where a forward kept none.
KERNEL norm_statistics(const Storage *input, float *statistics, u32 width, u32 centred, float epsilon) {
    u64 row = blockIdx.x;
    Statistics of_row = statistics_of(input + row * width, width, centred, epsilon);
    if (threadIdx.x == 0) {
        statistics[2 * row] = of_row.mean;
        statistics[2 * row + 1] = of_row.scale;
    }
}

// input_gradient (=|+=) (g − mean(g) − x̂ · mean(g · x̂)) · scale with g = output_gradient · weight; RMS norm has no
// mean(g). Both gradients may be one.
KERNEL norm_input_gradient(const Storage *input, const Storage *weight, const float *statistics,
                           const Storage *output_gradient, Storage *input_gradient, u32 width, u32 centred, u32 add) {
    u64 row = blockIdx.x;
    const Storage *x_row = input + row * width, *dy_row = output_gradient + row * width;
    Statistics of_row = read(statistics, row);
    float plain = 0.0f, with_x = 0.0f;
    for (u32 column = threadIdx.x * RUN; column < width; column += blockDim.x * RUN) {
        u32 count = left(width, column);
        Run x = load(x_row + column, count), dy = load(dy_row + column, count);
        Run w = load_or(weight, column, count, 1.0f);
#pragma unroll
        for (u32 lane = 0; lane < RUN; lane++) {
            float g = dy.values[lane] * w.values[lane];
            plain += g;
            with_x = fmaf(x.values[lane] - of_row.mean, g, with_x);
        }
    }
    plain = centred ? block_sum(plain) / width : 0.0f;
    with_x = block_sum(with_x) * of_row.scale / width;
    // Both means with the scale, so that dx = g · scale + (x − mean) · slope + shift.
    float shift = -plain * of_row.scale, slope = -with_x * of_row.scale * of_row.scale;
    for (u32 column = threadIdx.x * RUN; column < width; column += blockDim.x * RUN) {
        u32 count = left(width, column);
        Run x = load(x_row + column, count), dy = load(dy_row + column, count);
        Run w = load_or(weight, column, count, 1.0f);
        Storage *to = input_gradient + row * width + column;
        Run before = load(to, add ? count : 0);
#pragma unroll
        for (u32 lane = 0; lane < RUN; lane++) {
            float rest = fmaf(x.values[lane] - of_row.mean, slope, shift);
            before.values[lane] += fmaf(dy.values[lane] * w.values[lane], of_row.scale, rest);
        }
        store(to, before, count);
    }
}

// Rows that a block of the sums over rows reads side by side.
const u32 SIDE = 8;
const u32 COLUMNS = WARP * RUN;

// Sums over `rows_per_block` rows of dy · x̂ and, where `parts` is 2, of dy: one row of `partials` [blocks in y,
// parts · width].
KERNEL norm_weight_partials(const Storage *input, const float *statistics, const Storage *output_gradient,
                            float *partials, u32 rows, u32 width, u32 rows_per_block, u32 parts) {
    __shared__ float of_rows[2][SIDE][COLUMNS];
    u32 column = blockIdx.x * COLUMNS + threadIdx.x * RUN, count = left(width, column);
    u32 first = blockIdx.y * rows_per_block, end = min(rows, first + rows_per_block);
    Run weights = {}, biases = {};
    for (u32 row = first + threadIdx.y; row < end; row += SIDE) {
        u64 place = (u64)row * width + column;
        Run x = load(input + place, count), dy = load(output_gradient + place, count);
        Statistics of_row = read(statistics, row);
#pragma unroll
        for (u32 lane = 0; lane < RUN; lane++) {
            float normed = (x.values[lane] - of_row.mean) * of_row.scale;
            weights.values[lane] = fmaf(normed, dy.values[lane], weights.values[lane]);
            biases.values[lane] += dy.values[lane];
        }
    }
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        of_rows[0][threadIdx.y][threadIdx.x * RUN + lane] = weights.values[lane];
        of_rows[1][threadIdx.y][threadIdx.x * RUN + lane] = biases.values[lane];
    }
    __syncthreads();
    u32 own = threadIdx.y * WARP + threadIdx.x, target = blockIdx.x * COLUMNS + own;
    for (u32 part = 0; part < parts && target < width; part++) {
        float sum = 0.0f;
        for (u32 side = 0; side < SIDE; side++) {
            sum += of_rows[part][side][own];
        }
        partials[((u64)blockIdx.y * parts + part) * width + target] = sum;
    }
}

// gradient (=|+=) the sum of the rows of `partials` [rows, width], in order.
KERNEL norm_weight_gradient(const float *partials, Gradient *gradient, u32 rows, u32 width, u32 add) {
    u32 column = (u32)thread_number();
    if (column >= width) {
        return;
    }
    float sum = 0.0f;
    for (u32 row = 0; row < rows; row++) {
        sum += partials[(u64)row * width + column];
    }
    gradient[column] = narrow<Gradient>(add ? wide(gradient[column]) + sum : sum);
}
