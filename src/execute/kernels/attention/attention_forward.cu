// Fused forward attention on tensor cores, of heads of 64 or 128 elements in bf16. Dao 2023 (FlashAttention-2).
//
// A block takes a tile of queries of one head and walks over tiles of keys, which arrive asynchronously one tile ahead.
// -D options beside those of scores: QUERY_DIM and VALUE_DIM, elements of a head; WARPS; BLOCKS, blocks of 16 queries of a
// warp; KEYS, keys of a tile.

#include "attention/score.cuh"
#include "cuda/tile.cuh"

const int THREADS = WARPS * 32;
const int QUERIES = WARPS * BLOCKS * 16;
typedef Tile<QUERIES, QUERY_DIM> QueryTile;
typedef Tile<KEYS, QUERY_DIM> KeyTile;
typedef Tile<KEYS, VALUE_DIM> ValueTile;

// The softmax so far of the queries of a lane: rows lane / 4 and lane / 4 + 8 of each block. `sum` is the lane's share.
struct Softmax {
    float greatest[BLOCKS][2], sum[BLOCKS][2];
};

DEVICE float greatest_of_four(float value) {
    value = larger(value, __shfl_xor_sync(ALL, value, 1));
    return larger(value, __shfl_xor_sync(ALL, value, 2));
}

DEVICE float sum_of_four(float value) {
    value += __shfl_xor_sync(ALL, value, 1);
    return value + __shfl_xor_sync(ALL, value, 2);
}

// Strides are of tokens, in elements. `output` is [batch · tokens, heads · VALUE_DIM] and `log_sum_exp` [batch · tokens,
// heads]; where it `resumes`, both hold the attention to other keys, which this adds to.
KERNEL __launch_bounds__(THREADS, 1)
    attention_forward(const Bf16 *queries, u64 query_stride, const Bf16 *keys, const Bf16 *values, u64 key_stride,
                      Bf16 *output, float *log_sum_exp, u32 resumes, CORE_PARAMETERS) {
    extern __shared__ __align__(128) u8 memory[];
    Core core = CORE;
    // The last tiles see most keys where attention is causal: they begin first.
    u32 first_query = (gridDim.x - 1 - blockIdx.x) * QUERIES, head = blockIdx.y, sequence = blockIdx.z;
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    HeadScore score = head_score(core, sequence, head);
    queries += (sequence * (u64)tokens + first_query) * query_stride + head * QUERY_DIM;
    keys += sequence * (u64)key_tokens * key_stride + head / group * QUERY_DIM;
    values += sequence * (u64)key_tokens * key_stride + head / group * VALUE_DIM;
    QueryTile query_tile = {shared_address(memory)};
    u32 behind = query_tile.address + QueryTile::BYTES;
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
    query_tile.fill<THREADS, true>(queries, query_stride, tokens - first_query, QUERY_DIM);
    fill(key, 0);

    Softmax softmax;
    float outputs[BLOCKS][VALUE_DIM / 8][4] = {};
    int positions[BLOCKS][2];
#pragma unroll
    for (int block = 0; block < BLOCKS; block++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            u32 row = first_query + (warp * BLOCKS + block) * 16 + half * 8 + lane / 4;
            positions[block][half] = query_position(core, row);
            softmax.greatest[block][half] = -INFINITE;
            softmax.sum[block][half] = 0;
            if (resumes && row < tokens) {
                u64 place = (sequence * (u64)tokens + row) * heads + head;
                float before = log_sum_exp[place];
                // As if one key had had all of the weight.
                softmax.greatest[block][half] = before * LOG2_E;
                softmax.sum[block][half] = before == -INFINITE || lane % 4 != 0 ? 0 : 1;
                const u32 *pairs = (const u32 *)(output + place * VALUE_DIM) + lane % 4;
#pragma unroll
                for (int column = 0; column < VALUE_DIM / 8; column++) {
                    u32 pair = pairs[column * 4];
                    outputs[block][column][half * 2] = __uint_as_float(pair << 16);
                    outputs[block][column][half * 2 + 1] = __uint_as_float(pair & 0xffff0000);
                }
            }
        }
    }

    for (u32 slot = 0; key < key_tokens; slot ^= 1) {
        // All have this tile, and none still reads the one before.
        wait_for_copies<0>();
        __syncthreads();
        u32 next = next_seen(key + KEYS);
        fill(next, slot ^ 1);

        float scores[BLOCKS][KEYS / 8][4] = {};
#pragma unroll 2
        for (int depth = 0; depth < QUERY_DIM; depth += 16) {
            u32 left[BLOCKS][4];
#pragma unroll
            for (int block = 0; block < BLOCKS; block++) {
                query_tile.left(left[block], (warp * BLOCKS + block) * 16, depth / 8);
            }
#pragma unroll
            for (int pair = 0; pair < KEYS / 16; pair++) {
                u32 right[4];
                key_tile(slot).right_transposed(right, pair * 16, depth / 8);
#pragma unroll
                for (int block = 0; block < BLOCKS; block++) {
                    multiply_add(scores[block][pair * 2], left[block], right[0], right[1]);
                    multiply_add(scores[block][pair * 2 + 1], left[block], right[2], right[3]);
                }
            }
        }

        bool masked = between(core, first_query, QUERIES, key, KEYS) == SOME;
#pragma unroll
        for (int column = 0; column < KEYS / 8; column++) {
#pragma unroll
            for (int odd = 0; odd < 2; odd++) {
                u32 own = key + column * 8 + lane % 4 * 2 + odd;
                int place = NEEDS_POSITIONS || masked ? key_position(core, own) : 0;
#pragma unroll
                for (int block = 0; block < BLOCKS; block++) {
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        float &value = scores[block][column][half * 2 + odd];
                        int distance = positions[block][half] - place;
                        value = scored(core, score, value, distance).score;
                        if (masked && !(own < key_tokens && sees(core, distance))) {
                            value = -INFINITE;
                        }
                    }
                }
            }
        }
