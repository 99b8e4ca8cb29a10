#include "spec/rank_words.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

namespace autolaunch::launcher {

namespace {

std::optional<int> rank_from(std::string_view text) {
    int rank = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    return whole && rank >= 0 ? std::optional(rank) : std::nullopt;
}

}  // namespace

std::optional<InputSpec> input_from(std::string_view text) {
    if (text == "none")
        return InputSpec{.to = InputSpec::To::none, .chosen = true};
    if (text == "all")
        return InputSpec{.to = InputSpec::To::all, .chosen = true};
    const auto rank = rank_from(text);
    if (!rank)
        return std::nullopt;
    return InputSpec{.to = InputSpec::To::rank, .rank = *rank, .chosen = true};
}

bool RankSet::contains(int rank) const {
    return all || std::any_of(ranges.begin(), ranges.end(), [rank](const auto& range) {
               return range.first <= rank && rank <= range.second;
           });
}

int RankSet::highest() const {
    int highest = -1;
    for (const auto& range : ranges)
        highest = std::max(highest, range.second);
    return highest;
}

std::optional<RankSet> rank_set_from(std::string_view text) {
    if (text == "all")
        return RankSet{.all = true, .ranges = {}};
    RankSet set;
    for (const auto& part : split(text, ',')) {
        const std::string_view item = trim(part);
        const std::size_t dash = item.find('-');
        const auto first = rank_from(item.substr(0, dash));
        const auto last = dash == item.npos ? first : rank_from(item.substr(dash + 1));
        if (!first || !last || *last < *first)
            return std::nullopt;
        set.ranges.emplace_back(*first, *last);
    }
    return set;
}

}  // namespace autolaunch::launcher
