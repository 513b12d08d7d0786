#pragma once
// The tensors of a launch, each in an arena of its own, far from the others, with its shadow.

#include <cstdint>
#include <string>
#include <vector>

#include "fault.hpp"
#include "shadow.hpp"

namespace loom::emulator {

/// The numbers are part of the interface to the driver.
enum class Access : int32_t { kIn = 0, kOut = 1, kInOut = 2 };

struct Tensor {
    std::string name;
    void* contents;  // the caller's bytes, copied in before the launch and back after it unless access is kIn
    int64_t bytes;
    Access access;
};

/// A granule of a tensor that may be written. Its epochs belong to one block at a time, since blocks are not ordered.
struct GlobalGranule : Granule {
    static constexpr int32_t kNone = -1;
    static constexpr int32_t kMany = -2;

    int32_t epoch_block = kNone;
    int32_t write_block = kNone;
    int32_t read_block = kNone;
    int32_t pending_reads = 0;  // asynchronous copies that may still read it
};

class GlobalMemory {
  public:
    GlobalMemory(std::vector<Tensor> tensors, RaceDetector& races);
    ~GlobalMemory();
    GlobalMemory(const GlobalMemory&) = delete;
    GlobalMemory& operator=(const GlobalMemory&) = delete;

    /// Where the kernel finds tensor `index`.
    void* address(int index) const { return arenas_[index].base; }

    void enter_block(int32_t block) { block_ = block; }
    void load(const void* source, void* value, int bytes, Site site);
    void store(void* target, const void* value, int bytes, Site site);

    /// The source of an asynchronous copy: checked when issued, then not to be written until finish_copy.
    void begin_copy(const void* source, int bytes, Site site);
    void finish_copy(const void* source, int bytes);

    /// The part of a box of tensor `index`, from byte `offset` on, that is read beside the threads: checked when asked
    /// for, not to be written until finish_read.
    void begin_read(int index, int64_t offset, int bytes, Site site);
    void finish_read(int index, int64_t offset, int bytes, void* values);
    /// The part that is written beside the threads, as `agent`: no access of the block is ordered after it.
    void begin_write(int index, int64_t offset, int bytes, Site site, int agent);
    void finish_write(int index, int64_t offset, int bytes, const void* values);

    /// Copies the results back to the caller.
    void copy_back() const;
    /// Bytes of tensor `index` that nothing has written; 0 unless it is an output.
    int64_t unwritten(int index) const;

  private:
    struct Arena {
        Tensor tensor;
        char* base;
        std::vector<GlobalGranule> granules;  // empty for an input
    };

    Arena& find(const void* address, int bytes, Site site);
    GlobalGranule& granule(Arena& arena, const void* address, int offset) const;
    void read(Arena& arena, const void* source, int bytes, Site site);
    void read_granule(const Arena& arena, GlobalGranule& granule, Site site);
    void write_granule(const Arena& arena, GlobalGranule& granule, Site site);
    static void check_writable(const Arena& arena, Site site);
    void enter_granule(GlobalGranule& granule) const;

    RaceDetector& races_;
    std::vector<Arena> arenas_;
    char* memory_ = nullptr;
    size_t memory_bytes_ = 0;
    int32_t block_ = 0;
};

}  // namespace loom::emulator
