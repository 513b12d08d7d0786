#include "loom/loom.cuh"

// Barriers, seen through shared memory: in each of eight rounds every thread writes a word, after a delay that differs
// from thread to thread, and takes up the word of another thread. Without the barrier it would find an older word.

using namespace loom;

/// A word that takes `steps` dependent steps to compute.
LOOM_DEVICE uint32_t delayed(uint32_t word, int steps) {
    for (int i = 0; i < steps; ++i)
        word = word * 1664525u + 1013904223u;
    return word;
}

/// `rank` of `members` threads meet in `barrier`; their words lie from `words` on.
template <typename Barrier>
LOOM_DEVICE void rounds(Barrier barrier, SharedAddr words, int rank, int members, const uint32_t* x, uint32_t* y) {
    uint32_t word = ld_global(x + block_index() * 128 + thread_index());
    uint32_t* mine = y + block_index() * 1024 + thread_index();
    for (int round = 0; round < 8; ++round) {
        st_shared(words + rank * 4, delayed(word, (rank * 7 + round * 13) % members * 8));
        barrier();
        const int taken = (rank + 1 + round * (members / 4 + 1)) % members;
        word = word ^ ld_shared<uint32_t>(words + taken * 4);
        barrier();
        st_global(mine + round * 128, word);
    }
}

/// Each of four warps by itself.
LOOM_KERNEL(128, 1) sync_by_warp(const uint32_t* x, uint32_t* y) {
    const SharedAddr words = shared_memory() + warp_index() * 128;
    rounds([] { sync_warp(); }, words, lane_index(), 32, x, y);
}

LOOM_KERNEL(128, 1) sync_by_block(const uint32_t* x, uint32_t* y) {
    rounds([] { sync_block(); }, shared_memory(), thread_index(), 128, x, y);
}

/// Warps 0 and 1 at barrier 1, warps 2 and 3 at barrier 15.
LOOM_KERNEL(128, 1) sync_by_pairs_of_warps(const uint32_t* x, uint32_t* y) {
    const int rank = thread_index() % 64;
    if (warp_index() < 2) {
        rounds([] { sync_named(1, 64); }, shared_memory(), rank, 64, x, y);
    } else {
        rounds([] { sync_named(15, 64); }, shared_memory() + 256, rank, 64, x, y);
    }
}

/// Warps 0 to 2 at barrier 2, warp 3 alone at barrier 3.
LOOM_KERNEL(128, 1) sync_by_three_warps(const uint32_t* x, uint32_t* y) {
    if (warp_index() < 3) {
        rounds([] { sync_named(2, 96); }, shared_memory(), thread_index(), 96, x, y);
    } else {
        rounds([] { sync_named(3, 32); }, shared_memory() + 384, lane_index(), 32, x, y);
    }
}
