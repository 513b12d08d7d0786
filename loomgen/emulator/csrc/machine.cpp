#include "machine.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "text.hpp"

namespace loom::emulator {

namespace {

Machine* running = nullptr;

}  // namespace

Machine& machine() {
    return *running;
}

void set_machine(Machine* machine) {
    running = machine;
}

void raise(FaultKind kind, Site site, std::string message) {
    machine().fail(Fault{kind, machine().block(), site.thread, site.line, std::move(message)});
}

Machine::Machine(Kernel kernel, std::vector<const void*> arguments, std::vector<Tensor> tensors,
                 std::vector<BoxMap> maps, int threads, uint32_t shared_bytes, Options options)
    : kernel_(kernel),
      arguments_(std::move(arguments)),
      options_(options),
      random_(options.seed),
      races_(threads),
      shared_(shared_bytes, races_),
      global_(std::move(tensors), races_),
      mbarriers_(shared_, races_.clocks()),
      boxes_(std::move(maps), shared_, global_, races_.clocks(), mbarriers_),
      registers_(threads),
      stacks_(threads),
      threads_(threads) {}

bool Machine::run(int64_t grid) {
    std::vector<int64_t> order(static_cast<size_t>(grid));
    std::iota(order.begin(), order.end(), int64_t{0});
    for (size_t left = order.size(); left > 1; --left) {
        std::swap(order[left - 1], order[random_.below(static_cast<uint32_t>(left))]);
    }
    for (int64_t block : order) {
        run_block(block);
        if (fault_.kind != FaultKind::kNone) return false;
    }
    return true;
}

void Machine::run_block(int64_t block) {
    const int threads = static_cast<int>(threads_.size());
    block_ = block;
    races_.reset();
    shared_.reset();
    global_.enter_block(static_cast<int32_t>(block));
    barriers_ = {};
    mbarriers_.reset();
    boxes_.reset();
    registers_.reset();
    warps_.assign(threads / kLanes, Warp{});
    warpgroups_.assign(threads / kLanesOfGroup, Warpgroup{});
    products_.clear();
    for (int group = 0; group < threads / kLanesOfGroup; ++group)
        products_.emplace_back(group * kLanesOfGroup, shared_, races_.clocks());
    runnable_.resize(threads);
    std::iota(runnable_.begin(), runnable_.end(), 0);
    alive_ = threads;
    for (int i = 0; i < threads; ++i) {
        threads_[i] = Thread{};
        prepare(threads_[i].context, stacks_.top(i), stacks_.usable(), &Machine::start_thread);
    }
    current_ = runnable_.back();
    runnable_.pop_back();
    switch_context(main_, threads_[current_].context);
    for (Warp& warp : warps_)
        warp.banks.flush(statistics_);
}

void Machine::start_thread() {
    Machine& self = machine();
    self.kernel_(self.arguments_.data());
    self.exit_thread();
}

void Machine::exit_thread() {
    Thread& thread = threads_[current_];
    check_finished();
    thread.copies.abandon(global_);
    thread.waiting = Waiting::kExited;
    --alive_;
    if (alive_ == 0) boxes_.check_loaded();
    if (alive_ == 0) switch_context(thread.context, main_);
    resume_any();
    __builtin_unreachable();
}

void Machine::fail(Fault fault) {
    fault_ = std::move(fault);
    switch_context(threads_[current_].context, main_);
    __builtin_unreachable();
}

void Machine::park(Waiting waiting, Primitive primitive, int line) {
    Thread& thread = threads_[current_];
    thread.waiting = waiting;
    thread.primitive = primitive;
    thread.line = line;
    resume_any();
}

void Machine::wake(int thread) {
    threads_[thread].waiting = Waiting::kNot;
    runnable_.push_back(thread);
}

void Machine::wake_all(const std::vector<int>& threads) {
    for (int thread : threads)
        wake(thread);
}

void Machine::resume_any() {
    while (runnable_.empty()) {
        if (!finish_load()) fail_stuck();
    }
    const uint32_t pick = random_.below(static_cast<uint32_t>(runnable_.size()));
    std::swap(runnable_[pick], runnable_.back());
    const int from = std::exchange(current_, runnable_.back());
    runnable_.pop_back();
    if (from != current_) switch_context(threads_[from].context, threads_[current_].context);
}

std::string Machine::whereabouts() const {
    std::map<std::pair<int, int>, std::pair<int, int>> places;  // (primitive, line) -> (threads, first)
    int exited = 0;
    for (size_t i = 0; i < threads_.size(); ++i) {
        const Thread& thread = threads_[i];
        if (thread.waiting == Waiting::kExited) {
            ++exited;
            continue;
        }
        const auto key = std::make_pair(static_cast<int>(thread.primitive), thread.line);
        ++places.try_emplace(key, 0, static_cast<int>(i)).first->second.first;
    }
    std::string all;
    for (const auto& [place, threads] : places) {
        all += text("%s%d threads (first %d) in %s at line %d", all.empty() ? "" : "; ", threads.first, threads.second,
                    name_of(static_cast<Primitive>(place.first)), place.second);
    }
    return exited == 0 ? all : all + text("; %d threads have exited", exited);
}

void Machine::fail_stuck() {
    const auto waits = [this](Waiting waiting) {
        return std::find_if(threads_.begin(), threads_.end(), [=](const Thread& t) { return t.waiting == waiting; });
    };
    const bool named = waits(Waiting::kNamed) != threads_.end();
    const bool block = waits(Waiting::kBlock) != threads_.end();
    const auto mbarrier = waits(Waiting::kMbarrier);
    const auto registers = waits(Waiting::kRegisters);
    auto first = waits(Waiting::kWarp);
    FaultKind kind = FaultKind::kDivergentCollective;
    if (mbarrier != threads_.end() || registers != threads_.end()) {
        first = mbarrier != threads_.end() ? mbarrier : registers;
        kind = FaultKind::kDeadlock;
    } else if (first == threads_.end()) {
        first = waits(block ? Waiting::kBlock : Waiting::kNamed);
        kind = block && !named ? FaultKind::kDivergentBarrier : FaultKind::kDeadlock;
    }
    const int thread = static_cast<int>(first - threads_.begin());
    const std::string wait = mbarriers_.waits_of(thread);
    raise(kind, Site{thread, first->line}, (wait.empty() ? "" : wait + "; ") + "no thread can go on: " + whereabouts());
}

void Machine::count_phase(const LaneAccess* accesses, int n) {
    LineStatistics& line = statistics_.at(accesses->line);
    ++line.accesses;
    line.conflicts += extra_wavefronts(accesses, n);
}

void Machine::copy_async(Copy copy, int line) {
    record_banks(copy.target.bytes, copy.bytes, line);
    CopyQueue& copies = threads_[current_].copies;
    copies.issue(shared_, global_, copy, Site{current_, line});
    if (options_.completion == Completion::kRandom) copies.arrive_some(shared_, random_);
}

void Machine::copy_commit(int line) {
    if (disabled(line)) return;
    count(Primitive::kCopyCommit, line);
    CopyQueue& copies = threads_[current_].copies;
    copies.commit();
    if (options_.completion == Completion::kRandom) copies.arrive_some(shared_, random_);
}

void Machine::copy_wait(int pending, int line) {
    if (disabled(line)) return;
    count(Primitive::kCopyWait, line);
    threads_[current_].copies.wait(shared_, global_, static_cast<size_t>(pending), Site{current_, line});
}

Warp* Machine::meet(Primitive primitive, void* post, int line) {
    Warp& warp = warps_[current_ / kLanes];
    const int lane = current_ % kLanes;
    if (warp.arrived == 0) {
        warp.primitive = primitive;
        warp.line = line;
        warp.first_lane = lane;
    }
    if (warp.primitive != primitive || warp.line != line) {
        raise(FaultKind::kDivergentCollective, Site{current_, line},
              text("lane %d is in %s at line %d while lane %d is in %s at line %d", lane, name_of(primitive), line,
                   warp.first_lane, name_of(warp.primitive), warp.line));
    }
    warp.posts[lane] = post;
    if (++warp.arrived == kLanes) return &warp;
    park(Waiting::kWarp, primitive, line);
    return nullptr;
}

void Machine::leave(Warp& warp) {
    count(warp.primitive, warp.line);
    warp.banks.flush(statistics_);
    warp.arrived = 0;
    const int first = current_ / kLanes * kLanes;
    for (int thread = first; thread < first + kLanes; ++thread) {
        if (thread != current_) wake(thread);
    }
}

void Machine::sync_warp(int line) {
    if (disabled(line)) return;
    Warp* warp = meet(Primitive::kSyncWarp, nullptr, line);
    if (warp == nullptr) return;
    std::vector<int> lanes(kLanes);
    std::iota(lanes.begin(), lanes.end(), current_ / kLanes * kLanes);
    races_.clocks().join(lanes);
    leave(*warp);
}

void Machine::sync_block(int line) {
    if (disabled(line)) return;
    Barrier& barrier = barriers_[0];
    if (barrier.members.empty()) barrier = Barrier{{}, static_cast<int>(threads_.size()), line, Primitive::kSyncBlock};
    if (barrier.line != line) {
        raise(FaultKind::kDivergentBarrier, Site{current_, line},
              text("in sync_block at line %d while thread %d is in the one at line %d", line, barrier.members.front(),
                   barrier.line));
    }
    arrive(barrier, Waiting::kBlock, line);
}

void Machine::sync_named(int id, int threads, int line) {
    if (disabled(line)) return;
    const Site site{current_, line};
    if (id < 1 || id >= kBarriers) raise(FaultKind::kBadBarrier, site, text("barrier %d is not one of 1 .. 15", id));
    if (threads <= 0 || threads % kLanes != 0 || threads > static_cast<int>(threads_.size())) {
        raise(FaultKind::kBadBarrier, site,
              text("barrier %d: %d threads are not whole warps of the block", id, threads));
    }
    Barrier& barrier = barriers_[id];
    if (barrier.members.empty()) barrier = Barrier{{}, threads, line, Primitive::kSyncNamed};
    if (barrier.expected != threads) {
        raise(
            FaultKind::kBadBarrier, site,
            text("barrier %d: for %d threads here and for %d at line %d", id, threads, barrier.expected, barrier.line));
    }
    arrive(barrier, Waiting::kNamed, line);
}

void Machine::arrive(Barrier& barrier, Waiting waiting, int line) {
    barrier.members.push_back(current_);
    if (static_cast<int>(barrier.members.size()) < barrier.expected) {
        park(waiting, barrier.primitive, line);
        return;
    }
    count(barrier.primitive, line);
    const std::vector<int> members = std::exchange(barrier.members, {});
    races_.clocks().join(members);
    for (int member : members) {
        if (member % kLanes == 0) warps_[member / kLanes].banks.flush(statistics_);
        if (member != current_) wake(member);
    }
}

}  // namespace loom::emulator
