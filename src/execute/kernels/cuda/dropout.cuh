// Dropout whose mask is a function of seed, step, site and the element's place in the whole tensor, so that every
// sharding and every recomputation drops the same elements.
#pragma once
#include "cuda/common.cuh"

struct Dropout {
    u64 key;
    // Elements whose 32 random bits are below this are dropped; the others are multiplied by `scale`.
    u64 threshold;
    float scale;
};

// The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) after one step from `state`.
DEVICE u64 mix(u64 state) {
    u64 z = state + 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

// The dropout of a site in the step whose number and seed lead `scalars`; the seed is an integer.
DEVICE Dropout dropout_of(const double *scalars, u64 site, u64 threshold, float scale) {
    u64 step = (u64)scalars[0], seed = (u64)__double_as_longlong(scalars[1]);
    return {mix(mix(mix(seed) ^ step) ^ site), threshold, scale};
}

// What element `element` of the whole tensor is multiplied by.
DEVICE float factor(const Dropout &dropout, u64 element) {
    return mix(dropout.key ^ element) >> 32 < dropout.threshold ? 0.0f : dropout.scale;
}
