// The arithmetic of collectives between ranks of one device: sums of contributions in a fixed order, and the exchange of
// heads between context ranks. A thread takes a run.
//
// -DWIRE_BF16 or -DWIRE_F16 says that contributions and the sum are rounded to what travels.
#include "cuda/common.cuh"

#if defined(WIRE_BF16)
DEVICE float travelled(float value) {
    return wide(narrow<Bf16>(value));
}
#elif defined(WIRE_F16)
// To the nearest f16, ties to even.
DEVICE float travelled(float value) {
    u32 bits = __float_as_uint(value), sign = bits & 0x80000000;
    float magnitude = fabsf(value);
    // Below the normal numbers of f16, neighbours are 2⁻²⁴ apart, as those of f32 are from 1/2 on.
    float small = (magnitude + 0.5f) - 0.5f;
    float normal = __uint_as_float((bits + 0xfff + ((bits >> 13) & 1)) & 0x7fffe000);
    float rounded = magnitude < 6.103515625e-5f ? small : normal >= 65536.0f ? INFINITE : normal;
    return value != value ? value : __uint_as_float(__float_as_uint(rounded) | sign);
}
#else
DEVICE float travelled(float value) {
    return value;
}
#endif

// output = scale · Σ parts, in order; parts stand `stride` elements apart. The output may be one of them.
KERNEL collectives_sum(const Storage *parts, Storage *output, u64 count, u64 stride, u32 members, float scale) {
    u64 place = thread_number() * RUN;
    u32 there = left(count, place);
    Run sum = {};
    for (u32 member = 0; member < members; member++) {
        Run x = load(parts + member * stride + place, there);
#pragma unroll
        for (u32 lane = 0; lane < RUN; lane++) {
            float value = travelled(x.values[lane]);
            sum.values[lane] = member == 0 ? value : sum.values[lane] + value;
        }
    }
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        sum.values[lane] = travelled(sum.values[lane] * scale);
    }
    store(output + place, sum, there);
}

// Of a row of one context rank's tokens, the row among all tokens, of which each of `contexts` ranks has `local` of
// every sequence.
DEVICE u64 row_among_all(u32 row, u32 local, u32 contexts, u32 context) {
    return ((u64)(row / local) * contexts + context) * local + row % local;
}

// From the tokens of context rank `context`, of all heads, to all tokens of this rank's heads: one run of columns.
KERNEL collectives_to_heads(const Storage *from, Storage *to, u32 rows, u32 columns, u32 from_stride, u32 from_first,
                            u32 to_stride, u32 to_first, u32 local, u32 contexts, u32 context) {
    Spot at = spot(thread_number(), rows, columns);
    if (at.count == 0) {
        return;
    }
    Run x = load(from + (u64)at.row * from_stride + from_first + at.column, at.count);
    u64 row = row_among_all(at.row, local, contexts, context);
    store(to + row * to_stride + to_first + at.column, x, at.count);
}

// The way back, from another rank's heads to the tokens of this one, context rank `context`: added to what is there,
// since ranks may share heads.
KERNEL collectives_to_tokens(const Storage *from, Storage *to, u32 rows, u32 columns, u32 from_stride, u32 from_first,
                             u32 to_stride, u32 to_first, u32 local, u32 contexts, u32 context) {
    Spot at = spot(thread_number(), rows, columns);
    if (at.count == 0) {
        return;
    }
    u64 row = row_among_all(at.row, local, contexts, context);
    Run x = load(from + row * from_stride + from_first + at.column, at.count);
    Storage *place = to + (u64)at.row * to_stride + to_first + at.column;
    Run sum = load(place, at.count);
#pragma unroll
    for (u32 lane = 0; lane < RUN; lane++) {
        sum.values[lane] += x.values[lane];
    }
    store(place, sum, at.count);
}
