#pragma once
// What a launch did, source line by source line.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace loom::emulator {

enum class Primitive : uint8_t {
    kLoadGlobal,
    kStoreGlobal,
    kLoadShared,
    kStoreShared,
    kCopyAsync16,
    kCopyAsync4,
    kCopyCommit,
    kCopyWait,
    kLoadMatrix,
    kStoreMatrix,
    kMultiply,
    kShuffle,
    kSyncWarp,
    kSyncBlock,
    kSyncNamed,
    kMbarrierInit,
    kMbarrierInitFence,
    kMbarrierArrive,
    kMbarrierExpectBytes,
    kMbarrierWait,
    kFenceProxyAsync,
    kTmaLoad,
    kTmaStore,
    kTmaStoreCommit,
    kTmaStoreWait,
    kProductFence,
    kProductCommit,
    kProductWait,
    kProduct,
    kClaimRegisters,
    kReleaseRegisters,
};

constexpr int kPrimitives = 31;

inline const char* name_of(Primitive primitive) {
    static constexpr const char* names[kPrimitives] = {
        "ld_global",
        "st_global",
        "ld_shared",
        "st_shared",
        "cp_async_16",
        "cp_async_4",
        "cp_async_commit",
        "cp_async_wait",
        "ldmatrix",
        "stmatrix",
        "mma",
        "shuffle",
        "sync_warp",
        "sync_block",
        "sync_named",
        "mbarrier_init",
        "mbarrier_init_fence",
        "mbarrier_arrive",
        "mbarrier_expect_bytes",
        "mbarrier_wait",
        "fence_proxy_async",
        "tma_load",
        "tma_store",
        "tma_store_commit",
        "tma_store_wait",
        "wgmma_fence",
        "wgmma_commit",
        "wgmma_wait",
        "wgmma",
        "claim_registers",
        "release_registers",
    };
    return names[static_cast<int>(primitive)];
}

/// Collectives count once a warp (products and registers once a warpgroup), barriers once a meeting, everything else once a thread. `accesses` are a warp's
/// accesses to shared memory (a phase of 8 rows for matrices); `conflicts` the wavefronts they take beyond one a phase.
struct LineStatistics {
    std::array<int64_t, kPrimitives> calls{};
    int64_t accesses = 0;
    int64_t conflicts = 0;
};

class Statistics {
  public:
    void count(Primitive primitive, int line) { ++at(line).calls[static_cast<int>(primitive)]; }

    LineStatistics& at(int line) {
        if (static_cast<size_t>(line) >= lines_.size()) lines_.resize(static_cast<size_t>(line) + 1);
        return lines_[line];
    }

    const std::vector<LineStatistics>& lines() const { return lines_; }

  private:
    std::vector<LineStatistics> lines_;
};

}  // namespace loom::emulator
