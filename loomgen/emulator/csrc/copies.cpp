#include "copies.hpp"

namespace loom::emulator {

namespace {

constexpr char kZeros[16] = {};

void arrive(SharedMemory& shared, Copy& copy) {
    if (copy.arrived) return;
    shared.arrive(copy.target, copy.source == nullptr ? kZeros : copy.source, copy.bytes);
    copy.arrived = true;
}

void arrive_some_of(SharedMemory& shared, Random& random, std::vector<Copy>& group) {
    for (Copy& copy : group) {
        if (random.below(2) == 0) arrive(shared, copy);
    }
}

}  // namespace

void CopyQueue::issue(SharedMemory& shared, GlobalMemory& global, Copy copy, Site site) {
    if (copy.source != nullptr) global.begin_copy(copy.source, copy.bytes, site);
    shared.begin_copy(copy.target, copy.bytes, site);
    open_.push_back(copy);
}

void CopyQueue::commit() {
    groups_.push_back(std::move(open_));
    open_.clear();
}

void CopyQueue::wait(SharedMemory& shared, GlobalMemory& global, size_t pending, Site site) {
    for (; groups_.size() > pending; groups_.pop_front()) {
        for (Copy& copy : groups_.front()) {
            arrive(shared, copy);
            shared.finish_copy(copy.target, copy.bytes, site);
            if (copy.source != nullptr) global.finish_copy(copy.source, copy.bytes);
        }
    }
}

void CopyQueue::arrive_some(SharedMemory& shared, Random& random) {
    arrive_some_of(shared, random, open_);
    for (Group& group : groups_)
        arrive_some_of(shared, random, group);
}

void CopyQueue::abandon(GlobalMemory& global) {
    commit();
    for (const Group& group : groups_) {
        for (const Copy& copy : group) {
            if (copy.source != nullptr) global.finish_copy(copy.source, copy.bytes);
        }
    }
    groups_.clear();
}

}  // namespace loom::emulator
