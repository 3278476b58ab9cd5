// Fused attention without tensor cores, forward and backward: for f32, and for heads of any size.
//
// A block takes a tile of rows, eight threads a row, and walks over tiles of rows of the other side: queries over keys, and
// keys over queries. -D options beside those of scores and of storage: QUERY_DIM and VALUE_DIM, elements of a head.

#include "attention/score.cuh"

const u32 TILE = 16;
const u32 TEAM = 8;
const u32 THREADS = TILE * TEAM;
// Rows of the other side of which a thread makes the score.
const u32 OWN = TILE / TEAM;

// Rows of a head in shared memory. The odd pitch spreads a column over the banks.
template <u32 DIM> struct Rows {
    // Columns of a row that a thread sums.
    static const u32 COLUMNS = (DIM + TEAM - 1) / TEAM;
    float values[TILE][DIM | 1];

    // Takes rows from a matrix of `left` rows more; others are zero.
    __device__ __forceinline__ void fill(const Storage *from, u64 stride, u32 left) {
        for (u32 index = threadIdx.x; index < TILE * DIM; index += THREADS) {
            u32 row = index / DIM, column = index % DIM;
            values[row][column] = row < left ? wide(from[row * stride + column]) : 0;
        }
    }

    // The product of this row with a row of another tile.
    __device__ __forceinline__ float dot(u32 row, const Rows &other, u32 other_row) const {
        float sum = 0;
#pragma unroll 8
        for (u32 column = 0; column < DIM; column++) {
            sum = fmaf(values[row][column], other.values[other_row][column], sum);
        }
        return sum;
    }

    // Adds all rows, each times a weight that lies with the thread of the team that made it.
    __device__ __forceinline__ void add_to(float (&sums)[COLUMNS], const float (&weights)[OWN]) const {
#pragma unroll
        for (u32 own = 0; own < OWN; own++) {
#pragma unroll
            for (u32 member = 0; member < TEAM; member++) {
                float weight = __shfl_sync(ALL, weights[own], member, TEAM);
#pragma unroll
                for (u32 index = 0; index < COLUMNS; index++) {
                    u32 column = index * TEAM + threadIdx.x % TEAM;
                    if (column < DIM) {
                        sums[index] = fmaf(weight, values[own * TEAM + member][column], sums[index]);
                    }
                }
            }
        }
    }

    // Writes sums, times `scale`, to a row of the result, or adds them.
    static __device__ __forceinline__ void put(Storage *row, const float (&sums)[COLUMNS], float scale, u32 accumulate) {
#pragma unroll
        for (u32 index = 0; index < COLUMNS; index++) {
            u32 column = index * TEAM + threadIdx.x % TEAM;
            if (column < DIM) {
                row[column] = narrow<Storage>(fmaf(sums[index], scale, accumulate ? wide(row[column]) : 0));
            }
        }
    }
};

// What a block keeps of queries, or of keys, with what goes with them: output gradients, or values.
struct Side {
    Rows<QUERY_DIM> scored;
    Rows<VALUE_DIM> valued;
};

DEVICE float team_max(float value) {
    for (u32 distance = 1; distance < TEAM; distance *= 2) {
        value = larger(value, __shfl_xor_sync(ALL, value, distance));
    }
    return value;
}

DEVICE float team_sum(float value) {
    for (u32 distance = 1; distance < TEAM; distance *= 2) {
        value += __shfl_xor_sync(ALL, value, distance);
    }
    return value;
}

// A score, −∞ where the key is not seen, of tokens that may not exist.
DEVICE Scored score_of(const Core &core, const HeadScore &head, float product, u32 query, u32 key) {
    int distance = query_position(core, query) - key_position(core, key);
    Scored found = scored(core, head, product, distance);
    if (query >= core.tokens || key >= core.key_tokens || !sees(core, distance)) {
        found.score = -INFINITE;
    }
    return found;
}

DEVICE float kept(const Core &core, const HeadScore &head, u32 query, u32 key) {
    return kept(head, query_position(core, query), key_position(core, key));
}

