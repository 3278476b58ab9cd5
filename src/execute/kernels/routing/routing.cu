// Routing of a mixture of experts: which experts a token is sent to, by which weights, into which slots.
//
// One matrix `routing` [tokens, experts] says it all: the probabilities of all experts, those of the chosen ones with a
// minus sign (−0 too is chosen). `routing_choose` and `routing_place` read from it, for the kernels after them:
// - experts_of, weights_of and slots_of [tokens, top_k], by choice, the most probable expert first and of equals the
//   lower one; the slot is NONE where the expert dropped the token;
// - entries_of [experts · slots], the token · top_k + choice that a slot holds, or NONE.
#include "cuda/common.cuh"

const u32 NONE = 0xffffffff;

struct Candidate {
    float value;
    u32 expert;
};

DEVICE Candidate better(Candidate a, Candidate b) {
    bool takes = b.value > a.value || (!(a.value > b.value) && b.expert < a.expert);
    return takes ? b : a;
}

// The best of a warp's candidates, in all of its lanes.
DEVICE Candidate best_of_warp(Candidate own) {
#pragma unroll
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        Candidate other = {__shfl_xor_sync(ALL, own.value, distance), __shfl_xor_sync(ALL, own.expert, distance)};
        own = better(own, other);
    }
    return own;
}

// Marks a probability by its sign. By bits: negating what is not a number leaves its sign to the hardware.
DEVICE void choose(float *probability) {
    *(u32 *)probability |= 0x80000000;
}

DEVICE bool is_chosen(float marked) {
    return __float_as_uint(marked) >> 31;
}

// Logits become probabilities, those of the chosen experts with a minus sign. A warp takes a token.
KERNEL routing_assign(float *routing, u32 tokens, u32 experts, u32 top_k) {
    u64 token = thread_number() / WARP;
    u32 lane = threadIdx.x % WARP;
    if (token >= tokens) {
        return;
    }
    float *row = routing + token * experts;
    float greatest = -INFINITE, sum = 0.0f;
    for (u32 expert = lane; expert < experts; expert += WARP) {
        greatest = larger(greatest, row[expert]);
    }
    greatest = warp_max(greatest);
    for (u32 expert = lane; expert < experts; expert += WARP) {
        sum += expf(row[expert] - greatest);
    }
    sum = warp_sum(sum);
    for (u32 expert = lane; expert < experts; expert += WARP) {
        // Not a number: no sign but the mark's.
        row[expert] = fabsf(expf(row[expert] - greatest) / sum);
    }
    for (u32 choice = 0; choice < top_k; choice++) {
        Candidate best = {-INFINITE, NONE};
        for (u32 expert = lane; expert < experts; expert += WARP) {
            if (!is_chosen(row[expert])) {
                best = better(best, {row[expert], expert});
            }
        }
        best = best_of_warp(best);
        if (best.expert % WARP == lane && best.expert < experts) {
            choose(row + best.expert);
        }
    }
}

// Experts and weights of the tokens' choices. A warp takes a token.
KERNEL routing_choose(const float *routing, u32 *experts_of, float *weights_of, u32 tokens, u32 experts, u32 top_k,
                      u32 renormalise) {
    u64 token = thread_number() / WARP;
    u32 lane = threadIdx.x % WARP;
    if (token >= tokens) {
        return;
    }
    const float *row = routing + token * experts;
    Candidate last = {INFINITE, 0}, own = {0.0f, NONE};
    float sum = 0.0f;
    for (u32 choice = 0; choice < top_k; choice++) {
        // The best of those that come after the last one.
        Candidate best = {-INFINITE, NONE};
        for (u32 expert = lane; expert < experts; expert += WARP) {
            Candidate next = {-row[expert], expert};
            bool after = choice == 0 || (better(last, next).expert == last.expert && expert != last.expert);
            if (is_chosen(row[expert]) && after) {
                best = better(best, next);
            }
        }
        last = best_of_warp(best);
        sum += last.value;
        own = choice == lane ? last : own;
    }
    if (lane < top_k) {
        experts_of[token * top_k + lane] = own.expert;
        weights_of[token * top_k + lane] = renormalise ? own.value / sum : own.value;
    }
}

// Which slot each choice takes, in the order of the tokens. A block takes an expert.
KERNEL routing_place(const u32 *experts_of, u32 *slots_of, u32 *entries_of, u32 entries, u32 slots) {
    __shared__ u32 of_warps[MAX_WARPS];
    u32 expert = blockIdx.x, warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, taken = 0;
    for (u32 start = 0; start < entries; start += blockDim.x) {
        u32 entry = start + threadIdx.x;
        bool chose = entry < entries && experts_of[entry] == expert;
        u32 chose_in_warp = __ballot_sync(ALL, chose);
        if (lane == 0) {
            of_warps[warp] = __popc(chose_in_warp);
        }
        __syncthreads();
        u32 before = taken + __popc(chose_in_warp & ((1u << lane) - 1));
        for (u32 other = 0; other < blockDim.x / WARP; other++) {
            before += other < warp ? of_warps[other] : 0;
            taken += of_warps[other];
        }
        if (chose) {
            slots_of[entry] = before < slots ? before : NONE;
            if (before < slots) {
                entries_of[expert * slots + before] = entry;
            }
        }
        __syncthreads();
    }
    for (u32 slot = taken + threadIdx.x; slot < slots; slot += blockDim.x) {
        entries_of[expert * slots + slot] = NONE;
    }
}

