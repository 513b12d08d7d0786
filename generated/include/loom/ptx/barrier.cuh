#pragma once
// Named barriers.

#include "loom/types.cuh"

namespace loom::ptx {

/// A constant id becomes an immediate; an id in a register would reserve all sixteen barriers.
LOOM_DEVICE void bar_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace loom::ptx
