#include "binding/hca_pairing.hpp"

#include "base/text.hpp"
#include "topology/cpu_sets.hpp"
#include "topology/natural_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

namespace autolaunch::launcher {
namespace {

constexpr int kUnknownDistance = std::numeric_limits<int>::max();

double rate_of(const Hca& hca) {
    double rate = 0;
    for (const Hca::Port& port : hca.ports)
        if (port.active)
            rate = std::max(rate, port.rate_gbps);
    return rate;
}

bool is_usable(const Hca& hca) {
    return hca.can_open && std::any_of(hca.ports.begin(), hca.ports.end(),
                                       [](const Hca::Port& port) { return port.active; });
}

/// Positions in topology.hcas, in PCI order.
std::vector<int> candidates(const NodeTopology& topology,
                            const std::vector<std::string>& compute_hcas) {
    std::vector<int> found;
    for (std::size_t i = 0; i < topology.hcas.size(); ++i) {
        const Hca& hca = topology.hcas[i];
        const bool chosen =
            compute_hcas.empty() ||
            std::find(compute_hcas.begin(), compute_hcas.end(), hca.name) != compute_hcas.end();
        if (chosen && is_usable(hca))
            found.push_back(static_cast<int>(i));
    }
    std::sort(found.begin(), found.end(), [&](int a, int b) {
        const Hca &left = topology.hcas[static_cast<std::size_t>(a)],
                  &right = topology.hcas[static_cast<std::size_t>(b)];
        return left.bdf != right.bdf ? left.bdf < right.bdf : natural_less(left.name, right.name);
    });
    return found;
}

/// How good an HCA is for a GPU or for a set of CPUs: the smaller, the better.
struct Merit {
    PathClass path = PathClass::unknown;
    int distance = kUnknownDistance;  ///< of NUMA nodes; 0: the same
    double slowness = 0;              ///< the negative rate

    auto key() const { return std::tie(path, distance, slowness); }
};

int distance_to(const NodeTopology& topology, std::optional<int> node,
                const std::vector<int>& distances) {
    if (!node || distances.size() != topology.numa_nodes.size())
        return kUnknownDistance;
    for (std::size_t i = 0; i < distances.size(); ++i)
        if (topology.numa_nodes[i].index == *node)
            return distances[i];
    return kUnknownDistance;
}

Merit merit_for_gpu(const NodeTopology& topology, const Paths& paths, const Gpu& gpu,
                    const Hca& hca) {
    const bool together = gpu.numa_node && gpu.numa_node == hca.numa_node;
    return {paths.between(gpu, hca),
            together ? 0 : distance_to(topology, hca.numa_node, gpu.node_distances), -rate_of(hca)};
}

Merit merit_for_cpus(const NodeTopology& topology, const std::vector<int>& cpus, const Hca& hca) {
    Merit merit{PathClass::unknown, kUnknownDistance, -rate_of(hca)};
    for (const NumaNode& node : topology.numa_nodes) {
        if (intersect(node.cpus, cpus).empty())
            continue;
        const int distance =
            hca.numa_node == node.index ? 0 : distance_to(topology, hca.numa_node, node.distances);
        merit.distance = std::min(merit.distance, distance);
    }
    if (hca.numa_node)
        merit.path = merit.distance == 0 ? PathClass::node : PathClass::sys;
    return merit;
}

/// The best HCAs for one seeker, and how good they are.
struct Best {
    std::vector<int> hcas;
    Merit merit;
};

template <class MeritOf>
Best best_of(const std::vector<int>& hcas, MeritOf&& merit_of) {
    Best best;
    for (const int hca : hcas) {
        const Merit merit = merit_of(hca);
        if (best.hcas.empty() || merit.key() < best.merit.key())
            best = {{}, merit};
        if (merit.key() == best.merit.key())
            best.hcas.push_back(hca);
    }
    return best;
}

std::string_view path_words(const Merit& merit) {
    switch (merit.path) {
        case PathClass::nvlink:
            return "by NVLink";
        case PathClass::pix:
            return "on one PCIe switch";
        case PathClass::pxb:
            return "below one host bridge";
        case PathClass::phb:
            return "through one host bridge";
        case PathClass::node:
            return "on one NUMA node";
        case PathClass::sys:
            return merit.distance == kUnknownDistance
                       ? "this one is on another NUMA node"
                       : "this one is on the nearest NUMA node that has any";
        case PathClass::unknown:
            break;
    }
    return "nothing says how far this one is";
}

/// Deals HCAs: of a seeker's best ones, the one that the fewest have so far, in PCI order.
class Dealer {
public:
    HcaPairing deal(const Best& best, const std::string& seeker) {
        int chosen = best.hcas.front();
        for (const int hca : best.hcas)
            if (users_[hca] < users_[chosen])
                chosen = hca;
        ++users_[chosen];
        std::string reason = fmt::format("{} and this HCA are {}", seeker, path_words(best.merit));
        if (best.merit.path >= PathClass::sys)
            reason = fmt::format("{} has no near HCA: {}", seeker, path_words(best.merit));
        if (best.hcas.size() > 1)
            reason += fmt::format("; dealt from {} alike", best.hcas.size());
        return {chosen, {}, best.merit.path, std::move(reason)};
    }

private:
    std::map<int, int> users_;
};

/// What partitions of one GPU share, in PCI order: addresses have one length, and GPU2 comes before
/// GPU10.
using GpuKey = std::pair<std::size_t, std::string>;
GpuKey key_of(const Gpu& gpu) {
    const std::string name = gpu.bdf.empty() ? fmt::format("GPU{}", gpu.index) : gpu.bdf;
    return {name.size(), name};
}

/// GPUs that have less to choose from choose first.
std::map<GpuKey, HcaPairing> pair_gpus(const NodeTopology& topology, const std::vector<int>& hcas) {
    const Paths paths(topology);
    std::map<GpuKey, Best> best_of_gpu;
    for (const Gpu& gpu : topology.gpus)
        best_of_gpu.emplace(key_of(gpu), best_of(hcas, [&](int hca) {
                                return merit_for_gpu(topology, paths, gpu,
                                                     topology.hcas[static_cast<std::size_t>(hca)]);
                            }));
    std::vector<const std::pair<const GpuKey, Best>*> order;
    for (const auto& entry : best_of_gpu)
        order.push_back(&entry);
    std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
        return a->second.hcas.size() < b->second.hcas.size();
    });
    std::map<std::vector<int>, std::size_t> sharers, dealt;
    std::map<int, std::size_t> wanted;
    for (const auto* entry : order) {
        ++sharers[entry->second.hcas];
        for (const int hca : entry->second.hcas)
            ++wanted[hca];
    }
    std::map<GpuKey, HcaPairing> pairings;
    Dealer dealer;
    for (const auto* entry : order) {
        Best own = entry->second;
        const std::vector<int> all = own.hcas;
        const std::size_t each = all.size() / sharers[all], first = dealt[all]++ * each;
        const bool are_theirs = std::all_of(
            all.begin(), all.end(), [&](const int hca) { return wanted[hca] == sharers[all]; });
        const bool several = each > 1 && are_theirs;
        if (several)
            own.hcas = {all[first]};
        HcaPairing pairing = dealer.deal(own, "its GPU");
        for (std::size_t i = 1; several && i < each; ++i)
            pairing.further.push_back(all[first + i]);
        pairings.emplace(entry->first, std::move(pairing));
    }
    return pairings;
}

}  // namespace

