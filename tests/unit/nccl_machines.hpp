#pragma once
// Machines made up for tests of NCCL's settings: GPUs and HCAs with their places on the PCI bus.

#include "synthetic_topology.hpp"

#include <arpa/inet.h>

#include <string>
#include <vector>

namespace autolaunch::launcher::testing {

struct HcaShape {
    std::string name;
    std::string
        below;  // the switch it shares with GPUs, as "sw0"; or a host bridge of its own, as "root7"
    double rate_gbps = 200;
    std::string link_layer = "InfiniBand";
    std::string pci_id = "15b3:101b";
    std::string netdev = {};
};

// A switch has two levels, so that two devices below it are PXB apart, as on real machines.
inline std::vector<std::string> pci_path(const std::string& below, const std::string& device) {
    if (below.starts_with("root"))
        return {"pci-" + below, below + ":port"};
    return {"pci-" + below, below + ":up", below + ":" + device, device + ":port"};
}

inline NodeTopology machine_with(int gpus, int gpus_per_switch, const std::vector<HcaShape>& hcas) {
    NodeTopology topology = make_machine({.gpus = gpus});
    for (Gpu& gpu : topology.gpus)
        gpu.pci_path = pci_path("sw" + std::to_string(gpu.index / gpus_per_switch),
                                "gpu" + std::to_string(gpu.index));
    int bus = 0x20;
    for (const HcaShape& shape : hcas) {
        Hca hca;
        hca.name = shape.name;
        hca.bdf = fmt::format("0000:{:02x}:00.0", bus++);
        hca.numa_node = 0;
        hca.pci_id = shape.pci_id;
        hca.pci_path = pci_path(shape.below, shape.name);
        Hca::Port port;
        port.active = true;
        port.link_layer = shape.link_layer;
        port.rate_gbps = shape.rate_gbps;
        port.netdev = shape.netdev;
        hca.ports.push_back(port);
        topology.hcas.push_back(hca);
    }
    return topology;
}

inline Gid make_gid(int index, const std::string& address, int version = 2) {
    Gid gid;
    gid.index = index;
    gid.roce_version = version;
    if (::inet_pton(AF_INET6, address.c_str(), gid.bytes.data()) != 1) {
        gid.bytes[10] = gid.bytes[11] = 0xff;
        ::inet_pton(AF_INET, address.c_str(), gid.bytes.data() + 12);
    }
    return gid;
}

/// The table of a RoCE port as the kernel fills it: link-local, then each address, in versions 1
/// and 2.
inline std::vector<Gid> roce_gids(const std::vector<std::string>& addresses) {
    std::vector<Gid> gids = {make_gid(0, "fe80::1", 1), make_gid(1, "fe80::1", 2)};
    for (const std::string& address : addresses)
        for (const int version : {1, 2})
            gids.push_back(make_gid(static_cast<int>(gids.size()), address, version));
    return gids;
}

}  // namespace autolaunch::launcher::testing