// As attention_forward.
KERNEL __launch_bounds__(THREADS, 1)
    attention_plain_forward(const Storage *queries, u64 query_stride, const Storage *keys, const Storage *values,
                            u64 key_stride, Storage *output, float *log_sum_exp, u32 resumes, CORE_PARAMETERS) {
    extern __shared__ __align__(16) u8 memory[];
    Rows<QUERY_DIM> &own_rows = *(Rows<QUERY_DIM> *)memory;
    Side &other = *(Side *)(memory + sizeof(own_rows));
    Core core = CORE;
    u32 first = blockIdx.x * TILE, head = blockIdx.y, sequence = blockIdx.z;
    u32 row = threadIdx.x / TEAM, member = threadIdx.x % TEAM, query = first + row;
    HeadScore score = head_score(core, sequence, head);
    u64 first_row = sequence * (u64)tokens + first, place = (first_row + row) * heads + head;
    keys += sequence * (u64)key_tokens * key_stride + head / group * QUERY_DIM;
    values += sequence * (u64)key_tokens * key_stride + head / group * VALUE_DIM;
    own_rows.fill(queries + first_row * query_stride + head * QUERY_DIM, query_stride, tokens - first);
    float greatest = -INFINITE, sum = 0, sums[Rows<VALUE_DIM>::COLUMNS] = {};
    if (resumes && query < tokens) {
        // As if one key had had all of the weight.
        greatest = log_sum_exp[place] * LOG2_E;
        sum = greatest == -INFINITE ? 0 : 1;
        for (u32 index = 0; index < Rows<VALUE_DIM>::COLUMNS; index++) {
            u32 column = index * TEAM + member;
            sums[index] = column < VALUE_DIM ? wide(output[place * VALUE_DIM + column]) : 0;
        }
    }
    for (u32 key = 0; key < key_tokens; key += TILE) {
        if (between(core, first, TILE, key, TILE) == NOTHING) {
            continue;
        }
        __syncthreads();
        other.scored.fill(keys + key * key_stride, key_stride, key_tokens - key);
        other.valued.fill(values + key * key_stride, key_stride, key_tokens - key);
        __syncthreads();
        float weights[OWN], before = greatest;
        for (u32 own = 0; own < OWN; own++) {
            u32 other_row = own * TEAM + member;
            float product = own_rows.dot(row, other.scored, other_row);
            weights[own] = score_of(core, score, product, query, key + other_row).score;
            greatest = larger(greatest, weights[own]);
        }
        greatest = team_max(greatest);
        // Nothing seen yet: infinity less infinity would not be a number.
        float shift = greatest == -INFINITE ? 0 : greatest, shrink = fast_exp2(before - shift), added = 0;
        for (u32 own = 0; own < OWN; own++) {
            weights[own] = fast_exp2(weights[own] - shift);
            added += weights[own];
            weights[own] *= kept(core, score, query, key + own * TEAM + member);
        }
        sum = sum * shrink + team_sum(added);
        for (float &value : sums) {
            value *= shrink;
        }
        other.valued.add_to(sums, weights);
    }
    // All of a team have read the log-sum-exp that one of them replaces.
    __syncwarp();
    if (query < tokens) {
        Rows<VALUE_DIM>::put(output + place * VALUE_DIM, sums, sum == 0 ? 0 : 1 / sum, 0);
        if (member == 0) {
            log_sum_exp[place] = (greatest + log2f(sum)) * LN_2;
        }
    }
}

// As attention_backward_queries.
KERNEL __launch_bounds__(THREADS, 1)
    attention_plain_backward_queries(const Storage *queries, u64 query_stride, const Storage *keys, const Storage *values,
                                     u64 key_stride, const Storage *output_gradient, const float *log_sum_exp,
                                     const float *delta, Storage *query_gradient, u64 gradient_stride, u32 accumulate,
                                     CORE_PARAMETERS) {
    extern __shared__ __align__(16) u8 memory[];
    Side &side = *(Side *)memory, &other = *(Side *)(memory + sizeof(Side));
    Core core = CORE;
    u32 first = blockIdx.x * TILE, head = blockIdx.y, sequence = blockIdx.z;
    u32 row = threadIdx.x / TEAM, member = threadIdx.x % TEAM, query = first + row;
    HeadScore score = head_score(core, sequence, head);
    u64 first_row = sequence * (u64)tokens + first, place = (first_row + row) * heads + head;
    keys += sequence * (u64)key_tokens * key_stride + head / group * QUERY_DIM;
    values += sequence * (u64)key_tokens * key_stride + head / group * VALUE_DIM;
    side.scored.fill(queries + first_row * query_stride + head * QUERY_DIM, query_stride, tokens - first);
    side.valued.fill(output_gradient + (first_row * heads + head) * VALUE_DIM, heads * (u64)VALUE_DIM, tokens - first);
    float shift = query < tokens ? in_scores(log_sum_exp[place]) : 0, own_delta = query < tokens ? delta[place] : 0;
    float sums[Rows<QUERY_DIM>::COLUMNS] = {};
    for (u32 key = 0; key < key_tokens; key += TILE) {
        if (between(core, first, TILE, key, TILE) == NOTHING) {
            continue;
        }
        __syncthreads();
        other.scored.fill(keys + key * key_stride, key_stride, key_tokens - key);
        other.valued.fill(values + key * key_stride, key_stride, key_tokens - key);
        __syncthreads();
        float weights[OWN];
        for (u32 own = 0; own < OWN; own++) {
            u32 other_row = own * TEAM + member;
            float product = side.scored.dot(row, other.scored, other_row);
            Scored found = score_of(core, score, product, query, key + other_row);
            float gradient = side.valued.dot(row, other.valued, other_row) * kept(core, score, query, key + other_row);
            weights[own] = fast_exp2(found.score - shift) * (gradient - own_delta) * found.gradient;
        }
        other.scored.add_to(sums, weights);
    }
    if (query < tokens) {
        Storage *to = query_gradient + (first_row + row) * gradient_stride + head * QUERY_DIM;
        Rows<QUERY_DIM>::put(to, sums, scale, accumulate);
    }
}

