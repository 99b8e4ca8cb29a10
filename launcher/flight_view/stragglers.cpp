#include "flight_view/stragglers.hpp"

#include "flight/flight_ring.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kLeastCalls = 8;
constexpr std::size_t kLeastRanks = 2;

/// From how long ago until how long ago.
using Span = std::pair<std::int64_t, std::int64_t>;

// Calls of several groups, or on several streams, may overlap.
std::int64_t covered(std::vector<Span> spans, std::int64_t oldest) {
    std::sort(spans.begin(), spans.end(), std::greater<>());
    std::int64_t sum = 0, until = oldest;
    for (const auto& [from, to] : spans) {
        const std::int64_t begin = std::min(from, until);
        sum += std::max<std::int64_t>(0, begin - to);
        until = std::min(until, to);
    }
    return sum;
}

double median_of(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace

std::optional<double> share_in_calls(const flight::RecordedRank& rank) {
    std::vector<Span> spans;
    std::int64_t oldest = std::numeric_limits<std::int64_t>::max();
    for (const flight::RecordedGroup& group : rank.groups) {
        std::int64_t first = -1;
        for (const flight::RecordedCall& call : group.calls) {
            if (call.enqueued_us < 0 || flight::is_message(static_cast<flight::Kind>(call.kind)))
                continue;
            first = std::max(first, call.enqueued_us);
            spans.emplace_back(call.enqueued_us, std::max<std::int64_t>(0, call.finished_us));
        }
        if (first >= 0)
            oldest = std::min(oldest, first);  // before it, this group's calls are not known
    }
    if (rank.ended || spans.size() < kLeastCalls || oldest <= 0)
        return std::nullopt;
    return static_cast<double>(covered(std::move(spans), oldest)) / static_cast<double>(oldest);
}

std::vector<Straggler> StragglerBook::see(const std::vector<flight::RecordedRank>& ranks) {
    std::vector<std::pair<int, double>> busy;
    std::vector<double> shares;
    for (const flight::RecordedRank& rank : ranks)
        if (const auto share = share_in_calls(rank)) {
            busy.emplace_back(rank.rank, 1 - *share);
            shares.push_back(1 - *share);
        }
    std::vector<Straggler> found;
    lasting_.reset();
    if (busy.size() < kLeastRanks) {
        looks_.clear(), far_.clear();
        return found;
    }
    const double others = median_of(shares);
    for (const auto& [rank, share] : busy) {
        int& looks = looks_[rank];
        looks = share > others + kFar ? looks + 1 : 0;
        if (looks == kLooks)
            found.push_back({rank, share, others});
        if (looks == kSilence)
            looks = 0;
        int& far = far_[rank];
        far = share > others + kFar ? far + 1 : share < others + kNear ? 0 : far;
        const bool is_far = share > others + kFar && far >= kLooksThatLast;
        if (is_far && (!lasting_ || share > lasting_->busy))
            lasting_ = Straggler{rank, share, others};
    }
    std::sort(found.begin(), found.end(),
              [](const Straggler& a, const Straggler& b) { return a.busy > b.busy; });
    return found;
}

}  // namespace autolaunch::launcher