// Where the row of a slot begins: blocks of an expert's slots, with the weights of its slots behind them if carried.
DEVICE u64 row_of(u64 expert, u32 slot, u32 slots, u32 width, u32 carried) {
    return expert * slots * (width + carried) + (u64)slot * width;
}

// Rows of `tokens` into slots; empty slots become zero. A block takes a slot.
KERNEL routing_to_slots(const u32 *entries_of, const float *weights_of, const Storage *tokens, Storage *slots_data,
                        u32 width, u32 slots, u32 top_k, u32 carried) {
    u32 expert = blockIdx.x / slots, slot = blockIdx.x % slots, entry = entries_of[blockIdx.x];
    bool empty = entry == NONE;
    Storage *to = slots_data + row_of(expert, slot, slots, width, carried);
    const Storage *from = tokens + (u64)(empty ? 0 : entry / top_k) * width;
    for (u32 column = threadIdx.x * RUN; column < width; column += blockDim.x * RUN) {
        u32 count = left(width, column);
        store(to + column, load(from + column, empty ? 0 : count), count);
    }
    if (carried && threadIdx.x == 0) {
        Storage *weights = slots_data + row_of(expert, slots, slots, width, carried);
        weights[slot] = narrow<Storage>(empty ? 0.0f : weights_of[entry]);
    }
}

// Rows of slots back to `tokens`: each token's sum over its choices in their order; zero where all of them dropped it.
// A thread takes a run of a token.
KERNEL routing_from_slots(const u32 *experts_of, const u32 *slots_of, const Storage *slots_data, Storage *tokens,
                          u32 count, u32 width, u32 slots, u32 top_k, u32 carried) {
    Spot at = spot(thread_number(), count, width);
    if (at.count == 0) {
        return;
    }
    Run sum = {};
    for (u64 entry = (u64)at.row * top_k; entry < (u64)(at.row + 1) * top_k; entry++) {
        u32 slot = slots_of[entry];
        if (slot != NONE) {
            Run x = load(slots_data + row_of(experts_of[entry], slot, slots, width, carried) + at.column, at.count);
#pragma unroll
            for (u32 lane = 0; lane < RUN; lane++) {
                sum.values[lane] += x.values[lane];
            }
        }
    }
    store(tokens + (u64)at.row * width + at.column, sum, at.count);
}

// Gradient of the logits [tokens, experts]; slots carry the gradient of each slot's weight. A warp takes a token.
//
// With a = weight · d(loss)/d(weight), 0 where unchosen or dropped: d(loss)/d(logit) = a − q · Σa, where q is the weight
// (0 for unchosen experts) if weights are renormalised, and the probability of any expert if not.
KERNEL routing_gradient(const float *routing, const u32 *experts_of, const float *weights_of, const u32 *slots_of,
                        const Storage *slots_data, float *gradient, u32 tokens, u32 experts, u32 width, u32 slots,
                        u32 top_k, u32 renormalise) {
    u64 token = thread_number() / WARP;
    u32 lane = threadIdx.x % WARP;
    if (token >= tokens) {
        return;
    }
    u64 entry = token * top_k + lane;
    u32 expert = lane < top_k ? experts_of[entry] : NONE, slot = lane < top_k ? slots_of[entry] : NONE;
    float weight = lane < top_k ? weights_of[entry] : 0.0f, of_weight = 0.0f;
    if (slot != NONE) {
        of_weight = wide(slots_data[row_of(expert, slots, slots, width, 1) + slot]);
    }
    float sum = warp_sum(weight * of_weight), own = weight * of_weight;
    if (renormalise) {
        // Since weights sum to one, this is a − weight · Σa, without its loss of digits where gradients are alike.
        float differences = 0.0f;
        for (u32 choice = 0; choice < top_k; choice++) {
            float difference = of_weight - __shfl_sync(ALL, of_weight, choice);
            differences = fmaf(__shfl_sync(ALL, weight, choice), difference, differences);
        }
        own = weight * differences;
    }
    for (u32 start = 0; start < experts; start += WARP) {
        u32 target = start + lane;
        float value = target < experts && !renormalise ? -fabsf(routing[token * experts + target]) * sum : 0.0f;
        for (u32 choice = 0; choice < top_k; choice++) {
            u32 chosen = __shfl_sync(ALL, expert, choice);
            float of_choice = __shfl_sync(ALL, own, choice);
            value += chosen == target ? of_choice : 0.0f;
        }
        if (target < experts) {
            gradient[token * experts + target] = value;
        }
    }
}
