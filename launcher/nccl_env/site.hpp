#pragma once
#include "nccl_env/nccl_env.hpp"
#include "spec/profile.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// Small pure decisions about where a job runs.

/// The interface that has this address ("10.1.2.3", "fe80::1%eth0"), a running one if several have;
/// empty: none.
std::string interface_with_address(const NodeTopology& topology, const std::string& address);
/// Whether the nodes meet over IPv6 and that interface has no IPv4 address.
bool is_ipv6_only(const NodeTopology& topology, const std::string& address);

/// The first profile whose `match` all holds for this machine; null: none does.
const ProfileFile* matching_profile(const std::vector<ProfileFile>& profiles,
                                    const std::map<std::string, std::string>& identity);

/// Whether every GPU and HCA that an NCCL topology file names is in this machine, at the same PCI
/// address, and every GPU of the machine in the file. Bridges do not count: those of virtual
/// machines' files are made up.
bool topology_file_fits(std::string_view xml, const NodeTopology& topology);

/// What an NCCL topology file names and this machine has not: it is of another one. Empty: it may
/// be this one's. Devices that a file leaves out NCCL finds by itself. Pure.
std::string topology_file_stranger(std::string_view xml, const NodeTopology& topology);

/// A profile's file as decisions take it. `topology_file`: the one that fits, or empty.
NcclProfile to_nccl_profile(const ProfileFile& file, const NodeTopology& topology,
                            const std::string& topology_file);

}  // namespace autolaunch::launcher
