#pragma once
// What a kernel can do wrong.

#include <cstdint>
#include <string>

namespace loom::emulator {

/// The numbers are part of the interface to the driver.
enum class FaultKind : int32_t {
    kNone = 0,
    kRace = 1,
    kGridRace = 2,
    kUninitialised = 3,
    kPendingCopy = 4,
    kOutOfBounds = 5,
    kReadOnly = 6,
    kMisaligned = 7,
    kLayout = 8,
    kDivergentCollective = 9,
    kDivergentBarrier = 10,
    kDeadlock = 11,
    kBadBarrier = 12,
    kProxy = 13,
    kAccumulator = 14,
    kBadBox = 15,
    kBadRegisters = 16,
};

struct Fault {
    FaultKind kind = FaultKind::kNone;
    int64_t block = 0;
    int32_t thread = 0;
    int32_t line = 0;
    std::string message;
};

/// Who does something, and where in the source.
struct Site {
    int thread;
    int line;
};

/// Ends the launch with a fault; to be called on a fiber only.
[[noreturn]] void raise(FaultKind kind, Site site, std::string message);

}  // namespace loom::emulator
