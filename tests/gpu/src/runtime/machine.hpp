// What a translated kernel needs of the emulator: its thread's numbers, and the calls back.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;

#define INLINE static inline __attribute__((always_inline))
#define EXPORT extern "C" __attribute__((visibility("default")))

// The layout is `Thread` of emulator/thread.rs.
struct Thread {
    u32 tid[3], ntid[3], ctaid[3], nctaid[3];
    u32 lane, warp, dynamic_shared, total_shared;
    void *machine;
    u64 flops[3];
};

// The layout is `Collective` of emulator/collective.rs.
struct Collective {
    u32 kind, mode, mask, line;
    u32 input[12];
    u32 output[4];
    u64 address;
};

// The layout is `Host` of emulator/host.rs. A call that finds a fault doesn't return.
struct Host {
    void *(*access)(Thread *, u64 address, u32 bytes, u32 kind, u32 line);
    u64 (*barrier)(Thread *, u32 name, u32 count, u32 value, u32 line);
    void (*collective)(Thread *, Collective *);
    void (*copy)(Thread *, u64 shared, u64 global, u32 bytes, u32 source_bytes, u32 line);
    void (*commit)(Thread *);
    void (*wait)(Thread *, u32 pending, u32 line);
    void (*trap)(Thread *, u32 reason, u32 line);
};

static const Host *host;
EXPORT void attach(const Host *table) { host = table; }

template <class T, int N> struct Vec { T item[N]; };

template <class T, int N> INLINE Vec<T, N> load(Thread *t, u32 kind, u64 address, u32 line) {
    Vec<T, N> value;
    std::memcpy(&value, host->access(t, address, sizeof value, kind, line), sizeof value);
    return value;
}
template <class T, int N> INLINE void store(Thread *t, u32 kind, u64 address, u32 line, Vec<T, N> value) {
    std::memcpy(host->access(t, address, sizeof value, kind, line), &value, sizeof value);
}
template <class T> INLINE T parameter(const u8 *parameters, u64 offset) {
    T value;
    std::memcpy(&value, parameters + offset, sizeof value);
    return value;
}

// One thread runs at a time, so that an update is atomic by itself.
template <class T, class F> INLINE T update(Thread *t, u32 kind, u64 address, u32 line, F change) {
    void *place = host->access(t, address, sizeof(T), kind, line);
    T old;
    std::memcpy(&old, place, sizeof old);
    T now = change(old);
    std::memcpy(place, &now, sizeof now);
    return old;
}

INLINE u64 from_space(u64 address, u64 space) { return address + (space << 36); }
INLINE u64 to_space(u64 address, u64 space) { return address - (space << 36); }
