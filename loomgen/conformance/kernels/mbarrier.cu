#include "loom/hopper.cuh"
#include "loom/loom.cuh"

// Barriers in shared memory: what one warp writes, three others read.

using namespace loom;

/// y[step] = what warp 0 has read of x[step], rotated by 5 lanes for warp 1, by 10 for warp 2, by 15 for warp 3; through
/// a ring of two slots.
LOOM_KERNEL(128, 1) mbarrier_ring(const uint32_t* x, uint32_t* y) {
    const SharedTile<uint32_t, 2, 32, 32, 0> slots{shared_memory()};
    const BarrierRing<2> full{shared_memory() + slots.kBytes};
    const BarrierRing<2> empty{full.base + full.kBytes};
    const int lane = lane_index();
    const int warp = warp_index();
    if (thread_index() == 0) {
        for (int slot = 0; slot < 2; ++slot) {
            mbarrier_init(full.at(slot), 32);
            mbarrier_init(empty.at(slot), 3);
        }
        mbarrier_init_fence();
    }
    sync_block();
    const int64_t first = block_index() * 8;
    for (int step = 0; step < 8; ++step) {
        const int slot = step % 2;
        if (warp == 0) {
            mbarrier_wait(empty.at(slot), (step / 2 + 1) % 2);
            st_shared(slots.at(slot, lane), ld_global(x + (first + step) * 32 + lane));
            mbarrier_arrive(full.at(slot));
            continue;
        }
        mbarrier_wait(full.at(slot), step / 2 % 2);
        const uint32_t word = ld_shared<uint32_t>(slots.at(slot, (lane + 5 * warp) % 32));
        st_global(y + ((first + step) * 3 + warp - 1) * 32 + lane, word);
        sync_warp();
        if (lane == 0) mbarrier_arrive(empty.at(slot));
    }
}
