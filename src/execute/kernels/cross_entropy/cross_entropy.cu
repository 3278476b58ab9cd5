// Cross-entropy over a shard of the vocabulary: statistics of each row, which shards merge, and the gradient in place.
//
// Statistics of a row: its greatest logit m, Σ exp(logit − m), and the target's logit, 0 where another shard has it.
// Rows have `width` columns, of which the first `words` are the words from `first` on; the rest is padding.
#include "cuda/common.cuh"

const u32 STATISTICS = 3;

// A sum of exponentials over e^greatest.
struct Exponentials {
    float greatest, sum;
};

// What `part` is over e^greatest instead; a part of nothing stays nothing.
DEVICE float over(Exponentials part, float greatest) {
    return part.sum == 0.0f ? 0.0f : part.sum * expf(part.greatest - greatest);
}

// A block takes a row.
KERNEL cross_entropy_forward(const Storage *logits, const u32 *targets, float *statistics, u32 width, u32 first,
                             u32 words) {
    u64 row = blockIdx.x;
    const Storage *logits_row = logits + row * width;
    Exponentials own = {-INFINITE, 0.0f};
    for (u32 column = threadIdx.x * RUN; column < words; column += blockDim.x * RUN) {
        Run x = load(logits_row + column, left(words, column), -INFINITE);
        float greatest = own.greatest;
#pragma unroll
        for (u32 lane = 0; lane < RUN; lane++) {
            greatest = larger(greatest, x.values[lane]);
        }
        // A NaN makes the sum NaN. Where all logits so far are −∞, 0 is taken off them: −∞ − −∞ would be NaN.
        float base = greatest == -INFINITE ? 0.0f : greatest, sum = over(own, base);
#pragma unroll
        for (u32 lane = 0; lane < RUN; lane++) {
            sum += expf(x.values[lane] - base);
        }
        own = {greatest, sum};
    }
    float greatest = block_max(own.greatest);
    float sum = block_sum(over(own, greatest));
    if (threadIdx.x == 0) {
        u32 column = targets[row] - first;
        statistics[STATISTICS * row] = greatest;
        statistics[STATISTICS * row + 1] = sum;
        statistics[STATISTICS * row + 2] = column < words ? wide(logits_row[column]) : 0.0f;
    }
}

// Statistics of the rows from those of all shards [shards, rows, 3]. A thread takes a row.
KERNEL cross_entropy_merge(const float *shards, float *statistics, u32 rows, u32 count) {
    u64 row = thread_number();
    if (row >= rows) {
        return;
    }
    Exponentials all = {-INFINITE, 0.0f};
    float target = 0.0f;
    for (u32 shard = 0; shard < count; shard++) {
        const float *from = shards + (shard * (u64)rows + row) * STATISTICS;
        Exponentials part = {from[0], from[1]};
        float greatest = larger(all.greatest, part.greatest);
        all = {greatest, over(all, greatest) + over(part, greatest)};
        target += from[2];
    }
    statistics[STATISTICS * row] = all.greatest;
    statistics[STATISTICS * row + 1] = all.sum;
    statistics[STATISTICS * row + 2] = target;
}

// Adds the losses of all rows, −ln softmax(logits)[target], to a number of the step. One block.
KERNEL cross_entropy_loss(const float *statistics, double *loss, u32 rows) {
    double sum = 0.0;
    for (u32 row = threadIdx.x; row < rows; row += blockDim.x) {
        const float *of_row = statistics + (u64)row * STATISTICS;
        sum += log((double)of_row[1]) + (double)(of_row[0] - of_row[2]);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        *loss += sum;
    }
}

// The gradient in place of the logits: (softmax − one for the target) · scale; 0 for padding. `statistics` are those of
// all shards. A block takes a row.
KERNEL cross_entropy_gradient(Storage *logits, const u32 *targets, const float *statistics, u32 width, u32 first,
                              u32 words, float scale) {
    u64 row = blockIdx.x;
    float greatest = statistics[STATISTICS * row], share = scale / statistics[STATISTICS * row + 1];
    u32 target = targets[row] - first;
    for (u32 column = threadIdx.x * RUN; column < width; column += blockDim.x * RUN) {
        u32 count = left(width, column);
        Run x = load(logits + row * width + column, count);
#pragma unroll
        for (u32 lane = 0; lane < RUN; lane++) {
            float value = expf(x.values[lane] - greatest) * share;
            value = column + lane == target ? value - scale : value;
            x.values[lane] = column + lane < words ? value : 0.0f;
        }
        store(logits + row * width + column, x, count);
    }
}
