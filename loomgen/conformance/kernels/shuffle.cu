#include "loom/loom.cuh"

// Exchanges between the lanes of one warp; y[step][lane].

using namespace loom;

/// Sources differ between the lanes and go past 31.
template <typename T>
LOOM_DEVICE void from_lanes(const T* x, T* y) {
    const int lane = lane_index();
    const T mine = ld_global(x + lane);
    for (int step = 0; step < 64; ++step)
        st_global(y + step * 32 + lane, shuffle(mine, lane * step + step / 2));
}

template <typename T>
LOOM_DEVICE void from_partners(const T* x, T* y) {
    const int lane = lane_index();
    const T mine = ld_global(x + lane);
    for (int mask = 0; mask < 32; ++mask)
        st_global(y + mask * 32 + lane, shuffle_xor(mine, mask));
}

template <typename T>
LOOM_DEVICE void from_below(const T* x, T* y) {
    const int lane = lane_index();
    const T mine = ld_global(x + lane);
    for (int delta = 0; delta < 32; ++delta)
        st_global(y + delta * 32 + lane, shuffle_up(mine, delta));
}

LOOM_KERNEL(32, 1) shuffle_float(const float* x, float* y) {
    from_lanes(x, y);
}
LOOM_KERNEL(32, 1) shuffle_uint32_t(const uint32_t* x, uint32_t* y) {
    from_lanes(x, y);
}
LOOM_KERNEL(32, 1) shuffle_int32_t(const int32_t* x, int32_t* y) {
    from_lanes(x, y);
}
LOOM_KERNEL(32, 1) shuffle_xor_float(const float* x, float* y) {
    from_partners(x, y);
}
LOOM_KERNEL(32, 1) shuffle_xor_uint32_t(const uint32_t* x, uint32_t* y) {
    from_partners(x, y);
}
LOOM_KERNEL(32, 1) shuffle_xor_int32_t(const int32_t* x, int32_t* y) {
    from_partners(x, y);
}
LOOM_KERNEL(32, 1) shuffle_up_float(const float* x, float* y) {
    from_below(x, y);
}
LOOM_KERNEL(32, 1) shuffle_up_uint32_t(const uint32_t* x, uint32_t* y) {
    from_below(x, y);
}
LOOM_KERNEL(32, 1) shuffle_up_int32_t(const int32_t* x, int32_t* y) {
    from_below(x, y);
}
