#pragma once
#include "allocation/allocation.hpp"
#include "topology/node_topology.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// NCCL_IB_ADDR_RANGE: "10.1.0.0/16".
struct GidRange {
    std::array<std::uint8_t, 16> address = {};  ///< IPv4: in the last four bytes
    int prefix_bits = 0;
};

/// The settings that steer NCCL's choice of a GID.
struct GidRules {
    int index = -1;      ///< NCCL_IB_GID_INDEX
    int flid_index = 1;  ///< NCCL_IB_ROUTABLE_FLID_GID_INDEX
    bool ipv6 = false;   ///< NCCL_IB_ADDR_FAMILY=AF_INET6
    int roce_version = 2;
    std::optional<GidRange> range = {};
};

/// What NCCL would read from these settings; what it would not understand counts as not set.
GidRules read_gid_rules(const EnvironmentMap& settings);

/// The index that NCCL 2.28 takes on this port (net_ib.cc, ncclIbGetGidIndex): on InfiniBand 0, or
/// the FLID index where that GID has a FLID; on RoCE the index given, else a scan for family, range
/// and version. Pure; holes count as zero.
int choose_gid_index(const Hca::Port& port, const GidRules& rules);

bool is_ipv4(const Gid& gid);
/// Neither zero nor link-local.
bool is_routable(const Gid& gid);
/// Why RoCE traffic would not flow with this index: "a hole", "link-local", "RoCE v1"; empty: it
/// would, or nothing is known of that entry. Whoever read the port's table says how far.
std::string gid_problem(const Hca::Port& port, int index);

}  // namespace autolaunch::launcher
