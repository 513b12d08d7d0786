#pragma once
// Arithmetic and conversions of float, bf16, f16 and tf32.
//
// Functions named `_approx` have the hardware's error on the device (exp2 2 ulp, rsqrt and lg2 as PTX documents them)
// and the single definition of host/math.hpp on the host. Everything else is exact or correctly rounded on both.
// Kernels are compiled with -fmad=false (host: -ffp-contract=off): a * b + c rounds twice, fma_rn once.

#include "loom/types.cuh"

#ifdef LOOM_HOST
#include "loom/host/math.hpp"
#else
#include "loom/ptx/math.cuh"
#endif

namespace loom {

#ifndef LOOM_HOST

LOOM_DEVICE uint32_t to_bits(float x) {
    return ptx::mov_b32_f32(x);
}
LOOM_DEVICE float from_bits(uint32_t bits) {
    return ptx::mov_f32_b32(bits);
}

/// 2^x; results below the smallest normal number, 2^-126, are 0.
LOOM_DEVICE float exp2_approx(float x) {
    return ptx::ex2_approx_ftz_f32(x);
}
/// log2(x).
LOOM_DEVICE float lg2_approx(float x) {
    return ptx::lg2_approx_f32(x);
}
/// x^(-1/2).
LOOM_DEVICE float rsqrt_approx(float x) {
    return ptx::rsqrt_approx_f32(x);
}
LOOM_DEVICE float sqrt_rn(float x) {
    return ptx::sqrt_rn_f32(x);
}
LOOM_DEVICE float div_rn(float a, float b) {
    return ptx::div_rn_f32(a, b);
}
/// a * b + c, rounded once.
LOOM_DEVICE float fma_rn(float a, float b, float c) {
    return ptx::fma_rn_f32(a, b, c);
}
/// The operand that is a number wins over NaN; -0 is below +0.
LOOM_DEVICE float min_f32(float a, float b) {
    return ptx::min_f32(a, b);
}
LOOM_DEVICE float max_f32(float a, float b) {
    return ptx::max_f32(a, b);
}
LOOM_DEVICE float abs_f32(float x) {
    return ptx::abs_f32(x);
}

/// Round to nearest even; NaN gives the canonical 0x7fff.
LOOM_DEVICE bf16 to_bf16(float x) {
    return bf16{ptx::cvt_rn_bf16_f32(x)};
}
LOOM_DEVICE f16 to_f16(float x) {
    return f16{ptx::cvt_rn_f16_f32(x)};
}
LOOM_DEVICE float to_f32(f16 x) {
    return ptx::cvt_f32_f16(x.bits);
}
LOOM_DEVICE uint32_t pack_bf16(float lo, float hi) {
    return ptx::cvt_rn_bf16x2_f32(hi, lo);
}
LOOM_DEVICE uint32_t pack_f16(float lo, float hi) {
    return ptx::cvt_rn_f16x2_f32(hi, lo);
}
/// Round to nearest, ties away from zero, to 10 fraction bits; the result is a float's bits.
LOOM_DEVICE uint32_t to_tf32(float x) {
    return ptx::cvt_rna_tf32_f32(x);
}

#endif

LOOM_DEVICE float to_f32(bf16 x) {
    return from_bits(static_cast<uint32_t>(x.bits) << 16);
}

/// The halves of a packed pair, widened.
LOOM_DEVICE float lo_bf16(uint32_t pair) {
    return from_bits(pair << 16);
}
LOOM_DEVICE float hi_bf16(uint32_t pair) {
    return from_bits(pair & 0xffff0000u);
}
LOOM_DEVICE float lo_f16(uint32_t pair) {
    return to_f32(f16{static_cast<uint16_t>(pair & 0xffffu)});
}
LOOM_DEVICE float hi_f16(uint32_t pair) {
    return to_f32(f16{static_cast<uint16_t>(pair >> 16)});
}

/// e^x as 2^(x * log2(e)), the product rounded to float.
LOOM_DEVICE float exp_approx(float x) {
    return exp2_approx(x * 0x1.715476p+0f);
}

/// ln(x) as log2(x) * ln(2), log2 and the product each rounded to float.
LOOM_DEVICE float log_approx(float x) {
    return lg2_approx(x) * 0x1.62e43p-1f;
}

}  // namespace loom
