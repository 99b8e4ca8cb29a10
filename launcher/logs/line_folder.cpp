#include "logs/line_folder.hpp"

#include "base/hash.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

void LineFolder::add_rank(int rank) {
    running_.insert(rank);
    last_group_.try_emplace(rank, 0);
}

void LineFolder::rank_ended(int rank) { running_.erase(rank); }

void LineFolder::add(int rank, std::string text, Time now, std::vector<FoldedLine>& folded) {
    std::uint64_t& last = last_group_[rank];
    const std::uint64_t hash = hash64(text.data(), text.size());
    const std::uint64_t first_number = next_number_ - groups_.size();  // of groups_.front()
    for (std::size_t i = last < first_number ? 0 : last + 1 - first_number; i < groups_.size();
         ++i) {
        Group& group = groups_[i];
        if (group.hash != hash || group.text != text)
            continue;
        group.ranks.push_back(rank);
        last = group.number;
        return;
    }
    last = next_number_;
    groups_.push_back({std::move(text), hash, next_number_++, {rank}, now});
    if (groups_.size() > kMaxGroups)
        give_first(folded);
}

bool LineFolder::may_grow(const Group& group) const {
    return std::any_of(running_.begin(), running_.end(),
                       [&](int rank) { return last_group_.at(rank) < group.number; });
}

void LineFolder::give(Time now, std::vector<FoldedLine>& folded) {
    while (!groups_.empty() &&
           (now - groups_.front().first_at >= window_ || !may_grow(groups_.front())))
        give_first(folded);
}

void LineFolder::finish(std::vector<FoldedLine>& folded) {
    while (!groups_.empty())
        give_first(folded);
}

void LineFolder::give_first(std::vector<FoldedLine>& folded) {
    Group& group = groups_.front();
    std::sort(group.ranks.begin(), group.ranks.end());
    folded.push_back({std::move(group.ranks), std::move(group.text)});
    groups_.pop_front();
}

std::string fold_prefix(const std::vector<int>& ranks, const std::string& hostname) {
    if (ranks.size() == 1)
        return fmt::format("[{} {}]", hostname, ranks.front());
    return fmt::format("[ranks {} ×{}]", format_list(ranks), ranks.size());
}

}  // namespace autolaunch::launcher
