#pragma once
// Small dense linear algebra on tiles in shared memory.

#include "loom/copy.cuh"
#include "loom/kernel.cuh"
#include "loom/layout.cuh"
#include "loom/math.cuh"

namespace loom {

/// X = (I + L)^-1 of one 16x16 block, by one warp.
///
/// L is the strictly lower part of the float block of `lower` whose first element is (row0, col0), col0 a multiple of
/// 4; nothing else of the block is read. All of X, zeros included, goes to the block of `inverse` at (out_row0,
/// out_col0), which may not overlap L. Lane c < 16 owns column c: x_i = (i == c) - sum over m < i of L_im x_m,
/// ascending m, product and difference each rounded, and is stored rounded to tf32, ready to be multiplied; lanes
/// 16 .. 31 are idle. Barriers before and after are the caller's.
template <typename Lower, typename Inverse>
LOOM_DEVICE void invert_unit_lower_16(const Lower& lower, int row0, int col0, const Inverse& inverse, int out_row0,
                                      int out_col0 LOOM_HERE) {
    static_assert(sizeof(typename Lower::Element) == 4 && sizeof(typename Inverse::Element) == 4, "tiles of float");
    static_assert(Lower::kPitch % 4 == 0, "rows of L are read by vectors of four");
    const int column = lane_index();
    if (column >= 16) return;
    float x[16];
    LOOM_UNROLL
    for (int i = 0; i < 16; ++i) {
        x[i] = i == column ? 1.0f : 0.0f;
        LOOM_UNROLL
        for (int m = 0; m < i / 4 * 4; m += 4) {
            const f32x4 l = ld_shared<f32x4>(lower.at(row0 + i, col0 + m LOOM_PASS) LOOM_PASS);
            x[i] = x[i] - l.x * x[m];
            x[i] = x[i] - l.y * x[m + 1];
            x[i] = x[i] - l.z * x[m + 2];
            x[i] = x[i] - l.w * x[m + 3];
        }
        LOOM_UNROLL
        for (int m = i / 4 * 4; m < i; ++m) {
            x[i] = x[i] - ld_shared<float>(lower.at(row0 + i, col0 + m LOOM_PASS) LOOM_PASS) * x[m];
        }
    }
    LOOM_UNROLL
    for (int i = 0; i < 16; ++i) {
        st_shared(inverse.at(out_row0 + i, out_col0 + column LOOM_PASS), from_bits(to_tf32(x[i])) LOOM_PASS);
    }
}

}  // namespace loom
