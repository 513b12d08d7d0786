#pragma once
// Products of a warpgroup: four warps, the first a multiple of four, which call together from the same statement. A
// product goes on beside the warps and reads its operands from shared memory meanwhile. sm_90a only.
//
//   wgmma_fence();                     after the accumulators were touched, and before the first product
//   wgmma_m64k16<bf16>(acc, a, b); ... products on the same accumulators add up in order
//   wgmma_commit();                    a group of products
//   wgmma_wait<N>(acc);                all but the N youngest groups are done, that of acc among them
//
// From a product on until the wait for its group, its accumulators may not be touched and its operands not be
// overwritten. The accumulators of a warp are those of m16n8k16 for its 16 rows: acc[j] is C of columns 8j .. 8j + 7.
// The host's arithmetic is that of m16n8k16 as well, one k16 step after another.

#include "loom/layout.cuh"
#include "loom/types.cuh"

#ifdef LOOM_HOST
#include "loom/host/wgmma.hpp"
#else
#include "loom/ptx/wgmma.cuh"
#endif

namespace loom {

/// A descriptor without its address: mode 1, 2, 3 for rows of 128, 64, 32 bytes; from 8 rows to the next 8 in units of
/// 16 bytes; the distance that no swizzled operand uses.
template <typename Tile>
constexpr uint64_t operand_layout = static_cast<uint64_t>(4 - Tile::kSwizzle) << 62 |
                                    static_cast<uint64_t>(8 * Tile::kRowBytes / 16) << 32 | uint64_t{1} << 16;

/// The operand of a product, by its descriptor: the rows of `tile` from `row` on, a multiple of 8, and 16 columns from
/// `col` on, a multiple of 16.
template <typename Tile>
LOOM_DEVICE uint64_t wgmma_operand(const Tile& tile, int row, int col LOOM_HERE) {
    static_assert(Tile::kSwizzle > 0 && Tile::kPitch == Tile::kCols && Tile::kRowBytes == 16 << Tile::kSwizzle,
                  "an operand's tile is dense, swizzled, and as wide as its swizzle");
#ifdef LOOM_HOST
    host::check_operand(row, col, line);
#endif
    return operand_layout<Tile> | (tile.at(row, col LOOM_PASS).bytes & 0x3ffffu) >> 4;
}

#ifndef LOOM_HOST

/// Accumulators that were touched are ready for products.
LOOM_DEVICE void wgmma_fence() {
    ptx::wgmma_fence_sync();
}

/// Closes a group: the warp's products since the previous group.
LOOM_DEVICE void wgmma_commit() {
    ptx::wgmma_commit_group();
}

/// Waits until at most the N youngest groups of the warp are pending.
template <int N>
LOOM_DEVICE void wgmma_wait() {
    ptx::wgmma_wait_group<N>();
}

/// The same; what comes after it and reads `acc` is not moved before it.
template <int N, int TILES>
LOOM_DEVICE void wgmma_wait(float (&acc)[TILES][4]) {
    ptx::wgmma_wait_group<N>();
    LOOM_UNROLL
    for (int i = 0; i < TILES; ++i)
        ptx::settle(acc[i]);
}

/// acc += a b^T for 64 rows, 8 * TILES columns and 16 k; T is bf16 or f16.
template <typename T, int TILES>
LOOM_DEVICE void wgmma_m64k16(float (&acc)[TILES][4], uint64_t a, uint64_t b) {
    static_assert(TILES == 8 || TILES == 16 || TILES == 32, "64, 128 or 256 columns");
    static_assert(is_same<T, bf16> || is_same<T, f16>, "operands are bf16 or f16");
    if constexpr (is_same<T, bf16>) {
        if constexpr (TILES == 8) ptx::wgmma_m64n64k16_bf16(acc, a, b);
        if constexpr (TILES == 16) ptx::wgmma_m64n128k16_bf16(acc, a, b);
        if constexpr (TILES == 32) ptx::wgmma_m64n256k16_bf16(acc, a, b);
    } else {
        if constexpr (TILES == 8) ptx::wgmma_m64n64k16_f16(acc, a, b);
        if constexpr (TILES == 16) ptx::wgmma_m64n128k16_f16(acc, a, b);
        if constexpr (TILES == 32) ptx::wgmma_m64n256k16_f16(acc, a, b);
    }
}

/// All warps of a warpgroup: from now on a thread has N registers, more than before; waits until there are as many.
template <int N>
LOOM_DEVICE void claim_registers() {
    static_assert(N % 8 == 0 && N >= 24 && N <= 256, "a multiple of 8 from 24 to 256");
    ptx::setmaxnreg_inc<N>();
}

/// The same, fewer than before: what is given up can be claimed by another warpgroup.
template <int N>
LOOM_DEVICE void release_registers() {
    static_assert(N % 8 == 0 && N >= 24 && N <= 256, "a multiple of 8 from 24 to 256");
    ptx::setmaxnreg_dec<N>();
}

#endif

}  // namespace loom
