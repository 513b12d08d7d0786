#include "loom/hopper.cuh"
#include "loom/loom.cuh"

using namespace loom;

// One product of a warpgroup after another, for every element type, width of a row and number of columns.

/// c[i,j] += a[i,k] @ b[j,k], 64 rows, all k of a tile's row, by operands that the threads themselves have written
template <typename T, int COLS, int SWIZZLE>
LOOM_DEVICE void multiply(const T* a, const T* b, float* c) {
    constexpr int kDepth = 8 << SWIZZLE;
    const SharedTile<T, 64, kDepth, kDepth, SWIZZLE> a_tile{shared_memory()};
    const SharedTile<T, COLS, kDepth, kDepth, SWIZZLE> b_tile{shared_memory() + 8192};
    for (int i = thread_index(); i < 64 * kDepth; i += 128)
        st_shared(a_tile.at(i / kDepth, i % kDepth), ld_global(a + i));
    for (int i = thread_index(); i < COLS * kDepth; i += 128)
        st_shared(b_tile.at(i / kDepth, i % kDepth), ld_global(b + i));
    fence_proxy_async();
    sync_block();
    float* mine = c + (warp_index() * 16 + lane_index() / 4) * COLS + lane_index() % 4 * 2;
    float acc[COLS / 8][4];
    LOOM_UNROLL
    for (int n = 0; n < COLS / 8; ++n) {
        const f32x2 upper = ld_global(reinterpret_cast<const f32x2*>(mine + n * 8));
        const f32x2 lower = ld_global(reinterpret_cast<const f32x2*>(mine + n * 8 + 8 * COLS));
        acc[n][0] = upper.x;
        acc[n][1] = upper.y;
        acc[n][2] = lower.x;
        acc[n][3] = lower.y;
    }
    wgmma_fence();
    LOOM_UNROLL
    for (int k = 0; k < kDepth; k += 16) {
        wgmma_m64k16<T>(acc, wgmma_operand(a_tile, 0, k), wgmma_operand(b_tile, 0, k));
    }
    wgmma_commit();
    wgmma_wait<0>();
    LOOM_UNROLL
    for (int n = 0; n < COLS / 8; ++n) {
        st_global(reinterpret_cast<f32x2*>(mine + n * 8), f32x2{acc[n][0], acc[n][1]});
        st_global(reinterpret_cast<f32x2*>(mine + n * 8 + 8 * COLS), f32x2{acc[n][2], acc[n][3]});
    }
}

#define PRODUCT(T, COLS, SWIZZLE)                                                            \
    LOOM_KERNEL(128, 1) product_##T##_##COLS##_##SWIZZLE(const T* a, const T* b, float* c) { \
        multiply<T, COLS, SWIZZLE>(a, b, c);                                                 \
    }

PRODUCT(bf16, 64, 3)
PRODUCT(bf16, 128, 3)
PRODUCT(bf16, 256, 3)
PRODUCT(bf16, 64, 2)
PRODUCT(bf16, 64, 1)
PRODUCT(f16, 64, 3)
PRODUCT(f16, 128, 2)
PRODUCT(f16, 256, 1)
