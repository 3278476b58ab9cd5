// Attention whose probabilities are a tensor: the softmax of its scores, and its gradient.
//
// A block takes the row of a query of a head of a sequence [sequences, heads, queries, keys], and each of its threads runs
// of neighbouring keys. What a query does not see is not read.

#include "attention/score.cuh"

const u32 MAX_THREADS = 256;

// The row of this block.
struct Row {
    HeadScore head;
    u64 first;
    int position;
};

DEVICE Row row_of_block(const Core &core) {
    u32 query = blockIdx.x, head = blockIdx.y, sequence = blockIdx.z;
    u64 number = (sequence * (u64)core.heads + head) * core.tokens + query;
    return {head_score(core, sequence, head), number * core.key_tokens, query_position(core, query)};
}

// What the query sees of the run of keys from `key` on.
DEVICE Visible visible(const Core &core, u32 key) {
    return between(core, blockIdx.x, 1, key, RUN);
}

// Products become scores, −∞ where the key is not seen.
DEVICE Run scores(const Core &core, const Row &row, const Storage *products, u32 key, Visible seen) {
    u32 count = left(core.key_tokens, key);
    Run run = load(products + row.first + key, count);
    bool needs_positions = NEEDS_POSITIONS || seen == SOME;
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        int distance = needs_positions ? row.position - key_position(core, key + lane) : core.nearest;
        float score = scored(core, row.head, run.values[lane], distance).score;
        run.values[lane] = seen == EVERYTHING || (lane < count && sees(core, distance)) ? score : -INFINITE;
    }
    return run;
}

// Multiplies by what dropout makes of each.
DEVICE void drop(const Core &core, const Row &row, Run &run, u32 key) {
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        run.values[lane] *= kept(row.head, row.position, key_position(core, key + lane));
    }
}

// In `probabilities`, products of queries and keys become probabilities, all zero where a query sees no key; `dropped`
// takes what dropout leaves of them, where there is dropout.
KERNEL __launch_bounds__(MAX_THREADS) attention_softmax(Storage *probabilities, Storage *dropped, CORE_PARAMETERS) {
    Core core = CORE;
    Row row = row_of_block(core);
    float greatest = -INFINITE, sum = 0;
    for (u32 key = threadIdx.x * RUN; key < key_tokens; key += blockDim.x * RUN) {
        Visible seen = visible(core, key);
        if (seen == NOTHING) {
            continue;
        }
        Run run = scores(core, row, probabilities, key, seen);
        float before = greatest;
        for (float score : run.values) {
            greatest = larger(greatest, score);
        }
        // Nothing seen yet: infinity less infinity would not be a number.
        float shift = greatest == -INFINITE ? 0 : greatest;
        sum *= fast_exp2(before - shift);
        for (float score : run.values) {
            sum += fast_exp2(score - shift);
        }
    }
    float all = block_max(greatest), shift = all == -INFINITE ? 0 : all;
    sum = block_sum(sum * fast_exp2(greatest - shift));
    float inverse = sum == 0 ? 0 : 1 / sum;
    for (u32 key = threadIdx.x * RUN; key < key_tokens; key += blockDim.x * RUN) {
        u32 count = left(key_tokens, key);
        Visible seen = visible(core, key);
        Run run = {};
        if (seen != NOTHING) {
            run = scores(core, row, probabilities, key, seen);
            for (float &score : run.values) {
                score = fast_exp2(score - shift) * inverse;
            }
        }
        store(probabilities + row.first + key, run, count);
#ifdef DROPOUT
        drop(core, row, run, key);
        store(dropped + row.first + key, run, count);
#endif
    }
}

// In `gradients`, gradients of what dropout left become those of the products, but for the soft cap.
KERNEL __launch_bounds__(MAX_THREADS)
    attention_softmax_backward(const Storage *probabilities, Storage *gradients, CORE_PARAMETERS) {
    Core core = CORE;
    Row row = row_of_block(core);
    auto load_both = [&](u32 key, Run &probability) {
        u32 count = left(key_tokens, key);
        probability = load(probabilities + row.first + key, count);
        Run gradient = load(gradients + row.first + key, count);
        drop(core, row, gradient, key);
        return gradient;
    };
    float delta = 0;
    for (u32 key = threadIdx.x * RUN; key < key_tokens; key += blockDim.x * RUN) {
        if (visible(core, key) != NOTHING) {
            Run probability, gradient = load_both(key, probability);
#pragma unroll
            for (u32 lane = 0; lane < RUN; lane++) {
                delta = fmaf(probability.values[lane], gradient.values[lane], delta);
            }
        }
    }
    delta = block_sum(delta);
    for (u32 key = threadIdx.x * RUN; key < key_tokens; key += blockDim.x * RUN) {
        Run result = {};
        if (visible(core, key) != NOTHING) {
            Run probability, gradient = load_both(key, probability);
#pragma unroll
            for (u32 lane = 0; lane < RUN; lane++) {
                result.values[lane] = probability.values[lane] * (gradient.values[lane] - delta) * scale;
            }
        }
        store(gradients + row.first + key, result, left(key_tokens, key));
    }
}
