// Integer arithmetic as PTX defines it: everything wraps, shifts saturate at the width.

template <class T> using Unsigned = std::make_unsigned_t<T>;
template <class T> constexpr u32 width = sizeof(T) * 8;

template <class T> INLINE T add(T a, T b) { return T(Unsigned<T>(a) + Unsigned<T>(b)); }
template <class T> INLINE T sub(T a, T b) { return T(Unsigned<T>(a) - Unsigned<T>(b)); }
template <class T> INLINE T mul_hi(T a, T b) {
    if constexpr (std::is_signed_v<T>) return T((__int128(a) * __int128(b)) >> width<T>);
    else return T(((unsigned __int128)(a) * b) >> width<T>);
}

template <class T> INLINE T div(Thread *t, u32 line, T a, T b) {
    if (b == 0) host->trap(t, 1, line);
    if constexpr (std::is_signed_v<T>)
        if (b == -1) return T(0 - Unsigned<T>(a));
    return T(a / b);
}
template <class T> INLINE T rem(Thread *t, u32 line, T a, T b) {
    if (b == 0) host->trap(t, 1, line);
    if constexpr (std::is_signed_v<T>)
        if (b == -1) return 0;
    return T(a % b);
}

template <class T> INLINE T neg(T a) { return T(0 - Unsigned<T>(a)); }
template <class T> INLINE T abs_(T a) { return a < 0 ? neg(a) : a; }
template <class T> INLINE T min_(T a, T b) { return a < b ? a : b; }
template <class T> INLINE T max_(T a, T b) { return a > b ? a : b; }
template <class T> INLINE T and_(T a, T b) { return T(a & b); }
template <class T> INLINE T or_(T a, T b) { return T(a | b); }
template <class T> INLINE T xor_(T a, T b) { return T(a ^ b); }
template <class T> INLINE T not_(T a) {
    if constexpr (std::is_same_v<T, bool>) return !a;
    else return T(~a);
}
template <class T> INLINE T cnot(T a) { return a == 0; }
template <class T> INLINE T shl(T a, u32 by) { return by >= width<T> ? T(0) : T(Unsigned<T>(a) << by); }
template <class T> INLINE T shr(T a, u32 by) {
    if (by >= width<T>) return std::is_signed_v<T> && a < 0 ? T(-1) : T(0);
    return T(a >> by);
}
template <class T> INLINE u32 clz(T a) { return std::countl_zero(a); }
template <class T> INLINE u32 popc(T a) { return std::popcount(a); }
template <class T> INLINE T brev(T a) {
    T reversed = 0;
    for (u32 i = 0; i < width<T>; i++) reversed |= T(a >> i & 1) << (width<T> - 1 - i);
    return reversed;
}
// The place of the highest bit that isn't the sign, or all ones.
template <class T> INLINE u32 bfind(T a, bool shift_amount) {
    Unsigned<T> value = a < 0 ? Unsigned<T>(~a) : Unsigned<T>(a);
    if (value == 0) return ~0u;
    u32 place = width<T> - 1 - std::countl_zero(value);
    return shift_amount ? width<T> - 1 - place : place;
}
template <class T> INLINE T bfe(T a, u32 from, u32 count) {
    from &= 255, count &= 255;
    Unsigned<T> value = a, result = 0;
    u32 last = min_(from + count - 1, width<T> - 1);
    bool sign = std::is_signed_v<T> && count != 0 && (value >> last & 1);
    for (u32 i = 0; i < width<T>; i++) {
        bool bit = i < count && from + i < width<T> ? value >> (from + i) & 1 : sign;
        result |= Unsigned<T>(bit) << i;
    }
    return T(result);
}
template <class T> INLINE T bfi(T a, T b, u32 from, u32 count) {
    from &= 255, count &= 255;
    for (u32 i = 0; i < count && from + i < width<T>; i++)
        b = T((b & ~(T(1) << (from + i))) | (T(a >> i & 1) << (from + i)));
    return b;
}
INLINE u32 prmt(u32 a, u32 b, u32 selector) {
    u64 source = u64(b) << 32 | a;
    u32 result = 0;
    for (u32 i = 0; i < 4; i++) {
        u32 pick = selector >> (4 * i) & 15;
        u8 byte = source >> (8 * (pick & 7));
        if (pick & 8) byte = byte & 128 ? 255 : 0;
        result |= u32(byte) << (8 * i);
    }
    return result;
}
// The amount is already wrapped or clamped to 0..32.
INLINE u32 shf_l(u32 a, u32 b, u32 by) { return u32((u64(b) << 32 | a) << by >> 32); }
INLINE u32 shf_r(u32 a, u32 b, u32 by) { return u32((u64(b) << 32 | a) >> by); }
INLINE u32 lop3(u32 a, u32 b, u32 c, u32 table) {
    u32 result = 0;
    for (u32 i = 0; i < 8; i++)
        if (table >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return result;
}
template <class T> INLINE T sad(T a, T b, T c) { return add(c, a > b ? sub(a, b) : sub(b, a)); }
template <class A, class B> INLINE u32 dp4a(u32 a, u32 b, u32 c) {
    for (u32 i = 0; i < 4; i++) c += u32(i32(A(a >> 8 * i)) * i32(B(b >> 8 * i)));
    return c;
}
