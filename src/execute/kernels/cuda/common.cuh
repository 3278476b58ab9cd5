// What all kernels share: bf16 without headers, loads and stores of 16 bytes, and sums in a fixed order.
//
// Sources name the element type of activations by -DSTORAGE_BF16 or -DSTORAGE_F32, and that of gradients by
// -DGRADIENT_F32 where it is wider. Arithmetic is done in f32.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define DEVICE static __device__ __forceinline__
#define KERNEL extern "C" __global__ void

#define INFINITE __int_as_float(0x7f800000)

struct Bf16 {
    u16 bits;
};

#if defined(STORAGE_BF16)
typedef Bf16 Storage;
#elif defined(STORAGE_F32)
typedef float Storage;
#else
#error "the type of elements: -DSTORAGE_BF16 or -DSTORAGE_F32"
#endif

#if defined(STORAGE_F32) || defined(GRADIENT_F32)
typedef float Gradient;
#else
typedef Bf16 Gradient;
#endif

DEVICE float wide(Bf16 value) {
    return __uint_as_float((u32)value.bits << 16);
}

DEVICE float wide(float value) {
    return value;
}

// The bits of a bf16: rounded to nearest, ties to even; a NaN stays one and becomes quiet.
DEVICE u16 bf16_bits(float value) {
    u32 bits = __float_as_uint(value);
    u32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    u32 quiet = (bits >> 16) | 0x40;
    return (u16)(value != value ? quiet : rounded);
}

// Two bf16 in a register, the first in the low half.
DEVICE u32 bf16_pair(float low, float high) {
    return bf16_bits(low) | (u32)bf16_bits(high) << 16;
}

template <typename T> DEVICE T narrow(float value);

template <> __device__ __forceinline__ Bf16 narrow<Bf16>(float value) {
    Bf16 result;
    result.bits = bf16_bits(value);
    return result;
}

template <> __device__ __forceinline__ float narrow<float>(float value) {
    return value;
}

// Elements that a thread takes at a time: 16 bytes of bf16, twice 16 of f32.
const u32 RUN = 8;

struct Run {
    float values[RUN];
};

DEVICE bool is_aligned(const void *pointer) {
    return ((u64)pointer & 15) == 0;
}

// Elements of a run at `first` of `count` that exist.
DEVICE u32 left(u64 count, u64 first) {
    u64 rest = count > first ? count - first : 0;
    return rest < RUN ? (u32)rest : RUN;
}

DEVICE void load_whole(Run &run, const Bf16 *from) {
    uint4 packed = *(const uint4 *)from;
    u32 pairs[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (u32 pair = 0; pair < 4; pair++) {
        run.values[2 * pair] = __uint_as_float(pairs[pair] << 16);
        run.values[2 * pair + 1] = __uint_as_float(pairs[pair] & 0xffff0000);
    }
}

DEVICE void load_whole(Run &run, const float *from) {
#pragma unroll
    for (u32 half = 0; half < 2; half++) {
        float4 four = ((const float4 *)from)[half];
        run.values[4 * half] = four.x;
        run.values[4 * half + 1] = four.y;
        run.values[4 * half + 2] = four.z;
        run.values[4 * half + 3] = four.w;
    }
}

DEVICE void store_whole(Bf16 *to, const Run &run) {
    const float *v = run.values;
    *(uint4 *)to = make_uint4(
        bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]), bf16_pair(v[4], v[5]), bf16_pair(v[6], v[7]));
}

DEVICE void store_whole(float *to, const Run &run) {
    const float *v = run.values;
    ((float4 *)to)[0] = make_float4(v[0], v[1], v[2], v[3]);
    ((float4 *)to)[1] = make_float4(v[4], v[5], v[6], v[7]);
}

// The first `count` elements; the others become `rest`.
template <typename T> DEVICE Run load(const T *from, u32 count, float rest = 0.0f) {
    Run run;
    if (count == RUN && is_aligned(from)) {
        load_whole(run, from);
    } else {
#pragma unroll
        for (u32 lane = 0; lane < RUN; lane++) {
            run.values[lane] = lane < count ? wide(from[lane]) : rest;
        }
    }
    return run;
}

template <typename T> DEVICE void store(T *to, const Run &run, u32 count) {
    if (count == RUN && is_aligned(to)) {
        store_whole(to, run);
    } else {
#pragma unroll
        for (u32 lane = 0; lane < RUN; lane++) {
            if (lane < count) {
                to[lane] = narrow<T>(run.values[lane]);
            }
        }
    }
}

// A run of a matrix of `width` columns: which row, and its first column. Runs do not cross rows.
struct Spot {
    u32 row, column, count;
};

DEVICE Spot spot(u64 run, u32 rows, u32 width) {
    u32 per_row = (width + RUN - 1) / RUN;
    u64 row = run / per_row;
    Spot place;
    place.row = (u32)row;
    place.column = (u32)(run - row * per_row) * RUN;
    place.count = row < rows ? left(width, place.column) : 0;
    return place;
}

// The number of this thread among all of the launch.
DEVICE u64 thread_number() {
    return (u64)blockIdx.x * blockDim.x + threadIdx.x;
}

const u32 WARP = 32;
const u32 ALL = 0xffffffff;
const u32 MAX_WARPS = 32;

// The sum over a warp, in all of its lanes.
template <typename T> DEVICE T warp_sum(T value) {
#pragma unroll
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(ALL, value, distance);
    }
    return value;
}

// The larger number. A NaN in `b` is ignored, one in `a` stays.
DEVICE float larger(float a, float b) {
    return b > a ? b : a;
}

DEVICE float warp_max(float value) {
#pragma unroll
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        value = larger(value, __shfl_xor_sync(ALL, value, distance));
    }
    return value;
}

// The sum over a block of whole warps, in all of its threads. All must call.
template <typename T> DEVICE T block_sum(T value) {
    __shared__ T of_warps[MAX_WARPS];
    u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    value = warp_sum(value);
    // The sum before this one may still be read.
    __syncthreads();
    if (lane == 0) {
        of_warps[warp] = value;
    }
    __syncthreads();
    return warp_sum(lane < blockDim.x / WARP ? of_warps[lane] : (T)0);
}

DEVICE float block_max(float value) {
    __shared__ float of_warps[MAX_WARPS];
    u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    value = warp_max(value);
    __syncthreads();
    if (lane == 0) {
        of_warps[warp] = value;
    }
    __syncthreads();
    return warp_max(lane < blockDim.x / WARP ? of_warps[lane] : -INFINITE);
}
