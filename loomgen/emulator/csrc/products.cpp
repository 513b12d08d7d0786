#include "products.hpp"

#include <algorithm>
#include <cstring>

#include "formats.hpp"
#include "text.hpp"

namespace loom::emulator {

namespace {

constexpr uint32_t kTaken = 0xffc0dead;  // a NaN that no operation results in

using Pair = double __attribute__((vector_size(16)));  // two columns, added side by side
constexpr int kMaxPairs = 128;

void load_row(const SharedMemory& shared, const Operand& operand, host::Format format, int row,
              double (&values)[kProductDepth]) {
    for (int chunk = 0; chunk < 2; ++chunk) {
        uint16_t bits[8];
        std::memcpy(bits, shared.data(operand.chunk(row, chunk)), sizeof bits);
        for (int i = 0; i < 8; ++i)
            values[8 * chunk + i] = format == host::Format::kBf16 ? Bf16::value(bits[i]) : F16::value(bits[i]);
    }
}

}  // namespace

Operand Operand::decoded(uint64_t descriptor, Site site) {
    const auto field = [descriptor](int bit) { return static_cast<uint32_t>(descriptor >> bit & 0x3fffu) * 16; };
    const auto mode = static_cast<int>(descriptor >> 62);
    if (mode == 0) raise(FaultKind::kLayout, site, "an operand without swizzle, which no tile is");
    if ((descriptor >> 49 & 7u) != 0) raise(FaultKind::kLayout, site, "an operand with a base offset");
    return Operand{field(0), field(32), 4 - mode};
}

uint32_t Operand::chunk(int row, int chunk) const {
    const auto rows = static_cast<uint32_t>(row);
    const uint32_t plain = base + rows / 8 * stride + rows % 8 * row_bytes() + static_cast<uint32_t>(chunk) * 16;
    return plain ^ ((plain >> 7 & ((1u << swizzle) - 1u)) << 4);
}

void Products::check_uniform(const std::array<const ProductPost*, kLanesOfGroup>& posts, Site site) const {
    const ProductPost& first = *posts.front();
    for (const ProductPost* post : posts) {
        if (post->a == first.a && post->b == first.b && post->tiles == first.tiles) continue;
        raise(FaultKind::kDivergentCollective, site, "the threads of the warpgroup name different operands");
    }
}

void Products::check_operand(const Operand& operand, int rows, Site site) {
    const uint32_t layout = host::layout_tag(rows, static_cast<int>(operand.row_bytes()), operand.swizzle);
    for (int row = 0; row < rows; ++row) {
        for (int chunk = 0; chunk < 2; ++chunk)
            shared_.check_agent_read(host::Place{operand.chunk(row, chunk), layout}, 16, site, agent_);
    }
}

void Products::issue(const std::array<const ProductPost*, kLanesOfGroup>& posts, Site site) {
    check_uniform(posts, site);
    if (agent_ < 0) agent_ = clocks_.add_agent();
    if (agent_ < 0) raise(FaultKind::kBadBarrier, site, "more warpgroups and barriers than the emulator has room for");
    const ProductPost& post = *posts.front();
    const Product product{Operand::decoded(post.a, site), Operand::decoded(post.b, site), post.format,
                          &taken(posts, site), ++issued_};
    clocks_.start(agent_, first_thread_, kLanesOfGroup, product.clock);
    check_operand(product.a, kProductRows, site);
    check_operand(product.b, 8 * post.tiles, site);
    product.accumulators->last = product.clock;
    products_.push_back(product);
}

Products::Accumulators& Products::taken(const std::array<const ProductPost*, kLanesOfGroup>& posts, Site site) {
    for (Accumulators& known : accumulators_) {
        const auto same = [&](int lane) { return known.at[lane] == posts[lane]->accumulators; };
        int equal = 0;
        for (int lane = 0; lane < kLanesOfGroup; ++lane)
            equal += same(lane);
        if (equal == 0) continue;
        const bool whole = equal == kLanesOfGroup && known.tiles == posts.front()->tiles;
        if (!whole || std::find(known.taken.begin(), known.taken.end(), false) != known.taken.end()) {
            raise(FaultKind::kAccumulator, site,
                  text("some warps have waited for the product of line %d on these accumulators, some have not",
                       known.line));
        }
        check_untouched(known, 0, kLanesOfGroup, site);
        return known;
    }
    return take(posts, site);
}

Products::Accumulators& Products::take(const std::array<const ProductPost*, kLanesOfGroup>& posts, Site site) {
    for (int warp = 0; warp < kWarpsOfGroup; ++warp) {
        if (fenced_[warp]) continue;
        raise(FaultKind::kAccumulator, Site{first_thread_ + warp * 32, site.line},
              "the accumulators may have been touched, and no wgmma_fence of the warp followed");
    }
    Accumulators& fresh = accumulators_.emplace_back();
    fresh.tiles = posts.front()->tiles;
    fresh.line = site.line;
    fresh.values.resize(static_cast<size_t>(kLanesOfGroup) * fresh.per_lane());
    for (int lane = 0; lane < kLanesOfGroup; ++lane) {
        float* at = posts[lane]->accumulators;
        fresh.at[lane] = at;
        std::copy(at, at + fresh.per_lane(), fresh.of_lane(lane));
        for (int i = 0; i < fresh.per_lane(); ++i)
            std::memcpy(at + i, &kTaken, sizeof kTaken);
    }
    return fresh;
}

void Products::check_untouched(const Accumulators& accumulators, int first_lane, int end_lane, Site site) const {
    for (int lane = first_lane; lane < end_lane; ++lane) {
        for (int i = 0; i < accumulators.per_lane(); ++i) {
            if (std::memcmp(accumulators.at[lane] + i, &kTaken, sizeof kTaken) == 0) continue;
            raise(FaultKind::kAccumulator, Site{first_thread_ + lane, site.line},
                  text("accumulator [%d][%d] was touched between the product of line %d and its wait", i / 4, i % 4,
                       accumulators.line));
        }
    }
}

void Products::carry_out(const Product& product) const {
    Accumulators& sums = *product.accumulators;
    const int pairs = sums.tiles * 4;
    Pair b[kProductDepth][kMaxPairs];
    double values[kProductDepth];
    for (int col = 0; col < 2 * pairs; ++col) {
        load_row(shared_, product.b, product.format, col, values);
        for (int k = 0; k < kProductDepth; ++k)
            b[k][col / 2][col % 2] = values[k];
    }
    for (int row = 0; row < kProductRows; ++row) {
        load_row(shared_, product.a, product.format, row, values);
        Pair sum[kMaxPairs] = {};
        for (int k = 0; k < kProductDepth; ++k) {
            const Pair a = {values[k], values[k]};
            for (int pair = 0; pair < pairs; ++pair)
                sum[pair] += a * b[k][pair];
        }
        for (int pair = 0; pair < pairs; ++pair) {
            const int lane = row / 16 * 32 + row % 8 * 4 + pair % 4;
            float* c = sums.of_lane(lane) + pair / 4 * 4 + row % 16 / 8 * 2;
            c[0] = static_cast<float>(static_cast<double>(c[0]) + sum[pair][0]);
            c[1] = static_cast<float>(static_cast<double>(c[1]) + sum[pair][1]);
        }
    }
}

void Products::finish_through(uint32_t clock) {
    for (; !products_.empty() && products_.front().clock <= clock; products_.pop_front())
        carry_out(products_.front());
}

void Products::finish_all() {
    finish_through(issued_);
}

void Products::give_back(Accumulators& accumulators, int warp, Site site) {
    check_untouched(accumulators, warp * 32, warp * 32 + 32, site);
    for (int lane = warp * 32; lane < warp * 32 + 32; ++lane) {
        const float* from = accumulators.of_lane(lane);
        std::copy(from, from + accumulators.per_lane(), accumulators.at[lane]);
    }
    accumulators.taken[warp] = false;
    fenced_[warp] = false;
}

void Products::wait(int warp, size_t pending, Site site) {
    std::deque<uint32_t>& groups = groups_[warp];
    uint32_t through = 0;
    for (; groups.size() > pending; groups.pop_front())
        through = groups.front();
    if (through == 0) return;
    finish_through(through);
    for (int lane = warp * 32; lane < warp * 32 + 32; ++lane)
        clocks_.learn(first_thread_ + lane, agent_, through);
    for (Accumulators& accumulators : accumulators_) {
        if (accumulators.taken[warp] && accumulators.last <= through) give_back(accumulators, warp, site);
    }
    accumulators_.remove_if([](const Accumulators& accumulators) {
        return std::find(accumulators.taken.begin(), accumulators.taken.end(), true) == accumulators.taken.end();
    });
}

void Products::check_finished(int warp, Site site) const {
    for (const Accumulators& accumulators : accumulators_) {
        if (!accumulators.taken[warp]) continue;
        raise(FaultKind::kAccumulator, Site{site.thread, accumulators.line},
              text("thread %d ends and has not waited for this product", site.thread));
    }
}

}  // namespace loom::emulator
