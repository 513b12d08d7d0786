#pragma once
// A block's shared memory with its shadow.

#include <cstdint>
#include <vector>

#include "fault.hpp"
#include "loom/host/runtime.hpp"
#include "shadow.hpp"

namespace loom::emulator {

class SharedMemory {
  public:
    SharedMemory(uint32_t bytes, RaceDetector& races) : races_(races), data_(bytes), granules_(bytes / kGranuleBytes) {}

    /// The state at the start of a block: poison, nothing initialised.
    void reset();

    void load(host::Place source, void* value, int bytes, Site site);
    void store(host::Place target, const void* value, int bytes, Site site);

    /// An asynchronous copy: from begin_copy on its destination may not be touched; arrive puts the data there, at any
    /// time; finish_copy makes it a write of the issuer, at the issuer's wait.
    void begin_copy(host::Place target, int bytes, Site site);
    void arrive(host::Place target, const void* value, int bytes);
    void finish_copy(host::Place target, int bytes, Site site);

    /// What the hardware reads by itself, as `agent`, any time until the agent is waited for: checked when asked for.
    void check_agent_read(host::Place source, int bytes, Site site, int agent);
    /// What it writes: poison until arrive; known to those who know that the agent has come to `clock`.
    void begin_agent_write(host::Place target, int bytes, Site site, int agent, uint32_t clock);
    const char* data(uint32_t byte) const { return &data_[byte]; }

    /// The 8 bytes become a barrier, which nothing else may touch.
    void make_barrier(uint32_t address, Site site);

  private:
    void check_address(host::Place place, int bytes, Site site) const;
    void check_read(host::Place source, int bytes, Site site, int reader);
    void check_fenced(host::Place place, int bytes, Site site, int actor) const;
    void write(host::Place target, int bytes, Site site);

    RaceDetector& races_;
    std::vector<char> data_;
    std::vector<Granule> granules_;
};

}  // namespace loom::emulator
