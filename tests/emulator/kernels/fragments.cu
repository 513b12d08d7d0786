#include "loom/loom.cuh"

using namespace loom;

// One warp. `tile` is 16 x 16 of 16-bit elements, row-major, in and out of shared memory by the matrix primitives.

/// out[16 lane + 4 m + j]: register j of what mode m of the matrix loads gives the lane
LOOM_KERNEL(32, 1) load_fragments(const u32x4* tile, uint32_t* out) {
    const SharedTile<f16, 16, 16, 24, 0> shared{shared_memory()};
    const int lane = lane_index();
    st_shared(shared.at(lane / 2, lane % 2 * 8), ld_global(tile + lane));
    sync_warp();
    uint32_t r[4][4] = {};
    uint32_t pair[2];
    const SharedAddr row = shared.at(lane % 16, lane / 16 * 8);
    ldmatrix_x4(r[0], row);
    ldmatrix_x4_trans(r[1], row);
    ldmatrix_x2(pair, row);
    r[2][0] = pair[0];
    r[2][1] = pair[1];
    ldmatrix_x2_trans(pair, row);
    r[2][2] = pair[0];
    r[2][3] = pair[1];
    for (int m = 0; m < 3; ++m) {
        for (int j = 0; j < 4; ++j)
            st_global(out + 16 * lane + 4 * m + j, r[m][j]);
    }
}

/// out = the tile, through registers: loaded plain, stored by `mode` (0: x4, 1: x4 transposed, 2: x2, 3: x2 transposed)
LOOM_KERNEL(32, 1) store_fragments(const u32x4* tile, u32x4* out, int mode) {
    const SharedTile<f16, 16, 16, 32, 2> shared{shared_memory()};
    const SharedTile<f16, 16, 16, 32, 2> result{shared_memory() + shared.kBytes};
    const int lane = lane_index();
    st_shared(shared.at(lane / 2, lane % 2 * 8), ld_global(tile + lane));
    st_shared(result.at(lane / 2, lane % 2 * 8), u32x4{0, 0, 0, 0});
    sync_warp();
    uint32_t r[4];
    ldmatrix_x4(r, shared.at(lane % 16, lane / 16 * 8));
    const uint32_t pair[2] = {r[0], r[1]};
    const SharedAddr row = result.at(lane % 16, lane / 16 * 8);
    if (mode == 0) stmatrix_x4(row, r);
    if (mode == 1) stmatrix_x4_trans(row, r);
    if (mode == 2) stmatrix_x2(row, pair);
    if (mode == 3) stmatrix_x2_trans(row, pair);
    sync_warp();
    st_global(out + lane, ld_shared<u32x4>(result.at(lane / 2, lane % 2 * 8)));
}

/// c[16 rows, 8 columns] += a @ b in the lane maps of mma.cuh; `a` has 4 and `b` 2 registers a lane
LOOM_KERNEL(32, 1) multiply_fragments(const uint32_t* a, const uint32_t* b, float* c, int format) {
    const int lane = lane_index();
    uint32_t a_frag[4];
    float sums[4];
    for (int j = 0; j < 4; ++j) {
        a_frag[j] = ld_global(a + 4 * lane + j);
        sums[j] = ld_global(c + 4 * lane + j);
    }
    const uint32_t b0 = ld_global(b + 2 * lane);
    const uint32_t b1 = ld_global(b + 2 * lane + 1);
    if (format == 0) mma_m16n8k16_bf16(sums, a_frag, b0, b1);
    if (format == 1) mma_m16n8k16_f16(sums, a_frag, b0, b1);
    if (format == 2) mma_m16n8k8_tf32(sums, a_frag, b0, b1);
    for (int j = 0; j < 4; ++j)
        st_global(c + 4 * lane + j, sums[j]);
}

/// out[64 m + lane]: shuffles of the lane's number
LOOM_KERNEL(32, 1) shuffles(float* out) {
    const int lane = lane_index();
    const float mine = static_cast<float>(lane);
    st_global(out + lane, shuffle_xor(mine, 5));
    st_global(out + 32 + lane, shuffle(mine, lane * 3));
    st_global(out + 64 + lane, shuffle_up(mine, 4));
    st_global(out + 96 + lane, static_cast<float>(shuffle_xor(static_cast<uint32_t>(lane), 16)));
}

/// x = (I + l)^-1 of a 16 x 16 block in the middle of a tile
LOOM_KERNEL(32, 1) invert_16(const float* l, float* x) {
    const SharedTile<float, 32, 32, 36, 0> lower{shared_memory()};
    const SharedTile<float, 16, 16, 32, 3> inverse{shared_memory() + lower.kBytes + 512};
    const int lane = lane_index();
    for (int i = lane; i < 256; i += 32) {
        // The diagonal and what lies above it stay unwritten.
        if (i % 16 < i / 16) st_shared(lower.at(16 + i / 16, 16 + i % 16), ld_global(l + i));
    }
    sync_warp();
    invert_unit_lower_16(lower, 16, 16, inverse, 0, 0);
    sync_warp();
    for (int i = lane; i < 256; i += 32)
        st_global(x + i, ld_shared<float>(inverse.at(i / 16, i % 16)));
}
