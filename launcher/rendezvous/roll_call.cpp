#include "rendezvous/roll_call.hpp"

#include "allocation/hostlist.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "rendezvous/node_order.hpp"

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr int kMaxRanksPerNode = 1 << 16;

/// A host list can hold it, and a terminal show it.
bool is_host_name(const std::string& name) {
    return !name.empty() && name.size() <= kMaxHostName &&
           std::all_of(name.begin(), name.end(), [](unsigned char c) {
               return c > ' ' && c != 0x7f && c != ',' && c != '[' && c != ']';
           });
}

std::vector<std::string> names_of(const std::map<std::string, std::string>& details) {
    std::vector<std::string> names;
    for (const auto& [name, detail] : details)
        names.push_back(name);
    return names;
}

std::string lines_of(const std::map<std::string, std::string>& details) {
    constexpr std::size_t kShown = 16;
    std::vector<std::string> lines;
    for (const auto& [name, detail] : details) {
        if (lines.size() == kShown) {
            lines.push_back("and " + std::to_string(details.size() - kShown) + " more");
            break;
        }
        lines.push_back(name + ": " + detail);
    }
    return join(lines, "\n");
}

}  // namespace

RollCall::RollCall(Expectation expectation) : expectation_(std::move(expectation)) {
    for (std::size_t place = 0; place < expectation_.node_names.size(); ++place)
        place_by_name_.emplace(expectation_.node_names[place], static_cast<int>(place));
}

// The node rank that a person chose wins; then the scheduler's list; then whoever comes first.
std::optional<int> RollCall::place_of(const control::Join& join) const {
    if (join.node_rank) {
        if (*join.node_rank < 0 || *join.node_rank >= expectation_.node_count)
            return std::nullopt;
        return *join.node_rank;
    }
    if (!place_by_name_.empty()) {
        const auto found = place_by_name_.find(join.node_name);
        if (found == place_by_name_.end())
            return std::nullopt;
        return found->second;
    }
    if (next_free_place_ >= expectation_.node_count)
        return std::nullopt;
    return next_free_place_;
}

void RollCall::enter(Visitor visitor, const std::string& address, const control::Join& join) {
    if (!is_host_name(join.node_name))
        return object(Kind::impossible, "the node at " + address, "its name is not one");
    compare(join);
    const auto place = place_of(join);
    if (!place) {
        object(Kind::stranger, join.node_name,
               "at " + address +
                   (join.node_rank ? ", with node rank " + std::to_string(*join.node_rank) : ""));
        return;
    }
    const auto found = by_place_.find(*place);
    if (*place == 0 || found != by_place_.end()) {
        const std::string earlier = *place == 0
                                        ? expectation_.head.node_name + " (the head)"
                                        : found->second.name + " (" + found->second.address + ")";
        object(Kind::twice, "node rank " + std::to_string(*place),
               "from " + earlier + " and " + join.node_name + " (" + address + ")");
        return;
    }
    by_place_[*place] = {visitor, join.node_name, address, join.topology_address, join.ranks};
    place_by_visitor_[visitor] = *place;
    while (by_place_.contains(next_free_place_))
        ++next_free_place_;
}

void RollCall::leave(Visitor visitor) {
    const auto found = place_by_visitor_.find(visitor);
    if (found == place_by_visitor_.end())
        return;
    by_place_.erase(found->second);
    next_free_place_ = std::min(next_free_place_, found->second);
    place_by_visitor_.erase(found);
}

void RollCall::compare(const control::Join& join) {
    const control::Join& head = expectation_.head;
    if (join.version != head.version || join.protocol != head.protocol) {
        object(Kind::program_version, join.node_name, "version " + join.version);
    } else if (join.program_digest != head.program_digest) {
        object(Kind::program, join.node_name, hex64(join.program_digest));
    }
    if (join.spec_digest != head.spec_digest)
        object(Kind::spec, join.node_name, hex64(join.spec_digest));
    if (join.ranks < 1 || join.ranks > kMaxRanksPerNode)
        object(Kind::impossible, join.node_name, std::to_string(join.ranks) + " ranks");
}

void RollCall::object(Kind kind, const std::string& node, const std::string& detail) {
    objections_[kind].emplace(node, detail);
}

