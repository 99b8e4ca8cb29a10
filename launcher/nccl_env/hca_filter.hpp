#pragma once
#include "nccl_env/compute_hcas.hpp"
#include "topology/node_topology.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// NCCL's lists of names, as NCCL reads them (src/misc/utils.cc): "^" in front excludes, then "="
/// means whole names instead of prefixes; "NAME:PORT" is one port. Blanks count, and a list of
/// nothing is all.
struct NameFilter {
    struct Entry {
        std::string name;
        int port = -1;  ///< -1: all
    };
    bool excludes = false, exact = false;
    std::vector<Entry> entries;

    /// Whether an entry means it, whatever is excluded.
    bool names(const Entry& entry, std::string_view name, int port = -1) const;
    /// Whether NCCL uses it.
    bool takes(std::string_view name, int port = -1) const;
};
NameFilter parse_name_filter(std::string_view text);

/// The HCAs of which NCCL takes a port under this NCCL_IB_HCA.
std::vector<std::string> hcas_taken(const NodeTopology& topology, std::string_view value);

/// What is wrong with this NCCL_IB_HCA on this machine: what it misses, and what it takes beside
/// what it says. Pure.
std::vector<std::string> check_hca_filter(const NodeTopology& topology, const ComputeHcas& compute,
                                          const std::string& value);

}  // namespace autolaunch::launcher
