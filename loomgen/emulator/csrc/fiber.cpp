#include "fiber.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>

namespace loom::emulator {

#if defined(LOOM_SWITCH_IN_ASSEMBLY) && defined(__x86_64__)

extern "C" void loom_switch_stack(void** from, void* to);

asm(R"(
    .text
    .p2align 4
    .hidden loom_switch_stack
    .globl loom_switch_stack
    .type loom_switch_stack, @function
loom_switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size loom_switch_stack, .-loom_switch_stack
)");

void prepare(Context& context, char* top, size_t, void (*entry)()) {
    // Six zeroed registers, then the entry as the address to return to; the entry finds the alignment of a call.
    auto* frame = reinterpret_cast<void**>(top) - 8;
    std::memset(frame, 0, 8 * sizeof(void*));
    frame[6] = reinterpret_cast<void*>(entry);
    context.stack_pointer = frame;
}

void switch_context(Context& from, Context& to) {
    loom_switch_stack(&from.stack_pointer, to.stack_pointer);
}

#elif defined(LOOM_SWITCH_IN_ASSEMBLY)

extern "C" void loom_switch_stack(void** from, void* to);

asm(R"(
    .text
    .p2align 4
    .hidden loom_switch_stack
    .globl loom_switch_stack
    .type loom_switch_stack, %function
loom_switch_stack:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size loom_switch_stack, .-loom_switch_stack
)");

void prepare(Context& context, char* top, size_t, void (*entry)()) {
    // A frame of zeroed registers with the entry in the link register's place.
    auto* frame = reinterpret_cast<void**>(top - 160);
    std::memset(frame, 0, 160);
    frame[11] = reinterpret_cast<void*>(entry);
    context.stack_pointer = frame;
}

void switch_context(Context& from, Context& to) {
    loom_switch_stack(&from.stack_pointer, to.stack_pointer);
}

#else

void prepare(Context& context, char* top, size_t bytes, void (*entry)()) {
    getcontext(&context.state);
    context.state.uc_stack.ss_sp = top - bytes;
    context.state.uc_stack.ss_size = bytes;
    context.state.uc_link = nullptr;
    makecontext(&context.state, entry, 0);
}

void switch_context(Context& from, Context& to) {
    swapcontext(&from.state, &to.state);
}

#endif

Stacks::Stacks(int count) : count_(count) {
    const size_t bytes = static_cast<size_t>(count) * (kGuardBytes + kBytes);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<char*>(memory);
    for (int i = 0; i < count; ++i)
        mprotect(memory_ + i * (kGuardBytes + kBytes), kGuardBytes, PROT_NONE);
}

Stacks::~Stacks() {
    munmap(memory_, static_cast<size_t>(count_) * (kGuardBytes + kBytes));
}

char* Stacks::top(int index) const {
    const size_t colour = static_cast<size_t>(index) % kColours * kColourBytes;
    return memory_ + (static_cast<size_t>(index) + 1) * (kGuardBytes + kBytes) - colour;
}

}  // namespace loom::emulator
