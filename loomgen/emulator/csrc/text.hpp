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
    const char* access = conflict.was_write ? "write" : "read";
    if (conflict.was_agent) {
        return text(", and no wait orders this after the asynchronous %s of line %d", access, conflict.line);
    }
    return text(", and no barrier orders this after the %s of thread %d at line %d", access, conflict.thread,
                conflict.line);
}

}  // namespace loom::emulator
