// Floating point as PTX defines it. Approximate instructions are computed in double and rounded once: more exact than
// hardware, except tanh.approx, whose error of 2^-11 a kernel can feel and which is cut to 11 bits here.

enum Rounding { NEAREST, ZERO, DOWN, UP };

template <class T> INLINE T flush(T a) { return std::fpclassify(a) == FP_SUBNORMAL ? std::copysign(T(0), a) : a; }
template <class T> INLINE T saturate(T a) { return a > 0 ? (a < 1 ? a : T(1)) : T(0); }

// Rounds the exact sum of two doubles, the second smaller than an ulp of the first, to a float.
INLINE float directed(double sum, double rest, Rounding rounding) {
    float near = float(sum);
    if (!std::isfinite(sum) || !std::isfinite(near)) return near;
    bool above = near > sum || (near == sum && rest < 0), below = near < sum || (near == sum && rest > 0);
    bool down = rounding == DOWN || (rounding == ZERO && sum > 0), up = rounding == UP || (rounding == ZERO && sum < 0);
    if (above && down) return std::nextafterf(near, -INFINITY);
    if (below && up) return std::nextafterf(near, INFINITY);
    return near;
}
INLINE float sum_directed(double a, double b, Rounding rounding) {
    double sum = a + b, part = sum - a;
    return directed(sum, (a - (sum - part)) + (b - part), rounding);
}

template <Rounding R, class T> INLINE T fadd(T a, T b) {
    if constexpr (R == NEAREST) return a + b;
    else return sum_directed(a, b, R);
}
template <Rounding R, class T> INLINE T fsub(T a, T b) { return fadd<R>(a, T(-b)); }
template <Rounding R, class T> INLINE T fmul(T a, T b) {
    if constexpr (R == NEAREST) return a * b;
    else return directed(double(a) * double(b), 0, R);
}
template <Rounding R, class T> INLINE T ffma(T a, T b, T c) {
    if constexpr (R == NEAREST) {
        if constexpr (sizeof(T) == 4) return __builtin_fmaf(a, b, c);
        else return __builtin_fma(a, b, c);
    } else return sum_directed(double(a) * double(b), c, R);
}

// Hardware makes one value of all that are not numbers, of no sign (seen on an H200 where one was negated).
INLINE float one_nan(float a) { return std::isnan(a) ? std::bit_cast<float>(0x7fffffffu) : a; }
INLINE double one_nan(double a) { return a; }
template <class T> INLINE T fabs_(T a) { return one_nan(std::fabs(a)); }
template <class T> INLINE T fneg(T a) { return one_nan(-a); }
template <class T> INLINE T fmin_(T a, T b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? b : a;
    return a == b ? (std::signbit(a) ? a : b) : (a < b ? a : b);
}
template <class T> INLINE T fmax_(T a, T b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? b : a;
    return a == b ? (std::signbit(a) ? b : a) : (a > b ? a : b);
}
template <class T> INLINE T fmin_nan(T a, T b) { return std::isnan(a) || std::isnan(b) ? T(NAN) : fmin_(a, b); }
template <class T> INLINE T fmax_nan(T a, T b) { return std::isnan(a) || std::isnan(b) ? T(NAN) : fmax_(a, b); }
template <class T> INLINE T copysign_(T sign, T size) { return std::copysign(size, sign); }
template <class T> INLINE T fdiv(T a, T b) { return a / b; }
template <class T> INLINE T frcp(T a) { return 1 / a; }
template <class T> INLINE T fsqrt(T a) { return std::sqrt(a); }
INLINE float frsqrt(float a) { return float(1 / std::sqrt(double(a))); }
// A first guess in double has 20 bits: its lower word is zero.
INLINE double upper_word(double a) { return std::bit_cast<double>(std::bit_cast<u64>(a) & 0xffffffff00000000ull); }
INLINE double gross_rcp(double a) { return upper_word(1 / a); }
INLINE double gross_rsqrt(double a) { return upper_word(1 / std::sqrt(a)); }
INLINE float ex2(float a) { return float(std::exp2(double(a))); }
INLINE float lg2(float a) { return float(std::log2(double(a))); }
INLINE float sin_(float a) { return float(std::sin(double(a))); }
INLINE float cos_(float a) { return float(std::cos(double(a))); }
INLINE float tanh_(float a) {
    float exact = float(std::tanh(double(a)));
    return std::bit_cast<float>(std::bit_cast<u32>(exact) & ~0xfffu);
}

template <class T> INLINE bool is_nan(T a) {
    if constexpr (std::is_floating_point_v<T>) return std::isnan(a);
    else return false;
}
template <class T> INLINE bool unordered(T a, T b) { return is_nan(a) || is_nan(b); }

// Float to integer: rounded by mode, then clamped; NaN gives zero (64 bits and s32 alike).
template <class T> INLINE T round_even(T a) { return std::nearbyint(a); }
template <class I, class F> INLINE I to_integer(F whole) {
    if (std::isnan(whole)) return 0;
    if (whole <= F(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
    if (whole >= F(std::numeric_limits<I>::max())) return std::numeric_limits<I>::max();
    return I(whole);
}
template <class I, class S> INLINE I clamp_integer(S a) {
    __int128 value = a, low = std::numeric_limits<I>::min(), high = std::numeric_limits<I>::max();
    return I(value < low ? low : value > high ? high : value);
}

INLINE u16 bf16_nearest(float a) {
    u32 b = std::bit_cast<u32>(a);
    if (std::isnan(a)) return 0x7fff;
    return u16((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
INLINE u16 bf16_zero(float a) { return std::isnan(a) ? 0x7fff : u16(std::bit_cast<u32>(a) >> 16); }
INLINE float bf16_value(u16 a) { return std::bit_cast<float>(u32(a) << 16); }
INLINE float relu(float a) { return std::isnan(a) ? a : a > 0 ? a : 0.0f; }
// Ties away from zero, the low 13 bits cleared.
INLINE u32 tf32_away(float a) {
    u32 b = std::bit_cast<u32>(a);
    if (std::isnan(a)) return 0x7fffffff;
    return std::isinf(a) ? b : (b + 0x1000) & ~0x1fffu;
}
// One element of a packed pair of bf16: the sum of the exact product is rounded once.
INLINE u16 bf16_fma(u16 a, u16 b, u16 c) {
    double exact = double(bf16_value(a)) * bf16_value(b) + bf16_value(c);
    float odd = float(exact);
    if (double(odd) != exact && std::isfinite(odd)) {
        // Rounding to odd first keeps the second rounding right.
        u32 cut = std::bit_cast<u32>(std::fabs(double(odd)) > std::fabs(exact) ? std::nextafterf(odd, 0.0f) : odd);
        odd = std::bit_cast<float>(cut | 1);
    }
    return bf16_nearest(odd);
}
