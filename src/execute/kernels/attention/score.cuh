// What all attention kernels share: which keys a query sees, and how the product of a query and a key becomes a score.
//
// -D options: SOFT_CAP, ALIBI, DROPOUT. Scores are in units of the logarithm to base 2, because that is the power that
// the hardware takes.
#pragma once

#include "cuda/common.cuh"
#include "cuda/dropout.cuh"
#include "cuda/ptx.cuh"

const float LOG2_E = 1.4426950408889634f;
const float LN_2 = 0.6931471805599453f;

// What stays the same for a launch.
struct Core {
    // Query and key tokens of a sequence, query heads, and how many of them share a key-value head.
    u32 tokens, key_tokens, heads, group;
    // Of the tokens of any sequence, in the whole sequence; and whether both lists ascend.
    const u32 *query_positions, *key_positions;
    u32 ascending;
    // A query sees keys at least `nearest` and less than `reach` positions back.
    int nearest, reach;
    float scale, soft_cap;
    // The global number of head 0, and how many heads there are, for linear biases.
    u32 first_head, total_heads;
#ifdef DROPOUT
    const double *scalars;
    u64 site, threshold;
    float kept_scale;
    // The global number of sequence 0, and the tokens of a whole sequence.
    u64 first_sequence, whole_tokens;
#endif
};

#ifdef DROPOUT
#define DROPOUT_PARAMETERS \
    , const double *scalars, u64 site, u64 threshold, float kept_scale, u64 first_sequence, u64 whole_tokens
#define DROPOUT_ARGUMENTS , scalars, site, threshold, kept_scale, first_sequence, whole_tokens
#else
#define DROPOUT_PARAMETERS
#define DROPOUT_ARGUMENTS
#endif
#define CORE_PARAMETERS                                                                                              \
    u32 tokens, u32 key_tokens, u32 heads, u32 group, const u32 *query_positions, const u32 *key_positions,          \
        u32 ascending, int nearest, int reach, float scale, float soft_cap, u32 first_head, u32 total_heads          \
            DROPOUT_PARAMETERS
#define CORE                                                                                                         \
    {tokens,  key_tokens, heads, group,    query_positions, key_positions, ascending,                                \
     nearest, reach,      scale, soft_cap, first_head,      total_heads DROPOUT_ARGUMENTS}

enum Visible { NOTHING, SOME, EVERYTHING };

DEVICE bool sees(const Core &core, int distance) {
    return distance >= core.nearest && distance < core.reach;
}

// What `size` queries from `query` on see of `size` keys from `key` on; tokens that do not exist are not seen.
DEVICE Visible between(const Core &core, u32 query, u32 queries, u32 key, u32 keys) {
    u32 last_query = min(query + queries, core.tokens) - 1, last_key = min(key + keys, core.key_tokens) - 1;
    if (!core.ascending) {
        return SOME;
    }
    int least = (int)(core.query_positions[query] - core.key_positions[last_key]);
    int most = (int)(core.query_positions[last_query] - core.key_positions[key]);
    if (most < core.nearest || least >= core.reach) {
        return NOTHING;
    }
    bool whole = query + queries <= core.tokens && key + keys <= core.key_tokens;
    return whole && sees(core, least) && sees(core, most) ? EVERYTHING : SOME;
}

// Positions; of tokens that do not exist, any.
DEVICE int query_position(const Core &core, u32 query) {
    return (int)core.query_positions[min(query, core.tokens - 1)];
}

DEVICE int key_position(const Core &core, u32 key) {
    return (int)core.key_positions[min(key, core.key_tokens - 1)];
}

// Scores of one query head of one sequence.
struct HeadScore {
    float factor, slope;
#ifdef DROPOUT
    Dropout dropout;
    // Pairs of all heads before this one, in tokens of the whole sequence.
    u64 first_row, whole_tokens;
#endif
};

DEVICE HeadScore head_score(const Core &core, u32 sequence, u32 head) {
    HeadScore score;
#if defined(ALIBI) || defined(DROPOUT)
    u32 number = core.first_head + head;
#endif
#ifdef SOFT_CAP
    score.factor = core.scale / core.soft_cap;
#else
    score.factor = core.scale * LOG2_E;
#endif
#ifdef ALIBI
    // A geometric sequence for the greatest power of two of heads, then every other member of the next finer one.
    u32 power = 1u << (31 - __clz(core.total_heads));
    float exponent = number < power ? 8.0f * (number + 1) / power : 4.0f * (2 * (number - power) + 1) / power;
    score.slope = exp2f(-exponent) * LOG2_E;
#endif
#ifdef DROPOUT
    score.dropout = dropout_of(core.scalars, core.site, core.threshold, core.kept_scale);
    score.first_row = ((core.first_sequence + sequence) * core.total_heads + number) * core.whole_tokens;
    score.whole_tokens = core.whole_tokens;
#endif
    return score;
}

// A score, and the gradient of the product by it, without the scale.
struct Scored {
    float score, gradient;
};

// Of a product, for a key `distance` positions back.
DEVICE Scored scored(const Core &core, const HeadScore &head, float product, int distance) {
    Scored result = {product * head.factor, 1};
#ifdef SOFT_CAP
    float capped = tanhf(result.score);
    result = {core.soft_cap * LOG2_E * capped, 1 - capped * capped};
#endif
#ifdef ALIBI
    result.score -= head.slope * distance;
#endif
    return result;
}

// What dropout multiplies the probability of a pair by.
DEVICE float kept(const HeadScore &head, int query_position, int key_position) {
#ifdef DROPOUT
    u64 row = (head.first_row + (u32)query_position) * head.whole_tokens;
    return factor(head.dropout, row + (u32)key_position);
#else
    return 1;
#endif
}

#if defined(ALIBI) || defined(DROPOUT)
const bool NEEDS_POSITIONS = true;
#else
const bool NEEDS_POSITIONS = false;
#endif

// The kept log-sum-exp to base 2, as scores are. A query that saw no key has −∞: 0 then, since −∞ − −∞ would be NaN.
DEVICE float in_scores(float log_sum_exp) {
    return log_sum_exp == -INFINITE ? 0 : log_sum_exp * LOG2_E;
}
