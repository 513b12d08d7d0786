#pragma once
// Bank conflicts of shared memory: 32 banks of 4 bytes; a wavefront serves one word of each.
//
// A warp's access is served in phases of 128 bytes: all lanes at 2 or 4 bytes a lane, 16 lanes at 8, 8 lanes at 16.

#include <array>
#include <cstdint>
#include <vector>

#include "statistics.hpp"

namespace loom::emulator {

/// One lane's share of an access.
struct LaneAccess {
    int line;
    int bytes;
    int lane;
    uint32_t offset;
};

/// Wavefronts beyond the first that `count` accesses of one phase take.
int extra_wavefronts(const LaneAccess* accesses, int count);

/// Collects the accesses of a warp's lanes, which the emulator runs one after the other, and groups them into the
/// accesses of the warp: lanes meet on the source line and on how often each has passed it since the last barrier or
/// collective.
class WarpBanks {
  public:
    void record(int lane, int line, uint32_t offset, int bytes) {
        lanes_[lane].push_back(LaneAccess{line, bytes, lane, offset});
    }

    /// To be called where all lanes have met.
    void flush(Statistics& statistics);

  private:
    bool in_step() const;
    void count(const std::vector<LaneAccess>& accesses, Statistics& statistics) const;
    void flush_in_step(Statistics& statistics);
    void flush_diverged(Statistics& statistics);

    std::array<std::vector<LaneAccess>, 32> lanes_;
};

}  // namespace loom::emulator
