#pragma once
// Loads, stores and asynchronous copies. A thread's access is 1, 2, 4, 8 or 16 bytes by the type and is aligned to it;
// a wider access goes through a cast pointer: st_global(reinterpret_cast<u32x4*>(p), v).
//
// An asynchronous copy lands in shared memory by the cp_async_wait of the thread that issued it; other threads see it
// after a barrier that follows that wait. Its destination may not be touched in between.

#include "loom/layout.cuh"
#include "loom/types.cuh"

#ifdef LOOM_HOST
#include "loom/host/copy.hpp"
#else
#include "loom/ptx/async.cuh"
#include "loom/ptx/memory.cuh"
#endif

namespace loom {

#ifndef LOOM_HOST

template <typename T>
LOOM_DEVICE T ld_global(const T* source) {
    if constexpr (sizeof(T) == 1) return bit_cast<T>(ptx::ld_global_b8(source));
    if constexpr (sizeof(T) == 2) return bit_cast<T>(ptx::ld_global_b16(source));
    if constexpr (sizeof(T) == 4) return bit_cast<T>(ptx::ld_global_b32(source));
    if constexpr (sizeof(T) == 8) return bit_cast<T>(ptx::ld_global_b64(source));
    if constexpr (sizeof(T) == 16) return bit_cast<T>(ptx::ld_global_v4_b32(source));
}

template <typename T>
LOOM_DEVICE void st_global(T* target, T value) {
    if constexpr (sizeof(T) == 1) ptx::st_global_b8(target, bit_cast<uint8_t>(value));
    if constexpr (sizeof(T) == 2) ptx::st_global_b16(target, bit_cast<uint16_t>(value));
    if constexpr (sizeof(T) == 4) ptx::st_global_b32(target, bit_cast<uint32_t>(value));
    if constexpr (sizeof(T) == 8) ptx::st_global_b64(target, bit_cast<uint64_t>(value));
    if constexpr (sizeof(T) == 16) ptx::st_global_v4_b32(target, bit_cast<u32x4>(value));
}

template <typename T>
LOOM_DEVICE T ld_shared(SharedAddr source) {
    if constexpr (sizeof(T) == 1) return bit_cast<T>(ptx::ld_shared_b8(source.bytes));
    if constexpr (sizeof(T) == 2) return bit_cast<T>(ptx::ld_shared_b16(source.bytes));
    if constexpr (sizeof(T) == 4) return bit_cast<T>(ptx::ld_shared_b32(source.bytes));
    if constexpr (sizeof(T) == 8) return bit_cast<T>(ptx::ld_shared_b64(source.bytes));
    if constexpr (sizeof(T) == 16) return bit_cast<T>(ptx::ld_shared_v4_b32(source.bytes));
}

template <typename T>
LOOM_DEVICE void st_shared(SharedAddr target, T value) {
    if constexpr (sizeof(T) == 1) ptx::st_shared_b8(target.bytes, bit_cast<uint8_t>(value));
    if constexpr (sizeof(T) == 2) ptx::st_shared_b16(target.bytes, bit_cast<uint16_t>(value));
    if constexpr (sizeof(T) == 4) ptx::st_shared_b32(target.bytes, bit_cast<uint32_t>(value));
    if constexpr (sizeof(T) == 8) ptx::st_shared_b64(target.bytes, bit_cast<uint64_t>(value));
    if constexpr (sizeof(T) == 16) ptx::st_shared_v4_b32(target.bytes, bit_cast<u32x4>(value));
}

/// 16 bytes from global to shared memory, past the first-level cache.
LOOM_DEVICE void cp_async_16(SharedAddr target, const void* source) {
    ptx::cp_async_cg_16(target.bytes, source);
}

/// The same; zeros, and no read of the source, when not `valid`.
LOOM_DEVICE void cp_async_16(SharedAddr target, const void* source, bool valid) {
    ptx::cp_async_cg_16_zfill(target.bytes, source, valid ? 16u : 0u);
}

/// 4 bytes from global to shared memory.
LOOM_DEVICE void cp_async_4(SharedAddr target, const void* source) {
    ptx::cp_async_ca_4(target.bytes, source);
}

LOOM_DEVICE void cp_async_4(SharedAddr target, const void* source, bool valid) {
    ptx::cp_async_ca_4_zfill(target.bytes, source, valid ? 4u : 0u);
}

/// Closes a group: the thread's copies since the previous group.
LOOM_DEVICE void cp_async_commit() {
    ptx::cp_async_commit_group();
}

/// Waits until at most the N youngest groups of the calling thread are pending.
template <int N>
LOOM_DEVICE void cp_async_wait() {
    ptx::cp_async_wait_group<N>();
}

#endif

}  // namespace loom