std::vector<std::optional<HcaPairing>> pair_hcas(const NodeTopology& topology,
                                                 const std::vector<HcaSeeker>& seekers,
                                                 const std::vector<std::string>& compute_hcas) {
    std::vector<std::optional<HcaPairing>> pairings(seekers.size());
    const std::vector<int> hcas = candidates(topology, compute_hcas);
    if (hcas.empty())
        return pairings;
    const auto of_gpus = pair_gpus(topology, hcas);
    Dealer dealer;
    for (std::size_t i = 0; i < seekers.size(); ++i) {
        const HcaSeeker& seeker = seekers[i];
        if (seeker.gpu) {
            pairings[i] = of_gpus.at(key_of(topology.gpus[static_cast<std::size_t>(*seeker.gpu)]));
        } else {
            const Best best = best_of(hcas, [&](int hca) {
                return merit_for_cpus(topology, seeker.cpus,
                                      topology.hcas[static_cast<std::size_t>(hca)]);
            });
            pairings[i] = dealer.deal(best, "the rank");
        }
    }
    return pairings;
}

std::vector<std::string> describe_dead_hcas(
    const NodeTopology& topology, const std::vector<HcaSeeker>& seekers,
    const std::vector<std::optional<HcaPairing>>& pairings) {
    const Paths paths(topology);
    std::vector<std::string> sentences;
    for (const Hca& hca : topology.hcas) {
        if (is_usable(hca))
            continue;
        std::vector<std::string> gpus;
        for (std::size_t i = 0; i < seekers.size(); ++i) {
            if (!seekers[i].gpu)
                continue;
            const Gpu& gpu = topology.gpus[static_cast<std::size_t>(*seekers[i].gpu)];
            const PathClass path = paths.between(gpu, hca);
            if (path <= PathClass::node && (!pairings[i] || path < pairings[i]->path))
                gpus.push_back(std::to_string(gpu.index));
        }
        if (!gpus.empty())
            sentences.push_back(fmt::format(
                "{} is nearer to GPU{} {} than what {}, but {}", hca.name,
                gpus.size() == 1 ? "" : "s", join(gpus, ", "),
                gpus.size() == 1 ? "its rank uses" : "their ranks use",
                hca.can_open ? "its port is down" : "its device file may not be opened"));
    }
    return sentences;
}

}  // namespace autolaunch::launcher
