#pragma once
// Copies of boxes of a matrix by the copy hardware. One thread asks for a copy, which then goes on beside it.
//
// A tensor map, made by the host, says where the matrix is, how large, and how large its boxes are. A tile takes a whole
// box: its rows and columns, its swizzle and its element type are those of the map. Rows of the tile follow one another
// without padding; with a swizzle s a row has 16 << s bytes. Tiles begin at multiples of 128 bytes, of 1024 when
// swizzled. Boxes begin at columns that are multiples of 16 bytes, and those of stores at no negative row or column: with
// others an H200 ends the kernel with an illegal instruction.

#include "loom/layout.cuh"
#include "loom/types.cuh"

/// Heads a kernel's parameter: `LOOM_TENSOR_MAP a_map`.
#ifdef LOOM_HOST
#define LOOM_TENSOR_MAP const ::loom::TensorMap&
#else
#define LOOM_TENSOR_MAP const __grid_constant__::loom::TensorMap
#endif

namespace loom {

/// What the host has encoded (a CUtensorMap).
struct alignas(64) TensorMap {
    unsigned char opaque[128];
};

/// Whether a tile may take a box.
template <typename Tile>
constexpr bool is_box = Tile::kPitch == Tile::kCols && Tile::kRowBytes % 16 == 0 && Tile::kRows <= 256 &&
                        Tile::kCols <= 256 && (Tile::kSwizzle == 0 || Tile::kRowBytes == 16 << Tile::kSwizzle);

}  // namespace loom

#ifdef LOOM_HOST
#include "loom/host/tma.hpp"
#else
#include "loom/ptx/bulk.cuh"
#endif

namespace loom {

#ifndef LOOM_HOST

/// The box whose first element is (row, col) of the matrix, with zeros for what lies outside of it; its bytes arrive at
/// `barrier`. What lay in `dst` is no longer used, or fenced and known to the calling thread.
template <typename Tile>
LOOM_DEVICE void tma_load(const Tile& dst, const TensorMap& map, int row, int col, SharedAddr barrier) {
    static_assert(is_box<Tile>, "a tile that takes a box is dense, and as wide as its swizzle");
    ptx::cp_async_bulk_tensor_2d_load(dst.base.bytes, &map, col, row, barrier.bytes);
}

/// The tile to the box whose first element is (row, col) of the matrix; what lies outside of the matrix is not written.
template <typename Tile>
LOOM_DEVICE void tma_store(const TensorMap& map, int row, int col, const Tile& src) {
    static_assert(is_box<Tile>, "a tile that takes a box is dense, and as wide as its swizzle");
    ptx::cp_async_bulk_tensor_2d_store(&map, col, row, src.base.bytes);
}

/// Closes a group: the thread's stores since the previous group.
LOOM_DEVICE void tma_store_commit() {
    ptx::cp_async_bulk_commit_group();
}

/// Waits until all but the N youngest groups of the calling thread have read their tiles, which may then be written
/// again. A thread waits for all its groups before it ends.
template <int N>
LOOM_DEVICE void tma_store_wait() {
    ptx::cp_async_bulk_wait_group_read<N>();
}

#endif

}  // namespace loom
