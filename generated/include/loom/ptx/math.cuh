#pragma once
// Arithmetic instructions, one a function.

#include "loom/types.cuh"

namespace loom::ptx {

LOOM_DEVICE float ex2_approx_ftz_f32(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

LOOM_DEVICE float lg2_approx_f32(float x) {
    float y;
    asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

LOOM_DEVICE float rsqrt_approx_f32(float x) {
    float y;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

LOOM_DEVICE float sqrt_rn_f32(float x) {
    float y;
    asm("sqrt.rn.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

LOOM_DEVICE float div_rn_f32(float a, float b) {
    float y;
    asm("div.rn.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

LOOM_DEVICE float fma_rn_f32(float a, float b, float c) {
    float y;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(y) : "f"(a), "f"(b), "f"(c));
    return y;
}

LOOM_DEVICE float min_f32(float a, float b) {
    float y;
    asm("min.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

LOOM_DEVICE float max_f32(float a, float b) {
    float y;
    asm("max.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

LOOM_DEVICE float abs_f32(float x) {
    float y;
    asm("abs.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

LOOM_DEVICE uint16_t cvt_rn_bf16_f32(float x) {
    uint16_t y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

LOOM_DEVICE uint16_t cvt_rn_f16_f32(float x) {
    uint16_t y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

LOOM_DEVICE float cvt_f32_f16(uint16_t x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}

LOOM_DEVICE uint32_t cvt_rn_bf16x2_f32(float hi, float lo) {
    uint32_t y;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(hi), "f"(lo));
    return y;
}

LOOM_DEVICE uint32_t cvt_rn_f16x2_f32(float hi, float lo) {
    uint32_t y;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(hi), "f"(lo));
    return y;
}

LOOM_DEVICE uint32_t cvt_rna_tf32_f32(float x) {
    uint32_t y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}

LOOM_DEVICE uint32_t mov_b32_f32(float x) {
    uint32_t y;
    asm("mov.b32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}

LOOM_DEVICE float mov_f32_b32(uint32_t x) {
    float y;
    asm("mov.b32 %0, %1;" : "=f"(y) : "r"(x));
    return y;
}

}  // namespace loom::ptx
