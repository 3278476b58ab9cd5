// Saved activations as integers of 8 or 4 bits (-DBITS=8 or -DBITS=4), with one f32 scale for each 256 elements.
//
// Integers of x / scale, to the nearest even, where scale is the group's greatest magnitude over the greatest integer.
// Four-bit integers stand two in a byte, the first in the low half. Scales follow all integers. A warp takes a group.
#include "cuda/common.cuh"

const u32 GROUP = WARP * RUN;
const int MASK = (1 << BITS) - 1;
#if BITS == 8
const double GREATEST = 127.0;
typedef u64 Packed;
#elif BITS == 4
const double GREATEST = 7.0;
typedef u32 Packed;
#else
#error "how many bits: -DBITS=8 or -DBITS=4"
#endif

// Bytes of `count` integers.
DEVICE u64 bytes_of(u64 count) {
    return (count * BITS + 7) / 8;
}

KERNEL quantise(const Storage *values, u8 *bytes, u64 count) {
    u64 first = thread_number() * RUN, group = first / GROUP;
    u32 there = left(count, first);
    Run x = load(values + first, there);
    float greatest = 0.0f;
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        greatest = larger(greatest, fabsf(x.values[lane]));
    }
    float scale = (float)((double)warp_max(greatest) / GREATEST);
    float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    Packed packed = 0;
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        // What is not a number becomes 0.
        int integer = max(-128, min(127, __float2int_rn(x.values[lane] * inverse)));
        packed |= (Packed)(integer & MASK) << (BITS * lane);
    }
    u8 *to = bytes + bytes_of(first);
    if (there == RUN && (u64)to % sizeof(Packed) == 0) {
        *(Packed *)to = packed;
    } else {
        for (u32 byte = 0; byte < bytes_of(there); byte++) {
            to[byte] = (u8)(packed >> (8 * byte));
        }
    }
    // Scales stand behind any number of bytes, so they are stored byte by byte.
    u32 lane = threadIdx.x % WARP;
    if (lane < sizeof(float) && group * GROUP < count) {
        bytes[bytes_of(count) + group * sizeof(float) + lane] = (u8)(__float_as_uint(scale) >> (8 * lane));
    }
}

KERNEL dequantise(const u8 *bytes, Storage *values, u64 count) {
    u64 first = thread_number() * RUN, group = first / GROUP;
    u32 there = left(count, first);
    if (there == 0) {
        return;
    }
    u32 bits = 0;
#pragma unroll
    for (u32 byte = 0; byte < sizeof(float); byte++) {
        bits |= (u32)bytes[bytes_of(count) + group * sizeof(float) + byte] << (8 * byte);
    }
    float scale = __uint_as_float(bits);
    const u8 *from = bytes + bytes_of(first);
    Packed packed = 0;
    if (there == RUN && (u64)from % sizeof(Packed) == 0) {
        packed = *(const Packed *)from;
    } else {
        for (u32 byte = 0; byte < bytes_of(there); byte++) {
            packed |= (Packed)from[byte] << (8 * byte);
        }
    }
    Run x;
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        // Shifting right again copies the sign into the upper bits.
        int integer = (int)((u32)(packed >> (BITS * lane)) << (32 - BITS)) >> (32 - BITS);
        x.values[lane] = (float)integer * scale;
    }
    store(values + first, x, there);
}
