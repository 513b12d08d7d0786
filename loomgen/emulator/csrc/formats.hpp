#pragma once
// Operands of products as numbers.

#include "loom/host/math.hpp"

namespace loom::emulator {

struct Bf16 {
    static double value(uint32_t bits) { return from_bits(bits << 16); }
};

struct F16 {
    static double value(uint32_t bits) { return host::half_value(static_cast<uint16_t>(bits)); }
};

struct Tf32 {
    static double value(uint32_t bits) { return from_bits(bits & 0xffffe000u); }
};

}  // namespace loom::emulator
