#include "loom/loom.cuh"

using namespace loom;

/// c[i,j] = a[i,d] @ b[j,d]
LOOM_KERNEL(128, 1) matmul_64(const bf16* __restrict__ a, const bf16* __restrict__ b, float* __restrict__ c) {
    const SharedAddr shared = shared_memory();
    const SharedTile<bf16, 64, 64, 64, 3> a_tile{shared};
    const SharedTile<bf16, 64, 64, 64, 3> b_tile{shared + a_tile.kBytes};
    const int lane = lane_index();
    const int warp = warp_index();

    // Copy both operands, one group for each.
    LOOM_UNROLL
    for (int i = thread_index(); i < 64 * 8; i += 128) {
        cp_async_16(a_tile.at(i / 8, i % 8 * 8), a + i * 8);
    }
    cp_async_commit();
    LOOM_UNROLL
    for (int i = thread_index(); i < 64 * 8; i += 128) {
        cp_async_16(b_tile.at(i / 8, i % 8 * 8), b + i * 8);
    }
    cp_async_commit();
    cp_async_wait<0>();
    sync_block();

    // A warp computes 16 rows.
    float sums[8][4] = {};
    LOOM_UNROLL
    for (int d = 0; d < 64; d += 16) {
        uint32_t a_frag[4];
        ldmatrix_x4(a_frag, a_tile.at(warp * 16 + lane % 16, d + lane / 16 * 8));
        LOOM_UNROLL
        for (int n = 0; n < 8; n += 2) {
            uint32_t b_frag[4];
            ldmatrix_x4(b_frag, b_tile.at(n * 8 + lane / 16 * 8 + lane % 8, d + lane / 8 % 2 * 8));
            mma_m16n8k16_bf16(sums[n], a_frag, b_frag[0], b_frag[1]);
            mma_m16n8k16_bf16(sums[n + 1], a_frag, b_frag[2], b_frag[3]);
        }
    }

    LOOM_UNROLL
    for (int n = 0; n < 8; ++n) {
        float* row = c + (warp * 16 + lane / 4) * 64 + n * 8 + lane % 4 * 2;
        st_global(reinterpret_cast<f32x2*>(row), f32x2{sums[n][0], sums[n][1]});
        st_global(reinterpret_cast<f32x2*>(row + 8 * 64), f32x2{sums[n][2], sums[n][3]});
    }
}
