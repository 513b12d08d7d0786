#include "banks.hpp"

#include <algorithm>
#include <tuple>

namespace loom::emulator {

namespace {

constexpr int kBanks = 32;
constexpr uint32_t kBankBytes = 4;

bool same_statement(const LaneAccess& a, const LaneAccess& b) {
    return a.line == b.line && a.bytes == b.bytes;
}

struct Occurrence {
    LaneAccess access;
    int number;

    auto key() const { return std::make_tuple(access.line, access.bytes, number); }
};

/// The lane's accesses by statement, each with its number among the lane's accesses of that statement.
void append_occurrences(std::vector<LaneAccess> lane, std::vector<Occurrence>& all) {
    std::stable_sort(lane.begin(), lane.end(), [](const LaneAccess& a, const LaneAccess& b) {
        return std::tie(a.line, a.bytes) < std::tie(b.line, b.bytes);
    });
    int number = 0;
    for (size_t i = 0; i < lane.size(); ++i) {
        number = i > 0 && same_statement(lane[i - 1], lane[i]) ? number + 1 : 0;
        all.push_back(Occurrence{lane[i], number});
    }
}

}  // namespace

int extra_wavefronts(const LaneAccess* accesses, int count) {
    std::array<std::array<uint32_t, kBanks>, kBanks> words;
    std::array<int, kBanks> used{};
    int most = 1;
    for (int i = 0; i < count; ++i) {
        const uint32_t first = accesses[i].offset / kBankBytes;
        const uint32_t last = (accesses[i].offset + accesses[i].bytes - 1) / kBankBytes;
        for (uint32_t word = first; word <= last; ++word) {
            auto& bank = words[word % kBanks];
            int& n = used[word % kBanks];
            if (std::find(bank.begin(), bank.begin() + n, word) != bank.begin() + n) continue;
            bank[n++] = word;
            most = std::max(most, n);
        }
    }
    return most - 1;
}

void WarpBanks::flush(Statistics& statistics) {
    if (in_step()) {
        flush_in_step(statistics);
    } else {
        flush_diverged(statistics);
    }
    for (auto& lane : lanes_)
        lane.clear();
}

bool WarpBanks::in_step() const {
    const auto& first = lanes_.front();
    return std::all_of(lanes_.begin() + 1, lanes_.end(), [&first](const std::vector<LaneAccess>& lane) {
        return lane.size() == first.size() && std::equal(lane.begin(), lane.end(), first.begin(), same_statement);
    });
}

void WarpBanks::count(const std::vector<LaneAccess>& accesses, Statistics& statistics) const {
    LineStatistics& line = statistics.at(accesses.front().line);
    const int lanes_per_phase = std::min(32, 128 / accesses.front().bytes);
    ++line.accesses;
    for (size_t begin = 0; begin < accesses.size();) {
        const int phase = accesses[begin].lane / lanes_per_phase;
        size_t end = begin;
        while (end < accesses.size() && accesses[end].lane / lanes_per_phase == phase)
            ++end;
        line.conflicts += extra_wavefronts(&accesses[begin], static_cast<int>(end - begin));
        begin = end;
    }
}

void WarpBanks::flush_in_step(Statistics& statistics) {
    std::vector<LaneAccess> accesses(lanes_.size());
    for (size_t i = 0; i < lanes_.front().size(); ++i) {
        for (size_t lane = 0; lane < lanes_.size(); ++lane)
            accesses[lane] = lanes_[lane][i];
        count(accesses, statistics);
    }
}

void WarpBanks::flush_diverged(Statistics& statistics) {
    std::vector<Occurrence> all;
    for (const auto& lane : lanes_)
        append_occurrences(lane, all);
    std::stable_sort(all.begin(), all.end(),
                     [](const Occurrence& a, const Occurrence& b) { return a.key() < b.key(); });
    std::vector<LaneAccess> accesses;
    for (size_t i = 0; i < all.size(); ++i) {
        accesses.push_back(all[i].access);
        if (i + 1 < all.size() && all[i + 1].key() == all[i].key()) continue;
        count(accesses, statistics);
        accesses.clear();
    }
}

}  // namespace loom::emulator
