#include "global_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "text.hpp"

namespace loom::emulator {

namespace {

constexpr size_t kPageBytes = 4096;
/// Address space that no tensor owns, on both sides of each: an index that runs off one tensor reaches no other.
constexpr size_t kGuardBytes = size_t{64} << 20;

size_t whole_pages(int64_t bytes) {
    return (static_cast<size_t>(bytes) + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

GlobalMemory::GlobalMemory(std::vector<Tensor> tensors, RaceDetector& races) : races_(races) {
    memory_bytes_ = kGuardBytes;
    for (const Tensor& tensor : tensors)
        memory_bytes_ += whole_pages(tensor.bytes) + kGuardBytes;
    void* memory = mmap(nullptr, memory_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<char*>(memory);
    char* base = memory_ + kGuardBytes;
    for (Tensor& tensor : tensors) {
        const size_t pages = whole_pages(tensor.bytes);
        if (mprotect(base, pages, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
        std::memcpy(base, tensor.contents, static_cast<size_t>(tensor.bytes));
        Arena arena{tensor, base, {}};
        if (tensor.access != Access::kIn) {
            arena.granules.resize((static_cast<size_t>(tensor.bytes) + kGranuleBytes - 1) / kGranuleBytes);
            for (GlobalGranule& granule : arena.granules)
                granule.initialised = tensor.access == Access::kInOut;
        }
        arenas_.push_back(std::move(arena));
        base += pages + kGuardBytes;
    }
}

GlobalMemory::~GlobalMemory() {
    munmap(memory_, memory_bytes_);
}

GlobalMemory::Arena& GlobalMemory::find(const void* address, int bytes, Site site) {
    const auto* first = static_cast<const char*>(address);
    if (first == nullptr) raise(FaultKind::kOutOfBounds, site, "a null pointer: the tensor was not passed");
    const Arena* nearest = nullptr;
    for (Arena& arena : arenas_) {
        const char* end = arena.base + arena.tensor.bytes;
        if (first >= arena.base && first + bytes <= end) {
            if (reinterpret_cast<uintptr_t>(first) % bytes == 0) return arena;
            raise(FaultKind::kMisaligned, site,
                  text("byte %td of tensor %s is not a multiple of %d", first - arena.base, arena.tensor.name.c_str(),
                       bytes));
        }
        const bool near = first >= arena.base - kGuardBytes / 2 && first < end + kGuardBytes / 2;
        if (near) nearest = &arena;
    }
    if (nearest == nullptr) raise(FaultKind::kOutOfBounds, site, text("address %p is in no tensor", address));
    raise(FaultKind::kOutOfBounds, site,
          text("bytes %td .. %td of tensor %s, which has %lld", first - nearest->base, first - nearest->base + bytes,
               nearest->tensor.name.c_str(), static_cast<long long>(nearest->tensor.bytes)));
}

GlobalGranule& GlobalMemory::granule(Arena& arena, const void* address, int offset) const {
    const auto byte = static_cast<size_t>(static_cast<const char*>(address) - arena.base) + offset;
    return arena.granules[byte / kGranuleBytes];
}

void GlobalMemory::enter_granule(GlobalGranule& granule) const {
    if (granule.epoch_block == block_) return;
    granule.epoch_block = block_;
    granule.write_clock = 0;
    granule.write_thread = 0;
    granule.read_clock = 0;
    granule.read_thread = 0;
}

void GlobalMemory::read_granule(const Arena& arena, GlobalGranule& granule, Site site) {
    if (granule.write_block != GlobalGranule::kNone && granule.write_block != block_) {
        raise(FaultKind::kGridRace, site,
              text("reads tensor %s where block %d wrote at line %d", arena.tensor.name.c_str(), granule.write_block,
                   granule.write_line));
    }
    enter_granule(granule);
    if (const auto conflict = races_.read(granule, site.thread, site.line)) {
        raise(FaultKind::kRace, site, "reads tensor " + arena.tensor.name + unordered(*conflict));
    }
    if (!granule.initialised) {
        raise(FaultKind::kUninitialised, site,
              "reads tensor " + arena.tensor.name + ", an output, where nothing was written");
    }
    const bool first = granule.read_block == GlobalGranule::kNone || granule.read_block == block_;
    granule.read_block = first ? block_ : GlobalGranule::kMany;
    granule.read_line = site.line;
}

void GlobalMemory::write_granule(const Arena& arena, GlobalGranule& granule, Site site) {
    const char* name = arena.tensor.name.c_str();
    if (granule.write_block != GlobalGranule::kNone && granule.write_block != block_) {
        raise(FaultKind::kGridRace, site,
              text("writes tensor %s where block %d wrote at line %d", name, granule.write_block, granule.write_line));
    }
    if (granule.read_block != GlobalGranule::kNone && granule.read_block != block_) {
        raise(FaultKind::kGridRace, site,
              text("writes tensor %s where another block read at line %d", name, granule.read_line));
    }
    if (granule.pending_reads > 0) {
        raise(FaultKind::kPendingCopy, site, text("writes tensor %s where an asynchronous copy may still read", name));
    }
    enter_granule(granule);
    if (const auto conflict = races_.write(granule, site.thread, site.line)) {
        raise(FaultKind::kRace, site, "writes tensor " + arena.tensor.name + unordered(*conflict));
    }
    granule.initialised = true;
    granule.write_block = block_;
}

void GlobalMemory::read(Arena& arena, const void* source, int bytes, Site site) {
    if (arena.tensor.access == Access::kIn) return;
    for (int i = 0; i < bytes; i += kGranuleBytes)
        read_granule(arena, granule(arena, source, i), site);
}

void GlobalMemory::load(const void* source, void* value, int bytes, Site site) {
    read(find(source, bytes, site), source, bytes, site);
    std::memcpy(value, source, bytes);
}

void GlobalMemory::check_writable(const Arena& arena, Site site) {
    if (arena.tensor.access != Access::kIn) return;
    raise(FaultKind::kReadOnly, site, "writes tensor " + arena.tensor.name + ", an input");
}

void GlobalMemory::store(void* target, const void* value, int bytes, Site site) {
    Arena& arena = find(target, bytes, site);
    check_writable(arena, site);
    for (int i = 0; i < bytes; i += kGranuleBytes)
        write_granule(arena, granule(arena, target, i), site);
    std::memcpy(target, value, bytes);
}

void GlobalMemory::begin_copy(const void* source, int bytes, Site site) {
    Arena& arena = find(source, bytes, site);
    read(arena, source, bytes, site);
    if (arena.tensor.access == Access::kIn) return;
    for (int i = 0; i < bytes; i += kGranuleBytes)
        ++granule(arena, source, i).pending_reads;
}

void GlobalMemory::finish_copy(const void* source, int bytes) {
    for (Arena& arena : arenas_) {
        const auto* first = static_cast<const char*>(source);
        if (first < arena.base || first >= arena.base + arena.tensor.bytes) continue;
        if (arena.tensor.access == Access::kIn) return;
        for (int i = 0; i < bytes; i += kGranuleBytes)
            --granule(arena, source, i).pending_reads;
    }
}

void GlobalMemory::begin_read(int index, int64_t offset, int bytes, Site site) {
    Arena& arena = arenas_[index];
    read(arena, arena.base + offset, bytes, site);
    if (arena.tensor.access == Access::kIn) return;
    for (int i = 0; i < bytes; i += kGranuleBytes)
        ++granule(arena, arena.base + offset, i).pending_reads;
}

void GlobalMemory::finish_read(int index, int64_t offset, int bytes, void* values) {
    Arena& arena = arenas_[index];
    std::memcpy(values, arena.base + offset, bytes);
    finish_copy(arena.base + offset, bytes);
}

void GlobalMemory::begin_write(int index, int64_t offset, int bytes, Site site, int agent) {
    Arena& arena = arenas_[index];
    check_writable(arena, site);
    for (int i = 0; i < bytes; i += kGranuleBytes) {
        GlobalGranule& written = granule(arena, arena.base + offset, i);
        write_granule(arena, written, site);
        written.write_thread = static_cast<uint16_t>(agent);
        written.write_clock = Epoch::kNever;
    }
}

void GlobalMemory::finish_write(int index, int64_t offset, int bytes, const void* values) {
    std::memcpy(arenas_[index].base + offset, values, bytes);
}

void GlobalMemory::copy_back() const {
    for (const Arena& arena : arenas_) {
        if (arena.tensor.access == Access::kIn) continue;
        std::memcpy(arena.tensor.contents, arena.base, static_cast<size_t>(arena.tensor.bytes));
    }
}

int64_t GlobalMemory::unwritten(int index) const {
    const auto& granules = arenas_[index].granules;
    const auto count =
        std::count_if(granules.begin(), granules.end(), [](const GlobalGranule& g) { return !g.initialised; });
    return std::min<int64_t>(count * kGranuleBytes, arenas_[index].tensor.bytes);
}

}  // namespace loom::emulator
