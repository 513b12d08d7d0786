#pragma once
// Host bodies of mma.cuh; the lane maps are carried out by the emulator once the 32 lanes have met.

#include "loom/host/copy.hpp"
#include "loom/host/runtime.hpp"

namespace loom {

inline void ldmatrix_x4(uint32_t (&r)[4], SharedAddr row LOOM_HERE) {
    host::load_matrix(r, 4, host::Matrix::kRows, host::place(row), line);
}
inline void ldmatrix_x4_trans(uint32_t (&r)[4], SharedAddr row LOOM_HERE) {
    host::load_matrix(r, 4, host::Matrix::kTransposed, host::place(row), line);
}
inline void ldmatrix_x2(uint32_t (&r)[2], SharedAddr row LOOM_HERE) {
    host::load_matrix(r, 2, host::Matrix::kRows, host::place(row), line);
}
inline void ldmatrix_x2_trans(uint32_t (&r)[2], SharedAddr row LOOM_HERE) {
    host::load_matrix(r, 2, host::Matrix::kTransposed, host::place(row), line);
}

inline void stmatrix_x4(SharedAddr row, const uint32_t (&r)[4] LOOM_HERE) {
    host::store_matrix(r, 4, host::Matrix::kRows, host::place(row), line);
}
inline void stmatrix_x4_trans(SharedAddr row, const uint32_t (&r)[4] LOOM_HERE) {
    host::store_matrix(r, 4, host::Matrix::kTransposed, host::place(row), line);
}
inline void stmatrix_x2(SharedAddr row, const uint32_t (&r)[2] LOOM_HERE) {
    host::store_matrix(r, 2, host::Matrix::kRows, host::place(row), line);
}
inline void stmatrix_x2_trans(SharedAddr row, const uint32_t (&r)[2] LOOM_HERE) {
    host::store_matrix(r, 2, host::Matrix::kTransposed, host::place(row), line);
}

inline void mma_m16n8k16_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1 LOOM_HERE) {
    host::multiply(host::Format::kBf16, c, a, b0, b1, line);
}
inline void mma_m16n8k16_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1 LOOM_HERE) {
    host::multiply(host::Format::kF16, c, a, b0, b1, line);
}
inline void mma_m16n8k8_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1 LOOM_HERE) {
    host::multiply(host::Format::kTf32, c, a, b0, b1, line);
}

}  // namespace loom
