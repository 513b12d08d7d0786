#pragma once
// Copies of boxes by the copy hardware, one instruction a function. Coordinates are those of the box's first element,
// the column first.

#include "loom/types.cuh"

namespace loom::ptx {

LOOM_DEVICE void cp_async_bulk_tensor_2d_load(uint32_t target, const void* map, int col, int row, uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
        "[%4];" ::"r"(target),
        "l"(map), "r"(col), "r"(row), "r"(barrier)
        : "memory");
}

LOOM_DEVICE void cp_async_bulk_tensor_2d_store(const void* map, int col, int row, uint32_t source) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
                 "r"(col), "r"(row), "r"(source)
                 : "memory");
}

LOOM_DEVICE void cp_async_bulk_commit_group() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

template <int N>
LOOM_DEVICE void cp_async_bulk_wait_group_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

}  // namespace loom::ptx
