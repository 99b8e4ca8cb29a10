#include "nccl_env/roce_addresses.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>

namespace autolaunch::launcher {
namespace {

using Ports = std::vector<const Hca::Port*>;

// A table that is full may go on behind what was read.
Ports known_roce_ports(const Ports& ports) {
    Ports known;
    for (const Hca::Port* port : ports)
        if (port->link_layer == "Ethernet" && !port->gids.empty() && port->gids.back().index < kKnownGids - 1)
            known.push_back(port);
    return known;
}

bool works(const Gid& gid) { return is_routable(gid) && gid.roce_version == 2; }

std::uint32_t ipv4_of(const Gid& gid) {
    std::uint32_t address = 0;
    for (std::size_t i = 12; i < 16; ++i) address = address << 8 | gid.bytes[i];
    return address;
}

std::vector<std::uint32_t> ipv4_addresses(const Hca::Port& port) {
    std::vector<std::uint32_t> addresses;
    for (const Gid& gid : port.gids)
        if (is_ipv4(gid) && works(gid)) addresses.push_back(ipv4_of(gid));
    return addresses;
}

std::string range_text(std::uint32_t base, int bits) {
    return fmt::format("{}.{}.{}.{}/{}", base >> 24, base >> 16 & 255, base >> 8 & 255, base & 255, bits);
}

}  // namespace

bool has_only_ipv6(const Ports& ports) {
    const Ports known = known_roce_ports(ports);
    return !known.empty() && std::all_of(known.begin(), known.end(), [](const Hca::Port* port) {
        const auto& gids = port->gids;
        return std::any_of(gids.begin(), gids.end(), [](const Gid& gid) { return works(gid); }) &&
               std::none_of(gids.begin(), gids.end(), [](const Gid& gid) { return is_ipv4(gid) && is_routable(gid); });
    });
}

std::string choose_address_range(const Ports& ports, const GidRules& rules) {
    const Ports known = known_roce_ports(ports);
    std::vector<std::vector<std::uint32_t>> addresses;
    std::map<std::uint32_t, int> votes;  // of what NCCL would take by itself
    bool several = false;
    for (const Hca::Port* port : known) {
        addresses.push_back(ipv4_addresses(*port));
        several |= addresses.back().size() > 1;
        const int index = choose_gid_index(*port, rules);
        for (const Gid& gid : port->gids)
            if (gid.index == index && is_ipv4(gid)) ++votes[ipv4_of(gid)];
    }
    if (!several || rules.range) return {};
    for (const int bits : {8, 16, 24}) {
        const std::uint32_t mask = ~0u << (32 - bits);
        std::map<std::uint32_t, int> ranges;
        for (const auto& [address, count] : votes) ranges[address & mask] += count;
        for (const std::uint32_t address : addresses.front()) ranges.try_emplace(address & mask, 0);
        const auto fits = [&](std::uint32_t base) {
            return std::all_of(addresses.begin(), addresses.end(), [&](const auto& of_port) {
                const auto same = [&](std::uint32_t address) { return (address & mask) == base; };
                return std::count_if(of_port.begin(), of_port.end(), same) == 1;
            });
        };
        std::erase_if(ranges, [&](const auto& entry) { return !fits(entry.first); });
        const auto best = std::max_element(ranges.begin(), ranges.end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; });
        if (best != ranges.end()) return range_text(best->first, bits);
    }
    return {};
}

std::optional<GidRepair> repair_gid_index(const Ports& ports, const GidRules& rules) {
    const Ports known = known_roce_ports(ports);
    if (rules.roce_version != 2) return std::nullopt;  // the user wants another
    std::optional<GidRepair> repair;
    for (const Hca::Port* port : known) {
        const int index = choose_gid_index(*port, rules);
        std::string problem = gid_problem(*port, index);
        if (!problem.empty() && !repair) repair = GidRepair{-1, index, std::move(problem)};
    }
    if (!repair) return std::nullopt;
    for (const Gid& gid : known.front()->gids) {
        const auto good = [&](const Hca::Port* port) { return gid_problem(*port, gid.index).empty(); };
        if (!std::all_of(known.begin(), known.end(), good)) continue;
        repair->index = gid.index;
        return repair;
    }
    return std::nullopt;
}

}  // namespace autolaunch::launcher
