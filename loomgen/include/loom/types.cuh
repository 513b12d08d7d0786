#pragma once
// Element types, vector types and the qualifiers that every primitive is declared with.
//
// No system header is included on the device, so that a run-time compiler can build the kernels.

#ifdef LOOM_HOST
#include <cstdint>
#include <cstring>
#define LOOM_DEVICE inline
// The caller's line: the emulator names it in faults and counts by it. LOOM_HERE ends a parameter list, LOOM_ONLY_HERE
// is one, and LOOM_PASS / LOOM_ONLY_PASS hand the line on.
#define LOOM_HERE , int line = __builtin_LINE()
#define LOOM_ONLY_HERE int line = __builtin_LINE()
#define LOOM_PASS , line
#define LOOM_ONLY_PASS line
#define LOOM_UNROLL
#else
#define LOOM_DEVICE __device__ __forceinline__
#define LOOM_HERE
#define LOOM_ONLY_HERE
#define LOOM_PASS
#define LOOM_ONLY_PASS
#define LOOM_UNROLL _Pragma("unroll")
#endif

namespace loom {

#ifdef LOOM_HOST
using ::int32_t;
using ::int64_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
#else
// The same types as the system's names (an LP64 platform), so that both may be visible at once.
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long;
static_assert(sizeof(int64_t) == 8, "loom needs an LP64 platform");
#endif

/// A bfloat16 by its bits.
struct bf16 {
    uint16_t bits;
};

/// An IEEE binary16 by its bits.
struct f16 {
    uint16_t bits;
};

struct alignas(8) f32x2 {
    float x, y;
};

struct alignas(16) f32x4 {
    float x, y, z, w;
};

struct alignas(8) u32x2 {
    uint32_t x, y;
};

struct alignas(16) u32x4 {
    uint32_t x, y, z, w;
};

template <typename A, typename B>
constexpr bool is_same = false;
template <typename A>
constexpr bool is_same<A, A> = true;

/// The bits of `from` as a `To` of the same size.
template <typename To, typename From>
LOOM_DEVICE To bit_cast(const From& from) {
    static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
}

}  // namespace loom
