#include "shared_memory.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "fault.hpp"
#include "text.hpp"

namespace loom::emulator {

namespace {

constexpr char kPoison = static_cast<char>(0xff);  // a NaN in every format

/// Plain memory goes with every layout that does not swizzle.
bool compatible(uint32_t written, uint32_t read) {
    if (written == read) return true;
    const bool swizzled = ((written | read) & 15u) != 0;
    return !swizzled && (written == host::kPlain || read == host::kPlain);
}

std::string layout_name(uint32_t layout) {
    if (layout == host::kPlain) return "plain memory";
    return text("rows of %u bytes with swizzle %u", layout >> 4, layout & 15u);
}

}  // namespace

void SharedMemory::reset() {
    std::fill(data_.begin(), data_.end(), kPoison);
    std::fill(granules_.begin(), granules_.end(), Granule{});
}

void SharedMemory::check_address(host::Place place, int bytes, Site site) const {
    if (place.layout == host::kCrossed) {
        raise(FaultKind::kLayout, site, "the address was advanced across 16-byte chunks of a swizzled tile");
    }
    if (place.bytes % bytes != 0) {
        raise(FaultKind::kMisaligned, site, text("shared byte %u is not a multiple of %d", place.bytes, bytes));
    }
    if (place.bytes + static_cast<uint64_t>(bytes) > data_.size()) {
        raise(FaultKind::kOutOfBounds, site,
              text("shared bytes %u .. %u of %zu", place.bytes, place.bytes + bytes, data_.size()));
    }
}

void SharedMemory::check_read(host::Place source, int bytes, Site site, int reader) {
    check_address(source, bytes, site);
    for (uint32_t at = source.bytes; at < source.bytes + bytes; at += kGranuleBytes) {
        Granule& granule = granules_[at / kGranuleBytes];
        if (granule.pending) {
            raise(FaultKind::kPendingCopy, site,
                  text("reads shared byte %u, which the copy of thread %d, line %d, may not have reached: no wait", at,
                       granule.write_thread, granule.write_line));
        }
        if (granule.barrier) raise(FaultKind::kBadBarrier, site, text("reads shared byte %u of a barrier", at));
        if (const auto conflict = races_.read(granule, reader, site.line)) {
            raise(FaultKind::kRace, site, text("reads shared byte %u", at) + unordered(*conflict));
        }
        if (!granule.initialised) {
            raise(FaultKind::kUninitialised, site, text("reads shared byte %u, which nothing has written", at));
        }
        if (!compatible(granule.layout, source.layout)) {
            raise(FaultKind::kLayout, site,
                  text("reads shared byte %u as ", at) + layout_name(source.layout) + ", written at line " +
                      std::to_string(granule.write_line) + " as " + layout_name(granule.layout));
        }
    }
}

void SharedMemory::load(host::Place source, void* value, int bytes, Site site) {
    check_read(source, bytes, site, site.thread);
    std::memcpy(value, &data_[source.bytes], bytes);
}

void SharedMemory::write(host::Place target, int bytes, Site site) {
    for (uint32_t at = target.bytes; at < target.bytes + bytes; at += kGranuleBytes) {
        Granule& granule = granules_[at / kGranuleBytes];
        if (granule.pending) {
            raise(FaultKind::kPendingCopy, site,
                  text("writes shared byte %u, which the copy of thread %d, line %d, may still write: no wait", at,
                       granule.write_thread, granule.write_line));
        }
        if (granule.barrier) raise(FaultKind::kBadBarrier, site, text("writes shared byte %u of a barrier", at));
        if (const auto conflict = races_.write(granule, site.thread, site.line)) {
            raise(FaultKind::kRace, site, text("writes shared byte %u", at) + unordered(*conflict));
        }
        granule.initialised = true;
        granule.layout = target.layout;
    }
}

void SharedMemory::store(host::Place target, const void* value, int bytes, Site site) {
    check_address(target, bytes, site);
    write(target, bytes, site);
    std::memcpy(&data_[target.bytes], value, bytes);
}

void SharedMemory::begin_copy(host::Place target, int bytes, Site site) {
    check_address(target, bytes, site);
    write(target, bytes, site);
    for (uint32_t at = target.bytes; at < target.bytes + bytes; at += kGranuleBytes) {
        granules_[at / kGranuleBytes].pending = true;
    }
}

void SharedMemory::arrive(host::Place target, const void* value, int bytes) {
    std::memcpy(&data_[target.bytes], value, bytes);
}

void SharedMemory::finish_copy(host::Place target, int bytes, Site site) {
    for (uint32_t at = target.bytes; at < target.bytes + bytes; at += kGranuleBytes) {
        Granule& granule = granules_[at / kGranuleBytes];
        granule.pending = false;
        granule.write_clock = races_.clocks().now(site.thread).clock;
    }
}

void SharedMemory::check_agent_read(host::Place source, int bytes, Site site, int agent) {
    check_read(source, bytes, site, agent);
    check_fenced(source, bytes, site, agent);
}

void SharedMemory::check_fenced(host::Place place, int bytes, Site site, int actor) const {
    for (uint32_t at = place.bytes; at < place.bytes + bytes; at += kGranuleBytes) {
        const Granule& granule = granules_[at / kGranuleBytes];
        if (!races_.unfenced(granule, actor)) continue;
        raise(FaultKind::kProxy, site,
              text("the hardware accesses shared byte %u, which thread %d wrote at line %d without a fence_proxy_async "
                   "of its own since",
                   at, granule.write_thread, granule.write_line));
    }
}

void SharedMemory::begin_agent_write(host::Place target, int bytes, Site site, int agent, uint32_t clock) {
    check_address(target, bytes, site);
    check_fenced(target, bytes, site, site.thread);
    write(target, bytes, site);
    for (uint32_t at = target.bytes; at < target.bytes + bytes; at += kGranuleBytes) {
        granules_[at / kGranuleBytes].write_thread = static_cast<uint16_t>(agent);
        granules_[at / kGranuleBytes].write_clock = clock;
    }
    std::memset(&data_[target.bytes], kPoison, bytes);
}

void SharedMemory::make_barrier(uint32_t address, Site site) {
    const host::Place place{address, host::kPlain};
    check_address(place, 8, site);
    write(place, 8, site);
    for (uint32_t at = address; at < address + 8; at += kGranuleBytes)
        granules_[at / kGranuleBytes].barrier = true;
}

}  // namespace loom::emulator
