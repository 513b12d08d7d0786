#include "loom/hopper.cuh"
#include "loom/loom.cuh"

// Products of one warpgroup, with operands of a swizzled row each. sm_90a only.

#if defined(LOOM_HOST) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

namespace warpgroup {

using namespace loom;

constexpr int kBlocks = 8;

/// Where the lane's first accumulator is in a matrix of 64 rows a block.
template <int COLS>
LOOM_DEVICE int64_t lane_offset() {
    return (block_index() * 64 + warp_index() * 16 + lane_index() / 4) * COLS + lane_index() % 4 * 2;
}

template <int COLS>
LOOM_DEVICE void load_sums(float (&acc)[COLS / 8][4], const float* c) {
    LOOM_UNROLL
    for (int n = 0; n < COLS / 8; ++n) {
        const f32x2 upper = ld_global(reinterpret_cast<const f32x2*>(c + lane_offset<COLS>() + n * 8));
        const f32x2 lower = ld_global(reinterpret_cast<const f32x2*>(c + lane_offset<COLS>() + n * 8 + 8 * COLS));
        acc[n][0] = upper.x;
        acc[n][1] = upper.y;
        acc[n][2] = lower.x;
        acc[n][3] = lower.y;
    }
}

template <int COLS>
LOOM_DEVICE void store_sums(float* y, const float (&acc)[COLS / 8][4]) {
    LOOM_UNROLL
    for (int n = 0; n < COLS / 8; ++n) {
        float* const to = y + lane_offset<COLS>() + n * 8;
        st_global(reinterpret_cast<f32x2*>(to), f32x2{acc[n][0], acc[n][1]});
        st_global(reinterpret_cast<f32x2*>(to + 8 * COLS), f32x2{acc[n][2], acc[n][3]});
    }
}

/// The tile becomes the block's rows of x.
template <typename Tile>
LOOM_DEVICE void fill(const Tile& tile, const typename Tile::Element* x) {
    constexpr int kElements = Tile::kRows * Tile::kCols;
    for (int i = thread_index(); i < kElements; i += 128)
        st_shared(tile.at(i / Tile::kCols, i % Tile::kCols), ld_global(x + block_index() * kElements + i));
}

/// y = c + a b^T of each block: [64, COLS] + [64, k] [COLS, k], k as wide as the swizzle, one group.
template <typename T, int COLS, int SWIZZLE>
LOOM_DEVICE void multiply(const T* a, const T* b, const float* c, float* y) {
    constexpr int kDepth = 8 << SWIZZLE;
    const SharedTile<T, 64, kDepth, kDepth, SWIZZLE> a_tile{shared_memory()};
    const SharedTile<T, COLS, kDepth, kDepth, SWIZZLE> b_tile{shared_memory() + 8192};
    fill(a_tile, a);
    fill(b_tile, b);
    fence_proxy_async();
    sync_block();
    float acc[COLS / 8][4];
    load_sums<COLS>(acc, c);
    wgmma_fence();
    LOOM_UNROLL
    for (int k = 0; k < kDepth; k += 16)
        wgmma_m64k16<T>(acc, wgmma_operand(a_tile, 0, k), wgmma_operand(b_tile, 0, k));
    wgmma_commit();
    wgmma_wait<0>(acc);
    store_sums<COLS>(y, acc);
}

}  // namespace warpgroup

using namespace loom;

/// y = c + a b^T as two groups: rows 0 .. 63 of b, stored while the product with rows 64 .. 127 may still go on.
LOOM_KERNEL(128, 1) wgmma_two_groups(const bf16* a, const bf16* b, const float* c, float* y) {
    const SharedTile<bf16, 64, 64, 64, 3> a_tile{shared_memory()};
    const SharedTile<bf16, 128, 64, 64, 3> b_tile{shared_memory() + 8192};
    warpgroup::fill(a_tile, a);
    warpgroup::fill(b_tile, b);
    fence_proxy_async();
    sync_block();
    float left[8][4];
    float right[8][4];
    warpgroup::load_sums<64>(left, c);
    warpgroup::load_sums<64>(right, c + warpgroup::kBlocks * 64 * 64);
    wgmma_fence();
    LOOM_UNROLL
    for (int k = 0; k < 64; k += 16)
        wgmma_m64k16<bf16>(left, wgmma_operand(a_tile, 0, k), wgmma_operand(b_tile, 0, k));
    wgmma_commit();
    LOOM_UNROLL
    for (int k = 0; k < 64; k += 16)
        wgmma_m64k16<bf16>(right, wgmma_operand(a_tile, 0, k), wgmma_operand(b_tile, 64, k));
    wgmma_commit();
    wgmma_wait<1>();
    warpgroup::store_sums<64>(y, left);
    wgmma_wait<0>();
    warpgroup::store_sums<64>(y + warpgroup::kBlocks * 64 * 64, right);
}

/// y = x by three warpgroups, two of which claim what the third releases.
LOOM_KERNEL(384, 1) wgmma_registers(const uint32_t* x, uint32_t* y) {
    if (warp_index() < 4) {
        release_registers<40>();
    } else {
        claim_registers<232>();
    }
    const int64_t i = block_index() * 384 + thread_index();
    st_global(y + i, ld_global(x + i));
}

LOOM_KERNEL(128, 1) wgmma_bf16_64_3(const bf16* a, const bf16* b, const float* c, float* y) {
    warpgroup::multiply<bf16, 64, 3>(a, b, c, y);
}
LOOM_KERNEL(128, 1) wgmma_bf16_128_3(const bf16* a, const bf16* b, const float* c, float* y) {
    warpgroup::multiply<bf16, 128, 3>(a, b, c, y);
}
LOOM_KERNEL(128, 1) wgmma_bf16_256_3(const bf16* a, const bf16* b, const float* c, float* y) {
    warpgroup::multiply<bf16, 256, 3>(a, b, c, y);
}
LOOM_KERNEL(128, 1) wgmma_bf16_64_2(const bf16* a, const bf16* b, const float* c, float* y) {
    warpgroup::multiply<bf16, 64, 2>(a, b, c, y);
}
LOOM_KERNEL(128, 1) wgmma_bf16_64_1(const bf16* a, const bf16* b, const float* c, float* y) {
    warpgroup::multiply<bf16, 64, 1>(a, b, c, y);
}
LOOM_KERNEL(128, 1) wgmma_f16_64_3(const f16* a, const f16* b, const float* c, float* y) {
    warpgroup::multiply<f16, 64, 3>(a, b, c, y);
}
LOOM_KERNEL(128, 1) wgmma_f16_128_3(const f16* a, const f16* b, const float* c, float* y) {
    warpgroup::multiply<f16, 128, 3>(a, b, c, y);
}
LOOM_KERNEL(128, 1) wgmma_f16_256_3(const f16* a, const f16* b, const float* c, float* y) {
    warpgroup::multiply<f16, 256, 3>(a, b, c, y);
}

#endif
