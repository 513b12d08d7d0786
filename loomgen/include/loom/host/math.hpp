#pragma once
// Host arithmetic of math.cuh: one definition of every function, in IEEE operations alone.
//
// exp2 and lg2 are evaluated in double by fixed polynomials, without a library call, and rounded once; anything that
// repeats these steps in double precision gets the same bits. Build with -ffp-contract=off.

#include <cmath>

#include "loom/types.cuh"

namespace loom {

namespace host {

constexpr uint32_t kCanonicalNan = 0x7fffffffu;

/// 2^n in double, exactly; -1022 <= n <= 1023.
inline double power_of_two(int n) {
    return bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52);
}

/// 2^x before its rounding to float; -151 <= x <= 128. n = rint(x), f = x - n; a Horner polynomial of degree 13 in f
/// whose coefficients are ln2^k / k! rounded to double, each step a multiply and an add; times 2^n.
inline double exp2_double(double x) {
    constexpr double coefficients[14] = {
        0x1.0000000000000p+0,  0x1.62e42fefa39efp-1,  0x1.ebfbdff82c58fp-3,  0x1.c6b08d704a0c0p-5,
        0x1.3b2ab6fba4e77p-7,  0x1.5d87fe78a6731p-10, 0x1.430912f86c787p-13, 0x1.ffcbfc588b0c7p-17,
        0x1.62c0223a5c824p-20, 0x1.b5253d395e7c4p-24, 0x1.e4cf5158b8ecap-28, 0x1.e8cac7351bb25p-32,
        0x1.c3bd650fc2986p-36, 0x1.816193166d0f9p-40,
    };
    const double n = std::rint(x);
    const double f = x - n;
    double p = coefficients[13];
    for (int k = 12; k >= 0; --k)
        p = p * f + coefficients[k];
    return p * power_of_two(static_cast<int>(n));
}

/// log2 of a positive finite x. x = m * 2^e with 0.5 <= m < 1; if m < sqrt(1/2) (rounded to double), m doubles and e
/// drops by one. s = (m - 1) / (m + 1), z = s * s; p = sum over k of z^k / (2k + 1), k = 12 .. 0, by Horner with the
/// quotients 1.0 / (2k + 1) as coefficients; the result is e + (2 * s * p) * log2(e), evaluated in that grouping.
inline double log2_double(double x) {
    constexpr double sqrt_half = 0x1.6a09e667f3bcdp-1;
    constexpr double log2_e = 0x1.71547652b82fep+0;
    int e = 0;
    double m = std::frexp(x, &e);
    if (m < sqrt_half) {
        m = m * 2.0;
        e = e - 1;
    }
    const double s = (m - 1.0) / (m + 1.0);
    const double z = s * s;
    double p = 1.0 / 25.0;
    for (int k = 11; k >= 0; --k)
        p = p * z + 1.0 / (2.0 * k + 1.0);
    return e + ((2.0 * s) * p) * log2_e;
}

/// Round to nearest even a float's bits to the upper 16 of them; not for NaN.
inline uint16_t upper_half_rounded(uint32_t bits) {
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// Round to nearest even to binary16; infinities, overflow and subnormals as IEEE 754 says.
inline uint16_t half_bits(float value) {
    const uint32_t bits = bit_cast<uint32_t>(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0x7fff;
    if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above round to infinity
    if (magnitude < 0x38800000u) {  // below 2^-14: count in units of 2^-24
        const double units = std::rint(static_cast<double>(bit_cast<float>(magnitude)) * 0x1p24);
        return static_cast<uint16_t>(sign | static_cast<uint32_t>(units));
    }
    const uint32_t rebiased = magnitude - 0x38000000u;
    return static_cast<uint16_t>(sign | ((rebiased + 0xfffu + ((rebiased >> 13) & 1u)) >> 13));
}

/// The exact value of a binary16.
inline float half_value(uint16_t bits) {
    const uint32_t sign = (bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fu;
    const uint32_t fraction = bits & 0x3ffu;
    if (exponent == 0x1f) return bit_cast<float>(fraction != 0 ? kCanonicalNan : sign | 0x7f800000u);
    if (exponent != 0) return bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return bit_cast<float>(bit_cast<uint32_t>(magnitude) | sign);
}

}  // namespace host

inline uint32_t to_bits(float x) {
    return bit_cast<uint32_t>(x);
}
inline float from_bits(uint32_t bits) {
    return bit_cast<float>(bits);
}

inline float exp2_approx(float x) {
    if (x != x) return from_bits(host::kCanonicalNan);
    if (x > 128.0f) return from_bits(0x7f800000u);
    if (x < -127.0f) return 0.0f;
    const float y = static_cast<float>(host::exp2_double(x));
    return y < 0x1p-126f ? 0.0f : y;
}

inline float lg2_approx(float x) {
    if (x != x || x < 0.0f) return from_bits(host::kCanonicalNan);
    if (x == 0.0f) return from_bits(0xff800000u);
    if (x == from_bits(0x7f800000u)) return x;
    return static_cast<float>(host::log2_double(x));
}

inline float rsqrt_approx(float x) {
    return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x)));
}
inline float sqrt_rn(float x) {
    return std::sqrt(x);
}
inline float fma_rn(float a, float b, float c) {
    return std::fma(a, b, c);
}
inline float div_rn(float a, float b) {
    return a / b;
}
inline float abs_f32(float x) {
    return from_bits(to_bits(x) & 0x7fffffffu);
}

/// The operand that is a number wins over NaN; -0 is below +0.
inline float min_f32(float a, float b) {
    if (a != a) return b != b ? from_bits(host::kCanonicalNan) : b;
    if (b != b) return a;
    if (a == b) return from_bits(to_bits(a) | to_bits(b));
    return a < b ? a : b;
}

/// The operand that is a number wins over NaN; +0 is above -0.
inline float max_f32(float a, float b) {
    if (a != a) return b != b ? from_bits(host::kCanonicalNan) : b;
    if (b != b) return a;
    if (a == b) return from_bits(to_bits(a) & to_bits(b));
    return a > b ? a : b;
}

inline bf16 to_bf16(float x) {
    return x != x ? bf16{0x7fff} : bf16{host::upper_half_rounded(to_bits(x))};
}
inline f16 to_f16(float x) {
    return f16{host::half_bits(x)};
}
inline float to_f32(f16 x) {
    return host::half_value(x.bits);
}

inline uint32_t pack_bf16(float lo, float hi) {
    return to_bf16(lo).bits | (static_cast<uint32_t>(to_bf16(hi).bits) << 16);
}
inline uint32_t pack_f16(float lo, float hi) {
    return to_f16(lo).bits | (static_cast<uint32_t>(to_f16(hi).bits) << 16);
}

/// Round to nearest, ties away from zero, to 10 fraction bits. As on the device, what is not finite only loses its low
/// bits: a NaN whose payload lies in them becomes an infinity (arithmetic produces none such).
inline uint32_t to_tf32(float x) {
    const bool finite = abs_f32(x) < from_bits(0x7f800000u);
    return (to_bits(x) + (finite ? 0x1000u : 0u)) & 0xffffe000u;
}

}  // namespace loom
