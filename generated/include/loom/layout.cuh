#pragma once
// Addresses and tiles in shared memory.
//
// Element (row, col) of a tile lies at byte o = (row * PITCH + col) * sizeof(T). With SWIZZLE = s > 0 the s bits of o
// from bit 4 up, the 16-byte chunk within a row, are XORed with the low s bits of row >> shift, where the row,
// R = PITCH * sizeof(T) bytes, is a multiple of the 2^s chunks that are permuted, and shift is 0 where R is a multiple
// of 128 bytes, 1 of 64, else 2. So the eight rows of an 8x8 matrix of 16-bit elements, and any eight consecutive rows
// of one column of chunks, lie in different banks when R is a multiple of 128 bytes and s = 3, an odd one of 64 and
// s = 2, of 32 and s = 1, of 16 and s = 0; and so do eight consecutive chunks from a multiple of eight on.

#include "loom/types.cuh"

#ifdef LOOM_HOST
#include "loom/host/runtime.hpp"
#endif

namespace loom {

/// A byte address in shared memory.
struct SharedAddr {
    uint32_t bytes;
#ifdef LOOM_HOST
    uint32_t layout = host::kPlain;
#endif
};

#ifdef LOOM_HOST

namespace host {

/// The layout tag of a tile; a tile of one row without swizzle is plain memory.
constexpr uint32_t layout_tag(int rows, int row_bytes, int swizzle) {
    return rows == 1 && swizzle == 0 ? kPlain : static_cast<uint32_t>(row_bytes) << 4 | static_cast<uint32_t>(swizzle);
}

}  // namespace host

#endif

/// Rows that share a pass over the banks share a swizzle: the logarithm of their number.
constexpr int swizzle_shift(int row_bytes) {
    return row_bytes % 128 == 0 ? 0 : row_bytes % 64 == 0 ? 1 : 2;
}

#ifdef LOOM_HOST

namespace host {

/// Bytes after which the swizzle of a layout repeats.
constexpr uint32_t swizzle_period(uint32_t layout) {
    const uint32_t row_bytes = layout >> 4;
    return row_bytes << (static_cast<uint32_t>(swizzle_shift(static_cast<int>(row_bytes))) + (layout & 15u));
}

}  // namespace host

/// An address in a swizzled tile may move within its 16-byte chunk or by whole periods of the swizzle only.
inline SharedAddr operator+(SharedAddr address, int bytes) {
    const uint32_t moved = address.bytes + static_cast<uint32_t>(bytes);
    const bool swizzled = address.layout != host::kCrossed && (address.layout & 15u) != 0;
    const bool crossed = swizzled && (moved ^ address.bytes) >= 16 &&
                         static_cast<uint32_t>(bytes) % host::swizzle_period(address.layout) != 0;
    return SharedAddr{moved, crossed ? host::kCrossed : address.layout};
}

#else

LOOM_DEVICE SharedAddr operator+(SharedAddr address, int bytes) {
    return SharedAddr{address.bytes + static_cast<uint32_t>(bytes)};
}

#endif

/// A ROWS x COLS tile of T; PITCH elements from row to row; SWIZZLE as above (0: none).
template <typename T, int ROWS, int COLS, int PITCH, int SWIZZLE>
struct SharedTile {
    using Element = T;
    static constexpr int kRows = ROWS;
    static constexpr int kCols = COLS;
    static constexpr int kSwizzle = SWIZZLE;
    static constexpr int kPitch = PITCH;
    static constexpr int kRowBytes = PITCH * static_cast<int>(sizeof(T));
    static constexpr int kBytes = ROWS * kRowBytes;
    static constexpr int kRowShift = swizzle_shift(kRowBytes);
    static constexpr int kRowMask = (1 << SWIZZLE) - 1;

    static_assert(PITCH >= COLS, "rows overlap");
    static_assert(SWIZZLE >= 0 && SWIZZLE <= 3, "a swizzle permutes at most eight chunks");
    static_assert(SWIZZLE == 0 || kRowBytes % (16 << SWIZZLE) == 0, "the permuted chunks lie within a row");

    SharedAddr base;

    /// The address of an element; a vector of up to 16 bytes may be read or written there.
    LOOM_DEVICE SharedAddr at(int row, int col LOOM_HERE) const {
        // XORed within the row: rows that are a constant number apart are a constant distance apart for the compiler
        const int in_row = (col * static_cast<int>(sizeof(T))) ^ (((row >> kRowShift) & kRowMask) << 4);
        const int offset = row * kRowBytes + in_row;
#ifdef LOOM_HOST
        if (row < 0 || row >= ROWS || col < 0 || col >= COLS) host::outside_tile(row, col, ROWS, COLS, line);
        return SharedAddr{base.bytes + static_cast<uint32_t>(offset), host::layout_tag(ROWS, kRowBytes, SWIZZLE)};
#else
        return base + offset;
#endif
    }

    /// The tile `slot` places further on in a ring of such tiles.
    LOOM_DEVICE SharedTile at_slot(int slot) const { return SharedTile{base + slot * kBytes}; }
};

}  // namespace loom
