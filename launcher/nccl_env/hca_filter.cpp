#include "nccl_env/hca_filter.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace autolaunch::launcher {
namespace {

bool is_active(const Hca::Port& port) { return port.active; }

bool has_active_port(const Hca& hca) {
    return std::any_of(hca.ports.begin(), hca.ports.end(), is_active);
}

std::string entry_text(const NameFilter::Entry& entry) {
    return entry.port < 0 ? entry.name : fmt::format("{}:{}", entry.name, entry.port);
}

bool is_hca(const NodeTopology& topology, std::string_view name) {
    return std::any_of(topology.hcas.begin(), topology.hcas.end(),
                       [&](const Hca& hca) { return hca.name == name; });
}

std::string names_of_all(const NodeTopology& topology) {
    std::vector<std::string> names;
    for (const Hca& hca : topology.hcas)
        names.push_back(hca.name);
    return join(names, ", ");
}

// Why an entry means nothing that NCCL could use; empty: it does.
std::string why_idle(const NodeTopology& topology, const NameFilter& filter,
                     const NameFilter::Entry& entry) {
    bool has_name = false, has_port = false;
    for (const Hca& hca : topology.hcas) {
        has_name |= filter.names({entry.name}, hca.name);
        for (const Hca::Port& port : hca.ports) {
            const bool meant = filter.names(entry, hca.name, port.number);
            has_port |= meant;
            if (meant && port.active)
                return {};
        }
    }
    if (has_port)
        return "no active port";
    if (has_name)
        return "no such port";
    return entry.name.find_first_of(" \t") == std::string::npos
               ? "no such HCA"
               : "a blank, which NCCL takes for a part of the name";
}

std::string blank_free(const std::string& value) {
    std::string text = value;
    std::erase_if(text, [](char c) { return c == ' ' || c == '\t'; });
    return text;
}

void check_misses(const NodeTopology& topology, const NameFilter& filter, const std::string& value,
                  std::vector<std::string>& warnings) {
    const bool any = std::any_of(topology.hcas.begin(), topology.hcas.end(), has_active_port);
    const bool takes_some = !hcas_taken(topology, value).empty();
    if (any && !takes_some && filter.excludes)
        return warnings.push_back(fmt::format(
            "NCCL_IB_HCA={}: it leaves no active HCA, NCCL will use sockets; unset it", value));
    std::vector<std::string> idle;
    for (const NameFilter::Entry& entry : filter.entries)
        if (const std::string why = why_idle(topology, filter, entry); !why.empty())
            idle.push_back(fmt::format("{} ({})", trim(entry_text(entry)), why));
    if (idle.empty() || (filter.excludes && takes_some))
        return;
    const bool has_blank = value.find_first_of(" \t") != std::string::npos;
    const std::string fix =
        has_blank ? fmt::format("write {}", blank_free(value))
                  : fmt::format("name some of {}, or unset it", names_of_all(topology));
    if (takes_some)
        warnings.push_back(fmt::format("NCCL_IB_HCA={}: nothing here is meant by {}; {}", value,
                                       join(idle, ", "), fix));
    else if (idle.size() == 1 && idle.front().ends_with("(no such HCA)"))
        warnings.push_back(
            fmt::format("NCCL_IB_HCA={}: no such HCA here, NCCL will use sockets; {}", value, fix));
    else
        warnings.push_back(
            fmt::format("NCCL_IB_HCA={}: nothing here is meant by {}, NCCL will use sockets; {}",
                        value, join(idle, ", "), fix));
}

// "mlx5" is meant as a prefix; "mlx5_1" where there is an HCA of that name is not.
void check_prefixes(const NodeTopology& topology, const NameFilter& filter,
                    const std::string& value, std::vector<std::string>& warnings) {
    const auto is_meant = [&](const Hca& hca) {
        return std::any_of(filter.entries.begin(), filter.entries.end(),
                           [&](const auto& entry) { return entry.name == hca.name; });
    };
    for (const NameFilter::Entry& entry : filter.entries) {
        std::vector<std::string> more;
        for (const Hca& hca : topology.hcas)
            if (filter.names(entry, hca.name) && !is_meant(hca))
                more.push_back(hca.name);
        if (filter.exact || more.empty() || !is_hca(topology, entry.name))
            continue;
        return warnings.push_back(fmt::format(
            "NCCL_IB_HCA={}: {} also matches {}; write {}={} for whole names", value, entry.name,
            join(more, ", "), filter.excludes ? "^" : "", value.substr(filter.excludes ? 1 : 0)));
    }
}

// A prefix that takes what serves storage or management, too. Whole names are the user's word.
void check_excess(const NodeTopology& topology, const ComputeHcas& compute,
                  const NameFilter& filter, const std::string& value,
                  std::vector<std::string>& warnings) {
    const std::vector<std::string> taken = hcas_taken(topology, value);
    std::vector<std::string> excess;
    for (const VariableChoice& other : compute.excluded)
        if (std::find(taken.begin(), taken.end(), other.name) != taken.end() &&
            std::none_of(filter.entries.begin(), filter.entries.end(),
                         [&](const auto& entry) { return entry.name == other.name; }))
            excess.push_back(fmt::format("{} ({})", other.name, other.reason));
    if (filter.exact || excess.empty() || compute.nccl_list.empty())
        return;
    warnings.push_back(
        fmt::format("NCCL_IB_HCA={}: it takes more than what is for computing: {}; write {}", value,
                    join(excess, ", "), compute.nccl_list));
}

}  // namespace

