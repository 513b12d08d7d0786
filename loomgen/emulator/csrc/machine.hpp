#pragma once
// One launch: the block that runs, its threads as fibers, its warps and barriers.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "banks.hpp"
#include "boxes.hpp"
#include "copies.hpp"
#include "fault.hpp"
#include "fiber.hpp"
#include "global_memory.hpp"
#include "mbarriers.hpp"
#include "products.hpp"
#include "random.hpp"
#include "registers.hpp"
#include "shared_memory.hpp"
#include "statistics.hpp"

namespace loom::emulator {

constexpr int kLanes = 32;
constexpr int kBarriers = 16;

struct Options {
    uint64_t seed;
    Completion completion;
    int32_t disabled_line;  // the synchronisation there does nothing; -1: none
};

enum class Waiting : uint8_t { kNot, kWarp, kBlock, kNamed, kMbarrier, kRegisters, kExited };

struct Thread {
    Context context;
    CopyQueue copies;
    Waiting waiting = Waiting::kNot;
    Primitive primitive = Primitive::kSyncBlock;  // what it waits in, and where
    int line = 0;
};

/// The lanes of a warp that have reached a collective; `posts` are their arguments, on their stacks.
struct Warp {
    std::array<void*, kLanes> posts{};
    int arrived = 0;
    Primitive primitive = Primitive::kSyncWarp;
    int line = 0;
    int first_lane = 0;
    WarpBanks banks;
};

/// The same for the threads of a warpgroup.
struct Warpgroup {
    std::array<void*, kLanesOfGroup> posts{};
    int arrived = 0;
    Primitive primitive = Primitive::kProduct;
    int line = 0;
    int first_thread = 0;
    int claimed = 0;  // registers it waits for; 0: none
};

struct Barrier {
    std::vector<int> members;
    int expected = 0;
    int line = 0;
    Primitive primitive = Primitive::kSyncBlock;
};

class Machine {
  public:
    using Kernel = void (*)(const void* const* arguments);

    Machine(Kernel kernel, std::vector<const void*> arguments, std::vector<Tensor> tensors, std::vector<BoxMap> maps,
            int threads, uint32_t shared_bytes, Options options);

    /// Runs the blocks of the grid one after the other in a seeded order; false: a fault ended the launch.
    bool run(int64_t grid);

    const Fault& fault() const { return fault_; }
    const Statistics& statistics() const { return statistics_; }
    GlobalMemory& global() { return global_; }

    // What the primitives do, on the fiber of the calling thread.
    int thread() const { return current_; }
    int64_t block() const { return block_; }
    SharedMemory& shared() { return shared_; }
    void count(Primitive primitive, int line) { statistics_.count(primitive, line); }
    void record_banks(uint32_t offset, int bytes, int line) {
        warps_[current_ / kLanes].banks.record(current_ % kLanes, line, offset, bytes);
    }
    void count_phase(const LaneAccess* accesses, int n);
    bool disabled(int line) const { return line == options_.disabled_line; }

    void copy_async(Copy copy, int line);
    void copy_commit(int line);
    void copy_wait(int pending, int line);

    /// The lanes of the warp meet; the last to arrive gets all their posts and does the work before any goes on.
    /// Null for the others, which return once it is done.
    Warp* meet(Primitive primitive, void* post, int line);
    void leave(Warp& warp);

    /// The same for a warpgroup; meeting orders no memory.
    void check_in_group(Primitive primitive, int line);
    Warpgroup* meet_group(Primitive primitive, void* post, int line);
    void leave_group(Warpgroup& group);

    void sync_warp(int line);
    void sync_block(int line);
    void sync_named(int id, int threads, int line);

    void mbarrier_arrive(uint32_t barrier, int64_t expected_bytes, int line);
    void mbarrier_wait(uint32_t barrier, int parity, int line);
    void load_box(int map, host::BoxTile target, int row, int col, uint32_t barrier, int line);
    void store_box(int map, int row, int col, host::BoxTile source, int line);
    void resize_registers(Primitive primitive, int count, int line);
    Mbarriers& mbarriers() { return mbarriers_; }
    Boxes& boxes() { return boxes_; }
    Products& products(int group) { return products_[group]; }
    Clocks& clocks() { return races_.clocks(); }
    bool at_random() const { return options_.completion == Completion::kRandom; }
    bool toss() { return random_.below(2) == 0; }

    [[noreturn]] void fail(Fault fault);

  private:
    static void start_thread();

    void run_block(int64_t block);
    void arrive(Barrier& barrier, Waiting waiting, int line);
    void park(Waiting waiting, Primitive primitive, int line);
    void wake(int thread);
    void wake_all(const std::vector<int>& threads);
    void resume_any();
    bool finish_load();
    void finish_some_loads();
    void grant_registers();
    void check_finished();
    [[noreturn]] void exit_thread();
    [[noreturn]] void fail_stuck();
    std::string whereabouts() const;

    Kernel kernel_;
    std::vector<const void*> arguments_;
    Options options_;
    Random random_;
    Statistics statistics_;
    RaceDetector races_;
    SharedMemory shared_;
    GlobalMemory global_;
    Mbarriers mbarriers_;
    Boxes boxes_;
    Registers registers_;
    Stacks stacks_;
    Context main_;
    std::vector<Thread> threads_;
    std::vector<Warp> warps_;
    std::vector<Warpgroup> warpgroups_;
    std::vector<Products> products_;
    std::array<Barrier, kBarriers> barriers_;
    std::vector<int> runnable_;
    int current_ = 0;
    int64_t block_ = 0;
    int alive_ = 0;
    Fault fault_;
};

/// The launch in progress: the primitives are plain functions and find it here.
Machine& machine();
void set_machine(Machine* machine);

}  // namespace loom::emulator
