#pragma once
// Barriers. Each orders the shared and global memory accesses of the threads that meet in it; of asynchronous copies,
// those that their issuer has waited for.

#include "loom/types.cuh"

#ifdef LOOM_HOST
#include "loom/host/runtime.hpp"
#else
#include "loom/ptx/barrier.cuh"
#endif

namespace loom {

#ifdef LOOM_HOST

inline void sync_warp(LOOM_ONLY_HERE) {
    host::sync_warp(line);
}
inline void sync_block(LOOM_ONLY_HERE) {
    host::sync_block(line);
}
inline void sync_named(int id, int threads LOOM_HERE) {
    host::sync_named(id, threads, line);
}

#else

/// The 32 lanes of the warp.
LOOM_DEVICE void sync_warp() {
    __syncwarp();
}

/// All threads of the block, from the same statement (barrier 0).
LOOM_DEVICE void sync_block() {
    __syncthreads();
}

/// `threads` threads (a multiple of 32, whole warps) of the block at barrier `id`, a literal from 1 to 15.
LOOM_DEVICE void sync_named(int id, int threads) {
    ptx::bar_sync(id, threads);
}

#endif

}  // namespace loom
