#include "shadow.hpp"

#include <algorithm>
#include <utility>

namespace loom::emulator {

void RaceDetector::reset() {
    clocks_.reset();
    readers_.clear();
    free_sets_.clear();
}

uint32_t RaceDetector::take_set() {
    if (free_sets_.empty()) {
        const auto set = static_cast<uint32_t>(readers_.size() / set_size_);
        readers_.resize(readers_.size() + set_size_);
        return set;
    }
    const uint32_t set = free_sets_.back();
    free_sets_.pop_back();
    std::fill_n(readers(set), set_size_, Reader{});
    return set;
}

void RaceDetector::widen_sets() {
    const auto size = static_cast<size_t>(clocks_.room());
    if (size == set_size_) return;
    std::vector<Reader> wide(readers_.size() / set_size_ * size);
    for (size_t i = 0; i < readers_.size(); ++i)
        wide[i / set_size_ * size + i % set_size_] = readers_[i];
    readers_ = std::move(wide);
    set_size_ = size;
}

std::optional<Conflict> RaceDetector::read(Granule& granule, int thread, int line) {
    if (!clocks_.before(Epoch{granule.write_clock, granule.write_thread}, thread)) {
        return conflict(true, granule.write_thread, granule.write_line);
    }
    if (clocks_.is_agent(thread)) widen_sets();
    const Epoch now = clocks_.now(thread);
    if (granule.read_thread == Granule::kManyReaders) {
        readers(granule.read_clock)[thread] = Reader{now.clock, line};
        return std::nullopt;
    }
    const Epoch last{granule.read_clock, granule.read_thread};
    if (!clocks_.before(last, thread)) {
        const uint32_t set = take_set();
        readers(set)[last.thread] = Reader{last.clock, granule.read_line};
        readers(set)[thread] = Reader{now.clock, line};
        granule.read_clock = set;
        granule.read_thread = Granule::kManyReaders;
        return std::nullopt;
    }
    granule.read_clock = now.clock;
    granule.read_thread = now.thread;
    granule.read_line = line;
    return std::nullopt;
}

std::optional<Conflict> RaceDetector::unordered_read(const Granule& granule, int thread) {
    if (granule.read_thread != Granule::kManyReaders) {
        if (clocks_.before(Epoch{granule.read_clock, granule.read_thread}, thread)) return std::nullopt;
        return conflict(false, granule.read_thread, granule.read_line);
    }
    const Reader* set = readers(granule.read_clock);
    const int readers_of_set = std::min(clocks_.used(), static_cast<int>(set_size_));
    for (int reader = 0; reader < readers_of_set; ++reader) {
        if (clocks_.before(Epoch{set[reader].clock, static_cast<uint16_t>(reader)}, thread)) continue;
        return conflict(false, reader, set[reader].line);
    }
    return std::nullopt;
}

std::optional<Conflict> RaceDetector::write(Granule& granule, int thread, int line) {
    if (!clocks_.before(Epoch{granule.write_clock, granule.write_thread}, thread)) {
        return conflict(true, granule.write_thread, granule.write_line);
    }
    if (const auto conflict = unordered_read(granule, thread)) return conflict;
    if (granule.read_thread == Granule::kManyReaders) free_sets_.push_back(granule.read_clock);
    const Epoch now = clocks_.now(thread);
    granule.write_clock = now.clock;
    granule.write_thread = now.thread;
    granule.write_line = line;
    granule.read_clock = 0;
    granule.read_thread = 0;
    return std::nullopt;
}

}  // namespace loom::emulator