// As attention_backward_keys.
KERNEL __launch_bounds__(THREADS, 1)
    attention_plain_backward_keys(const Storage *queries, u64 query_stride, const Storage *keys, const Storage *values,
                                  u64 key_stride, const Storage *output_gradient, const float *log_sum_exp,
                                  const float *delta, Storage *key_gradient, Storage *value_gradient, u64 gradient_stride,
                                  u32 accumulate, CORE_PARAMETERS) {
    extern __shared__ __align__(16) u8 memory[];
    Side &side = *(Side *)memory, &other = *(Side *)(memory + sizeof(Side));
    Core core = CORE;
    u32 first = blockIdx.x * TILE, key_head = blockIdx.y, sequence = blockIdx.z;
    u32 row = threadIdx.x / TEAM, member = threadIdx.x % TEAM, key = first + row;
    u64 first_row = sequence * (u64)key_tokens + first;
    side.scored.fill(keys + first_row * key_stride + key_head * QUERY_DIM, key_stride, key_tokens - first);
    side.valued.fill(values + first_row * key_stride + key_head * VALUE_DIM, key_stride, key_tokens - first);
    float key_sums[Rows<QUERY_DIM>::COLUMNS] = {}, value_sums[Rows<VALUE_DIM>::COLUMNS] = {};
    for (u32 head = key_head * group; head < (key_head + 1) * group; head++) {
        HeadScore score = head_score(core, sequence, head);
        for (u32 query = 0; query < tokens; query += TILE) {
            if (between(core, query, TILE, first, TILE) == NOTHING) {
                continue;
            }
            u64 query_row = sequence * (u64)tokens + query;
            __syncthreads();
            other.scored.fill(queries + query_row * query_stride + head * QUERY_DIM, query_stride, tokens - query);
            other.valued.fill(output_gradient + (query_row * heads + head) * VALUE_DIM, heads * (u64)VALUE_DIM,
                              tokens - query);
            __syncthreads();
            float weights[OWN], gradients[OWN];
            for (u32 own = 0; own < OWN; own++) {
                u32 other_row = own * TEAM + member;
                bool exists = query + other_row < tokens;
                u64 place = (query_row + (exists ? other_row : 0)) * heads + head;
                float product = side.scored.dot(row, other.scored, other_row);
                Scored found = score_of(core, score, product, query + other_row, key);
                float probability = fast_exp2(found.score - in_scores(log_sum_exp[place]));
                float share = kept(core, score, query + other_row, key);
                weights[own] = probability * share;
                gradients[own] = side.valued.dot(row, other.valued, other_row) * share - delta[place];
                gradients[own] *= probability * found.gradient;
            }
            other.valued.add_to(value_sums, weights);
            other.scored.add_to(key_sums, gradients);
        }
    }
    if (key < key_tokens) {
        u64 offset = (first_row + row) * gradient_stride;
        Rows<QUERY_DIM>::put(key_gradient + offset + key_head * QUERY_DIM, key_sums, scale, accumulate);
        Rows<VALUE_DIM>::put(value_gradient + offset + key_head * VALUE_DIM, value_sums, 1, accumulate);
    }
}

#ifdef SOFT_CAP
// Where probabilities are a tensor: gradients of scores [sequences, heads, queries, keys] become those of what was capped.
// The products are made again, as only probabilities are kept.
KERNEL __launch_bounds__(THREADS, 1)
    attention_plain_soft_cap(const Storage *queries, u64 query_stride, const Storage *keys, u64 key_stride,
                             Storage *gradients, CORE_PARAMETERS) {
    extern __shared__ __align__(16) u8 memory[];
    Rows<QUERY_DIM> &own_rows = *(Rows<QUERY_DIM> *)memory, &other = (&own_rows)[1];
    Core core = CORE;
    u32 first = blockIdx.x * TILE, head = blockIdx.y, sequence = blockIdx.z;
    u32 row = threadIdx.x / TEAM, member = threadIdx.x % TEAM, query = first + row;
    HeadScore score = head_score(core, sequence, head);
    keys += sequence * (u64)key_tokens * key_stride + head / group * QUERY_DIM;
    own_rows.fill(queries + (sequence * (u64)tokens + first) * query_stride + head * QUERY_DIM, query_stride, tokens - first);
    gradients += ((sequence * (u64)heads + head) * tokens + query) * key_tokens;
    for (u32 key = 0; key < key_tokens; key += TILE) {
        if (between(core, first, TILE, key, TILE) == NOTHING) {
            continue;
        }
        __syncthreads();
        other.fill(keys + key * key_stride, key_stride, key_tokens - key);
        __syncthreads();
        for (u32 own = 0; own < OWN; own++) {
            u32 other_row = own * TEAM + member;
            if (query < tokens && key + other_row < key_tokens) {
                Scored found = score_of(core, score, own_rows.dot(row, other, other_row), query, key + other_row);
                Storage &gradient = gradients[key + other_row];
                if (found.score != -INFINITE) {
                    gradient = narrow<Storage>(wide(gradient) * found.gradient);
                }
            }
        }
    }
}
#endif
