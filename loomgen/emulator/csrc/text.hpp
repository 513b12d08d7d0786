#pragma once
// Wording of messages.

#include <cstdarg>
#include <cstdio>
#include <string>

#include "shadow.hpp"

namespace loom::emulator {

/// printf into a string.
__attribute__((format(printf, 1, 2))) inline std::string text(const char* format, ...) {
    char buffer[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(buffer, sizeof buffer, format, arguments);
    va_end(arguments);
    return buffer;
}

inline std::string unordered(const Conflict& conflict) {
    return text(", and no barrier orders this after the %s of thread %d at line %d",
                conflict.was_write ? "write" : "read", conflict.thread, conflict.line);
}

}  // namespace loom::emulator
