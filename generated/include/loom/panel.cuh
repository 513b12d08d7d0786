#pragma once
// Wide tiles as the copy and product hardware knows them: panels side by side, each as wide as a swizzle reaches.

#include "loom/layout.cuh"

namespace loom {

/// ROWS x COLS elements of 16 bits in panels of 64 columns; panel n holds the columns from 64 n on.
template <typename T, int ROWS, int COLS>
struct PanelTile {
    using Panel = SharedTile<T, ROWS, 64, 64, 3>;
    static constexpr int kBytes = COLS / 64 * Panel::kBytes;

    static_assert(sizeof(T) == 2 && COLS % 64 == 0, "whole panels of 16-bit elements");

    SharedAddr base;

    LOOM_DEVICE Panel panel(int n) const { return Panel{base + n * Panel::kBytes}; }

    /// The address of an element; a vector of up to 16 bytes may be read or written there.
    LOOM_DEVICE SharedAddr at(int row, int col LOOM_HERE) const { return panel(col / 64).at(row, col % 64 LOOM_PASS); }

    /// The tile `slot` places further on in a ring of such tiles.
    LOOM_DEVICE PanelTile at_slot(int slot) const { return PanelTile{base + slot * kBytes}; }
};

}  // namespace loom
