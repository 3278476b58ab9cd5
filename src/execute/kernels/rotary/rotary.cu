// Rotary positions: pairs of a head's elements turn by an angle that grows with the token's position; element i of the
// first half of the turned elements pairs with element i of the second. A block takes a token.
#include "cuda/common.cuh"

const u32 MAX_PAIRS = 128;

struct Turned {
    float cosine, sine;
};

// Cosine and sine of an angle, in f64 and rounded once: polynomials of Taylor about 0 for what is left of the angle
// beside whole quarters of a turn. Good to f32 for angles below 2³⁰.
DEVICE Turned turned(float angle) {
    const double QUARTER = 1.5707963267948966, QUARTER_TAIL = 6.123233995736766e-17;
    double quarters = rint(angle * 0.63661977236758134);
    double x = fma(-quarters, QUARTER_TAIL, fma(-quarters, QUARTER, (double)angle));
    double square = x * x;
    double sine = 1.6059043836821613e-10, cosine = -1.1470745597729725e-11;
    sine = fma(sine, square, -2.5052108385441720e-8);
    sine = fma(sine, square, 2.7557319223985893e-6);
    sine = fma(sine, square, -1.9841269841269841e-4);
    sine = fma(sine, square, 8.3333333333333332e-3);
    sine = fma(sine, square, -1.6666666666666666e-1);
    sine = fma(sine * square, x, x);
    cosine = fma(cosine, square, 2.0876756987868099e-9);
    cosine = fma(cosine, square, -2.7557319223985888e-7);
    cosine = fma(cosine, square, 2.4801587301587302e-5);
    cosine = fma(cosine, square, -1.3888888888888889e-3);
    cosine = fma(cosine, square, 4.1666666666666664e-2);
    cosine = fma(cosine, square, -0.5);
    cosine = fma(cosine, square, 1.0);
    u32 quarter = (u32)(long long)quarters;
    double first = quarter & 1 ? -sine : cosine, second = quarter & 1 ? cosine : sine;
    return {(float)(quarter & 2 ? -first : first), (float)(quarter & 2 ? -second : second)};
}

// Turns the first `heads` heads of all tokens of `data` [tokens, stride] in place, by position times the frequency of
// each of `pairs` pairs; `positions` are those of the tokens of one sequence.
KERNEL rotary_turn(Storage *data, const u32 *positions, const float *frequencies, u32 sequence, u32 stride, u32 heads,
                   u32 head_dim, u32 pairs, u32 backward) {
    __shared__ float cosines[MAX_PAIRS], sines[MAX_PAIRS];
    float position = (float)positions[blockIdx.x % sequence];
    for (u32 pair = threadIdx.x; pair < pairs; pair += blockDim.x) {
        Turned of_pair = turned(position * frequencies[pair]);
        cosines[pair] = of_pair.cosine;
        sines[pair] = backward ? -of_pair.sine : of_pair.sine;
    }
    __syncthreads();
    u32 runs = (pairs + RUN - 1) / RUN;
    for (u32 turn = threadIdx.x; turn < heads * runs; turn += blockDim.x) {
        u32 head = turn / runs, first = turn % runs * RUN, count = left(pairs, first);
        Storage *left_half = data + (u64)blockIdx.x * stride + head * head_dim + first;
        Storage *right_half = left_half + pairs;
        Run x = load(left_half, count), y = load(right_half, count);
#pragma unroll
        for (u32 lane = 0; lane < RUN; lane++) {
            u32 pair = min(first + lane, pairs - 1);
            float cosine = cosines[pair], sine = sines[pair], old = x.values[lane];
            x.values[lane] = old * cosine - y.values[lane] * sine;
            y.values[lane] = y.values[lane] * cosine + old * sine;
        }
        store(left_half, x, count);
        store(right_half, y, count);
    }
}
