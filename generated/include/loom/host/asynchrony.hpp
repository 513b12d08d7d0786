#pragma once
// What the emulator provides to the host bodies of the asynchronous primitives.

#include "loom/host/runtime.hpp"

namespace loom::host {

/// A tile that takes a whole box: `rows` x `cols` elements, rows of 16 << swizzle bytes if it is swizzled.
struct BoxTile {
    uint32_t base;
    int rows;
    int cols;
    int element_bytes;
    int swizzle;
};

void mbarrier_init(uint32_t barrier, int arrivals, int line);
void mbarrier_init_fence(int line);
void mbarrier_arrive(uint32_t barrier, int line);
void mbarrier_expect_bytes(uint32_t barrier, int bytes, int line);
void mbarrier_wait(uint32_t barrier, int parity, int line);
void fence_proxy_async(int line);

/// `map` is what the emulator wrote into the TensorMap.
void tma_load(BoxTile target, const void* map, int row, int col, uint32_t barrier, int line);
void tma_store(const void* map, int row, int col, BoxTile source, int line);
void tma_store_commit(int line);
void tma_store_wait(int pending_groups, int line);

void check_operand(int row, int col, int line);
void wgmma_fence(int line);
void wgmma_commit(int line);
void wgmma_wait(int pending_groups, int line);
/// acc += a b^T; `tiles` blocks of 8 columns, 4 floats of each a thread.
void wgmma(Format format, float* acc, int tiles, uint64_t a, uint64_t b, int line);

void claim_registers(int count, int line);
void release_registers(int count, int line);

}  // namespace loom::host
