#pragma once
#include "nccl_env/gid_choice.hpp"

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// What the GID tables of a machine's compute ports ask of NCCL's settings. InfiniBand ports, and
// ports whose table is not known, have no say. Pure.

/// Every RoCE port has a routable IPv6 address and none has an IPv4 one.
bool has_only_ipv6(const std::vector<const Hca::Port*>& ports);

/// "10.1.0.0/16", "fd00:1::/32": the widest of /8, /16 and /24 that holds one IPv4 address of each
/// port, where some port has several; where NCCL takes IPv6, the widest of /16, /32, /48, /56 and
/// /64 that holds addresses of one /64 of each port. Of several such ranges, the one that most
/// ports would take by themselves, then the lowest. Empty: there is no need, or none.
std::string choose_address_range(const std::vector<const Hca::Port*>& ports, const GidRules& rules);

struct GidRepair {
    int index = 0;
    int instead_of = 0;   ///< what NCCL would take on the first port that has the problem
    std::string problem;  ///< of that
};

/// Where NCCL would take a GID that cannot work: the lowest index that is good on all RoCE ports,
/// if there is one.
std::optional<GidRepair> repair_gid_index(const std::vector<const Hca::Port*>& ports,
                                          const GidRules& rules);

}  // namespace autolaunch::launcher
