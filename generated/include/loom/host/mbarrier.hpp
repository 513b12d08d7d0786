#pragma once
// Host bodies of mbarrier.cuh.

#include "loom/host/asynchrony.hpp"
#include "loom/layout.cuh"

namespace loom {

inline void mbarrier_init(SharedAddr barrier, int arrivals LOOM_HERE) {
    host::mbarrier_init(barrier.bytes, arrivals, line);
}
inline void mbarrier_init_fence(LOOM_ONLY_HERE) {
    host::mbarrier_init_fence(line);
}
inline void mbarrier_arrive(SharedAddr barrier LOOM_HERE) {
    host::mbarrier_arrive(barrier.bytes, line);
}
inline void mbarrier_expect_bytes(SharedAddr barrier, int bytes LOOM_HERE) {
    host::mbarrier_expect_bytes(barrier.bytes, bytes, line);
}
inline void mbarrier_wait(SharedAddr barrier, int parity LOOM_HERE) {
    host::mbarrier_wait(barrier.bytes, parity, line);
}
inline void fence_proxy_async(LOOM_ONLY_HERE) {
    host::fence_proxy_async(line);
}

}  // namespace loom
