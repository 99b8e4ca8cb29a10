#include "restart_policy/membership.hpp"

#include "restart_policy/node_limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <tuple>
#include <utility>

namespace autolaunch::launcher {

MemberLimits member_limits(const JobSpec& spec, int at_start) {
    MemberLimits limits;
    limits.fewest = fewest_nodes(spec);
    limits.most = limits.fewest
                      ? std::max({spec.resources.nodes, spec.resources.most_nodes, at_start})
                      : at_start;
    limits.most_spares = spec.resources.spare_nodes;
    limits.group = limits.fewest ? spec.resources.node_group : 1;
    return limits;
}

int World::world_size() const {
    return std::accumulate(ranks_per_node.begin(), ranks_per_node.end(), 0);
}

Membership::Membership(MemberLimits limits, const std::vector<Node>& nodes, int at_start, int head)
    : limits_(limits), wanted_(at_start), head_(head) {
    for (const Node& node : nodes)
        members_.push_back({node});
    const int group = std::max(1, limits_.group);
    limits_.group = group;
    limits_.most = std::max(group, limits_.most - limits_.most % group);
    seats_.assign(static_cast<std::size_t>(limits_.most), kFree);
    const int whole = std::min({at_start - at_start % group, limits_.most, size()});
    std::iota(seats_.begin(), seats_.begin() + whole, 0);
}

// Seats that were free are behind the others then: who stays may get another number of ranks.
void Membership::restore(const std::vector<int>& order, const std::vector<int>& gone,
                         const std::map<std::string, std::string>& unfit) {
    std::fill(seats_.begin(), seats_.end(), kFree);
    const std::size_t seated = std::min(order.size(), seats_.size());
    std::copy_n(order.begin(), seated, seats_.begin());
    wanted_ = static_cast<int>(seated);
    for (const int node : gone)
        of(node).standing = Standing::lost;
    unfit_ = unfit;
    for (Member& member : members_)
        if (member.standing == Standing::fit && unfit_.contains(member.node.name))
            member.standing = Standing::unfit;
}

bool Membership::lose(int node) {
    if (of(node).standing == Standing::lost)
        return false;
    of(node).standing = Standing::lost;
    return true;
}

std::string Membership::drain(int node) {
    Member& member = of(node);
    if (member.standing != Standing::fit)
        return fmt::format("{} takes no part any more", member.node.name);
    if (node == head_)
        return fmt::format("{} is the head's node, which cannot be left", member.node.name);
    if (!limits_.fewest)
        return "this job needs every node: it was started without resource_management.nodes "
               "{min, max, spares} (--nnodes MIN:MAX, --spare-nodes)";
    if (!can_do_without(node))
        return fmt::format("the job needs {} nodes at least, and has {} with {}", *limits_.fewest,
                           fit_nodes(), member.node.name);
    member.standing = Standing::drained;
    return {};
}

std::string Membership::leave_out(int node, const std::string& why) {
    Member& member = of(node);
    if (member.standing != Standing::fit || member.kept_unfit)
        return {};
    const char* stays = node == head_           ? "it is the head's"
                        : !can_do_without(node) ? "the job needs it"
                                                : nullptr;
    if (stays != nullptr) {
        member.kept_unfit = true;
        return fmt::format("{} is not left out, for {}, although {}", member.node.name, stays, why);
    }
    member.standing = Standing::unfit;
    unfit_[member.node.name] = why;
    return fmt::format("{} is left out for the rest of the job: {}", member.node.name, why);
}

std::vector<std::string> Membership::leave_out(const std::map<std::string, std::string>& unfit) {
    std::vector<std::string> said;
    if (!limits_.fewest)
        return said;
    for (const auto& [name, why] : unfit) {
        if (!find(name))
            unfit_[name] = why;
        if (const auto node = find(name))
            if (std::string line = leave_out(*node, why); !line.empty())
                said.push_back(std::move(line));
    }
    return said;
}

bool Membership::take_back(const std::string& name) {
    unfit_.erase(name);
    const auto node = find(name);
    if (!node)
        return false;
    of(*node).kept_unfit = false;
    if (standing(*node) != Standing::unfit)
        return false;
    of(*node).standing = Standing::arriving;
    ready(*node);
    return true;
}

std::string Membership::admit(const Node& node) {
    if (!limits_.fewest)
        return "this job takes in no nodes: it was started without resource_management.nodes "
               "{min, max, spares} (--nnodes MIN:MAX, --spare-nodes)";
    if (present(node.name))
        return fmt::format("{} is in the job already", node.name);
    if (const auto unfit = unfit_.find(node.name); unfit != unfit_.end())
        return fmt::format("{} was left out for the rest of the job: {}", node.name, unfit->second);
    const int most = limits_.most + limits_.most_spares;
    if (fit_nodes() + count(Standing::arriving) >= most)
        return fmt::format(
            "the job has all nodes that it may have: {}{}", limits_.most,
            limits_.most_spares > 0 ? fmt::format(" and {} as spares", limits_.most_spares) : "");
    members_.push_back({node, Standing::arriving});
    return {};
}

void Membership::ready(int node) {
    if (of(node).standing != Standing::arriving)
        return;
    of(node).standing = Standing::fit;
    wanted_ = std::max(wanted_, std::min(limits_.most, fit_nodes() - limits_.most_spares));
}

bool Membership::takes_part(int node) const {
    return std::find(seats_.begin(), seats_.end(), node) != seats_.end();
}

int Membership::lost_nodes() const { return count(Standing::lost); }

int Membership::count(Standing standing) const {
    return static_cast<int>(
        std::count_if(members_.begin(), members_.end(),
                      [&](const Member& member) { return member.standing == standing; }));
}

bool Membership::present(const std::string& name) const {
    const auto node = find(name);
    return node && (is_fit(*node) || standing(*node) == Standing::arriving);
}

int Membership::taking_part() const {
    return static_cast<int>(seats_.size()) -
           static_cast<int>(std::count(seats_.begin(), seats_.end(), kFree));
}

// A part of a group is of no use.
bool Membership::is_enough(int fit) const {
    return limits_.fewest && fit - fit % limits_.group >= std::max(*limits_.fewest, limits_.group);
}

bool Membership::can_do_without(int node) const {
    return is_enough(fit_nodes() - (is_fit(node) ? 1 : 0));
}

bool Membership::can_do_without(const std::string& name) const {
    const auto node = find(name);
    return node && *node != head_ && can_do_without(*node);
}

bool Membership::is_missed(int node) const { return takes_part(node) || !is_enough(fit_nodes()); }

std::optional<int> Membership::find(const std::string& name) const {
    for (int node = size() - 1; node >= 0; --node)
        if (of(node).node.name == name)
            return node;
    return std::nullopt;
}

bool Membership::can_grow() const {
    const Seats next = next_seats();
    return static_cast<int>(next.size()) -
               static_cast<int>(std::count(next.begin(), next.end(), kFree)) >
           taking_part();
}

// As many groups as are wanted and fit nodes fill. The head's stays, then those that lack the
// fewest nodes.
std::vector<int> Membership::groups_to_keep(const Seats& seats) const {
    const int group = limits_.group;
    std::vector<std::tuple<bool, int, int>> groups;  // not the head's; free seats; number
    for (int first = 0; first < static_cast<int>(seats.size()); first += group) {
        const auto begin = seats.begin() + first;
        groups.emplace_back(std::find(begin, begin + group, head_) == begin + group,
                            static_cast<int>(std::count(begin, begin + group, kFree)),
                            first / group);
    }
    std::sort(groups.begin(), groups.end());
    const int kept =
        std::min(std::min(fit_nodes(), wanted_) / group, static_cast<int>(groups.size()));
    std::vector<int> numbers;
    for (int i = 0; i < kept; ++i)
        numbers.push_back(std::get<2>(groups[static_cast<std::size_t>(i)]));
    std::sort(numbers.begin(), numbers.end());
    return numbers;
}

Membership::Seats Membership::next_seats() const {
    Seats seats = seats_;
    for (int& node : seats)
        if (node != kFree && !is_fit(node))
            node = kFree;
    const std::vector<int> kept = groups_to_keep(seats);
    for (std::size_t seat = 0; seat < seats.size(); ++seat)
        if (!std::binary_search(kept.begin(), kept.end(), static_cast<int>(seat) / limits_.group))
            seats[seat] = kFree;
    std::vector<int> waiting;  // the first of them is on top
    for (int node = size() - 1; node >= 0; --node)
        if (is_fit(node) && std::find(seats.begin(), seats.end(), node) == seats.end())
            waiting.push_back(node);
    for (const int number : kept)
        for (int seat = number * limits_.group; seat < (number + 1) * limits_.group; ++seat) {
            int& node = seats[static_cast<std::size_t>(seat)];
            if (node != kFree)
                continue;
            node = waiting.back();
            waiting.pop_back();
        }
    return seats;
}

World Membership::choose() {
    const Seats before = std::exchange(seats_, next_seats());
    return describe(before);
}

World Membership::describe(const Seats& before) const {
    World world;
    world.changed = seats_ != before;
    world.ranks_per_node.assign(members_.size(), 0);
    for (const int node : seats_) {
        if (node == kFree)
            continue;
        world.order.push_back(node);
        world.ranks_per_node[static_cast<std::size_t>(node)] = of(node).node.ranks;
        if (std::find(before.begin(), before.end(), node) == before.end())
            world.joining.push_back(of(node).node.name);
    }
    for (int node = 0; node < size(); ++node) {
        const std::string& name = of(node).node.name;
        if (is_fit(node) && !takes_part(node))
            world.spares.push_back(name);
        if (!is_fit(node) && standing(node) != Standing::arriving && *find(name) == node)
            world.without.push_back(name);
    }
    return world;
}

}  // namespace autolaunch::launcher
