#include "loom/hopper.cuh"
#include "loom/loom.cuh"

using namespace loom;

// One block of 128 x 128: a warpgroup asks for the operands, two multiply, through a ring of two slots.

/// c[i,j] = a[i,d] @ b[j,d]
LOOM_KERNEL(384, 1) hopper_matmul(LOOM_TENSOR_MAP a_map, LOOM_TENSOR_MAP b_map, LOOM_TENSOR_MAP c_map, int depth) {
    const SharedAddr shared = shared_memory();
    const SharedTile<bf16, 128, 64, 64, 3> a_ring{shared};
    const SharedTile<bf16, 128, 64, 64, 3> b_ring{shared + 2 * a_ring.kBytes};
    const SharedAddr c_tiles = shared + (2 * a_ring.kBytes + 2 * b_ring.kBytes);
    const BarrierRing<2> full{c_tiles + 4 * 64 * 64 * 2};
    const BarrierRing<2> empty{full.base + full.kBytes};
    const int warp = warp_index();

    if (thread_index() == 0) {
        for (int slot = 0; slot < 2; ++slot) {
            mbarrier_init(full.at(slot), 1);
            mbarrier_init(empty.at(slot), 2);
        }
        mbarrier_init_fence();
    }
    sync_block();

    if (warp < 4) {
        // The producer: one thread of it.
        release_registers<40>();
        if (thread_index() != 0) return;
        for (int step = 0; step < depth / 64; ++step) {
            const int slot = step % 2;
            mbarrier_wait(empty.at(slot), (step / 2 + 1) % 2);
            mbarrier_expect_bytes(full.at(slot), a_ring.kBytes + b_ring.kBytes);
            tma_load(a_ring.at_slot(slot), a_map, 0, step * 64, full.at(slot));
            tma_load(b_ring.at_slot(slot), b_map, 0, step * 64, full.at(slot));
        }
        return;
    }

    // The consumers: 64 rows a warpgroup.
    claim_registers<232>();
    const int group = warp / 4 - 1;
    float acc[16][4] = {};
    for (int step = 0; step < depth / 64; ++step) {
        const int slot = step % 2;
        mbarrier_wait(full.at(slot), step / 2 % 2);
        wgmma_fence();
        LOOM_UNROLL
        for (int k = 0; k < 64; k += 16) {
            const uint64_t a = wgmma_operand(a_ring.at_slot(slot), group * 64, k);
            const uint64_t b = wgmma_operand(b_ring.at_slot(slot), 0, k);
            wgmma_m64k16<bf16>(acc, a, b);
        }
        wgmma_commit();
        wgmma_wait<0>(acc);
        if (thread_index() % 128 == 0) mbarrier_arrive(empty.at(slot));
    }

    const int lane = lane_index();
    LOOM_UNROLL
    for (int panel = 0; panel < 2; ++panel) {
        const SharedTile<bf16, 64, 64, 64, 3> c_tile{c_tiles + (group * 2 + panel) * 64 * 64 * 2};
        LOOM_UNROLL
        for (int n = 0; n < 8; n += 2) {
            const float (&left)[4] = acc[panel * 8 + n];
            const float (&right)[4] = acc[panel * 8 + n + 1];
            const uint32_t packed[4] = {pack_bf16(left[0], left[1]), pack_bf16(left[2], left[3]),
                                        pack_bf16(right[0], right[1]), pack_bf16(right[2], right[3])};
            stmatrix_x4(c_tile.at(warp % 4 * 16 + lane % 16, n * 8 + lane / 16 * 8), packed);
        }
    }
    fence_proxy_async();
    if (group == 0) sync_named(1, 128);
    if (group == 1) sync_named(2, 128);
    if (thread_index() % 128 != 0) return;
    for (int panel = 0; panel < 2; ++panel) {
        const SharedTile<bf16, 64, 64, 64, 3> c_tile{c_tiles + (group * 2 + panel) * 64 * 64 * 2};
        tma_store(c_map, group * 64, panel * 64, c_tile);
    }
    tma_store_commit();
    tma_store_wait<0>();
}
