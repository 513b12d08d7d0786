#include "loom/loom.cuh"

// Where a thread is, and where its shared memory is.

using namespace loom;

/// Of each of the 96 threads of a block: thread, lane, warp and block.
LOOM_KERNEL(96, 1) kernel_indices(int64_t* y) {
    int64_t* mine = y + (block_index() * 96 + thread_index()) * 4;
    st_global(mine, static_cast<int64_t>(thread_index()));
    st_global(mine + 1, static_cast<int64_t>(lane_index()));
    st_global(mine + 2, static_cast<int64_t>(warp_index()));
    st_global(mine + 3, block_index());
}

/// Shared memory is 1024-byte aligned, all of it can be reached, and each block has its own.
LOOM_KERNEL(32, 1) kernel_shared_memory(uint32_t* y, int shared_bytes) {
    const SharedAddr last = shared_memory() + (shared_bytes - 128 + thread_index() * 4);
    const uint32_t mine = static_cast<uint32_t>(block_index() * 32 + thread_index());
    st_shared(last, mine + 1);
    sync_warp();
    st_global(y + 2 * mine, shared_memory().bytes % 1024);
    st_global(y + 2 * mine + 1, ld_shared<uint32_t>(last));
}
