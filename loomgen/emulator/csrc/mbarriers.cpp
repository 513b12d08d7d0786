#include "mbarriers.hpp"

#include <algorithm>

#include "text.hpp"

namespace loom::emulator {

namespace {

bool is_complete(uint32_t phase, int parity) {
    return static_cast<int>(phase & 1u) != parity;
}

}  // namespace

Mbarriers::Barrier* Mbarriers::find(uint32_t address) {
    const auto at = std::find_if(barriers_.begin(), barriers_.end(),
                                 [address](const Barrier& barrier) { return barrier.address == address; });
    return at == barriers_.end() ? nullptr : &*at;
}

void Mbarriers::make(uint32_t address, int arrivals, Site site) {
    if (find(address) != nullptr) {
        raise(FaultKind::kBadBarrier, site, text("the barrier at shared byte %u is made a second time", address));
    }
    if (arrivals < 1) raise(FaultKind::kBadBarrier, site, text("a barrier for %d arrivals", arrivals));
    shared_.make_barrier(address, site);
    const int agent = clocks_.add_agent();
    if (agent < 0) raise(FaultKind::kBadBarrier, site, "more barriers than the emulator has room for");
    Barrier& barrier = barriers_.emplace_back();
    barrier.address = address;
    barrier.arrivals = barrier.missing = arrivals;
    barrier.agent = agent;
    barrier.made = site;
}

void Mbarriers::publish(int thread) {
    for (Barrier& barrier : barriers_) {
        if (barrier.published || barrier.made.thread != thread) continue;
        barrier.published = true;
        barrier.known_since = clocks_.now(thread);
    }
}

Mbarriers::Barrier& Mbarriers::use(uint32_t address, Site site) {
    Barrier* barrier = find(address);
    if (barrier == nullptr) {
        raise(FaultKind::kBadBarrier, site, text("no barrier was made at shared byte %u", address));
    }
    if (!barrier->published) {
        raise(FaultKind::kBadBarrier, site,
              text("the barrier at shared byte %u, made at line %d, is used before an mbarrier_init_fence", address,
                   barrier->made.line));
    }
    if (!clocks_.before(barrier->known_since, site.thread)) {
        raise(FaultKind::kRace, site,
              text("uses the barrier at shared byte %u", address) +
                  unordered(Conflict{true, false, barrier->made.thread, barrier->made.line}));
    }
    return *barrier;
}

void Mbarriers::check_bytes(const Barrier& barrier, Site site) const {
    if (barrier.expected > kMaxBytes) {
        raise(FaultKind::kBadBarrier, site,
              text("the barrier at shared byte %u: %lld bytes are expected in a phase, at most %lld can be",
                   barrier.address, static_cast<long long>(barrier.expected), static_cast<long long>(kMaxBytes)));
    }
    if (barrier.missing > 0 || barrier.asked <= barrier.expected) return;
    raise(
        FaultKind::kBadBarrier, site,
        text("the barrier at shared byte %u: all arrivals of phase %u are in and expect %lld bytes, copies bring %lld",
             barrier.address, barrier.phase, static_cast<long long>(barrier.expected),
             static_cast<long long>(barrier.asked)));
}

std::vector<int> Mbarriers::arrive(uint32_t address, int64_t expected_bytes, Site site) {
    Barrier& barrier = use(address, site);
    if (barrier.missing == 0) {
        raise(FaultKind::kBadBarrier, site,
              text("the barrier at shared byte %u: more than %d arrivals in phase %u", address, barrier.arrivals,
                   barrier.phase));
    }
    barrier.expected += expected_bytes;
    --barrier.missing;
    check_bytes(barrier, site);
    clocks_.release(site.thread, barrier.arriving);
    return advance(barrier);
}

bool Mbarriers::wait(uint32_t address, int parity, Site site) {
    Barrier& barrier = use(address, site);
    if (parity != 0 && parity != 1) raise(FaultKind::kBadBarrier, site, text("a wait for parity %d", parity));
    if (!is_complete(barrier.phase, parity)) {
        barrier.waiters.push_back(Waiter{site.thread, parity});
        return false;
    }
    clocks_.acquire(site.thread, barrier.complete);
    return true;
}

Epoch Mbarriers::begin_bytes(uint32_t address, int64_t bytes, Site site) {
    Barrier& barrier = use(address, site);
    barrier.asked += bytes;
    check_bytes(barrier, site);
    return Epoch{barrier.phase + 1, static_cast<uint16_t>(barrier.agent)};
}

std::vector<int> Mbarriers::end_bytes(uint32_t address, int64_t bytes) {
    Barrier& barrier = *find(address);
    barrier.come += bytes;
    return advance(barrier);
}

std::vector<int> Mbarriers::advance(Barrier& barrier) {
    std::vector<int> woken;
    if (barrier.missing > 0 || barrier.come != barrier.expected) return woken;
    ++barrier.phase;
    barrier.missing = barrier.arrivals;
    barrier.expected = barrier.asked = barrier.come = 0;
    barrier.arriving.known.resize(clocks_.used());
    barrier.arriving.known[barrier.agent] = barrier.phase;
    barrier.complete = barrier.arriving;
    std::vector<Waiter> left;
    for (const Waiter& waiter : barrier.waiters) {
        if (!is_complete(barrier.phase, waiter.parity)) {
            left.push_back(waiter);
            continue;
        }
        clocks_.acquire(waiter.thread, barrier.complete);
        woken.push_back(waiter.thread);
    }
    barrier.waiters = left;
    return woken;
}

std::string Mbarriers::waits_of(int thread) const {
    for (const Barrier& barrier : barriers_) {
        for (const Waiter& waiter : barrier.waiters) {
            if (waiter.thread != thread) continue;
            return text(
                "the barrier at shared byte %u, parity %d: phase %u lacks %d of %d arrivals and %lld of %lld bytes",
                barrier.address, waiter.parity, barrier.phase, barrier.missing, barrier.arrivals,
                static_cast<long long>(barrier.expected - barrier.come), static_cast<long long>(barrier.expected));
        }
    }
    return "";
}

}  // namespace loom::emulator
