// Gradients of the queries of fused attention on tensor cores, of heads of 64 or 128 elements in bf16: probabilities are
// made again from log-sum-exps. Dao 2023 (FlashAttention-2).
//
// A block takes a tile of queries of one head and walks over tiles of keys, which arrive asynchronously one tile ahead.
// -D options beside those of scores: QUERY_DIM and VALUE_DIM, elements of a head; WARPS, of 16 queries each; KEYS, keys of a
// tile.

#include "attention/score.cuh"
#include "cuda/tile.cuh"

const int THREADS = WARPS * 32;
const int QUERIES = WARPS * 16;
typedef Tile<QUERIES, QUERY_DIM> QueryTile;
typedef Tile<QUERIES, VALUE_DIM> GradientTile;
typedef Tile<KEYS, QUERY_DIM> KeyTile;
typedef Tile<KEYS, VALUE_DIM> ValueTile;

// Strides are of tokens, in elements. `output_gradient` is [batch · tokens, heads · VALUE_DIM], `log_sum_exp` and `delta`
// are [batch · tokens, heads].
KERNEL __launch_bounds__(THREADS, 1)
    attention_backward_queries(const Bf16 *queries, u64 query_stride, const Bf16 *keys, const Bf16 *values, u64 key_stride,
                               const Bf16 *output_gradient, const float *log_sum_exp, const float *delta,
                               Bf16 *query_gradient, u64 gradient_stride, u32 accumulate, CORE_PARAMETERS) {
    extern __shared__ __align__(128) u8 memory[];
    Core core = CORE;
    u32 first_query = (gridDim.x - 1 - blockIdx.x) * QUERIES, head = blockIdx.y, sequence = blockIdx.z;
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    HeadScore score = head_score(core, sequence, head);
    u64 first_row = sequence * (u64)tokens + first_query;
    keys += sequence * (u64)key_tokens * key_stride + head / group * QUERY_DIM;
    values += sequence * (u64)key_tokens * key_stride + head / group * VALUE_DIM;
    QueryTile query_tile = {shared_address(memory)};
    GradientTile gradient_tile = {query_tile.address + QueryTile::BYTES};
    u32 behind = gradient_tile.address + GradientTile::BYTES;
    auto key_tile = [&](u32 slot) { return KeyTile{behind + slot * (KeyTile::BYTES + ValueTile::BYTES)}; };
    auto value_tile = [&](u32 slot) { return ValueTile{key_tile(slot).address + KeyTile::BYTES}; };
    auto fill = [&](u32 key, u32 slot) {
        if (key < key_tokens) {
            int left = key_tokens - key;
            key_tile(slot).fill<THREADS, true>(keys + key * key_stride, key_stride, left, QUERY_DIM);
            value_tile(slot).fill<THREADS, true>(values + key * key_stride, key_stride, left, VALUE_DIM);
        }
        commit_copies();
    };
    auto next_seen = [&](u32 key) {
        while (key < key_tokens && between(core, first_query, QUERIES, key, KEYS) == NOTHING) {
            key += KEYS;
        }
        return key;
    };

    u32 key = next_seen(0);
    int rows = tokens - first_query;
    query_tile.fill<THREADS, true>(queries + first_row * query_stride + head * QUERY_DIM, query_stride, rows, QUERY_DIM);
    gradient_tile.fill<THREADS, true>(output_gradient + (first_row * heads + head) * VALUE_DIM, heads * (u64)VALUE_DIM, rows,
                                      VALUE_DIM);
    fill(key, 0);

    // Of the queries of a lane: rows lane / 4 and lane / 4 + 8 of the warp.
    int positions[2];
    float kept_log_sum_exp[2], kept_delta[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        u32 row = first_query + warp * 16 + half * 8 + lane / 4;
        u64 place = (sequence * (u64)tokens + row) * heads + head;
        positions[half] = query_position(core, row);
        kept_log_sum_exp[half] = row < tokens ? in_scores(log_sum_exp[place]) : 0;
        kept_delta[half] = row < tokens ? delta[place] : 0;
    }
    float sums[QUERY_DIM / 8][4] = {};

    for (u32 slot = 0; key < key_tokens; slot ^= 1) {
        // All have this tile, and none still reads the one before.
        wait_for_copies<0>();
        __syncthreads();
        u32 next = next_seen(key + KEYS);
        fill(next, slot ^ 1);

        float products[KEYS / 8][4] = {}, gradients[KEYS / 8][4] = {};
        add_products(products, query_tile, warp * 16, key_tile(slot));
        add_products(gradients, gradient_tile, warp * 16, value_tile(slot));

        bool masked = between(core, first_query, QUERIES, key, KEYS) == SOME;
#pragma unroll
        for (int column = 0; column < KEYS / 8; column++) {
#pragma unroll
            for (int odd = 0; odd < 2; odd++) {
                u32 own = key + column * 8 + lane % 4 * 2 + odd;
                int place = NEEDS_POSITIONS || masked ? key_position(core, own) : 0;
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    float &gradient = gradients[column][half * 2 + odd];
                    int distance = positions[half] - place;
                    Scored found = scored(core, score, products[column][half * 2 + odd], distance);
                    bool seen = !masked || (own < key_tokens && sees(core, distance));
                    float probability = seen ? fast_exp2(found.score - kept_log_sum_exp[half]) : 0;
                    gradient = gradient * kept(score, positions[half], place) - kept_delta[half];
                    gradient *= probability * found.gradient;
                }
            }
        }

#pragma unroll
        for (int part = 0; part < KEYS / 16; part++) {
            add_weighted(sums, gradients[part * 2], gradients[part * 2 + 1], key_tile(slot), part * 16);
        }
        key = next;
    }
    wait_for_copies<0>();

    query_gradient += first_row * gradient_stride + head * QUERY_DIM;
    store_results(query_gradient, gradient_stride, warp * 16, rows, sums, scale, accumulate);
}
