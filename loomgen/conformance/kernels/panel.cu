#include "loom/loom.cuh"
#include "loom/panel.cuh"

// Addresses in a tile of 16 rows and three panels, relative to its base. 128 threads.

using namespace loom;

/// y = the address of every element: by the tile, by its panels, and by the second tile after it in a ring.
LOOM_KERNEL(128, 1) panel_addresses(uint32_t* y) {
    constexpr int kElements = 16 * 192;
    const PanelTile<bf16, 16, 192> tile{shared_memory()};
    for (int i = thread_index(); i < kElements; i += 128) {
        const int row = i / 192;
        const int col = i % 192;
        st_global(y + i, tile.at(row, col).bytes - tile.base.bytes);
        st_global(y + kElements + i, tile.panel(col / 64).at(row, col % 64).bytes - tile.base.bytes);
        st_global(y + 2 * kElements + i, tile.at_slot(2).at(row, col).bytes - tile.base.bytes);
    }
}
