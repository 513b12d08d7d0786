// What goes on beside the threads: the machine's part, and the host bodies' side of it.

#include "loom/host/asynchrony.hpp"

#include <cstring>

#include "machine.hpp"
#include "text.hpp"

namespace loom::emulator {

bool Machine::finish_load() {
    std::vector<int> woken;
    if (!boxes_.finish_load(random_, woken)) return false;
    wake_all(woken);
    return true;
}

void Machine::finish_some_loads() {
    while (at_random() && toss() && finish_load()) {
    }
}

void Machine::check_finished() {
    boxes_.check_finished(current_);
    const int group = current_ / kLanesOfGroup;
    if (group >= static_cast<int>(products_.size())) return;
    products_[group].check_finished(current_ % kLanesOfGroup / kLanes, Site{current_, 0});
}

void Machine::mbarrier_arrive(uint32_t barrier, int64_t expected_bytes, int line) {
    wake_all(mbarriers_.arrive(barrier, expected_bytes, Site{current_, line}));
    finish_some_loads();
}

void Machine::mbarrier_wait(uint32_t barrier, int parity, int line) {
    finish_some_loads();
    if (!mbarriers_.wait(barrier, parity, Site{current_, line})) {
        park(Waiting::kMbarrier, Primitive::kMbarrierWait, line);
    }
}

void Machine::load_box(int map, host::BoxTile target, int row, int col, uint32_t barrier, int line) {
    boxes_.load(map, target, row, col, barrier, Site{current_, line});
    finish_some_loads();
}

void Machine::store_box(int map, int row, int col, host::BoxTile source, int line) {
    boxes_.store(map, row, col, source, Site{current_, line});
    if (at_random()) boxes_.finish_some_stores(current_, random_);
}

void Machine::check_in_group(Primitive primitive, int line) {
    if (current_ / kLanesOfGroup < static_cast<int>(warpgroups_.size())) return;
    raise(FaultKind::kDivergentCollective, Site{current_, line},
          text("%s in a warp that belongs to no whole warpgroup", name_of(primitive)));
}

Warpgroup* Machine::meet_group(Primitive primitive, void* post, int line) {
    check_in_group(primitive, line);
    Warpgroup& group = warpgroups_[current_ / kLanesOfGroup];
    if (group.arrived == 0) {
        group.primitive = primitive;
        group.line = line;
        group.first_thread = current_;
    }
    if (group.primitive != primitive || group.line != line) {
        raise(FaultKind::kDivergentCollective, Site{current_, line},
              text("thread %d is in %s at line %d while thread %d is in %s at line %d", current_, name_of(primitive),
                   line, group.first_thread, name_of(group.primitive), group.line));
    }
    group.posts[current_ % kLanesOfGroup] = post;
    if (++group.arrived == kLanesOfGroup) return &group;
    park(Waiting::kWarp, primitive, line);
    return nullptr;
}

void Machine::leave_group(Warpgroup& group) {
    count(group.primitive, group.line);
    group.arrived = 0;
    const int first = current_ / kLanesOfGroup * kLanesOfGroup;
    for (int thread = first; thread < first + kLanesOfGroup; ++thread) {
        if (thread != current_) wake(thread);
    }
}

void Machine::resize_registers(Primitive primitive, int count, int line) {
    Warpgroup* group = meet_group(primitive, nullptr, line);
    if (group == nullptr) return;
    const int index = current_ / kLanesOfGroup;
    const bool claims = primitive == Primitive::kClaimRegisters;
    if (claims ? count < registers_.of(index) : count > registers_.of(index)) {
        raise(
            FaultKind::kBadRegisters, Site{current_, line},
            text("%s %d registers by threads that have %d", claims ? "claims" : "keeps", count, registers_.of(index)));
    }
    if (registers_.resize(index, count)) {
        leave_group(*group);
        grant_registers();
        return;
    }
    group->claimed = count;
    for (int thread = index * kLanesOfGroup; thread < (index + 1) * kLanesOfGroup; ++thread)
        threads_[thread].waiting = Waiting::kRegisters;
    park(Waiting::kRegisters, primitive, line);
}

void Machine::grant_registers() {
    for (size_t index = 0; index < warpgroups_.size(); ++index) {
        Warpgroup& group = warpgroups_[index];
        if (group.claimed == 0 || !registers_.resize(static_cast<int>(index), group.claimed)) continue;
        group.claimed = 0;
        group.arrived = 0;
        count(group.primitive, group.line);
        for (int lane = 0; lane < kLanesOfGroup; ++lane)
            wake(static_cast<int>(index) * kLanesOfGroup + lane);
    }
}

}  // namespace loom::emulator

