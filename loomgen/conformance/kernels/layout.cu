#include "loom/loom.cuh"

// Addresses of every element of a tile of 16 rows, relative to its base: first of the tile, then of the third tile
// after it in a ring. 128 threads.

using namespace loom;

template <typename T, int PITCH, int SWIZZLE>
LOOM_DEVICE void addresses(uint32_t* y) {
    const SharedTile<T, 16, PITCH, PITCH, SWIZZLE> tile{shared_memory()};
    for (int i = thread_index(); i < 16 * PITCH; i += 128) {
        st_global(y + i, tile.at(i / PITCH, i % PITCH).bytes - tile.base.bytes);
        st_global(y + 16 * PITCH + i, tile.at_slot(3).at(i / PITCH, i % PITCH).bytes - tile.base.bytes);
    }
}

/// Moving by bytes from the base.
LOOM_KERNEL(128, 1) layout_advance(uint32_t* y) {
    const SharedAddr base = shared_memory();
    st_global(y + thread_index(), (base + 16 * thread_index()).bytes - base.bytes);
}

LOOM_KERNEL(128, 1) layout_bf16_16_1(uint32_t* y) {
    addresses<bf16, 16, 1>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_32_1(uint32_t* y) {
    addresses<bf16, 32, 1>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_64_1(uint32_t* y) {
    addresses<bf16, 64, 1>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_128_1(uint32_t* y) {
    addresses<bf16, 128, 1>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_32_2(uint32_t* y) {
    addresses<bf16, 32, 2>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_64_2(uint32_t* y) {
    addresses<bf16, 64, 2>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_128_2(uint32_t* y) {
    addresses<bf16, 128, 2>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_64_3(uint32_t* y) {
    addresses<bf16, 64, 3>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_128_3(uint32_t* y) {
    addresses<bf16, 128, 3>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_256_3(uint32_t* y) {
    addresses<bf16, 256, 3>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_48_1(uint32_t* y) {
    addresses<bf16, 48, 1>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_96_2(uint32_t* y) {
    addresses<bf16, 96, 2>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_16_0(uint32_t* y) {
    addresses<bf16, 16, 0>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_24_0(uint32_t* y) {
    addresses<bf16, 24, 0>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_32_0(uint32_t* y) {
    addresses<bf16, 32, 0>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_40_0(uint32_t* y) {
    addresses<bf16, 40, 0>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_64_0(uint32_t* y) {
    addresses<bf16, 64, 0>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_72_0(uint32_t* y) {
    addresses<bf16, 72, 0>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_128_0(uint32_t* y) {
    addresses<bf16, 128, 0>(y);
}
LOOM_KERNEL(128, 1) layout_bf16_136_0(uint32_t* y) {
    addresses<bf16, 136, 0>(y);
}
LOOM_KERNEL(128, 1) layout_float_8_1(uint32_t* y) {
    addresses<float, 8, 1>(y);
}
LOOM_KERNEL(128, 1) layout_float_16_2(uint32_t* y) {
    addresses<float, 16, 2>(y);
}
LOOM_KERNEL(128, 1) layout_float_32_3(uint32_t* y) {
    addresses<float, 32, 3>(y);
}
LOOM_KERNEL(128, 1) layout_float_64_3(uint32_t* y) {
    addresses<float, 64, 3>(y);
}
LOOM_KERNEL(128, 1) layout_float_128_3(uint32_t* y) {
    addresses<float, 128, 3>(y);
}
LOOM_KERNEL(128, 1) layout_float_8_0(uint32_t* y) {
    addresses<float, 8, 0>(y);
}
LOOM_KERNEL(128, 1) layout_float_16_0(uint32_t* y) {
    addresses<float, 16, 0>(y);
}
LOOM_KERNEL(128, 1) layout_float_20_0(uint32_t* y) {
    addresses<float, 20, 0>(y);
}
LOOM_KERNEL(128, 1) layout_float_24_0(uint32_t* y) {
    addresses<float, 24, 0>(y);
}
LOOM_KERNEL(128, 1) layout_float_32_0(uint32_t* y) {
    addresses<float, 32, 0>(y);
}
LOOM_KERNEL(128, 1) layout_float_36_0(uint32_t* y) {
    addresses<float, 36, 0>(y);
}
LOOM_KERNEL(128, 1) layout_float_40_0(uint32_t* y) {
    addresses<float, 40, 0>(y);
}
LOOM_KERNEL(128, 1) layout_float_64_0(uint32_t* y) {
    addresses<float, 64, 0>(y);
}
LOOM_KERNEL(128, 1) layout_float_68_0(uint32_t* y) {
    addresses<float, 68, 0>(y);
}
LOOM_KERNEL(128, 1) layout_float_72_0(uint32_t* y) {
    addresses<float, 72, 0>(y);
}
LOOM_KERNEL(128, 1) layout_float_128_0(uint32_t* y) {
    addresses<float, 128, 0>(y);
}
LOOM_KERNEL(128, 1) layout_float_132_0(uint32_t* y) {
    addresses<float, 132, 0>(y);
}
LOOM_KERNEL(128, 1) layout_float_136_0(uint32_t* y) {
    addresses<float, 136, 0>(y);
}
