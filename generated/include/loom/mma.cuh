#pragma once
// Warp-wide matrix primitives: all 32 lanes call each together, from the same statement. None orders memory.
//
// Lane map, with g = lane / 4 and t = lane % 4 (a register holds two 16-bit elements, the first one low):
//   8x8 matrix, ldmatrix / stmatrix     register j: matrix j, row g, columns 2t and 2t+1; `_trans`: rows 2t and 2t+1,
//                                       column g. Lane 8j + r points at row r of matrix j, 8 elements, 16-byte aligned;
//                                       `_x2` ignores the addresses of lanes 16 .. 31.
//   A of m16n8k16 (16 rows x 16 k)      a[0]: row g, k 2t 2t+1; a[1]: row g+8; a[2], a[3]: the same rows, k + 8
//   B of m16n8k16 (16 k x 8 columns)    b0: k 2t 2t+1, column g; b1: k + 8
//   A of m16n8k8 tf32 (16 rows x 8 k)   a[0]: row g, k t; a[1]: row g+8, k t; a[2], a[3]: the same rows, k t+4
//   B of m16n8k8 tf32 (8 k x 8 columns) b0: k t, column g; b1: k t+4
//   C of both (16 rows x 8 columns)     c[0] c[1]: row g, columns 2t 2t+1; c[2] c[3]: row g+8
//
// c += a * b. The host's arithmetic, element by element: t = 0.0; for k ascending, t = t + a * b with the exact product
// in double; c = (float)((double)c + t). The device sums the same products in its own, fixed order with fewer guard
// bits. tf32 operands are floats whose low 13 bits are ignored.

#include "loom/layout.cuh"
#include "loom/types.cuh"

#ifdef LOOM_HOST
#include "loom/host/mma.hpp"
#else
#include "loom/ptx/matrix.cuh"
#endif

namespace loom {

#ifndef LOOM_HOST

LOOM_DEVICE void ldmatrix_x4(uint32_t (&r)[4], SharedAddr row) {
    ptx::ldmatrix_x4_b16(r, row.bytes);
}
LOOM_DEVICE void ldmatrix_x4_trans(uint32_t (&r)[4], SharedAddr row) {
    ptx::ldmatrix_x4_trans_b16(r, row.bytes);
}
LOOM_DEVICE void ldmatrix_x2(uint32_t (&r)[2], SharedAddr row) {
    ptx::ldmatrix_x2_b16(r, row.bytes);
}
LOOM_DEVICE void ldmatrix_x2_trans(uint32_t (&r)[2], SharedAddr row) {
    ptx::ldmatrix_x2_trans_b16(r, row.bytes);
}

LOOM_DEVICE void stmatrix_x4(SharedAddr row, const uint32_t (&r)[4]) {
    ptx::stmatrix_x4_b16(row.bytes, r);
}
LOOM_DEVICE void stmatrix_x4_trans(SharedAddr row, const uint32_t (&r)[4]) {
    ptx::stmatrix_x4_trans_b16(row.bytes, r);
}
LOOM_DEVICE void stmatrix_x2(SharedAddr row, const uint32_t (&r)[2]) {
    ptx::stmatrix_x2_b16(row.bytes, r);
}
LOOM_DEVICE void stmatrix_x2_trans(SharedAddr row, const uint32_t (&r)[2]) {
    ptx::stmatrix_x2_trans_b16(row.bytes, r);
}

LOOM_DEVICE void mma_m16n8k16_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    ptx::mma_m16n8k16_bf16(c, a, b0, b1);
}
LOOM_DEVICE void mma_m16n8k16_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    ptx::mma_m16n8k16_f16(c, a, b0, b1);
}
LOOM_DEVICE void mma_m16n8k8_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    ptx::mma_m16n8k8_tf32(c, a, b0, b1);
}

#endif

}  // namespace loom
