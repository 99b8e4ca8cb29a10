#include "nccl_env/nccl_variables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace autolaunch::launcher {
namespace {

using enum NcclAction;
using enum NcclScope;

// Defaults are NCCL 2.28.9's; the source column names its file.
constexpr NcclVariable kVariables[] = {
    {"NCCL_DEBUG", "unset", set, "WARN", "errors of NCCL are printed, at no cost", "src/debug.cc"},
    {"NCCL_SOCKET_IFNAME", "ib*, then any but docker, lo, virbr", set,
     "`=` and the interface that reaches the head, for each node its own; with more than one node",
     "NCCL would take the first that looks right, which need not be routed", "src/misc/socket.cc",
     many_nodes},
    {"GLOO_SOCKET_IFNAME", "what the hostname resolves to", set,
     "the same interface; with more than one node", "Gloo's groups meet where NCCL's do",
     "torch/csrc/distributed/c10d/ProcessGroupGloo.cpp", many_nodes},
    {"NCCL_SOCKET_FAMILY", "any", set, "AF_INET6 where the head has no IPv4 address",
     "an IPv4 address of another network could be taken", "src/misc/socket.cc", many_nodes},
    {"NCCL_IB_HCA", "all active ports", set,
     "`=` and the compute HCAs, where others would be used too",
     "storage and management HCAs reach other networks; without = mlx5_1 is mlx5_10 too",
     "src/transport/net_ib.cc", with_hcas},
    {"NCCL_IB_ADDR_FAMILY", "AF_INET", set, "AF_INET6 where RoCE ports have only IPv6 addresses",
     "NCCL would stay at GID 0, which is link-local", "src/transport/net_ib.cc", with_roce},
    {"NCCL_IB_ADDR_RANGE", "none", set,
     "the subnet to use, where a RoCE port has addresses in several",
     "NCCL takes the first address, whatever its subnet", "src/transport/net_ib.cc", with_roce},
    {"NCCL_IB_GID_INDEX", "-1, automatic", set,
     "nothing, unless NCCL would take a GID that cannot work and one index is good on all ports",
     "since 2.21 NCCL finds it by itself; indices differ between nodes; InfiniBand ignores it",
     "src/transport/net_ib.cc", with_roce, true},
    {"NCCL_IB_ROCE_VERSION_NUM", "2", leave, "nothing", "RoCE v1 is not routed",
     "src/transport/net_ib.cc", with_roce},
    {"NCCL_IB_TC", "0", profile, "only a profile sets it; warns where a driver forces another",
     "only the site knows its lossless traffic class", "src/transport/net_ib.cc", with_hcas, true},
    {"NCCL_IB_FIFO_TC", "NCCL_IB_TC", profile, "only a profile sets it",
     "only the site knows its traffic classes", "src/transport/net_ib.cc", with_hcas},
    {"NCCL_IB_SL", "0", profile, "only a profile sets it", "only the site knows its service levels",
     "src/transport/net_ib.cc", with_hcas},
    {"NCCL_IB_TIMEOUT", "20", leave, "nothing", "20 is 4 s a try; 22 was for older versions' 18",
     "src/transport/net_ib.cc", with_hcas, true},
    {"NCCL_IB_RETRY_CNT", "7", leave, "nothing", "7 is the most there is",
     "src/transport/net_ib.cc", with_hcas, true},
    {"NCCL_IB_QPS_PER_CONNECTION", "1", leave, "nothing; a profile may set it",
     "more queue pairs help only on fabrics that route each by its own hash",
     "src/transport/net_ib.cc", with_hcas, true},
    {"NCCL_IB_SPLIT_DATA_ON_QPS", "0", leave, "nothing; a profile may set it",
     "it splits small messages too", "src/transport/net_ib.cc", with_hcas},
    {"NCCL_IB_ADAPTIVE_ROUTING", "1 on InfiniBand, 0 on RoCE", leave,
     "nothing; a profile may set it", "NCCL knows by the link layer", "src/transport/net_ib.cc",
     with_hcas, true},
    {"NCCL_IB_PCI_RELAXED_ORDERING", "2, automatic", leave, "nothing",
     "NCCL uses it where the driver offers it", "src/transport/net_ib.cc", with_hcas, true},
    {"NCCL_IB_PKEY", "index 0", leave,
     "nothing; warns where that key is empty or a limited member's",
     "an index into the port's table, not a key", "src/transport/net_ib.cc", with_hcas},
    {"NCCL_IB_DISABLE", "0", warn, "warns if it is 1 while HCAs are active",
     "NCCL would use sockets", "src/transport/net_ib.cc", with_hcas},
    {"NCCL_IB_MERGE_NICS", "1", leave, "nothing",
     "the ports of one HCA count as one, which is right", "src/transport/net_ib.cc", with_hcas},
    {"NCCL_IB_MERGE_VFS", "1", warn,
     "warns where a virtual machine shows distinct NICs as functions .0 to .3 of one",
     "NCCL would fuse up to four of them into one", "src/transport/net_ib.cc", with_hcas},
    {"NCCL_NET_MERGE_LEVEL", "PORT", leave, "nothing",
     "wider levels fuse NICs that GPUs should have for themselves", "src/graph/topo.cc", with_hcas},
    {"NCCL_NET_GDR_LEVEL", "PXB, and C2C", leave, "nothing; warns at SYS; a profile may set PHB",
     "between sockets GPUDirect RDMA is slower than through memory", "src/graph/paths.cc",
     with_hcas, true},
    {"NCCL_NET_GDR_C2C", "1", leave, "nothing", "right for Grace", "src/graph/paths.cc", with_hcas},
    {"NCCL_PXN_C2C", "1", leave, "nothing", "right for Grace", "src/graph/paths.cc", with_hcas},
    {"NCCL_DMABUF_ENABLE", "1", set,
     "0 where it is known that no HCA's driver takes dma-buf and nvidia-peermem is loaded",
     "NCCL falls back by itself, HCA by HCA", "src/init.cc", with_hcas},
    {"NCCL_CROSS_NIC", "2, automatic", leave, "nothing; a profile may set it",
     "0 is for rails that do not reach each other, 1 for fabrics without rails",
     "src/graph/search.cc", with_hcas, true},
    {"NCCL_PXN_DISABLE", "0", leave, "nothing",
     "through a neighbour's NIC is faster than across sockets", "src/graph/paths.cc", with_hcas},
    {"NCCL_P2P_PXN_LEVEL", "2", leave, "nothing", "the same", "src/graph/search.cc", with_hcas},
    {"NCCL_NETDEVS_POLICY", "AUTO", leave, "nothing", "NCCL shares NICs out among GPUs",
     "src/graph/topo.cc", with_hcas},
    {"NCCL_TOPO_FILE", "/var/run/nvidia-topologyd/virtualTopology.xml", profile,
     "only a profile sets it, if the file is there and this machine has all its devices",
     "a file of another machine makes NCCL fail or crawl", "src/graph/topo.cc", everywhere, true},
    {"NCCL_NET", "automatic", leave, "nothing; nodes that differ are told about",
     "plugins are found by themselves", "src/plugin/net.cc", many_nodes},
    {"NCCL_NET_PLUGIN", "automatic", leave, "nothing; nodes that differ are told about",
     "plugins are found by themselves", "src/plugin/net.cc", many_nodes, true},
    {"NCCL_TUNER_PLUGIN", "automatic", leave, "nothing; nodes that differ are told about",
     "plugins are found by themselves", "src/plugin/tuner.cc", many_nodes},
    {"NCCL_P2P_DISABLE", "0", warn, "warns if it is set",
     "GPUs would not use NVLink or PCIe peer access", "src/graph/paths.cc"},
    {"NCCL_P2P_LEVEL", "PXB, or NVLink", warn, "warns if it is set",
     "it overrides where NCCL uses peer access", "src/graph/paths.cc"},
    {"NCCL_SHM_DISABLE", "0", warn, "warns if it is set", "ranks of a node would use the network",
     "src/transport/shm.cc"},
    {"NCCL_IGNORE_CPU_AFFINITY", "0", leave, "nothing",
     "ranks are bound to CPUs near their GPUs already", "src/graph/topo.cc", everywhere, true},
    {"NCCL_NVLS_ENABLE", "2, automatic", leave, "nothing",
     "NCCL uses NVLink SHARP where there is one", "src/transport/nvls.cc", everywhere, true},
    {"NCCL_CUMEM_ENABLE", "automatic", leave, "nothing", "NCCL knows by the driver",
     "src/misc/cudawrap.cc"},
    {"NCCL_MNNVL_ENABLE", "2, automatic", leave, "nothing",
     "NCCL knows by the NVLink fabric's state", "src/init.cc"},
    {"NCCL_COLLNET_ENABLE", "0", profile, "only a profile sets it",
     "it needs a fabric with SHARP and its plugin", "src/init.cc", with_hcas},
    {"NCCL_ALGO", "automatic", warn, "warns if it is set", "NCCL chooses by size and machine",
     "src/graph/tuning.cc"},
    {"NCCL_PROTO", "automatic", warn, "warns if it is set",
     "a wrong one can corrupt data on some platforms", "src/graph/tuning.cc"},
    {"NCCL_BUFFSIZE", "4 MiB", warn, "warns if it is set", "NCCL chooses by the machine",
     "src/init.cc"},
    {"NCCL_MIN_NCHANNELS", "automatic", warn, "warns if it is set", "NCCL chooses by the machine",
     "src/graph/connect.cc"},
    {"NCCL_MAX_NCHANNELS", "automatic", warn, "warns if it is set", "NCCL chooses by the machine",
     "src/graph/connect.cc"},
    {"NCCL_IGNORE_NET_MISMATCH", "1, since 2.30", warn, "warns if it is 1",
     "a mismatch between nodes becomes a silent hang", "src/init.cc of 2.30"},
    {"NCCL_SOCKET_NTHREADS", "automatic", leave, "nothing", "NCCL chooses by the machine",
     "src/transport/net_socket.cc", many_nodes, true},
    {"NCCL_NSOCKS_PERTHREAD", "automatic", leave, "nothing", "NCCL chooses by the machine",
     "src/transport/net_socket.cc", many_nodes, true},
    {"NCCL_HOSTID", "hostname and boot id", warn, "warns if it is set",
     "ranks of one node with different values do not use NVLink between them: for tests only",
     "src/misc/utils.cc"},
};

std::string_view action_name(NcclAction action) {
    constexpr std::array<std::string_view, 4> kNames = {"set", "left", "warned about", "profile"};
    return kNames[static_cast<std::size_t>(action)];
}

}  // namespace

std::span<const NcclVariable> nccl_variables() { return kVariables; }

const NcclVariable* find_nccl_variable(std::string_view name) {
    const auto* found =
        std::find_if(std::begin(kVariables), std::end(kVariables),
                     [&](const NcclVariable& variable) { return variable.name == name; });
    return found == std::end(kVariables) ? nullptr : found;
}

std::string nccl_variables_markdown() {
    std::string text =
        "| variable | | NCCL's default | what autolaunch does | why | source "
        "|\n|---|---|---|---|---|---|\n";
    for (const NcclVariable& row : kVariables)
        text +=
            fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", row.name, action_name(row.action),
                        row.default_value, row.what, row.reason, row.source);
    return text;
}

}  // namespace autolaunch::launcher
