#pragma once
#include "nccl_env/variable_choice.hpp"
#include "topology/node_topology.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// NCCL's MAX_IB_DEVS: it takes this many ports and does not look at the rest.
inline constexpr std::size_t kMostNcclPorts = 32;

/// The HCAs of a machine that are for computing; the others serve storage or management, or cannot
/// be used. Both ports of a dual-port HCA stay: NCCL fuses them.
struct ComputeHcas {
    std::vector<const Hca*> hcas;  ///< in the machine's order, with at least one port that stays
    std::vector<const Hca::Port*> ports;  ///< those that stay
    std::vector<VariableChoice>
        excluded;  ///< "mlx5_4", or "mlx5_0:2" for one port of an HCA whose others stay
    /// For NCCL_IB_HCA: "=mlx5_0,mlx5_1:1". Empty: NCCL takes the same by itself (it skips ports
    /// that are down), or there is none to name.
    std::string nccl_list;
    std::string reason;  ///< of nccl_list
    std::vector<std::string> warnings;
};

/// Candidates are ACTIVE ports of devices that we may open, RoCE ports only with an interface in
/// our network namespace. Those at most PXB from some GPU are for computing; where no candidate is
/// that near (virtual machines with a flat PCI tree, Grace), the fastest, then the commonest link
/// layer and device. Pure; points into `topology`.
ComputeHcas choose_compute_hcas(const NodeTopology& topology);

}  // namespace autolaunch::launcher
