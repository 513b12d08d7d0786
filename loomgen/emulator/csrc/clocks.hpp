#pragma once
// Vector clocks of a block's threads: what each thread knows to have happened.
//
// What goes on beside the threads has clocks as well. An agent is a line of such events whose ends come in order: the
// phases of a barrier in shared memory, the products of a warpgroup, the stores of a thread. Agents are numbered after
// the threads as they come up.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace loom::emulator {

/// A moment of a thread; clock 0 is before everything, kNever after all that anyone gets to know.
struct Epoch {
    static constexpr uint32_t kNever = ~0u;

    uint32_t clock = 0;
    uint16_t thread = 0;
};

/// What is known at some place other than a thread: by thread and agent, as Clocks has it.
struct Knowledge {
    std::vector<uint32_t> known;
    std::vector<uint32_t> fenced;
};

class Clocks {
  public:
    static constexpr int kAgents = 64;

    explicit Clocks(int threads)
        : threads_(threads),
          stride_(threads + kAgents),
          known_(static_cast<size_t>(stride_) * stride_),
          fenced_(known_.size()) {
        reset();
    }

    int threads() const { return threads_; }
    /// Threads and agents so far; room for them.
    int used() const { return used_; }
    int room() const { return stride_; }
    bool is_agent(int thread) const { return thread >= threads_; }

    void reset() {
        std::fill(known_.begin(), known_.end(), 0u);
        if (any_fence_) std::fill(fenced_.begin(), fenced_.end(), 0u);
        any_fence_ = false;
        used_ = threads_;
        for (int thread = 0; thread < threads_; ++thread)
            known(thread)[thread] = 1;
    }

    /// A new agent; -1: there is no room for another.
    int add_agent() { return used_ < stride_ ? used_++ : -1; }

    Epoch now(int thread) const { return Epoch{known(thread)[thread], static_cast<uint16_t>(thread)}; }

    /// Has `epoch` happened before what `thread` does now?
    bool before(Epoch epoch, int thread) const { return epoch.clock <= known(thread)[epoch.thread]; }

    /// The same, and has a fence of the thread of `epoch` followed it, before what made it known?
    bool fenced_before(Epoch epoch, int thread) const {
        return any_fence_ && epoch.clock <= fenced(thread)[epoch.thread];
    }

    /// A fence: what the thread did so far is fit for agents.
    void fence(int thread) {
        any_fence_ = true;
        fenced(thread)[thread] = known(thread)[thread];
        ++known(thread)[thread];
    }

    /// A barrier: what any member did happens before what every member does next.
    void join(const std::vector<int>& members) {
        Knowledge all;
        for (int member : members)
            release(member, all);
        for (int member : members)
            acquire(member, all);
    }

    /// What `thread` knows and did is added to `to`.
    void release(int thread, Knowledge& to) {
        merge(known(thread), to.known);
        if (any_fence_) merge(fenced(thread), to.fenced);
        ++known(thread)[thread];
    }

    void acquire(int thread, const Knowledge& from) {
        raise_to(known(thread), from.known);
        raise_to(fenced(thread), from.fenced);
    }

    /// `thread` gets to know that the agent has come to `clock`.
    void learn(int thread, int agent, uint32_t clock) { raise_to(known(thread)[agent], clock); }

    /// The agent starts event `clock` when `count` threads from `first` on ask for it: it knows what all of them know.
    void start(int agent, int first, int count, uint32_t clock) {
        meet(known(agent), known(first), count);
        if (any_fence_) meet(fenced(agent), fenced(first), count);
        known(agent)[agent] = clock;
    }

  private:
    uint32_t* known(int thread) { return known_.data() + static_cast<size_t>(thread) * stride_; }
    const uint32_t* known(int thread) const { return known_.data() + static_cast<size_t>(thread) * stride_; }
    uint32_t* fenced(int thread) { return fenced_.data() + static_cast<size_t>(thread) * stride_; }
    const uint32_t* fenced(int thread) const { return fenced_.data() + static_cast<size_t>(thread) * stride_; }

    static void raise_to(uint32_t& clock, uint32_t other) { clock = std::max(clock, other); }

    static void raise_to(uint32_t* row, const std::vector<uint32_t>& from) {
        for (size_t i = 0; i < from.size(); ++i)
            raise_to(row[i], from[i]);
    }

    void merge(const uint32_t* row, std::vector<uint32_t>& to) const {
        to.resize(std::max<size_t>(to.size(), used_));
        for (int i = 0; i < used_; ++i)
            raise_to(to[i], row[i]);
    }

    void meet(uint32_t* to, const uint32_t* rows, int count) const {
        std::copy(rows, rows + used_, to);
        for (int row = 1; row < count; ++row) {
            const uint32_t* other = rows + static_cast<size_t>(row) * stride_;
            for (int i = 0; i < used_; ++i)
                to[i] = std::min(to[i], other[i]);
        }
    }

    int threads_;
    int stride_;
    int used_ = 0;
    bool any_fence_ = false;
    std::vector<uint32_t> known_;
    std::vector<uint32_t> fenced_;
};

}  // namespace loom::emulator
