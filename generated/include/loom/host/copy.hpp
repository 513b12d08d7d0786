#pragma once
// Host bodies of copy.cuh.

#include "loom/host/runtime.hpp"
#include "loom/layout.cuh"

namespace loom {

namespace host {

inline Place place(SharedAddr address) {
    return Place{address.bytes, address.layout};
}

template <typename T>
constexpr bool is_access_width =
    sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16;

}  // namespace host

template <typename T>
T ld_global(const T* source LOOM_HERE) {
    static_assert(host::is_access_width<T>, "an access is 1, 2, 4, 8 or 16 bytes");
    T value;
    host::load_global(source, &value, sizeof(T), line);
    return value;
}

template <typename T>
void st_global(T* target, T value LOOM_HERE) {
    static_assert(host::is_access_width<T>, "an access is 1, 2, 4, 8 or 16 bytes");
    host::store_global(target, &value, sizeof(T), line);
}

template <typename T>
T ld_shared(SharedAddr source LOOM_HERE) {
    static_assert(host::is_access_width<T>, "an access is 1, 2, 4, 8 or 16 bytes");
    T value;
    host::load_shared(host::place(source), &value, sizeof(T), line);
    return value;
}

template <typename T>
void st_shared(SharedAddr target, T value LOOM_HERE) {
    static_assert(host::is_access_width<T>, "an access is 1, 2, 4, 8 or 16 bytes");
    host::store_shared(host::place(target), &value, sizeof(T), line);
}

inline void cp_async_16(SharedAddr target, const void* source, bool valid = true LOOM_HERE) {
    host::copy_async(host::place(target), source, 16, valid, line);
}

inline void cp_async_4(SharedAddr target, const void* source, bool valid = true LOOM_HERE) {
    host::copy_async(host::place(target), source, 4, valid, line);
}

inline void cp_async_commit(LOOM_ONLY_HERE) {
    host::copy_commit(line);
}

template <int N>
void cp_async_wait(LOOM_ONLY_HERE) {
    host::copy_wait(N, line);
}

}  // namespace loom
