#pragma once
// Shadow state: who touched each granule of memory last, and whether that happened before the next access.
//
// The epochs of FastTrack (Flanagan and Freund, 2009): the last write, and the last read or, once reads are
// concurrent, the last read of every thread.

#include <cstdint>
#include <optional>
#include <vector>

#include "clocks.hpp"

namespace loom::emulator {

constexpr uint32_t kGranuleBytes = 2;

struct Granule {
    static constexpr uint16_t kManyReaders = 0xffff;

    uint32_t write_clock = 0;  // 0: not written
    uint32_t read_clock = 0;   // 0: not read since the write; the number of a reader set when there are many readers
    uint16_t write_thread = 0;
    uint16_t read_thread = 0;
    int32_t write_line = 0;
    int32_t read_line = 0;
    uint32_t layout = 0;
    bool initialised = false;
    bool pending = false;  // the destination of an asynchronous copy that its issuer has not waited for
    bool barrier = false;  // part of a barrier
};

/// An earlier access that is not ordered before the present one.
struct Conflict {
    bool was_write;
    bool was_agent;
    int thread;
    int line;
};

/// Checks and records the accesses of the threads of one block.
class RaceDetector {
  public:
    explicit RaceDetector(int threads) : clocks_(threads), set_size_(threads) {}

    Clocks& clocks() { return clocks_; }

    /// Forgets every access; granules recorded before are to be cleared as well.
    void reset();

    std::optional<Conflict> read(Granule& granule, int thread, int line);
    std::optional<Conflict> write(Granule& granule, int thread, int line);

    /// Was the granule written by a thread of which `actor`, or what it starts, knows no fence after that?
    bool unfenced(const Granule& granule, int actor) const {
        const Epoch write{granule.write_clock, granule.write_thread};
        return write.clock != 0 && !clocks_.is_agent(write.thread) && !clocks_.fenced_before(write, actor);
    }

  private:
    struct Reader {
        uint32_t clock = 0;
        int32_t line = 0;
    };

    Reader* readers(uint32_t set) { return readers_.data() + static_cast<size_t>(set) * set_size_; }
    uint32_t take_set();
    void widen_sets();
    std::optional<Conflict> unordered_read(const Granule& granule, int thread);
    Conflict conflict(bool was_write, int thread, int line) const {
        return Conflict{was_write, clocks_.is_agent(thread), thread, line};
    }

    Clocks clocks_;
    size_t set_size_;  // for threads alone, until an agent reads
    std::vector<Reader> readers_;
    std::vector<uint32_t> free_sets_;
};

}  // namespace loom::emulator
