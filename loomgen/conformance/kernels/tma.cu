#include "loom/hopper.cuh"
#include "loom/loom.cuh"

// Boxes of 16 rows by the copy hardware, at the edges of a matrix of 72 columns and inside of it. 128 threads.

using namespace loom;

/// y[block] = the box of x from row 7 * block - 5 and column block % 3 * 24 - 8 on, zeros outside of x.
template <typename T, int COLS, int SWIZZLE>
LOOM_DEVICE void load_boxes(const TensorMap& x, T* y) {
    const SharedTile<T, 16, COLS, COLS, SWIZZLE> tile{shared_memory()};
    const BarrierRing<1> landed{shared_memory() + tile.kBytes};
    const int block = static_cast<int>(block_index());
    if (thread_index() == 0) {
        mbarrier_init(landed.at(0), 1);
        mbarrier_init_fence();
        mbarrier_expect_bytes(landed.at(0), tile.kBytes);
        tma_load(tile, x, 7 * block - 5, block % 3 * 24 - 8, landed.at(0));
    }
    sync_block();
    mbarrier_wait(landed.at(0), 0);
    for (int i = thread_index(); i < 16 * COLS; i += 128)
        st_global(y + block * 16 * COLS + i, ld_shared<T>(tile.at(i / COLS, i % COLS)));
}

/// The boxes of y, one beside and below the other, become the tiles of x, where they are inside of y.
template <typename T, int COLS, int SWIZZLE>
LOOM_DEVICE void store_boxes(const TensorMap& y, const T* x) {
    constexpr int kAcross = (72 + COLS - 1) / COLS;
    const SharedTile<T, 16, COLS, COLS, SWIZZLE> tile{shared_memory()};
    const int block = static_cast<int>(block_index());
    for (int i = thread_index(); i < 16 * COLS; i += 128)
        st_shared(tile.at(i / COLS, i % COLS), ld_global(x + block * 16 * COLS + i));
    fence_proxy_async();
    sync_block();
    if (thread_index() != 0) return;
    tma_store(y, block / kAcross * 16, block % kAcross * COLS, tile);
    tma_store_commit();
    tma_store_wait<0>();
}

/// y = x, [8 * 16, 64], by a ring of two tiles, each written again as soon as the wait lets it.
LOOM_KERNEL(128, 1) tma_store_ring(const bf16* x, LOOM_TENSOR_MAP y) {
    const SharedTile<bf16, 16, 64, 64, 3> ring{shared_memory()};
    for (int box = 0; box < 8; ++box) {
        const auto tile = ring.at_slot(box % 2);
        if (thread_index() == 0) tma_store_wait<1>();
        sync_block();
        for (int i = thread_index(); i < 16 * 64; i += 128)
            st_shared(tile.at(i / 64, i % 64), ld_global(x + box * 16 * 64 + i));
        fence_proxy_async();
        sync_block();
        if (thread_index() != 0) continue;
        tma_store(y, box * 16, 0, tile);
        tma_store_commit();
    }
    if (thread_index() == 0) tma_store_wait<0>();
}

LOOM_KERNEL(128, 1) tma_load_bf16_64_3(LOOM_TENSOR_MAP x, bf16* y) {
    load_boxes<bf16, 64, 3>(x, y);
}
LOOM_KERNEL(128, 1) tma_store_bf16_64_3(const bf16* x, LOOM_TENSOR_MAP y) {
    store_boxes<bf16, 64, 3>(y, x);
}
LOOM_KERNEL(128, 1) tma_load_bf16_32_2(LOOM_TENSOR_MAP x, bf16* y) {
    load_boxes<bf16, 32, 2>(x, y);
}
LOOM_KERNEL(128, 1) tma_store_bf16_32_2(const bf16* x, LOOM_TENSOR_MAP y) {
    store_boxes<bf16, 32, 2>(y, x);
}
LOOM_KERNEL(128, 1) tma_load_bf16_16_1(LOOM_TENSOR_MAP x, bf16* y) {
    load_boxes<bf16, 16, 1>(x, y);
}
LOOM_KERNEL(128, 1) tma_store_bf16_16_1(const bf16* x, LOOM_TENSOR_MAP y) {
    store_boxes<bf16, 16, 1>(y, x);
}
LOOM_KERNEL(128, 1) tma_load_bf16_64_0(LOOM_TENSOR_MAP x, bf16* y) {
    load_boxes<bf16, 64, 0>(x, y);
}
LOOM_KERNEL(128, 1) tma_store_bf16_64_0(const bf16* x, LOOM_TENSOR_MAP y) {
    store_boxes<bf16, 64, 0>(y, x);
}
LOOM_KERNEL(128, 1) tma_load_bf16_40_0(LOOM_TENSOR_MAP x, bf16* y) {
    load_boxes<bf16, 40, 0>(x, y);
}
LOOM_KERNEL(128, 1) tma_store_bf16_40_0(const bf16* x, LOOM_TENSOR_MAP y) {
    store_boxes<bf16, 40, 0>(y, x);
}
LOOM_KERNEL(128, 1) tma_load_float_32_3(LOOM_TENSOR_MAP x, float* y) {
    load_boxes<float, 32, 3>(x, y);
}
LOOM_KERNEL(128, 1) tma_store_float_32_3(const float* x, LOOM_TENSOR_MAP y) {
    store_boxes<float, 32, 3>(y, x);
}
LOOM_KERNEL(128, 1) tma_load_float_16_2(LOOM_TENSOR_MAP x, float* y) {
    load_boxes<float, 16, 2>(x, y);
}
LOOM_KERNEL(128, 1) tma_store_float_16_2(const float* x, LOOM_TENSOR_MAP y) {
    store_boxes<float, 16, 2>(y, x);
}
LOOM_KERNEL(128, 1) tma_load_float_64_0(LOOM_TENSOR_MAP x, float* y) {
    load_boxes<float, 64, 0>(x, y);
}
LOOM_KERNEL(128, 1) tma_store_float_64_0(const float* x, LOOM_TENSOR_MAP y) {
    store_boxes<float, 64, 0>(y, x);
}
