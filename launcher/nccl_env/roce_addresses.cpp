#include "nccl_env/roce_addresses.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>

namespace autolaunch::launcher {
namespace {

using Ports = std::vector<const Hca::Port*>;
using Address = std::array<std::uint8_t, 16>;

Ports known_roce_ports(const Ports& ports) {
    Ports known;
    for (const Hca::Port* port : ports)
        if (port->link_layer == "Ethernet" && !port->gids.empty())
            known.push_back(port);
    return known;
}

bool works(const Gid& gid) { return is_routable(gid) && gid.roce_version == 2; }

/// How addresses of a family are told apart.
struct Family {
    bool ipv6;
    int offset;       ///< bits before the address in a GID
    int subnet_bits;  ///< two addresses that agree in so many are taken for the same network
    std::array<int, 5> widths;  ///< of ranges to try, widest first; 0: no more
};

// The length of an IPv4 network is not told, so each address counts as one; IPv6 hosts have several
// in one /64.
constexpr Family kIpv4 = {false, 96, 32, {8, 16, 24, 0, 0}};
constexpr Family kIpv6 = {true, 0, 64, {16, 32, 48, 56, 64}};

Address cut(Address address, int bits) {
    for (int byte = 0; byte < 16; ++byte) {
        const int kept = std::clamp(bits - 8 * byte, 0, 8);
        address[static_cast<std::size_t>(byte)] &= static_cast<std::uint8_t>(0xff00 >> kept);
    }
    return address;
}

std::set<Address> networks_of(const Hca::Port& port, const Family& family) {
    std::set<Address> networks;
    for (const Gid& gid : port.gids)
        if (is_ipv4(gid) != family.ipv6 && works(gid))
            networks.insert(cut(gid.bytes, family.offset + family.subnet_bits));
    return networks;
}

std::string range_text(const Address& base, const Family& family, int bits) {
    char text[INET6_ADDRSTRLEN] = {};
    ::inet_ntop(family.ipv6 ? AF_INET6 : AF_INET, base.data() + family.offset / 8, text,
                sizeof text);
    return fmt::format("{}/{}", std::string_view(text), bits);
}

/// The networks that NCCL would take by itself, and on how many ports.
std::map<Address, int> votes_of(const Ports& ports, const Family& family, const GidRules& rules) {
    std::map<Address, int> votes;
    for (const Hca::Port* port : ports) {
        const int index = choose_gid_index(*port, rules);
        for (const Gid& gid : port->gids)
            if (gid.index == index && is_ipv4(gid) != family.ipv6)
                ++votes[gid.bytes];
    }
    return votes;
}

}  // namespace

bool has_only_ipv6(const Ports& ports) {
    const Ports known = known_roce_ports(ports);
    return !known.empty() && std::all_of(known.begin(), known.end(), [](const Hca::Port* port) {
        const auto& gids = port->gids;
        return std::any_of(gids.begin(), gids.end(), [](const Gid& gid) { return works(gid); }) &&
               std::none_of(gids.begin(), gids.end(),
                            [](const Gid& gid) { return is_ipv4(gid) && is_routable(gid); });
    });
}

std::string choose_address_range(const Ports& ports, const GidRules& rules) {
    const Family& family = rules.ipv6 ? kIpv6 : kIpv4;
    const Ports known = known_roce_ports(ports);
    std::vector<std::set<Address>> networks;
    for (const Hca::Port* port : known)
        networks.push_back(networks_of(*port, family));
    const bool several = std::any_of(networks.begin(), networks.end(),
                                     [](const auto& of_port) { return of_port.size() > 1; });
    if (!several || rules.range)
        return {};
    const auto votes = votes_of(known, family, rules);
    for (const int width : family.widths) {
        if (width == 0)
            break;
        const int bits = family.offset + width;
        std::map<Address, int> ranges;
        for (const auto& [address, count] : votes)
            ranges[cut(address, bits)] += count;
        for (const Address& network : networks.front())
            ranges.try_emplace(cut(network, bits), 0);
        const auto fits = [&](const Address& base) {
            return std::all_of(networks.begin(), networks.end(), [&](const auto& of_port) {
                const auto inside = [&](const Address& network) {
                    return cut(network, bits) == base;
                };
                return std::count_if(of_port.begin(), of_port.end(), inside) == 1;
            });
        };
        std::erase_if(ranges, [&](const auto& entry) { return !fits(entry.first); });
        const auto best =
            std::max_element(ranges.begin(), ranges.end(),
                             [](const auto& a, const auto& b) { return a.second < b.second; });
        if (best != ranges.end())
            return range_text(best->first, family, width);
    }
    return {};
}

std::optional<GidRepair> repair_gid_index(const Ports& ports, const GidRules& rules) {
    const Ports known = known_roce_ports(ports);
    if (rules.roce_version != 2)
        return std::nullopt;  // the user wants another
    std::optional<GidRepair> repair;
    for (const Hca::Port* port : known) {
        const int index = choose_gid_index(*port, rules);
        std::string problem = gid_problem(*port, index);
        if (!problem.empty() && !repair)
            repair = GidRepair{-1, index, std::move(problem)};
    }
    if (!repair)
        return std::nullopt;
    for (const Gid& gid : known.front()->gids) {
        const auto good = [&](const Hca::Port* port) {
            return gid_problem(*port, gid.index).empty();
        };
        if (!std::all_of(known.begin(), known.end(), good))
            continue;
        repair->index = gid.index;
        return repair;
    }
    return std::nullopt;
}

}  // namespace autolaunch::launcher
