#pragma once
// Host bodies of tma.cuh.

#include "loom/host/asynchrony.hpp"
#include "loom/layout.cuh"

namespace loom {

namespace host {

/// The tile as a box; every row of it is swizzled as the copy hardware does it.
template <typename Tile>
BoxTile box_tile(const Tile& tile) {
    static_assert(is_box<Tile>, "a tile that takes a box is dense, and as wide as its swizzle");
    return BoxTile{tile.base.bytes, Tile::kRows, Tile::kCols, sizeof(typename Tile::Element), Tile::kSwizzle};
}

}  // namespace host

template <typename Tile>
void tma_load(const Tile& dst, const TensorMap& map, int row, int col, SharedAddr barrier LOOM_HERE) {
    host::tma_load(host::box_tile(dst), map.opaque, row, col, barrier.bytes, line);
}

template <typename Tile>
void tma_store(const TensorMap& map, int row, int col, const Tile& src LOOM_HERE) {
    host::tma_store(map.opaque, row, col, host::box_tile(src), line);
}

inline void tma_store_commit(LOOM_ONLY_HERE) {
    host::tma_store_commit(line);
}

template <int N>
void tma_store_wait(LOOM_ONLY_HERE) {
    host::tma_store_wait(N, line);
}

}  // namespace loom
