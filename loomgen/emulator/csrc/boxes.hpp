#pragma once
// The copy hardware: boxes of a matrix that come to shared memory, and go from it, beside the threads.
//
// A load comes as late as the program allows, when no thread can go on without it, or at a seeded random earlier
// moment; until then its tile is poison. A store reads its tile at the wait that covers its group, or at a random
// earlier moment.

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "global_memory.hpp"
#include "loom/host/asynchrony.hpp"
#include "loom/layout.cuh"
#include "mbarriers.hpp"
#include "random.hpp"
#include "shared_memory.hpp"

namespace loom::emulator {

/// What a tensor map says: a matrix, and the boxes that it is copied by.
struct BoxMap {
    int tensor;
    int element_bytes;
    int64_t rows;
    int64_t cols;
    int box_rows;
    int box_cols;
    int swizzle;

    int row_bytes() const { return box_cols * element_bytes; }
    int64_t bytes() const { return static_cast<int64_t>(box_rows) * row_bytes(); }
    uint32_t layout() const { return host::layout_tag(box_rows, row_bytes(), swizzle); }
};

class Boxes {
  public:
    Boxes(std::vector<BoxMap> maps, SharedMemory& shared, GlobalMemory& global, Clocks& clocks, Mbarriers& mbarriers)
        : maps_(std::move(maps)), shared_(shared), global_(global), clocks_(clocks), mbarriers_(mbarriers) {}

    void reset();

    /// `map` is the map's number.
    void load(int map, host::BoxTile target, int row, int col, uint32_t barrier, Site site);
    /// Lets one of the loads come; the threads that this wakes. False: there is none.
    bool finish_load(Random& random, std::vector<int>& woken);

    void store(int map, int row, int col, host::BoxTile source, Site site);
    void commit(int thread);
    /// Finishes all groups of the thread but the `pending` youngest.
    void wait(int thread, size_t pending);
    /// Lets some of the thread's stores read and write.
    void finish_some_stores(int thread, Random& random);
    /// The end of a thread: raises if it has stores that it did not wait for.
    void check_finished(int thread) const;
    /// The end of the block: raises if a load is under way.
    void check_loaded() const;

  private:
    struct Box {
        const BoxMap* map;
        uint32_t base;
        int64_t row;
        int64_t col;
        Site site;
    };

    struct Load {
        Box box;
        uint32_t barrier;
    };

    struct Store {
        Box box;
        uint32_t clock;
        bool finished;
    };

    using Group = std::vector<Store>;

    /// The stores of one thread.
    struct Stores {
        int agent = 0;
        uint32_t issued = 0;
        Group open;
        std::deque<Group> groups;
    };

    /// The part of a row of a box that lies in the matrix; `bytes` is 0 if nothing does.
    struct Span {
        int64_t offset;  // in the tensor, of its first byte
        int skipped;     // bytes of the row before it
        int bytes;
    };

    Box checked_box(int map, host::BoxTile tile, int row, int col, Site site) const;
    static Span span(const Box& box, int row);
    static uint32_t chunk_address(const Box& box, int row, int byte);
    Stores& stores_of(int thread, Site site);
    void bring(const Box& box);
    void finish(Store& store);

    std::vector<BoxMap> maps_;
    SharedMemory& shared_;
    GlobalMemory& global_;
    Clocks& clocks_;
    Mbarriers& mbarriers_;
    std::vector<Load> loads_;
    std::map<int, Stores> stores_;
};

}  // namespace loom::emulator
