#pragma once
// What the emulator provides to the host bodies of the primitives. Every function takes the source line of the call.

#include "loom/types.cuh"

namespace loom::host {

/// A shared-memory address as the emulator sees it: `layout` tells how the tile it came from is laid out.
struct Place {
    uint32_t bytes;
    uint32_t layout;
};

/// Layouts of a place: 0 is plain memory; kCrossed marks an address that was advanced across swizzled chunks.
constexpr uint32_t kPlain = 0;
constexpr uint32_t kCrossed = ~0u;

enum class Format { kBf16, kF16, kTf32 };
enum class Matrix { kRows, kTransposed };

int thread_index();
int64_t block_index();

[[noreturn]] void outside_tile(int row, int col, int rows, int cols, int line);

void load_global(const void* source, void* value, int bytes, int line);
void store_global(void* target, const void* value, int bytes, int line);
void load_shared(Place source, void* value, int bytes, int line);
void store_shared(Place target, const void* value, int bytes, int line);

void copy_async(Place target, const void* source, int bytes, bool valid, int line);
void copy_commit(int line);
void copy_wait(int pending_groups, int line);

/// `count` 8x8 matrices of 16-bit elements from or to the rows that lanes 0 .. 8 * count - 1 point at.
void load_matrix(uint32_t* registers, int count, Matrix kind, Place row, int line);
void store_matrix(const uint32_t* registers, int count, Matrix kind, Place row, int line);

/// c += a * b of m16n8k16 (bf16, f16) or m16n8k8 (tf32).
void multiply(Format format, float* c, const uint32_t* a, uint32_t b0, uint32_t b1, int line);

/// The value that lane `source` of the warp passed.
uint32_t shuffle(uint32_t value, int source, int line);

void sync_warp(int line);
void sync_block(int line);
void sync_named(int id, int threads, int line);

}  // namespace loom::host
