#pragma once
// The registers of a block, which its warpgroups claim and release.

#include <algorithm>
#include <vector>

namespace loom::emulator {

class Registers {
  public:
    static constexpr int kOfBlock = 64 * 1024;
    static constexpr int kGroupThreads = 128;

    /// At its start a thread has its even share, in eights; what is over belongs to nobody.
    explicit Registers(int threads) : share_(std::min(256, kOfBlock / threads / 8 * 8)), groups_(threads / 128) {
        reset();
    }

    void reset() {
        free_ = 0;
        std::fill(groups_.begin(), groups_.end(), share_);
    }

    int of(int group) const { return groups_[group]; }

    /// False: there are not enough.
    bool resize(int group, int count) {
        const int left = free_ - (count - groups_[group]) * kGroupThreads;
        if (left < 0) return false;
        free_ = left;
        groups_[group] = count;
        return true;
    }

  private:
    int share_;
    int free_ = 0;
    std::vector<int> groups_;
};

}  // namespace loom::emulator
