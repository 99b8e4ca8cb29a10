#include "nccl_env/port_checks.hpp"

#include "base/environment.hpp"
#include "base/text.hpp"
#include "nccl_env/gid_choice.hpp"
#include "nccl_env/nccl_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <span>

namespace autolaunch::launcher {
namespace {

struct NamedPort {
    std::string name;  // "mlx5_0", or "mlx5_0:2" of an HCA with several
    const Hca::Port* port;
};

using Warning = std::optional<std::string>;

std::vector<NamedPort> ports_of(const ComputeHcas& compute, std::string_view link_layer) {
    std::vector<NamedPort> list;
    for (const Hca* hca : compute.hcas)
        for (const Hca::Port& port : hca->ports) {
            const bool stays =
                std::find(compute.ports.begin(), compute.ports.end(), &port) != compute.ports.end();
            if (!stays || port.link_layer != link_layer)
                continue;
            list.push_back(
                {hca->ports.size() > 1 ? fmt::format("{}:{}", hca->name, port.number) : hca->name,
                 &port});
        }
    return list;
}

// ---- partition keys: a QP of an empty entry cannot be made, and limited members do not hear each
// other

constexpr int kFullMember = 0x8000;

bool is_good(const NamedPort& named, std::size_t index) {
    return index < named.port->pkeys.size() && (named.port->pkeys[index] & kFullMember) != 0;
}

// The lowest index that serves all of them.
std::string other_index(std::span<const NamedPort> ports) {
    for (std::size_t index = 0; index < ports.front().port->pkeys.size(); ++index)
        if (std::all_of(ports.begin(), ports.end(),
                        [&](const NamedPort& named) { return is_good(named, index); }))
            return fmt::format("set NCCL_IB_PKEY={}, whose key {:#06x} is a full member's", index,
                               ports.front().port->pkeys[index]);
    return "ask for full membership of a partition";
}

// A key where NCCL takes an index: 0x8001 for the entry, of whatever membership, that has it.
Warning key_for_index(const NamedPort& first, const std::string& value) {
    constexpr long long kLongestTable = 128;
    const long long key = number_of(value);
    if (key < kLongestTable)
        return std::nullopt;
    const auto& keys = first.port->pkeys;
    const auto entry = std::find_if(keys.begin(), keys.end(), [&](std::uint16_t other) {
        return other != 0 && (other | kFullMember) == (key | kFullMember);
    });
    return fmt::format(
        "NCCL_IB_PKEY={}: NCCL takes an index into the port's table here, not a key; {}", value,
        entry == keys.end() ? "unset it" : fmt::format("write {}", entry - keys.begin()));
}

Warning partition_key(const ComputeHcas& compute, const EnvironmentMap& settings) {
    auto ports = ports_of(compute, "InfiniBand");
    std::erase_if(ports, [](const NamedPort& named) { return named.port->pkeys.empty(); });
    if (ports.empty())
        return std::nullopt;
    const std::string value = value_of(settings, "NCCL_IB_PKEY");
    if (auto warning = key_for_index(ports.front(), value))
        return warning;
    const long long index = number_of(value);
    for (const NamedPort& named : ports) {
        const auto& keys = named.port->pkeys;
        if (index < 0 || index >= static_cast<long long>(keys.size()))
            continue;  // not known
        const std::uint16_t key = keys[static_cast<std::size_t>(index)];
        if ((key & kFullMember) != 0)
            continue;
        const std::string what =
            key == 0 ? "empty: NCCL cannot connect"
                     : fmt::format(
                           "a limited member's ({:#06x}): such nodes do not hear each other", key);
        return fmt::format("the partition key that NCCL takes on {}, index {}, is {}; {}",
                           named.name, index, what, other_index(ports));
    }
    return std::nullopt;
}

// ---- traffic classes of RoCE: what the driver forces beats what NCCL asks for, but not for its
// traffic from the GPU

std::string class_text(int traffic_class) {
    return traffic_class < 0 ? "none" : std::to_string(traffic_class);
}

Warning traffic_class(const ComputeHcas& compute, const EnvironmentMap& settings) {
    std::map<int, std::vector<std::string>> ports;
    for (const NamedPort& named : ports_of(compute, "Ethernet"))
        if (named.port->traffic_class)
            ports[*named.port->traffic_class].push_back(named.name);
    if (ports.size() > 1) {
        std::vector<std::string> groups;
        for (const auto& [forced, names] : ports)
            groups.push_back(fmt::format("{} on {}", class_text(forced), join(names, ", ")));
        return fmt::format(
            "drivers force different traffic classes upon RoCE ports: {}; write one to "
            "/sys/class/infiniband/*/tc/1/traffic_class",
            join(groups, ", "));
    }
    if (ports.empty() || ports.begin()->first < 0)
        return std::nullopt;
    const int forced = ports.begin()->first;
    const std::string value = value_of(settings, "NCCL_IB_TC");
    if (value.empty())
        return fmt::format(
            "the driver forces traffic class {0} upon RoCE, but not upon what GPUs send by "
            "themselves: set "
            "NCCL_IB_TC={0}, best in /etc/nccl.conf",
            forced);
    if (number_of(value) == forced)
        return std::nullopt;
    return fmt::format(
        "NCCL_IB_TC={}: the driver forces traffic class {} upon RoCE, and NCCL's stays without "
        "effect; make them one",
        value, forced);
}

// ---- addresses of RoCE

Warning address_family(const ComputeHcas&, const EnvironmentMap& settings) {
    const std::string value = value_of(settings, "NCCL_IB_ADDR_FAMILY");
    if (value.empty() || value == "AF_INET" || value == "AF_INET6")
        return std::nullopt;
    return fmt::format(
        "NCCL_IB_ADDR_FAMILY={}: NCCL takes that for AF_INET; write AF_INET or AF_INET6", value);
}

Warning address_range(const ComputeHcas&, const EnvironmentMap& settings) {
    const std::string value = value_of(settings, "NCCL_IB_ADDR_RANGE");
    const GidRules rules = read_gid_rules(settings);
    if (value.empty() || rules.range)
        return std::nullopt;
    return fmt::format(
        "NCCL_IB_ADDR_RANGE={}: NCCL ignores it; write an {} address and a length, such as {}",
        value, rules.ipv6 ? "IPv6" : "IPv4", rules.ipv6 ? "fd00::/8" : "10.0.0.0/8");
}

// What would have to be otherwise for NCCL to take a GID that works.
std::string gid_remedy(const Hca::Port& port, const EnvironmentMap& settings) {
    const auto works = [&](const GidRules& rules) {
        return gid_problem(port, choose_gid_index(port, rules)).empty();
    };
    GidRules rules = read_gid_rules(settings);
    if (rules.range) {
        rules.range.reset();
        if (works(rules))
            return fmt::format(
                "none of its addresses is in NCCL_IB_ADDR_RANGE={}: write one that is, or unset it",
                value_of(settings, "NCCL_IB_ADDR_RANGE"));
    }
    rules.ipv6 = !rules.ipv6;
    if (works(rules))
        return fmt::format("set NCCL_IB_ADDR_FAMILY={}", rules.ipv6 ? "AF_INET6" : "AF_INET");
    return fmt::format("give {} an address that other nodes reach",
                       port.netdev.empty() ? "its interface" : port.netdev);
}

Warning bad_gid(const ComputeHcas& compute, const EnvironmentMap& settings) {
    const GidRules rules = read_gid_rules(settings);
    if (rules.index >= 0)
        return std::nullopt;  // find_nccl_footguns() looks at that
    for (const NamedPort& named : ports_of(compute, "Ethernet")) {
        if (named.port->gids.empty())
            continue;
        const int index = choose_gid_index(*named.port, rules);
        const std::string problem = gid_problem(*named.port, index);
        if (!problem.empty() && !(problem == "RoCE v1" && rules.roce_version == 1))
            return fmt::format("NCCL will take GID {} of {}, which is {}; {}", index, named.name,
                               problem, gid_remedy(*named.port, settings));
    }
    return std::nullopt;
}

}  // namespace

std::vector<std::string> check_compute_ports(const ComputeHcas& compute,
                                             const EnvironmentMap& settings) {
    std::vector<std::string> warnings;
    if (compute.ports.empty())
        return warnings;
    for (const auto check : {bad_gid, address_family, address_range, partition_key, traffic_class})
        if (auto warning = check(compute, settings))
            warnings.push_back(std::move(*warning));
    return warnings;
}

}  // namespace autolaunch::launcher
