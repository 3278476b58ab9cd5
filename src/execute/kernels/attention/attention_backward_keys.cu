// Gradients of keys and values of fused attention on tensor cores, of heads of 64 or 128 elements in bf16: probabilities
// are made again from log-sum-exps. Dao 2023 (FlashAttention-2).
//
// A block takes a tile of keys of one key-value head and walks over tiles of queries, of all query heads that share it, so
// that each sum stays in one warp. All products have a row for each key: what comes out of one is the left operand of the
// next. -D options beside those of scores: QUERY_DIM and VALUE_DIM, elements of a head; WARPS, of 16 keys each; QUERIES,
// queries of a tile.

#include "attention/score.cuh"
#include "cuda/tile.cuh"

const int THREADS = WARPS * 32;
const int KEYS = WARPS * 16;
typedef Tile<KEYS, QUERY_DIM> KeyTile;
typedef Tile<KEYS, VALUE_DIM> ValueTile;
typedef Tile<QUERIES, QUERY_DIM> QueryTile;
typedef Tile<QUERIES, VALUE_DIM> GradientTile;
// A tile of queries, of the output's gradients, of log-sum-exps and of deltas.
const u32 SLOT_BYTES = QueryTile::BYTES + GradientTile::BYTES + 2 * QUERIES * sizeof(float);

// Strides are of tokens, in elements. `output_gradient` is [batch · tokens, heads · VALUE_DIM], `log_sum_exp` and `delta`
// are [batch · tokens, heads].
KERNEL __launch_bounds__(THREADS, 1)
    attention_backward_keys(const Bf16 *queries, u64 query_stride, const Bf16 *keys, const Bf16 *values, u64 key_stride,
                            const Bf16 *output_gradient, const float *log_sum_exp, const float *delta, Bf16 *key_gradient,
                            Bf16 *value_gradient, u64 gradient_stride, u32 accumulate, CORE_PARAMETERS) {
    extern __shared__ __align__(128) u8 memory[];
    Core core = CORE;
    // The first tiles are seen by most queries where attention is causal, and begin first.
    u32 first_key = blockIdx.x * KEYS, key_head = blockIdx.y, sequence = blockIdx.z;
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u64 first_row = sequence * (u64)key_tokens + first_key, first_token = sequence * (u64)tokens;
    KeyTile key_tile = {shared_address(memory)};
    ValueTile value_tile = {key_tile.address + KeyTile::BYTES};
    u8 *slots = memory + KeyTile::BYTES + ValueTile::BYTES;
    auto query_tile = [&](u32 slot) { return QueryTile{value_tile.address + ValueTile::BYTES + slot * SLOT_BYTES}; };
    auto gradient_tile = [&](u32 slot) { return GradientTile{query_tile(slot).address + QueryTile::BYTES}; };
    // Log-sum-exps, then deltas.
    auto numbers = [&](u32 slot) { return (float *)(slots + slot * SLOT_BYTES + QueryTile::BYTES + GradientTile::BYTES); };
    auto fill = [&](u32 head, u32 query, u32 slot) {
        if (head < (key_head + 1) * group) {
            int left = tokens - query;
            u64 row = first_token + query;
            query_tile(slot).fill<THREADS, true>(queries + row * query_stride + head * QUERY_DIM, query_stride, left, QUERY_DIM);
            gradient_tile(slot).fill<THREADS, true>(output_gradient + (row * heads + head) * VALUE_DIM, heads * (u64)VALUE_DIM,
                                                    left, VALUE_DIM);
            for (u32 index = threadIdx.x; index < 2 * QUERIES; index += THREADS) {
                u32 own = index % QUERIES;
                u64 place = (row + (query + own < tokens ? own : 0)) * heads + head;
                copy_async_word(numbers(slot) + index, (index < QUERIES ? log_sum_exp : delta) + place);
            }
        }
        commit_copies();
    };
    // The next tile of queries that see something; behind the last one of a head comes the first of the next head.
    auto seek = [&](u32 &head, u32 &query) {
        while (head < (key_head + 1) * group) {
            if (query >= tokens) {
                head++;
                query = 0;
            } else if (between(core, query, QUERIES, first_key, KEYS) == NOTHING) {
                query += QUERIES;
            } else {
                return;
            }
        }
    };

    u32 head = key_head * group, query = 0;
    seek(head, query);
    int rows = key_tokens - first_key;
    key_tile.fill<THREADS, true>(keys + first_row * key_stride + key_head * QUERY_DIM, key_stride, rows, QUERY_DIM);
    value_tile.fill<THREADS, true>(values + first_row * key_stride + key_head * VALUE_DIM, key_stride, rows, VALUE_DIM);
    fill(head, query, 0);

    // Of the keys of a lane: rows lane / 4 and lane / 4 + 8 of the warp.
    int positions[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        positions[half] = key_position(core, first_key + warp * 16 + half * 8 + lane / 4);
    }
    float key_sums[QUERY_DIM / 8][4] = {}, value_sums[VALUE_DIM / 8][4] = {};

    for (u32 slot = 0; head < (key_head + 1) * group; slot ^= 1) {
        // All have this tile, and none still reads the one before.
        wait_for_copies<0>();
        __syncthreads();
        u32 next_head = head, next_query = query + QUERIES;
        seek(next_head, next_query);
        fill(next_head, next_query, slot ^ 1);

        float probabilities[QUERIES / 8][4] = {}, gradients[QUERIES / 8][4] = {};
        add_products(probabilities, key_tile, warp * 16, query_tile(slot));
        add_products(gradients, value_tile, warp * 16, gradient_tile(slot));

        HeadScore score = head_score(core, sequence, head);
        bool masked = between(core, query, QUERIES, first_key, KEYS) == SOME;
#pragma unroll
        for (int column = 0; column < QUERIES / 8; column++) {
#pragma unroll
            for (int odd = 0; odd < 2; odd++) {
                u32 within = column * 8 + lane % 4 * 2 + odd;
                int place = NEEDS_POSITIONS || masked ? query_position(core, query + within) : 0;
                float log_sum_exp = in_scores(numbers(slot)[within]), delta = numbers(slot)[QUERIES + within];
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    float &value = probabilities[column][half * 2 + odd], &gradient = gradients[column][half * 2 + odd];
                    int distance = place - positions[half];
                    Scored found = scored(core, score, value, distance);
                    bool seen = !masked || (query + within < tokens && sees(core, distance));
                    float probability = seen ? fast_exp2(found.score - log_sum_exp) : 0;
                    float share = kept(score, place, positions[half]);
                    value = probability * share;
                    gradient = (gradient * share - delta) * probability * found.gradient;
                }
            }
        }

#pragma unroll
        for (int part = 0; part < QUERIES / 16; part++) {
            add_weighted(value_sums, probabilities[part * 2], probabilities[part * 2 + 1], gradient_tile(slot), part * 16);
            add_weighted(key_sums, gradients[part * 2], gradients[part * 2 + 1], query_tile(slot), part * 16);
        }
        head = next_head;
        query = next_query;
    }
    wait_for_copies<0>();

    key_gradient += first_row * gradient_stride + key_head * QUERY_DIM;
    value_gradient += first_row * gradient_stride + key_head * VALUE_DIM;
    store_results(key_gradient, gradient_stride, warp * 16, rows, key_sums, scale, accumulate);
    store_results(value_gradient, gradient_stride, warp * 16, rows, value_sums, 1, accumulate);
}
