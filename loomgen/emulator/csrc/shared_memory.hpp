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

  private:
    void check_address(host::Place place, int bytes, Site site) const;
    void write(host::Place target, int bytes, Site site);

    RaceDetector& races_;
    std::vector<char> data_;
    std::vector<Granule> granules_;
};

}  // namespace loom::emulator
