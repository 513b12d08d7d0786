#pragma once
// Asynchronous copies from global to shared memory, one instruction a function. `source_bytes` below the copy's width
// fills the rest with zeros; at 0 the source is not read.

#include "loom/types.cuh"

namespace loom::ptx {

LOOM_DEVICE void cp_async_cg_16(uint32_t target, const void* source) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(source) : "memory");
}

LOOM_DEVICE void cp_async_cg_16_zfill(uint32_t target, const void* source, uint32_t source_bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(source_bytes)
                 : "memory");
}

LOOM_DEVICE void cp_async_ca_4(uint32_t target, const void* source) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(target), "l"(source) : "memory");
}

LOOM_DEVICE void cp_async_ca_4_zfill(uint32_t target, const void* source, uint32_t source_bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(source), "r"(source_bytes)
                 : "memory");
}

LOOM_DEVICE void cp_async_commit_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N>
LOOM_DEVICE void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

}  // namespace loom::ptx
