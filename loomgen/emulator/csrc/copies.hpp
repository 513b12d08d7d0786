#pragma once
// The asynchronous copies of one thread, in groups.
//
// The data arrives as late as the program allows, at the wait that covers its group, or at a seeded random earlier
// moment. Either way the destination may not be touched before that wait.

#include <cstdint>
#include <deque>
#include <vector>

#include "global_memory.hpp"
#include "random.hpp"
#include "shared_memory.hpp"

namespace loom::emulator {

enum class Completion : int32_t { kLate = 0, kRandom = 1 };

struct Copy {
    host::Place target;
    const void* source;  // null: zeros
    int bytes;
    bool arrived;
};

class CopyQueue {
  public:
    void issue(SharedMemory& shared, GlobalMemory& global, Copy copy, Site site);
    void commit();
    /// Finishes all groups but the `pending` youngest.
    void wait(SharedMemory& shared, GlobalMemory& global, size_t pending, Site site);
    /// Lets some of the copies that are under way arrive.
    void arrive_some(SharedMemory& shared, Random& random);
    /// The end of the thread: what is still under way reaches nobody.
    void abandon(GlobalMemory& global);

  private:
    using Group = std::vector<Copy>;

    Group open_;
    std::deque<Group> groups_;
};

}  // namespace loom::emulator
