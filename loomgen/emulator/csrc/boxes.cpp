#include "boxes.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "text.hpp"

namespace loom::emulator {

namespace {

constexpr int kChunkBytes = 16;

}  // namespace

void Boxes::reset() {
    loads_.clear();
    stores_.clear();
}

Boxes::Box Boxes::checked_box(int map, host::BoxTile tile, int row, int col, Site site) const {
    const BoxMap& box = maps_[map];
    if (tile.rows != box.box_rows || tile.cols != box.box_cols || tile.element_bytes != box.element_bytes ||
        tile.swizzle != box.swizzle) {
        raise(FaultKind::kBadBox, site,
              text("a tile of %d x %d elements of %d bytes, swizzle %d, for a box of %d x %d elements of %d bytes, "
                   "swizzle %d",
                   tile.rows, tile.cols, tile.element_bytes, tile.swizzle, box.box_rows, box.box_cols,
                   box.element_bytes, box.swizzle));
    }
    if (col * tile.element_bytes % 16 != 0) {
        raise(FaultKind::kBadBox, site,
              text("a box from column %d on: %d bytes are no multiple of 16", col, col * tile.element_bytes));
    }
    const uint32_t alignment = tile.swizzle == 0 ? 128 : 1024;
    if (tile.base % alignment != 0) {
        raise(FaultKind::kMisaligned, site,
              text("the tile at shared byte %u is no multiple of %u", tile.base, alignment));
    }
    return Box{&box, tile.base, row, col, site};
}

Boxes::Span Boxes::span(const Box& box, int row) {
    const BoxMap& map = *box.map;
    const int64_t first = std::max<int64_t>(box.col, 0);
    const int64_t end = std::min(box.col + map.box_cols, map.cols);
    const int64_t at = box.row + row;
    if (at < 0 || at >= map.rows || first >= end) return Span{0, 0, 0};
    return Span{(at * map.cols + first) * map.element_bytes, static_cast<int>(first - box.col) * map.element_bytes,
                static_cast<int>(end - first) * map.element_bytes};
}

/// As the hardware swizzles: the bits of the address from bit 7 on are XORed into those from bit 4 on.
uint32_t Boxes::chunk_address(const Box& box, int row, int byte) {
    const uint32_t plain = box.base + static_cast<uint32_t>(row * box.map->row_bytes() + byte);
    const uint32_t mask = (1u << box.map->swizzle) - 1u;
    return plain ^ ((plain >> 7 & mask) << 4);
}

void Boxes::load(int map, host::BoxTile target, int row, int col, uint32_t barrier, Site site) {
    const Box box = checked_box(map, target, row, col, site);
    const Epoch end = mbarriers_.begin_bytes(barrier, box.map->bytes(), site);
    for (int r = 0; r < box.map->box_rows; ++r) {
        const Span part = span(box, r);
        if (part.bytes > 0) global_.begin_read(box.map->tensor, part.offset, part.bytes, site);
        for (int byte = 0; byte < box.map->row_bytes(); byte += kChunkBytes) {
            const host::Place chunk{chunk_address(box, r, byte), box.map->layout()};
            shared_.begin_agent_write(chunk, kChunkBytes, site, end.thread, end.clock);
        }
    }
    loads_.push_back(Load{box, barrier});
}

void Boxes::bring(const Box& box) {
    std::vector<char> row(static_cast<size_t>(box.map->row_bytes()));
    for (int r = 0; r < box.map->box_rows; ++r) {
        const Span part = span(box, r);
        std::fill(row.begin(), row.end(), '\0');
        if (part.bytes > 0) global_.finish_read(box.map->tensor, part.offset, part.bytes, row.data() + part.skipped);
        for (int byte = 0; byte < box.map->row_bytes(); byte += kChunkBytes) {
            shared_.arrive(host::Place{chunk_address(box, r, byte), 0}, &row[byte], kChunkBytes);
        }
    }
}

bool Boxes::finish_load(Random& random, std::vector<int>& woken) {
    if (loads_.empty()) return false;
    std::swap(loads_[random.below(static_cast<uint32_t>(loads_.size()))], loads_.back());
    const Load load = loads_.back();
    loads_.pop_back();
    bring(load.box);
    woken = mbarriers_.end_bytes(load.barrier, load.box.map->bytes());
    return true;
}

Boxes::Stores& Boxes::stores_of(int thread, Site site) {
    const auto known = stores_.find(thread);
    if (known != stores_.end()) return known->second;
    const int agent = clocks_.add_agent();
    if (agent < 0) raise(FaultKind::kBadBarrier, site, "more threads store boxes than the emulator has room for");
    Stores& fresh = stores_[thread];
    fresh.agent = agent;
    return fresh;
}

void Boxes::store(int map, int row, int col, host::BoxTile source, Site site) {
    const Box box = checked_box(map, source, row, col, site);
    if (row < 0 || col < 0) {
        raise(FaultKind::kBadBox, site,
              text("a store from row %d and column %d on: neither may be negative", row, col));
    }
    Stores& stores = stores_of(site.thread, site);
    clocks_.start(stores.agent, site.thread, 1, ++stores.issued);
    for (int r = 0; r < box.map->box_rows; ++r) {
        const Span part = span(box, r);
        if (part.bytes > 0) global_.begin_write(box.map->tensor, part.offset, part.bytes, site, stores.agent);
        for (int byte = 0; byte < box.map->row_bytes(); byte += kChunkBytes) {
            const host::Place chunk{chunk_address(box, r, byte), box.map->layout()};
            shared_.check_agent_read(chunk, kChunkBytes, site, stores.agent);
        }
    }
    stores.open.push_back(Store{box, stores.issued, false});
}

void Boxes::finish(Store& store) {
    if (std::exchange(store.finished, true)) return;
    const Box& box = store.box;
    std::vector<char> row(static_cast<size_t>(box.map->row_bytes()));
    for (int r = 0; r < box.map->box_rows; ++r) {
        const Span part = span(box, r);
        for (int byte = 0; byte < box.map->row_bytes(); byte += kChunkBytes) {
            std::memcpy(&row[byte], shared_.data(chunk_address(box, r, byte)), kChunkBytes);
        }
        if (part.bytes > 0) global_.finish_write(box.map->tensor, part.offset, part.bytes, row.data() + part.skipped);
    }
}

void Boxes::commit(int thread) {
    const auto stores = stores_.find(thread);
    if (stores == stores_.end()) return;
    stores->second.groups.push_back(std::exchange(stores->second.open, {}));
}

void Boxes::wait(int thread, size_t pending) {
    const auto found = stores_.find(thread);
    if (found == stores_.end()) return;
    Stores& stores = found->second;
    for (; stores.groups.size() > pending; stores.groups.pop_front()) {
        for (Store& store : stores.groups.front()) {
            finish(store);
            clocks_.learn(thread, stores.agent, store.clock);
        }
    }
}

void Boxes::finish_some_stores(int thread, Random& random) {
    const auto found = stores_.find(thread);
    if (found == stores_.end()) return;
    const auto finish_some_of = [&](Group& group) {
        for (Store& store : group) {
            if (random.below(2) == 0) finish(store);
        }
    };
    finish_some_of(found->second.open);
    for (Group& group : found->second.groups)
        finish_some_of(group);
}

void Boxes::check_loaded() const {
    if (loads_.empty()) return;
    raise(FaultKind::kPendingCopy, loads_.front().box.site, "the block ends and nothing has waited for this load");
}

void Boxes::check_finished(int thread) const {
    const auto found = stores_.find(thread);
    if (found == stores_.end()) return;
    const Stores& stores = found->second;
    const Group* left = stores.open.empty() ? nullptr : &stores.open;
    for (const Group& group : stores.groups) {
        if (left == nullptr && !group.empty()) left = &group;
    }
    if (left == nullptr) return;
    raise(FaultKind::kPendingCopy, left->front().box.site,
          text("thread %d ends and has not waited for this store to read its tile", thread));
}

}  // namespace loom::emulator
