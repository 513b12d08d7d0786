#pragma once
// Exchanges of one register between the 32 lanes of a warp, all of which call together, from the same statement.
// T is float, uint32_t or int32_t. A shuffle does not order memory.

#include "loom/kernel.cuh"
#include "loom/types.cuh"

#ifdef LOOM_HOST
#include "loom/host/runtime.hpp"
#endif

namespace loom {

#ifdef LOOM_HOST

template <typename T>
T shuffle(T value, int lane LOOM_HERE) {
    return bit_cast<T>(host::shuffle(bit_cast<uint32_t>(value), lane & 31, line));
}

template <typename T>
T shuffle_xor(T value, int mask LOOM_HERE) {
    return shuffle(value, lane_index() ^ mask, line);
}

template <typename T>
T shuffle_up(T value, int delta LOOM_HERE) {
    const int lane = lane_index();
    return shuffle(value, lane < delta ? lane : lane - delta, line);
}

#else

/// The value of lane `lane` (modulo 32).
template <typename T>
LOOM_DEVICE T shuffle(T value, int lane) {
    return __shfl_sync(0xffffffffu, value, lane);
}

/// The value of the lane whose number differs in the bits of `mask`.
template <typename T>
LOOM_DEVICE T shuffle_xor(T value, int mask) {
    return __shfl_xor_sync(0xffffffffu, value, mask);
}

/// The value of the lane `delta` below; lanes below `delta` keep their own.
template <typename T>
LOOM_DEVICE T shuffle_up(T value, int delta) {
    return __shfl_up_sync(0xffffffffu, value, delta);
}

#endif

}  // namespace loom
