#include "succession/electorate.hpp"

#include <algorithm>
#include <cstddef>

namespace autolaunch::launcher {

namespace {

template <class Voters>
auto place_of(Voters& voters, int node) {
    return std::lower_bound(voters.begin(), voters.end(), node,
                            [](const Voter& voter, int wanted) { return voter.node < wanted; });
}

}  // namespace

bool Votes::add(const Voter& voter) {
    const auto place = place_of(voters_, voter.node);
    if (place != voters_.end() && place->node == voter.node)
        return false;
    voters_.insert(place, voter);
    return true;
}

bool Votes::contains(int node) const {
    const auto place = place_of(voters_, node);
    return place != voters_.end() && place->node == node;
}

const Voter* Electorate::find(int node) const {
    const auto place = place_of(voters, node);
    return place != voters.end() && place->node == node ? &*place : nullptr;
}

bool Electorate::contains(const Voter& voter) const {
    const Voter* known = find(voter.node);
    return known != nullptr && *known == voter;
}

bool is_majority(const Electorate& electorate, const Votes& votes, bool witnessed) {
    const bool casts = electorate.voters.size() % 2 == 0 && !electorate.needs_witness();
    const bool has_witness = electorate.needs_witness();
    std::size_t all = electorate.voters.size() + (has_witness ? 1 : 0);
    std::size_t counted = has_witness && witnessed ? 1 : 0;
    const auto voted = votes.all();
    auto vote = voted.begin();
    for (const Voter& voter : electorate.voters) {
        const std::size_t weight = casts && voter.node == electorate.casting ? 2 : 1;
        all += weight - 1;
        while (vote != voted.end() && vote->node < voter.node)
            ++vote;
        if (vote != voted.end() && *vote == voter)
            counted += weight;
    }
    return 2 * counted > all;
}

}  // namespace autolaunch::launcher