namespace loom::host {

using emulator::FaultKind;
using emulator::kLanes;
using emulator::kLanesOfGroup;
using emulator::machine;
using emulator::Machine;
using emulator::Primitive;
using emulator::ProductPost;
using emulator::Site;
using emulator::text;
using emulator::Warp;
using emulator::Warpgroup;

namespace {

/// Counts the call; false: it is the one that does nothing.
bool enter(Primitive primitive, int line) {
    if (machine().disabled(line)) return false;
    machine().count(primitive, line);
    return true;
}

Site here(int line) {
    return Site{machine().thread(), line};
}

/// The number of the map that the launch wrote into a TensorMap.
int map_number(const void* map) {
    int32_t number;
    std::memcpy(&number, map, sizeof number);
    return number;
}

emulator::Products& my_products() {
    return machine().products(machine().thread() / kLanesOfGroup);
}

int my_warp() {
    return machine().thread() % kLanesOfGroup / kLanes;
}

/// The lanes of the warp meet; whether the caller is the one that acts for them.
Warp* meet(Primitive primitive, int line) {
    Machine& m = machine();
    if (m.disabled(line)) return nullptr;
    m.check_in_group(primitive, line);
    return m.meet(primitive, nullptr, line);
}

}  // namespace

void mbarrier_init(uint32_t barrier, int arrivals, int line) {
    if (enter(Primitive::kMbarrierInit, line)) machine().mbarriers().make(barrier, arrivals, here(line));
}

void mbarrier_init_fence(int line) {
    if (enter(Primitive::kMbarrierInitFence, line)) machine().mbarriers().publish(machine().thread());
}

void mbarrier_arrive(uint32_t barrier, int line) {
    if (enter(Primitive::kMbarrierArrive, line)) machine().mbarrier_arrive(barrier, 0, line);
}

void mbarrier_expect_bytes(uint32_t barrier, int bytes, int line) {
    if (!enter(Primitive::kMbarrierExpectBytes, line)) return;
    if (bytes < 0) emulator::raise(FaultKind::kBadBarrier, here(line), text("%d bytes are expected", bytes));
    machine().mbarrier_arrive(barrier, bytes, line);
}

void mbarrier_wait(uint32_t barrier, int parity, int line) {
    if (enter(Primitive::kMbarrierWait, line)) machine().mbarrier_wait(barrier, parity, line);
}

void fence_proxy_async(int line) {
    if (enter(Primitive::kFenceProxyAsync, line)) machine().clocks().fence(machine().thread());
}

void tma_load(BoxTile target, const void* map, int row, int col, uint32_t barrier, int line) {
    machine().count(Primitive::kTmaLoad, line);
    machine().load_box(map_number(map), target, row, col, barrier, line);
}

void tma_store(const void* map, int row, int col, BoxTile source, int line) {
    machine().count(Primitive::kTmaStore, line);
    machine().store_box(map_number(map), row, col, source, line);
}

void tma_store_commit(int line) {
    if (enter(Primitive::kTmaStoreCommit, line)) machine().boxes().commit(machine().thread());
}

void tma_store_wait(int pending_groups, int line) {
    if (!enter(Primitive::kTmaStoreWait, line)) return;
    machine().boxes().wait(machine().thread(), static_cast<size_t>(pending_groups));
}

void check_operand(int row, int col, int line) {
    if (row % 8 == 0 && col % 16 == 0) return;
    emulator::raise(FaultKind::kMisaligned, here(line),
                    text("an operand from (%d, %d) on: want a multiple of 8 rows and of 16 columns", row, col));
}

void wgmma_fence(int line) {
    Warp* warp = meet(Primitive::kProductFence, line);
    if (warp == nullptr) return;
    my_products().fence(my_warp());
    machine().leave(*warp);
}

void wgmma_commit(int line) {
    Warp* warp = meet(Primitive::kProductCommit, line);
    if (warp == nullptr) return;
    my_products().commit(my_warp());
    machine().leave(*warp);
}

void wgmma_wait(int pending_groups, int line) {
    Warp* warp = meet(Primitive::kProductWait, line);
    if (warp == nullptr) return;
    my_products().wait(my_warp(), static_cast<size_t>(pending_groups), here(line));
    machine().leave(*warp);
}

void wgmma(Format format, float* acc, int tiles, uint64_t a, uint64_t b, int line) {
    Machine& m = machine();
    ProductPost mine{format, acc, tiles, a, b};
    Warpgroup* group = m.meet_group(Primitive::kProduct, &mine, line);
    if (group == nullptr) return;
    std::array<const ProductPost*, kLanesOfGroup> posts;
    for (int lane = 0; lane < kLanesOfGroup; ++lane)
        posts[lane] = static_cast<const ProductPost*>(group->posts[lane]);
    my_products().issue(posts, here(line));
    if (m.at_random() && m.toss()) my_products().finish_all();
    m.leave_group(*group);
}

void claim_registers(int count, int line) {
    if (!machine().disabled(line)) machine().resize_registers(Primitive::kClaimRegisters, count, line);
}

void release_registers(int count, int line) {
    if (!machine().disabled(line)) machine().resize_registers(Primitive::kReleaseRegisters, count, line);
}

}  // namespace loom::host
