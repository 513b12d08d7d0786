#pragma once
// Loads and stores of global and shared memory by width, one instruction a function. Addresses are multiples of the
// width; shared addresses are 32-bit.

#include "loom/types.cuh"

namespace loom::ptx {

LOOM_DEVICE uint8_t ld_global_b8(const void* source) {
    uint16_t v;
    asm volatile("ld.global.b8 %0, [%1];" : "=h"(v) : "l"(source) : "memory");
    return static_cast<uint8_t>(v);
}

LOOM_DEVICE uint16_t ld_global_b16(const void* source) {
    uint16_t v;
    asm volatile("ld.global.b16 %0, [%1];" : "=h"(v) : "l"(source) : "memory");
    return v;
}

LOOM_DEVICE uint32_t ld_global_b32(const void* source) {
    uint32_t v;
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(v) : "l"(source) : "memory");
    return v;
}

LOOM_DEVICE uint64_t ld_global_b64(const void* source) {
    uint64_t v;
    asm volatile("ld.global.b64 %0, [%1];" : "=l"(v) : "l"(source) : "memory");
    return v;
}

LOOM_DEVICE u32x4 ld_global_v4_b32(const void* source) {
    u32x4 v;
    asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(source)
                 : "memory");
    return v;
}

LOOM_DEVICE void st_global_b8(void* target, uint8_t v) {
    asm volatile("st.global.b8 [%0], %1;" ::"l"(target), "h"(static_cast<uint16_t>(v)) : "memory");
}

LOOM_DEVICE void st_global_b16(void* target, uint16_t v) {
    asm volatile("st.global.b16 [%0], %1;" ::"l"(target), "h"(v) : "memory");
}

LOOM_DEVICE void st_global_b32(void* target, uint32_t v) {
    asm volatile("st.global.b32 [%0], %1;" ::"l"(target), "r"(v) : "memory");
}

LOOM_DEVICE void st_global_b64(void* target, uint64_t v) {
    asm volatile("st.global.b64 [%0], %1;" ::"l"(target), "l"(v) : "memory");
}

LOOM_DEVICE void st_global_v4_b32(void* target, u32x4 v) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(target), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

LOOM_DEVICE uint8_t ld_shared_b8(uint32_t source) {
    uint16_t v;
    asm volatile("ld.shared.b8 %0, [%1];" : "=h"(v) : "r"(source) : "memory");
    return static_cast<uint8_t>(v);
}

LOOM_DEVICE uint16_t ld_shared_b16(uint32_t source) {
    uint16_t v;
    asm volatile("ld.shared.b16 %0, [%1];" : "=h"(v) : "r"(source) : "memory");
    return v;
}

LOOM_DEVICE uint32_t ld_shared_b32(uint32_t source) {
    uint32_t v;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(source) : "memory");
    return v;
}

LOOM_DEVICE uint64_t ld_shared_b64(uint32_t source) {
    uint64_t v;
    asm volatile("ld.shared.b64 %0, [%1];" : "=l"(v) : "r"(source) : "memory");
    return v;
}

LOOM_DEVICE u32x4 ld_shared_v4_b32(uint32_t source) {
    u32x4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(source)
                 : "memory");
    return v;
}

LOOM_DEVICE void st_shared_b8(uint32_t target, uint8_t v) {
    asm volatile("st.shared.b8 [%0], %1;" ::"r"(target), "h"(static_cast<uint16_t>(v)) : "memory");
}

LOOM_DEVICE void st_shared_b16(uint32_t target, uint16_t v) {
    asm volatile("st.shared.b16 [%0], %1;" ::"r"(target), "h"(v) : "memory");
}

LOOM_DEVICE void st_shared_b32(uint32_t target, uint32_t v) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(target), "r"(v) : "memory");
}

LOOM_DEVICE void st_shared_b64(uint32_t target, uint64_t v) {
    asm volatile("st.shared.b64 [%0], %1;" ::"r"(target), "l"(v) : "memory");
}

LOOM_DEVICE void st_shared_v4_b32(uint32_t target, u32x4 v) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(target), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

}  // namespace loom::ptx
