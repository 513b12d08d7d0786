#pragma once
// Barriers in shared memory, at which threads and the copy hardware arrive.
//
// A barrier goes through phases 0, 1, 2, ... A phase is complete once all its arrivals are in and as many bytes have
// come as were expected in it; the next one begins at once. A wait names a phase by its parity and returns when that
// phase is complete, so that a wait for parity 1 on a new barrier returns at once. One waits for a phase before the
// next but one begins. What a thread did before it arrived, and the bytes, are seen after the wait.
//
// The copy and the product hardware reach shared memory by a way of their own (the async proxy): what a thread has
// written itself, by st_shared, stmatrix or cp_async, they see only if that thread calls fence_proxy_async after the
// write and before the arrival or barrier that makes it known.

#include "loom/layout.cuh"
#include "loom/types.cuh"

#ifdef LOOM_HOST
#include "loom/host/mbarrier.hpp"
#else
#include "loom/ptx/mbarrier.cuh"
#endif

namespace loom {

/// SLOTS barriers of 8 bytes each, one beside the other; `base` is a multiple of 8.
template <int SLOTS>
struct BarrierRing {
    static constexpr int kBytes = 8 * SLOTS;

    SharedAddr base;

    LOOM_DEVICE SharedAddr at(int slot) const { return base + 8 * slot; }
};

#ifndef LOOM_HOST

/// One thread makes the 8 bytes a barrier that completes a phase after `arrivals` arrivals.
LOOM_DEVICE void mbarrier_init(SharedAddr barrier, int arrivals) {
    ptx::mbarrier_init(barrier.bytes, static_cast<uint32_t>(arrivals));
}

/// By the thread that made the barriers, after all of them and before the block barrier that makes them known.
LOOM_DEVICE void mbarrier_init_fence() {
    ptx::fence_mbarrier_init();
}

LOOM_DEVICE void mbarrier_arrive(SharedAddr barrier) {
    ptx::mbarrier_arrive(barrier.bytes);
}

/// Arrives; the phase waits for `bytes` more by copies.
LOOM_DEVICE void mbarrier_expect_bytes(SharedAddr barrier, int bytes) {
    ptx::mbarrier_arrive_expect_tx(barrier.bytes, static_cast<uint32_t>(bytes));
}

/// Until the phase of that parity is complete.
LOOM_DEVICE void mbarrier_wait(SharedAddr barrier, int parity) {
    while (!ptx::mbarrier_try_wait_parity(barrier.bytes, static_cast<uint32_t>(parity))) {
    }
}

/// What the calling thread has written to shared memory is what copies and products read that come after.
LOOM_DEVICE void fence_proxy_async() {
    ptx::fence_proxy_async_shared();
}

#endif

}  // namespace loom
