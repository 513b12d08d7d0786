#include "loom/loom.cuh"

// Loads, stores and asynchronous copies: 128 threads, one element a thread and step.

using namespace loom;

constexpr int kThreads = 128;

/// y = x, each thread one element.
template <typename T>
LOOM_DEVICE void through_registers(const T* x, T* y) {
    const int64_t i = block_index() * kThreads + thread_index();
    st_global(y + i, ld_global(x + i));
}

/// y = x rotated by 37 within each block: what a thread wrote to shared memory another one reads.
template <typename T>
LOOM_DEVICE void through_shared(const T* x, T* y) {
    const int64_t first = block_index() * kThreads;
    const int taken = (thread_index() + 37) % kThreads;
    const int bytes = static_cast<int>(sizeof(T));
    st_shared(shared_memory() + thread_index() * bytes, ld_global(x + first + thread_index()));
    sync_block();
    st_global(y + first + thread_index(), ld_shared<T>(shared_memory() + taken * bytes));
}

LOOM_KERNEL(128, 1) copy_global_bf16(const bf16* x, bf16* y) {
    through_registers(x, y);
}
LOOM_KERNEL(128, 1) copy_global_f16(const f16* x, f16* y) {
    through_registers(x, y);
}
LOOM_KERNEL(128, 1) copy_global_float(const float* x, float* y) {
    through_registers(x, y);
}
LOOM_KERNEL(128, 1) copy_global_uint32_t(const uint32_t* x, uint32_t* y) {
    through_registers(x, y);
}
LOOM_KERNEL(128, 1) copy_global_int32_t(const int32_t* x, int32_t* y) {
    through_registers(x, y);
}
LOOM_KERNEL(128, 1) copy_global_uint64_t(const uint64_t* x, uint64_t* y) {
    through_registers(x, y);
}
LOOM_KERNEL(128, 1) copy_global_int64_t(const int64_t* x, int64_t* y) {
    through_registers(x, y);
}
LOOM_KERNEL(128, 1) copy_global_f32x2(const f32x2* x, f32x2* y) {
    through_registers(x, y);
}
LOOM_KERNEL(128, 1) copy_global_f32x4(const f32x4* x, f32x4* y) {
    through_registers(x, y);
}
LOOM_KERNEL(128, 1) copy_global_u32x4(const u32x4* x, u32x4* y) {
    through_registers(x, y);
}

LOOM_KERNEL(128, 1) copy_shared_bf16(const bf16* x, bf16* y) {
    through_shared(x, y);
}
LOOM_KERNEL(128, 1) copy_shared_f16(const f16* x, f16* y) {
    through_shared(x, y);
}
LOOM_KERNEL(128, 1) copy_shared_float(const float* x, float* y) {
    through_shared(x, y);
}
LOOM_KERNEL(128, 1) copy_shared_uint32_t(const uint32_t* x, uint32_t* y) {
    through_shared(x, y);
}
LOOM_KERNEL(128, 1) copy_shared_int32_t(const int32_t* x, int32_t* y) {
    through_shared(x, y);
}
LOOM_KERNEL(128, 1) copy_shared_uint64_t(const uint64_t* x, uint64_t* y) {
    through_shared(x, y);
}
LOOM_KERNEL(128, 1) copy_shared_int64_t(const int64_t* x, int64_t* y) {
    through_shared(x, y);
}
LOOM_KERNEL(128, 1) copy_shared_f32x2(const f32x2* x, f32x2* y) {
    through_shared(x, y);
}
LOOM_KERNEL(128, 1) copy_shared_f32x4(const f32x4* x, f32x4* y) {
    through_shared(x, y);
}
LOOM_KERNEL(128, 1) copy_shared_u32x4(const u32x4* x, u32x4* y) {
    through_shared(x, y);
}

/// The calling thread's copies land, and every thread sees them.
LOOM_DEVICE void land() {
    cp_async_commit();
    cp_async_wait<0>();
    sync_block();
}

/// y = what lies in shared memory, element by element.
template <typename T>
LOOM_DEVICE void from_shared(T* y) {
    const int bytes = static_cast<int>(sizeof(T));
    st_global(y + block_index() * kThreads + thread_index(), ld_shared<T>(shared_memory() + thread_index() * bytes));
}

/// The thread whose element the calling thread copies; a permutation.
LOOM_DEVICE int copied() {
    return thread_index() * 5 % kThreads;
}

LOOM_KERNEL(128, 1) copy_async_16(const u32x4* x, u32x4* y) {
    cp_async_16(shared_memory() + copied() * 16, x + block_index() * kThreads + copied());
    land();
    from_shared(y);
}

/// Every third element becomes zeros.
LOOM_KERNEL(128, 1) copy_async_16_predicated(const u32x4* x, u32x4* y) {
    cp_async_16(shared_memory() + copied() * 16, x + block_index() * kThreads + copied(), copied() % 3 != 0);
    land();
    from_shared(y);
}

LOOM_KERNEL(128, 1) copy_async_4(const uint32_t* x, uint32_t* y) {
    cp_async_4(shared_memory() + copied() * 4, x + block_index() * kThreads + copied());
    land();
    from_shared(y);
}

LOOM_KERNEL(128, 1) copy_async_4_predicated(const uint32_t* x, uint32_t* y) {
    cp_async_4(shared_memory() + copied() * 4, x + block_index() * kThreads + copied(), copied() % 3 != 0);
    land();
    from_shared(y);
}

/// x ends within the last block's elements: what lies past the `n` elements of x is zeros and is not read.
LOOM_KERNEL(128, 1) copy_async_16_past_the_end(const u32x4* x, u32x4* y, int n) {
    const int64_t i = block_index() * kThreads + copied();
    cp_async_16(shared_memory() + copied() * 16, x + i, i < n);
    land();
    from_shared(y);
}

/// Eight groups of one copy a thread, at most N + 1 in flight: y = x rotated by one thread within each group, read as
/// soon as the wait lets it.
template <int N>
LOOM_DEVICE void in_groups(const u32x4* x, u32x4* y) {
    constexpr int kGroups = 8;
    for (int group = 0; group < kGroups + N; ++group) {
        const int element = group * kThreads + thread_index();
        if (group < kGroups) cp_async_16(shared_memory() + element * 16, x + element);
        cp_async_commit();
        if (group < N) continue;
        cp_async_wait<N>();
        sync_block();
        const int taken = (group - N) * kThreads + (thread_index() + 1) % kThreads;
        st_global(y + element - N * kThreads, ld_shared<u32x4>(shared_memory() + taken * 16));
    }
}

LOOM_KERNEL(128, 1) copy_async_wait_0(const u32x4* x, u32x4* y) {
    in_groups<0>(x, y);
}
LOOM_KERNEL(128, 1) copy_async_wait_1(const u32x4* x, u32x4* y) {
    in_groups<1>(x, y);
}
LOOM_KERNEL(128, 1) copy_async_wait_2(const u32x4* x, u32x4* y) {
    in_groups<2>(x, y);
}
LOOM_KERNEL(128, 1) copy_async_wait_3(const u32x4* x, u32x4* y) {
    in_groups<3>(x, y);
}