std::vector<Objection> RollCall::objections() const {
    std::vector<Objection> all;
    for (const auto& [kind, details] : objections_)
        all.push_back(objection(kind, details));
    return all;
}

Objection RollCall::objection(Kind kind, const std::map<std::string, std::string>& details) const {
    const control::Join& head = expectation_.head;
    if (kind == Kind::impossible)
        return {"a node says of itself what cannot be", lines_of(details)};
    const std::string nodes = kind == Kind::twice ? "" : compress_hostlist(names_of(details));
    const std::string differs = details.size() == 1 ? " differs on " : " differs on each of ";
    const std::string spec =
        expectation_.spec_name.empty() ? "the command line" : expectation_.spec_name;
    switch (kind) {
        case Kind::program_version:
            return {"another version of autolaunch runs on " + nodes,
                    head.node_name + " (the head): version " + head.version + "\n" +
                        lines_of(details) + "\ninstall the same version on all nodes"};
        case Kind::program:
            return {"another build of autolaunch " + head.version + " runs on " + nodes,
                    "digests of the program: " + hex64(head.program_digest) + " on " +
                        head.node_name + " (the head)\n" + lines_of(details) +
                        "\ninstall the same program on all nodes"};
        case Kind::spec:
            return {spec + differs + nodes + " from " + head.node_name,
                    "digests of the spec, its includes and the command line: " +
                        hex64(head.spec_digest) + " on " + head.node_name + " (the head)\n" +
                        lines_of(details) +
                        "\nkeep the spec on a shared file system, or copy it to every node"};
        case Kind::twice: {
            const auto& [node, from] = *details.begin();
            return {node + " joined twice: " + from,
                    details.size() == 1
                        ? "start one agent on each node, and give every node its own --node-rank"
                        : lines_of(details) + "\nstart one agent on each node"};
        }
        case Kind::stranger:
            return {nodes + " is not one of the job's " + std::to_string(expectation_.node_count) +
                        " nodes",
                    lines_of(details) + "\nexpected: " +
                        (expectation_.node_names.empty()
                             ? "node ranks 0-" + std::to_string(expectation_.node_count - 1)
                             : compress_hostlist(expectation_.node_names))};
        case Kind::impossible:
            break;
    }
    return {};
}

std::string RollCall::missing() const {
    std::vector<int> places;
    std::vector<std::string> names;
    for (int place = 1; place < expectation_.node_count; ++place) {
        if (by_place_.contains(place))
            continue;
        places.push_back(place);
        const auto index = static_cast<std::size_t>(place);
        if (index < expectation_.node_names.size())
            names.push_back(expectation_.node_names[index]);
    }
    if (names.size() == places.size())
        return compress_hostlist(names);
    return (places.size() == 1 ? "node rank " : "node ranks ") + format_list(places);
}

// The head's first; there are gaps where the job starts without some.
std::vector<int> RollCall::places() const {
    std::vector<int> places = {0};
    for (const auto& [place, node] : by_place_)
        places.push_back(place);
    return places;
}

// Arrival says nothing that lasts: by name a job that starts again has its nodes where they were.
std::vector<int> RollCall::places_in_order() const {
    std::vector<int> places = this->places();
    if (expectation_.keeps_node_order)
        return places;
    if (expectation_.node_names.empty()) {
        std::stable_sort(places.begin() + 1, places.end(),
                         [&](int a, int b) { return by_place_.at(a).name < by_place_.at(b).name; });
        return places;
    }
    std::vector<std::string> addresses = {expectation_.head.topology_address};
    for (const auto& [place, node] : by_place_)
        addresses.push_back(node.topology_address);
    std::vector<int> in_order;
    for (const int index : order_nodes(addresses))
        in_order.push_back(places[static_cast<std::size_t>(index)]);
    return in_order;
}

RollCall::Start RollCall::start() const {
    Start start;
    start.roster.run_name = expectation_.run_name;
    for (const int place : places_in_order()) {
        if (place == 0) {
            start.roster.nodes.push_back({expectation_.head.node_name, expectation_.head.ranks});
            start.visitors.push_back(0);
        } else {
            const Present& node = by_place_.at(place);
            start.roster.nodes.push_back({node.name, node.ranks});
            start.visitors.push_back(node.visitor);
        }
    }
    return start;
}

}  // namespace autolaunch::launcher
