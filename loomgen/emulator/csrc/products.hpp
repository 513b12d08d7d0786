#pragma once
// The products of one warpgroup, which go on beside its warps.
//
// A product takes its accumulators away: until the wait that covers it they are poison, and results are written there
// only then. It reads its operands as late as the program allows, at that wait, or at a seeded random earlier moment.

#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <vector>

#include "fault.hpp"
#include "loom/host/runtime.hpp"
#include "loom/layout.cuh"
#include "shadow.hpp"
#include "shared_memory.hpp"

namespace loom::emulator {

constexpr int kWarpsOfGroup = 4;
constexpr int kLanesOfGroup = 128;
constexpr int kProductRows = 64;
constexpr int kProductDepth = 16;

/// What a thread calls a product with.
struct ProductPost {
    host::Format format;
    float* accumulators;
    int tiles;
    uint64_t a;
    uint64_t b;
};

/// An operand by its descriptor: row r begins at base + r / 8 * stride + r % 8 * row_bytes, and the bits of an address
/// from bit 7 on are XORed into those from bit 4 on.
struct Operand {
    uint32_t base;
    uint32_t stride;
    int swizzle;

    static Operand decoded(uint64_t descriptor, Site site);
    uint32_t row_bytes() const { return 16u << swizzle; }
    /// The address of 8 elements of a row, from k = 8 * chunk on.
    uint32_t chunk(int row, int chunk) const;
};

class Products {
  public:
    Products(int first_thread, SharedMemory& shared, Clocks& clocks)
        : first_thread_(first_thread), shared_(shared), clocks_(clocks) {}

    void fence(int warp) { fenced_[warp] = true; }
    /// All threads of the group have called.
    void issue(const std::array<const ProductPost*, kLanesOfGroup>& posts, Site site);
    void commit(int warp) { groups_[warp].push_back(issued_); }
    /// Finishes all groups of the warp but the `pending` youngest, and gives back their accumulators.
    void wait(int warp, size_t pending, Site site);
    /// Carries out what was issued so far.
    void finish_all();
    /// The end of a thread: raises if its warp has products that it did not wait for.
    void check_finished(int warp, Site site) const;

  private:
    /// Accumulators that products have taken.
    struct Accumulators {
        std::array<float*, kLanesOfGroup> at;
        int tiles;
        std::vector<float> values;  // [lane][register]
        uint32_t last = 0;          // the clock of the last product on them
        std::array<bool, kWarpsOfGroup> taken{true, true, true, true};
        int line;

        int per_lane() const { return 4 * tiles; }
        float* of_lane(int lane) { return &values[static_cast<size_t>(lane) * per_lane()]; }
    };

    struct Product {
        Operand a;
        Operand b;
        host::Format format;
        Accumulators* accumulators;
        uint32_t clock;
    };

    void check_uniform(const std::array<const ProductPost*, kLanesOfGroup>& posts, Site site) const;
    Accumulators& taken(const std::array<const ProductPost*, kLanesOfGroup>& posts, Site site);
    Accumulators& take(const std::array<const ProductPost*, kLanesOfGroup>& posts, Site site);
    void check_untouched(const Accumulators& accumulators, int first_lane, int end_lane, Site site) const;
    void check_operand(const Operand& operand, int rows, Site site);
    void finish_through(uint32_t clock);
    void carry_out(const Product& product) const;
    void give_back(Accumulators& accumulators, int warp, Site site);

    int first_thread_;
    SharedMemory& shared_;
    Clocks& clocks_;
    int agent_ = -1;
    uint32_t issued_ = 0;
    std::deque<Product> products_;  // not carried out yet
    std::list<Accumulators> accumulators_;
    std::array<std::deque<uint32_t>, kWarpsOfGroup> groups_;  // the clock of the last product of each
    std::array<bool, kWarpsOfGroup> fenced_{};
};

}  // namespace loom::emulator