#pragma unroll
        for (int block = 0; block < BLOCKS; block++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float before = softmax.greatest[block][half], greatest = before;
#pragma unroll
                for (int column = 0; column < KEYS / 8; column++) {
                    greatest = larger(greatest, scores[block][column][half * 2]);
                    greatest = larger(greatest, scores[block][column][half * 2 + 1]);
                }
                greatest = greatest_of_four(greatest);
                softmax.greatest[block][half] = greatest;
                // Nothing seen yet: infinity less infinity would not be a number.
                float shift = greatest == -INFINITE ? 0 : greatest;
                float shrink = fast_exp2(before - shift), sum = softmax.sum[block][half] * shrink;
#pragma unroll
                for (int column = 0; column < KEYS / 8; column++) {
#pragma unroll
                    for (int odd = 0; odd < 2; odd++) {
                        float &value = scores[block][column][half * 2 + odd];
                        value = fast_exp2(value - shift);
                        sum += value;
#ifdef DROPOUT
                        int place = key_position(core, key + column * 8 + lane % 4 * 2 + odd);
                        value *= kept(score, positions[block][half], place);
#endif
                    }
                }
                softmax.sum[block][half] = sum;
#pragma unroll
                for (int column = 0; column < VALUE_DIM / 8; column++) {
                    outputs[block][column][half * 2] *= shrink;
                    outputs[block][column][half * 2 + 1] *= shrink;
                }
            }
        }

        // Probabilities lie in the lanes as the left operand of the next product does.
#pragma unroll
        for (int part = 0; part < KEYS / 16; part++) {
            u32 left[BLOCKS][4];
#pragma unroll
            for (int block = 0; block < BLOCKS; block++) {
                pack_left(left[block], scores[block][part * 2], scores[block][part * 2 + 1]);
            }
#pragma unroll
            for (int pair = 0; pair < VALUE_DIM / 16; pair++) {
                u32 right[4];
                value_tile(slot).right(right, part * 16, pair * 2);
#pragma unroll
                for (int block = 0; block < BLOCKS; block++) {
                    multiply_add(outputs[block][pair * 2], left[block], right[0], right[1]);
                    multiply_add(outputs[block][pair * 2 + 1], left[block], right[2], right[3]);
                }
            }
        }
        key = next;
    }
    wait_for_copies<0>();
    // All of a row have read the log-sum-exp that one of them replaces.
    __syncwarp();

#pragma unroll
    for (int block = 0; block < BLOCKS; block++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sum = sum_of_four(softmax.sum[block][half]);
            float inverse = sum == 0 ? 0 : 1 / sum;
            u32 row = first_query + (warp * BLOCKS + block) * 16 + half * 8 + lane / 4;
            if (row >= tokens) {
                continue;
            }
            u64 place = (sequence * (u64)tokens + row) * heads + head;
            if (lane % 4 == 0) {
                log_sum_exp[place] = (softmax.greatest[block][half] + log2f(sum)) * LN_2;
            }
            u32 *pairs = (u32 *)(output + place * VALUE_DIM) + lane % 4;
#pragma unroll
            for (int column = 0; column < VALUE_DIM / 8; column++) {
                const float(&values)[4] = outputs[block][column];
                pairs[column * 4] = pack_bf16(values[half * 2] * inverse, values[half * 2 + 1] * inverse);
            }
        }
    }
}
