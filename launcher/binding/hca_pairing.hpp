#pragma once
#include "topology/node_topology.hpp"
#include "topology/path_class.hpp"

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Which HCA a rank's traffic should take: for people, UCX and logs. NCCL chooses for itself.
struct HcaPairing {
    int hca = 0;                    ///< position in topology.hcas
    std::vector<int> further = {};  ///< as good for it, and nobody else's
    PathClass path = PathClass::unknown;
    std::string reason;  ///< one sentence
};

/// What is known of the rank that wants an HCA.
struct HcaSeeker {
    std::optional<int> gpu;  ///< position in topology.gpus
    std::vector<int> cpus;   ///< for a rank without a GPU: what it runs on
};

/// One pairing a seeker; nothing where no HCA has an active port. Those named in `compute_hcas` are
/// asked, or all where that is empty. The best HCAs of a GPU are those of the nearest path class,
/// of these the ones at the smallest NUMA distance, of these the fastest; GPUs that share their
/// best ones are dealt over them in PCI order, the k-th GPU to the k-th HCA; where there are twice
/// as many HCAs or more, each gets several. All GPUs of the
/// machine count, used or not, so that jobs side by side take different HCAs; MIG devices and
/// partitions take their GPU's. Pure.
std::vector<std::optional<HcaPairing>> pair_hcas(const NodeTopology& topology,
                                                 const std::vector<HcaSeeker>& seekers,
                                                 const std::vector<std::string>& compute_hcas = {});

/// Sentences on HCAs that would be nearer to a seeker's GPU than what it got, and are down or may
/// not be opened. Pure.
std::vector<std::string> describe_dead_hcas(const NodeTopology& topology,
                                            const std::vector<HcaSeeker>& seekers,
                                            const std::vector<std::optional<HcaPairing>>& pairings);

}  // namespace autolaunch::launcher
