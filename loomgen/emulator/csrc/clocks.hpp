#pragma once
// Vector clocks of a block's threads: what each thread knows to have happened.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace loom::emulator {

/// A moment of a thread; clock 0 is before everything.
struct Epoch {
    uint32_t clock = 0;
    uint16_t thread = 0;
};

class Clocks {
  public:
    explicit Clocks(int threads) : threads_(threads), known_(static_cast<size_t>(threads) * threads) { reset(); }

    int threads() const { return threads_; }

    void reset() {
        std::fill(known_.begin(), known_.end(), 0u);
        for (int thread = 0; thread < threads_; ++thread)
            row(thread)[thread] = 1;
    }

    Epoch now(int thread) const { return Epoch{row(thread)[thread], static_cast<uint16_t>(thread)}; }

    /// Has `epoch` happened before what `thread` does now?
    bool before(Epoch epoch, int thread) const { return epoch.clock <= row(thread)[epoch.thread]; }

    /// A barrier: what any member did happens before what every member does next.
    void join(const std::vector<int>& members) {
        std::vector<uint32_t> all(row(members.front()), row(members.front()) + threads_);
        for (int member : members) {
            const uint32_t* other = row(member);
            for (int i = 0; i < threads_; ++i)
                all[i] = std::max(all[i], other[i]);
        }
        for (int member : members) {
            std::copy(all.begin(), all.end(), row(member));
            ++row(member)[member];
        }
    }

  private:
    uint32_t* row(int thread) { return known_.data() + static_cast<size_t>(thread) * threads_; }
    const uint32_t* row(int thread) const { return known_.data() + static_cast<size_t>(thread) * threads_; }

    int threads_;
    std::vector<uint32_t> known_;
};

}  // namespace loom::emulator
