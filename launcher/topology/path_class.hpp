#pragma once
#include "topology/node_topology.hpp"

#include <string>
#include <string_view>
#include <unordered_map>

namespace autolaunch::launcher {

/// How the devices of a machine reach each other. Told paths first; else by the lowest common
/// ancestor on the PCI bus (one switch, several, host bridge), else by NUMA nodes. Grace machines
/// have a host bridge a device: there the NUMA node decides. Points into the topology. Pure.
class Paths {
public:
    explicit Paths(const NodeTopology& topology);

    PathClass between(const Gpu& gpu, const Hca& hca) const;
    PathClass between(const Gpu& a, const Gpu& b) const;
    /// The nearest that any GPU has.
    PathClass nearest_gpu(const Hca& hca) const;
    /// Of NVLink or xGMI; 0: none, or nobody told how many.
    int links(const Gpu& a, const Gpu& b) const;

private:
    const ToldPath* told(const std::string& a, const std::string& b) const;

    const NodeTopology& topology_;
    /// By either end, then by the other.
    std::unordered_map<std::string, std::unordered_map<std::string, const ToldPath*>> told_;
};

/// The same for one pair.
PathClass path_between(const NodeTopology& topology, const Gpu& gpu, const Hca& hca);
PathClass path_between(const NodeTopology& topology, const Gpu& a, const Gpu& b);

/// "NV", "PIX", "PXB", "PHB", "NODE", "SYS", "?".
std::string_view path_class_name(PathClass path);

}  // namespace autolaunch::launcher
