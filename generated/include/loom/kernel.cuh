#pragma once
// A kernel's head, and where a thread is. Grids and blocks are one-dimensional.

#include "loom/layout.cuh"
#include "loom/types.cuh"

#ifdef LOOM_HOST
#define LOOM_KERNEL(threads, min_blocks) extern "C" void
#else
#define LOOM_KERNEL(threads, min_blocks) extern "C" __global__ void __launch_bounds__(threads, min_blocks)
#endif

namespace loom {

#ifdef LOOM_HOST

inline SharedAddr shared_memory() {
    return SharedAddr{0};
}
inline int thread_index() {
    return host::thread_index();
}
inline int64_t block_index() {
    return host::block_index();
}
inline int lane_index() {
    return thread_index() % 32;
}
inline int warp_index() {
    return thread_index() / 32;
}

#else

/// The dynamic shared memory of the block, 1024-byte aligned; a kernel has no static shared memory beside it.
LOOM_DEVICE SharedAddr shared_memory() {
    extern __shared__ __align__(1024) unsigned char loom_shared[];
    return SharedAddr{static_cast<uint32_t>(__cvta_generic_to_shared(loom_shared))};
}

LOOM_DEVICE int thread_index() {
    return static_cast<int>(threadIdx.x);
}
LOOM_DEVICE int64_t block_index() {
    return static_cast<int64_t>(blockIdx.x);
}
LOOM_DEVICE int lane_index() {
    return static_cast<int>(threadIdx.x % 32u);
}

/// The warp's number in the block, known to the compiler to be uniform over the warp; all 32 lanes call it together.
LOOM_DEVICE int warp_index() {
    return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x / 32u), 0);
}

#endif

}  // namespace loom
