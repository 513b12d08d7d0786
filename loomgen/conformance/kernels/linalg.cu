#include "loom/loom.cuh"

// The inverse of 16x16 blocks, by one warp each.

using namespace loom;

/// Block (16, 4) of the 32 x 32 floats x is inverted into block (16, 8) of the 32 x 32 floats y, the rest of which is
/// `before`. Everything that may not be read of x is NaN.
LOOM_KERNEL(32, 1) linalg_invert_unit_lower_16(const float* x, const float* before, float* y) {
    const SharedTile<float, 32, 32, 36, 0> lower{shared_memory()};
    const SharedTile<float, 32, 32, 40, 0> inverse{shared_memory() + lower.kBytes};
    const int64_t first = block_index() * 1024 + lane_index();
    for (int row = 0; row < 32; ++row) {
        st_shared(lower.at(row, lane_index()), ld_global(x + first + row * 32));
        st_shared(inverse.at(row, lane_index()), ld_global(before + first + row * 32));
    }
    sync_warp();
    invert_unit_lower_16(lower, 16, 4, inverse, 16, 8);
    sync_warp();
    for (int row = 0; row < 32; ++row) {
        st_global(y + first + row * 32, ld_shared<float>(inverse.at(row, lane_index())));
    }
}
