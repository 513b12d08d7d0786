#include "loom/loom.cuh"

// Warp-wide matrix primitives. One warp a block.

using namespace loom;

/// Four 8x8 matrices of 16-bit elements as 32 rows, in rows of 48 bytes.
using Rows = SharedTile<f16, 32, 8, 24, 0>;

/// The row that the calling lane points at; a permutation.
LOOM_DEVICE int pointed() {
    return (lane_index() * 11 + 5) % 32;
}

/// Row `lane` of the tile becomes element `lane` of x.
LOOM_DEVICE Rows filled(const u32x4* x) {
    const Rows rows{shared_memory()};
    st_shared(rows.at(lane_index(), 0), ld_global(x + lane_index()));
    sync_warp();
    return rows;
}

/// Element `lane` of y becomes row `lane` of the tile.
LOOM_DEVICE void emptied(const Rows& rows, u32x4* y) {
    sync_warp();
    st_global(y + lane_index(), ld_shared<u32x4>(rows.at(lane_index(), 0)));
}

template <int COUNT>
LOOM_DEVICE void put(const uint32_t (&r)[COUNT], uint32_t* y) {
    for (int j = 0; j < COUNT; ++j)
        st_global(y + COUNT * lane_index() + j, r[j]);
}

template <int COUNT>
LOOM_DEVICE void take(uint32_t (&r)[COUNT], const uint32_t* x) {
    for (int j = 0; j < COUNT; ++j)
        r[j] = ld_global(x + COUNT * lane_index() + j);
}

LOOM_KERNEL(32, 1) mma_ldmatrix_x4(const u32x4* x, uint32_t* y) {
    uint32_t r[4];
    ldmatrix_x4(r, filled(x).at(pointed(), 0));
    put(r, y);
}
LOOM_KERNEL(32, 1) mma_ldmatrix_x4_trans(const u32x4* x, uint32_t* y) {
    uint32_t r[4];
    ldmatrix_x4_trans(r, filled(x).at(pointed(), 0));
    put(r, y);
}
LOOM_KERNEL(32, 1) mma_ldmatrix_x2(const u32x4* x, uint32_t* y) {
    uint32_t r[2];
    ldmatrix_x2(r, filled(x).at(pointed(), 0));
    put(r, y);
}
LOOM_KERNEL(32, 1) mma_ldmatrix_x2_trans(const u32x4* x, uint32_t* y) {
    uint32_t r[2];
    ldmatrix_x2_trans(r, filled(x).at(pointed(), 0));
    put(r, y);
}

// The tile holds `before`, then the registers `x` are stored; the rows that no lane points at must stay.
LOOM_KERNEL(32, 1) mma_stmatrix_x4(const u32x4* before, const uint32_t* x, u32x4* y) {
    uint32_t r[4];
    take(r, x);
    const Rows rows = filled(before);
    stmatrix_x4(rows.at(pointed(), 0), r);
    emptied(rows, y);
}
LOOM_KERNEL(32, 1) mma_stmatrix_x4_trans(const u32x4* before, const uint32_t* x, u32x4* y) {
    uint32_t r[4];
    take(r, x);
    const Rows rows = filled(before);
    stmatrix_x4_trans(rows.at(pointed(), 0), r);
    emptied(rows, y);
}
LOOM_KERNEL(32, 1) mma_stmatrix_x2(const u32x4* before, const uint32_t* x, u32x4* y) {
    uint32_t r[2];
    take(r, x);
    const Rows rows = filled(before);
    stmatrix_x2(rows.at(pointed(), 0), r);
    emptied(rows, y);
}
LOOM_KERNEL(32, 1) mma_stmatrix_x2_trans(const u32x4* before, const uint32_t* x, u32x4* y) {
    uint32_t r[2];
    take(r, x);
    const Rows rows = filled(before);
    stmatrix_x2_trans(rows.at(pointed(), 0), r);
    emptied(rows, y);
}

/// y = c + a * b, one product a block; the registers of a lane lie side by side: 4 of a, 2 of b, 4 of c and y.
template <typename Multiply>
LOOM_DEVICE void product(Multiply multiply, const uint32_t* a, const uint32_t* b, const float* c, float* y) {
    const int64_t first = block_index() * 32;
    uint32_t left[4];
    uint32_t right[2];
    float sum[4];
    take(left, a + first * 4);
    take(right, b + first * 2);
    for (int j = 0; j < 4; ++j)
        sum[j] = ld_global(c + (first + lane_index()) * 4 + j);
    multiply(sum, left, right[0], right[1]);
    for (int j = 0; j < 4; ++j)
        st_global(y + (first + lane_index()) * 4 + j, sum[j]);
}

LOOM_KERNEL(32, 1) mma_bf16(const uint32_t* a, const uint32_t* b, const float* c, float* y) {
    product([](float (&s)[4], const uint32_t (&p)[4], uint32_t q, uint32_t r) { mma_m16n8k16_bf16(s, p, q, r); }, a, b,
            c, y);
}
LOOM_KERNEL(32, 1) mma_f16(const uint32_t* a, const uint32_t* b, const float* c, float* y) {
    product([](float (&s)[4], const uint32_t (&p)[4], uint32_t q, uint32_t r) { mma_m16n8k16_f16(s, p, q, r); }, a, b,
            c, y);
}
LOOM_KERNEL(32, 1) mma_tf32(const uint32_t* a, const uint32_t* b, const float* c, float* y) {
    product([](float (&s)[4], const uint32_t (&p)[4], uint32_t q, uint32_t r) { mma_m16n8k8_tf32(s, p, q, r); }, a, b,
            c, y);
}
