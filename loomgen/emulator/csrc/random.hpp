#pragma once
// Seeded choices: SplitMix64.

#include <cstdint>

namespace loom::emulator {

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}

    /// A number in [0, bound); bound is at most 2^32.
    uint32_t below(uint32_t bound) {
        state_ += 0x9e3779b97f4a7c15u;
        uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return static_cast<uint32_t>((((z ^ (z >> 31)) >> 32) * bound) >> 32);
    }

  private:
    uint64_t state_;
};

}  // namespace loom::emulator
