#include "topology/path_class.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {
namespace {

// How told paths name a GPU.
std::string told_name(const Gpu& gpu) {
    return gpu.bdf.empty() ? "GPU" + std::to_string(gpu.index) : gpu.bdf;
}

PathClass by_numa(const std::optional<int>& a, const std::optional<int>& b) {
    if (!a || !b)
        return PathClass::unknown;
    return *a == *b ? PathClass::node : PathClass::sys;
}

/// Above each device is a port of its own, and between two ports of one switch only that switch's
/// upstream port: so one switch is one bridge in common below the root port of each, or the root
/// port itself where a device has functions.
PathClass by_pci(const std::vector<std::string>& a, const std::vector<std::string>& b,
                 PathClass by_numa_node) {
    if (a.empty() || b.empty() || a.front() != b.front())
        return by_numa_node;
    const auto [end_a, end_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    const auto common = end_a - a.begin();
    if (common <= 1)
        return PathClass::phb;  // the host bridge alone
    const auto below = std::max(a.end() - end_a, b.end() - end_b);
    return below <= 1 ? PathClass::pix : PathClass::pxb;
}

/// The driver says SYS for every NIC of a Grace machine, where each device has a host bridge of its
/// own: where the PCI bus is known and the NUMA node is the same, that is what counts.
PathClass combine(const ToldPath* told_path, const std::vector<std::string>& path_a,
                  const std::vector<std::string>& path_b, const std::optional<int>& node_a,
                  const std::optional<int>& node_b) {
    const PathClass seen = by_pci(path_a, path_b, by_numa(node_a, node_b));
    if (told_path == nullptr || told_path->path == PathClass::unknown)
        return seen;
    const bool told_too_far = told_path->path == PathClass::sys && !path_a.empty() &&
                              !path_b.empty() && node_a && node_a == node_b;
    return told_too_far ? seen : told_path->path;
}

}  // namespace

Paths::Paths(const NodeTopology& topology) : topology_(topology) {
    for (const ToldPath& path : topology.told_paths)
        if (told_[path.from].emplace(path.to, &path).second)
            told_[path.to].emplace(path.from, &path);
}

const ToldPath* Paths::told(const std::string& a, const std::string& b) const {
    const auto from = told_.find(b);  // an HCA, as a rule: often no path of its is told
    if (from == told_.end())
        return nullptr;
    const auto found = from->second.find(a);
    return found == from->second.end() ? nullptr : found->second;
}

PathClass Paths::between(const Gpu& gpu, const Hca& hca) const {
    return combine(told(told_name(gpu), hca.name), gpu.pci_path, hca.pci_path, gpu.numa_node,
                   hca.numa_node);
}

PathClass Paths::between(const Gpu& a, const Gpu& b) const {
    return combine(told(told_name(a), told_name(b)), a.pci_path, b.pci_path, a.numa_node,
                   b.numa_node);
}

PathClass Paths::nearest_gpu(const Hca& hca) const {
    PathClass best = PathClass::unknown;
    for (const Gpu& gpu : topology_.gpus)
        best = std::min(best, between(gpu, hca));
    return best;
}

int Paths::links(const Gpu& a, const Gpu& b) const {
    const ToldPath* path = told(told_name(a), told_name(b));
    return path != nullptr ? path->links : 0;
}

PathClass path_between(const NodeTopology& topology, const Gpu& gpu, const Hca& hca) {
    return Paths(topology).between(gpu, hca);
}

PathClass path_between(const NodeTopology& topology, const Gpu& a, const Gpu& b) {
    return Paths(topology).between(a, b);
}

std::string_view path_class_name(PathClass path) {
    switch (path) {
        case PathClass::nvlink:
            return "NV";
        case PathClass::pix:
            return "PIX";
        case PathClass::pxb:
            return "PXB";
        case PathClass::phb:
            return "PHB";
        case PathClass::node:
            return "NODE";
        case PathClass::sys:
            return "SYS";
        case PathClass::unknown:
            break;
    }
    return "?";
}

}  // namespace autolaunch::launcher
