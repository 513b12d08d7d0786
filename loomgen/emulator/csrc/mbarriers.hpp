#pragma once
// Barriers in shared memory: their phases, who waits for them, and what they make known.

#include <cstdint>
#include <string>
#include <vector>

#include "fault.hpp"
#include "shadow.hpp"
#include "shared_memory.hpp"

namespace loom::emulator {

class Mbarriers {
  public:
    static constexpr int64_t kMaxBytes = (1 << 20) - 1;  // what the hardware counts of a phase

    Mbarriers(SharedMemory& shared, Clocks& clocks) : shared_(shared), clocks_(clocks) {}

    void reset() { barriers_.clear(); }

    void make(uint32_t address, int arrivals, Site site);
    /// What the thread has made so far is fit for use by those who know of this fence.
    void publish(int thread);

    /// The threads that an arrival wakes are for the caller to wake: they know what the phase makes known.
    std::vector<int> arrive(uint32_t address, int64_t expected_bytes, Site site);
    /// Whether the phase is complete; if not, the thread is remembered as waiting for it.
    bool wait(uint32_t address, int parity, Site site);

    /// A copy of `bytes` is asked for: the agent and its clock that stand for the end of the phase.
    Epoch begin_bytes(uint32_t address, int64_t bytes, Site site);
    std::vector<int> end_bytes(uint32_t address, int64_t bytes);

    /// What a thread waits for, in words.
    std::string waits_of(int thread) const;

  private:
    struct Waiter {
        int thread;
        int parity;
    };

    struct Barrier {
        uint32_t address = 0;
        int arrivals = 0;
        int agent = 0;
        Site made{};
        bool published = false;
        Epoch known_since{};  // the fence
        uint32_t phase = 0;
        int missing = 0;       // arrivals
        int64_t expected = 0;  // bytes of the phase: by arrivals, asked for, come
        int64_t asked = 0;
        int64_t come = 0;
        Knowledge arriving;
        Knowledge complete;
        std::vector<Waiter> waiters;
    };

    Barrier* find(uint32_t address);
    Barrier& use(uint32_t address, Site site);
    void check_bytes(const Barrier& barrier, Site site) const;
    std::vector<int> advance(Barrier& barrier);

    SharedMemory& shared_;
    Clocks& clocks_;
    std::vector<Barrier> barriers_;
};

}  // namespace loom::emulator
