#pragma once
// Host bodies of wgmma.cuh; the emulator carries a product out once the 128 threads have met.

#include "loom/host/asynchrony.hpp"
#include "loom/layout.cuh"

namespace loom {

inline void wgmma_fence(LOOM_ONLY_HERE) {
    host::wgmma_fence(line);
}
inline void wgmma_commit(LOOM_ONLY_HERE) {
    host::wgmma_commit(line);
}

template <int N>
void wgmma_wait(LOOM_ONLY_HERE) {
    host::wgmma_wait(N, line);
}

template <int N, int TILES>
void wgmma_wait(float (&)[TILES][4] LOOM_HERE) {
    host::wgmma_wait(N, line);
}

template <typename T, int TILES>
void wgmma_m64k16(float (&acc)[TILES][4], uint64_t a, uint64_t b LOOM_HERE) {
    static_assert(TILES == 8 || TILES == 16 || TILES == 32, "64, 128 or 256 columns");
    static_assert(is_same<T, bf16> || is_same<T, f16>, "operands are bf16 or f16");
    host::wgmma(is_same<T, bf16> ? host::Format::kBf16 : host::Format::kF16, &acc[0][0], TILES, a, b, line);
}

template <int N>
void claim_registers(LOOM_ONLY_HERE) {
    static_assert(N % 8 == 0 && N >= 24 && N <= 256, "a multiple of 8 from 24 to 256");
    host::claim_registers(N, line);
}

template <int N>
void release_registers(LOOM_ONLY_HERE) {
    static_assert(N % 8 == 0 && N >= 24 && N <= 256, "a multiple of 8 from 24 to 256");
    host::release_registers(N, line);
}

}  // namespace loom
