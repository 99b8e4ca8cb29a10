#include "nccl_env/footguns.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace autolaunch::launcher {
namespace {

constexpr std::size_t kMostHcas = 32;  // NCCL's MAX_IB_DEVS

std::size_t count_active(const std::vector<Hca>& hcas) {
    return static_cast<std::size_t>(std::count_if(hcas.begin(), hcas.end(), [](const Hca& hca) {
        return std::any_of(hca.ports.begin(), hca.ports.end(), [](const Hca::Port& port) { return port.active; });
    }));
}

std::optional<std::string> value_of(const EnvironmentMap& found, const char* name) {
    const auto entry = found.find(name);
    if (entry == found.end() || entry->second.empty()) return std::nullopt;
    return entry->second;
}

// NCCL's list syntax: "^" excludes, "=" matches whole names instead of prefixes.
struct NameFilter {
    bool excludes = false, exact = false;
    std::vector<std::string> names;
};

NameFilter parse_filter(std::string_view text) {
    NameFilter filter;
    filter.excludes = text.starts_with('^');
    if (filter.excludes) text.remove_prefix(1);
    filter.exact = text.starts_with('=');
    if (filter.exact) text.remove_prefix(1);
    for (const std::string& part : split(text, ',')) {
        const std::string name(trim(std::string_view(part).substr(0, part.find(':'))));  // a port may follow
        if (!name.empty()) filter.names.push_back(name);
    }
    return filter;
}

std::optional<std::string> ib_disabled(const NodeTopology& topology, const EnvironmentMap& found) {
    const auto value = value_of(found, "NCCL_IB_DISABLE");
    const std::size_t active = count_active(topology.hcas);
    if (!value || *value == "0" || active == 0) return std::nullopt;
    return fmt::format("NCCL_IB_DISABLE={} while {} {} active: NCCL will use sockets", *value, active,
                       active == 1 ? "HCA is" : "HCAs are");
}

std::optional<std::string> ib_hca_prefix(const NodeTopology& topology, const EnvironmentMap& found) {
    const auto value = value_of(found, "NCCL_IB_HCA");
    if (!value) return std::nullopt;
    const NameFilter filter = parse_filter(*value);
    if (filter.names.size() > kMostHcas)
        return fmt::format("NCCL_IB_HCA names {} HCAs; NCCL takes at most {}", filter.names.size(), kMostHcas);
    if (filter.exact) return std::nullopt;
    for (const std::string& name : filter.names) {
        for (const Hca& hca : topology.hcas) {
            const bool meant = std::find(filter.names.begin(), filter.names.end(), hca.name) != filter.names.end();
            if (hca.name == name || meant || !hca.name.starts_with(name)) continue;
            const bool is_whole_name = std::any_of(topology.hcas.begin(), topology.hcas.end(),
                                                   [&](const Hca& other) { return other.name == name; });
            if (!is_whole_name) continue;  // "mlx5" is meant as a prefix
            return fmt::format("NCCL_IB_HCA={}: {} also matches {}; write ={} for whole names", *value, name, hca.name,
                               value->substr(filter.excludes ? 1 : 0));
        }
    }
    return std::nullopt;
}

std::optional<std::string> missing_interface(const NodeTopology& topology, const EnvironmentMap& found) {
    const auto value = value_of(found, "NCCL_SOCKET_IFNAME");
    if (!value) return std::nullopt;
    const NameFilter filter = parse_filter(*value);
    if (filter.excludes || topology.network_interfaces.empty() || filter.names.empty()) return std::nullopt;
    for (const std::string& name : filter.names) {
        for (const NetworkInterface& interface : topology.network_interfaces)
            if (filter.exact ? interface.name == name : interface.name.starts_with(name)) return std::nullopt;
    }
    std::vector<std::string> names;
    for (const NetworkInterface& interface : topology.network_interfaces) names.push_back(interface.name);
    return fmt::format("NCCL_SOCKET_IFNAME={}: no such interface here; there are {}", *value, join(names, ", "));
}

struct Leftover {
    const char* name;
    bool only_if_nonzero;
    const char* effect;
};

constexpr std::array<Leftover, 9> kLeftovers = {{
    {"NCCL_P2P_DISABLE", true, "GPUs on this node will not use NVLink or PCIe peer access"},
    {"NCCL_SHM_DISABLE", true, "ranks on this node will not use shared memory"},
    {"NCCL_P2P_LEVEL", false, "it overrides where NCCL uses peer access"},
    {"NCCL_ALGO", false, "a debug setting: NCCL chooses better by itself"},
    {"NCCL_PROTO", false, "a debug setting: a wrong protocol can corrupt data on some platforms"},
    {"NCCL_BUFFSIZE", false, "a debug setting: NCCL chooses better by itself"},
    {"NCCL_MIN_NCHANNELS", false, "a debug setting: NCCL chooses better by itself"},
    {"NCCL_MAX_NCHANNELS", false, "a debug setting: NCCL chooses better by itself"},
    {"NCCL_IGNORE_NET_MISMATCH", true, "a mismatch between nodes becomes a silent hang"},
}};

}  // namespace

std::vector<std::string> find_nccl_footguns(const NodeTopology& topology, const EnvironmentMap& found) {
    std::vector<std::string> warnings;
    for (const auto check : {ib_disabled, ib_hca_prefix, missing_interface})
        if (auto warning = check(topology, found)) warnings.push_back(std::move(*warning));
    for (const Leftover& leftover : kLeftovers) {
        const auto value = value_of(found, leftover.name);
        if (value && !(leftover.only_if_nonzero && *value == "0"))
            warnings.push_back(fmt::format("{}={}: {}", leftover.name, *value, leftover.effect));
    }
    return warnings;
}

}  // namespace autolaunch::launcher
