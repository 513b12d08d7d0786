#pragma once
// Fibers: a CUDA thread is a stack and a saved stack pointer; a switch saves the registers a call preserves.

#include <cstddef>
#include <vector>

// LOOM_PORTABLE_FIBERS asks for the C library's slower switch where there is one in assembly.
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(LOOM_PORTABLE_FIBERS)
#define LOOM_SWITCH_IN_ASSEMBLY
#else
#include <ucontext.h>
#endif

namespace loom::emulator {

struct Context {
#ifdef LOOM_SWITCH_IN_ASSEMBLY
    void* stack_pointer = nullptr;
#else
    ucontext_t state;
#endif
};

/// Makes `context` start in `entry`, which never returns, on the stack that ends at `top` (`bytes` below it).
void prepare(Context& context, char* top, size_t bytes, void (*entry)());

/// Leaves the running context in `from` and goes on in `to`.
void switch_context(Context& from, Context& to);

/// The stacks of a block's threads, each above a page that may not be touched.
class Stacks {
  public:
    static constexpr size_t kBytes = 64 * 1024;

    explicit Stacks(int count);
    ~Stacks();
    Stacks(const Stacks&) = delete;
    Stacks& operator=(const Stacks&) = delete;

    /// The end of stack `index`; ends differ in their cache sets, or all stacks would compete for the same few.
    char* top(int index) const;
    /// Bytes usable below top().
    size_t usable() const { return kBytes - kColours * kColourBytes; }

  private:
    static constexpr size_t kGuardBytes = 4096;
    static constexpr size_t kColours = 16;
    static constexpr size_t kColourBytes = 192;

    int count_;
    char* memory_;
};

}  // namespace loom::emulator