bool NameFilter::names(const Entry& entry, std::string_view name, int number) const {
    const bool same = exact ? name == entry.name : name.starts_with(entry.name);
    return same && (entry.port < 0 || number < 0 || entry.port == number);
}

bool NameFilter::takes(std::string_view name, int number) const {
    const bool listed = entries.empty() ||
                        std::any_of(entries.begin(), entries.end(),
                                    [&](const Entry& entry) { return names(entry, name, number); });
    return listed != excludes;
}

NameFilter parse_name_filter(std::string_view text) {
    NameFilter filter;
    filter.excludes = text.starts_with('^');
    text.remove_prefix(filter.excludes ? 1 : 0);
    filter.exact = text.starts_with('=');
    text.remove_prefix(filter.exact ? 1 : 0);
    for (const std::string& part : split(text, ',')) {
        const auto colon = part.find(':');
        NameFilter::Entry entry{part.substr(0, colon)};
        if (colon != part.npos)
            entry.port = std::atoi(part.c_str() + colon + 1);  // as NCCL: no number is 0
        if (!entry.name.empty())
            filter.entries.push_back(std::move(entry));
    }
    return filter;
}

std::vector<std::string> hcas_taken(const NodeTopology& topology, std::string_view value) {
    const NameFilter filter = parse_name_filter(value);
    std::vector<std::string> taken;
    for (const Hca& hca : topology.hcas)
        if (std::any_of(hca.ports.begin(), hca.ports.end(), [&](const Hca::Port& port) {
                return port.active && filter.takes(hca.name, port.number);
            }))
            taken.push_back(hca.name);
    return taken;
}

std::vector<std::string> check_hca_filter(const NodeTopology& topology, const ComputeHcas& compute,
                                          const std::string& value) {
    std::vector<std::string> warnings;
    const NameFilter filter = parse_name_filter(value);
    if (filter.entries.size() > kMostNcclPorts)
        warnings.push_back(fmt::format("NCCL_IB_HCA names {} HCAs and NCCL takes {}: name fewer",
                                       filter.entries.size(), kMostNcclPorts));
    const bool all_named = std::all_of(topology.hcas.begin(), topology.hcas.end(),
                                       [](const Hca& hca) { return hca.is_named; });
    if (topology.hcas.empty() || !all_named)
        return warnings;  // nobody can tell
    check_misses(topology, filter, value, warnings);
    check_prefixes(topology, filter, value, warnings);
    if (warnings.empty())
        check_excess(topology, compute, filter, value, warnings);
    return warnings;
}

}  // namespace autolaunch::launcher
