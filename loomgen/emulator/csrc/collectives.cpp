// Warp collectives: the lane maps of mma.cuh, carried out for the 32 lanes at once.

#include <array>
#include <cstring>

#include "formats.hpp"
#include "loom/host/runtime.hpp"
#include "machine.hpp"

namespace loom::host {

namespace {

using emulator::Bf16;
using emulator::F16;
using emulator::kLanes;
using emulator::LaneAccess;
using emulator::machine;
using emulator::Machine;
using emulator::Primitive;
using emulator::Site;
using emulator::Tf32;
using emulator::Warp;

/// An 8x8 matrix of 16-bit elements, row by row.
using Elements = std::array<std::array<uint16_t, 8>, 8>;

struct MatrixPost {
    uint32_t* registers;  // read only by a store
    Place row;
};

template <typename Post>
Post& post(const Warp& warp, int lane) {
    return *static_cast<Post*>(warp.posts[lane]);
}

uint32_t pair(uint16_t low, uint16_t high) {
    return low | static_cast<uint32_t>(high) << 16;
}

/// The two elements that a lane holds of a matrix, as positions (row, column), low half first.
struct Held {
    int row[2];
    int col[2];
};

Held held(int lane, Matrix kind) {
    const int g = lane / 4;
    const int t = lane % 4 * 2;
    if (kind == Matrix::kRows) return Held{{g, g}, {t, t + 1}};
    return Held{{t, t + 1}, {g, g}};
}

void count_rows(const Warp& warp, int matrix) {
    std::array<LaneAccess, 8> rows;
    for (int row = 0; row < 8; ++row) {
        const int lane = 8 * matrix + row;
        rows[row] = LaneAccess{warp.line, 16, lane, post<MatrixPost>(warp, lane).row.bytes};
    }
    machine().count_phase(rows.data(), static_cast<int>(rows.size()));
}

/// The thread that provides the address of a row is the one that accesses it.
Site row_site(const Warp& warp, int matrix, int row) {
    return Site{machine().thread() / kLanes * kLanes + 8 * matrix + row, warp.line};
}

void load_one(const Warp& warp, int matrix, Matrix kind) {
    Elements elements;
    for (int row = 0; row < 8; ++row) {
        machine().shared().load(post<MatrixPost>(warp, 8 * matrix + row).row, elements[row].data(), 16,
                                row_site(warp, matrix, row));
    }
    for (int lane = 0; lane < kLanes; ++lane) {
        const Held at = held(lane, kind);
        post<MatrixPost>(warp, lane).registers[matrix] =
            pair(elements[at.row[0]][at.col[0]], elements[at.row[1]][at.col[1]]);
    }
}

void store_one(const Warp& warp, int matrix, Matrix kind) {
    Elements elements;
    for (int lane = 0; lane < kLanes; ++lane) {
        const Held at = held(lane, kind);
        const uint32_t bits = post<MatrixPost>(warp, lane).registers[matrix];
        elements[at.row[0]][at.col[0]] = static_cast<uint16_t>(bits & 0xffffu);
        elements[at.row[1]][at.col[1]] = static_cast<uint16_t>(bits >> 16);
    }
    for (int row = 0; row < 8; ++row) {
        machine().shared().store(post<MatrixPost>(warp, 8 * matrix + row).row, elements[row].data(), 16,
                                 row_site(warp, matrix, row));
    }
}

struct MultiplyPost {
    float* c;
    const uint32_t* a;
    uint32_t b[2];
};

using Pair = double __attribute__((vector_size(16)));  // two columns, added side by side

/// The operands of one product as matrices of doubles; the 8 columns of b as pairs.
struct Operands {
    double a[16][16];
    Pair b[16][4];
};

template <typename Element>
void unpack_halves(const Warp& warp, Operands& operands) {
    for (int lane = 0; lane < kLanes; ++lane) {
        const auto& mine = post<MultiplyPost>(warp, lane);
        const int g = lane / 4;
        for (int half = 0; half < 2; ++half) {
            const int k = lane % 4 * 2 + half;
            const int shift = 16 * half;
            operands.a[g][k] = Element::value(mine.a[0] >> shift & 0xffffu);
            operands.a[g + 8][k] = Element::value(mine.a[1] >> shift & 0xffffu);
            operands.a[g][k + 8] = Element::value(mine.a[2] >> shift & 0xffffu);
            operands.a[g + 8][k + 8] = Element::value(mine.a[3] >> shift & 0xffffu);
            operands.b[k][g / 2][g % 2] = Element::value(mine.b[0] >> shift & 0xffffu);
            operands.b[k + 8][g / 2][g % 2] = Element::value(mine.b[1] >> shift & 0xffffu);
        }
    }
}

void unpack_words(const Warp& warp, Operands& operands) {
    for (int lane = 0; lane < kLanes; ++lane) {
        const auto& mine = post<MultiplyPost>(warp, lane);
        const int g = lane / 4;
        const int t = lane % 4;
        operands.a[g][t] = Tf32::value(mine.a[0]);
        operands.a[g + 8][t] = Tf32::value(mine.a[1]);
        operands.a[g][t + 4] = Tf32::value(mine.a[2]);
        operands.a[g + 8][t + 4] = Tf32::value(mine.a[3]);
        operands.b[t][g / 2][g % 2] = Tf32::value(mine.b[0]);
        operands.b[t + 4][g / 2][g % 2] = Tf32::value(mine.b[1]);
    }
}

/// c of one row: the products in ascending k, from 0.0, in double; their sum is added to c and rounded once.
void accumulate_row(const Warp& warp, const Operands& operands, int depth, int row) {
    Pair sum[4] = {};
    for (int k = 0; k < depth; ++k) {
        const Pair a = {operands.a[row][k], operands.a[row][k]};
        sum[0] += a * operands.b[k][0];
        sum[1] += a * operands.b[k][1];
        sum[2] += a * operands.b[k][2];
        sum[3] += a * operands.b[k][3];
    }
    for (int pair = 0; pair < 4; ++pair) {
        float* c = post<MultiplyPost>(warp, row % 8 * 4 + pair).c + row / 8 * 2;
        c[0] = static_cast<float>(static_cast<double>(c[0]) + sum[pair][0]);
        c[1] = static_cast<float>(static_cast<double>(c[1]) + sum[pair][1]);
    }
}

void unpack(const Warp& warp, Format format, Operands& operands) {
    switch (format) {
        case Format::kBf16:
            return unpack_halves<Bf16>(warp, operands);
        case Format::kF16:
            return unpack_halves<F16>(warp, operands);
        case Format::kTf32:
            return unpack_words(warp, operands);
    }
}

struct ShufflePost {
    uint32_t value;
    int source;
    uint32_t result;
};

}  // namespace

void load_matrix(uint32_t* registers, int count, Matrix kind, Place row, int line) {
    Machine& m = machine();
    MatrixPost mine{registers, row};
    Warp* warp = m.meet(Primitive::kLoadMatrix, &mine, line);
    if (warp == nullptr) return;
    for (int matrix = 0; matrix < count; ++matrix) {
        count_rows(*warp, matrix);
        load_one(*warp, matrix, kind);
    }
    m.leave(*warp);
}

void store_matrix(const uint32_t* registers, int count, Matrix kind, Place row, int line) {
    Machine& m = machine();
    MatrixPost mine{const_cast<uint32_t*>(registers), row};
    Warp* warp = m.meet(Primitive::kStoreMatrix, &mine, line);
    if (warp == nullptr) return;
    for (int matrix = 0; matrix < count; ++matrix) {
        count_rows(*warp, matrix);
        store_one(*warp, matrix, kind);
    }
    m.leave(*warp);
}

void multiply(Format format, float* c, const uint32_t* a, uint32_t b0, uint32_t b1, int line) {
    Machine& m = machine();
    MultiplyPost mine{c, a, {b0, b1}};
    Warp* warp = m.meet(Primitive::kMultiply, &mine, line);
    if (warp == nullptr) return;
    Operands operands;
    unpack(*warp, format, operands);
    for (int row = 0; row < 16; ++row)
        accumulate_row(*warp, operands, format == Format::kTf32 ? 8 : 16, row);
    m.leave(*warp);
}

uint32_t shuffle(uint32_t value, int source, int line) {
    Machine& m = machine();
    ShufflePost mine{value, source, 0};
    Warp* warp = m.meet(Primitive::kShuffle, &mine, line);
    if (warp == nullptr) return mine.result;
    for (int lane = 0; lane < kLanes; ++lane) {
        auto& taker = post<ShufflePost>(*warp, lane);
        taker.result = post<ShufflePost>(*warp, taker.source).value;
    }
    m.leave(*warp);
    return mine.result;
}

}  // namespace loom::host
