#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// One machine as placement sees it. CPU and NUMA numbers are the kernel's; lists are sorted.

struct Core {
    std::vector<int> cpus;  ///< its hardware threads that we may use, first thread first
    int package = 0;        ///< ordinal of its socket
    int numa_node = 0;
    int l3 = 0;  ///< ordinal of the last-level cache it shares
};

struct NumaNode {
    int index = 0;
    std::uint64_t memory_bytes = 0;
    std::vector<int> cpus;  ///< allowed ones
    std::vector<int>
        distances;  ///< to topology.numa_nodes, in their order; empty when the firmware gives none
};

/// CPUs of one kind that are there and that no rank gets.
struct UnusableCpus {
    enum class Why { offline, not_allowed } why = Why::offline;
    std::vector<int> cpus;
    std::optional<int> package;    ///< as Core::package; nothing: not told
    std::optional<int> numa_node;  ///< nothing: not told, or of several
    int cores = 0;                 ///< physical ones; 0: not told
};

/// A NUMA node on which no rank is placed.
struct OtherNumaNode {
    int index = 0;
    std::uint64_t memory_bytes = 0;
    std::vector<int> cpus;  ///< allowed ones
    std::string why;        ///< "no CPUs: memory alone"
};

struct Gpu {
    std::string bdf;  ///< PCI address, lower case: "0000:17:00.0"; MIG devices and partitions share
                      ///< their GPU's
    std::string uuid;  ///< empty when no driver told it
    std::string model;
    std::string vendor;  ///< "nvidia", "amd"
    /// UUID (else PCI address) of the GPU that this MIG device or partition is cut from; empty: a
    /// whole one. A GPU that is cut up is not listed itself: nobody is given it.
    std::string partition_of = {};
    std::uint64_t memory_bytes = 0;  ///< 0: unknown
    /// What is above it on the PCI bus, root first: "pci0000:16", "0000:16:01.0", …; empty:
    /// unknown.
    std::vector<std::string> pci_path = {};
    int index = 0;  ///< in PCI order among the node's GPUs
    std::optional<int> runtime_index =
        {};  ///< the vendor's runtime's number of it where that is told and not `index`
    std::optional<int> numa_node;  ///< nothing: unknown
    std::string numa_source;       ///< which source said so: "sysfs numa_node", …
    std::vector<int> local_cpus;  ///< allowed CPUs near it; empty: none of those near it is allowed
    /// From its NUMA node to topology.numa_nodes, in their order; empty when unknown. Its own node
    /// need not be among them: a cpuset may leave out all CPUs near the GPU.
    std::vector<int> node_distances;
    bool can_open = true;  ///< false: its permissions or a device cgroup keep it from us; the
                           ///< runtime does not count it
};

/// An entry of a port's GID table. Holes are left out, so `index` need not count up.
struct Gid {
    int index = 0;
    std::array<std::uint8_t, 16> bytes =
        {};                   ///< network order, an IPv6 address (IPv4 as ::ffff:a.b.c.d)
    int roce_version = 0;     ///< 1 or 2; 0: InfiniBand
    std::string netdev = {};  ///< "eth0"; empty: unknown
};

/// HPE Slingshot's NICs: libfabric speaks to them (cxi0) and the kernel as Ethernet (hsn0, hsi0),
/// no verbs.
inline constexpr const char* kSlingshot = "Slingshot";

struct Hca {
    std::string name;  ///< "mlx5_0", "cxi0"
    std::string bdf;
    std::optional<int> numa_node;
    struct Port {
        int number = 1;
        bool active = false;
        std::string link_layer;  ///< "InfiniBand", "Ethernet", kSlingshot, …
        double rate_gbps = 0;
        std::string netdev = {};  ///< its network interface, where that is in our network namespace
        int mtu_bytes = 0;        ///< active MTU of the port; 0: unknown
        int lid = 0;
        std::vector<Gid> gids = {};
        int gids_read = 0;  ///< how many entries of its table were looked at, from the first
        /// InfiniBand: the first entries of its table of partition keys; 0: an empty one. None:
        /// unknown.
        std::vector<std::uint16_t> pkeys = {};
        /// That its driver forces upon all traffic; -1: it forces none; nothing: unknown.
        std::optional<int> traffic_class = {};
    };
    std::vector<Port> ports;
    std::string pci_id = {};                 ///< "15b3:1021", vendor and device; empty: unknown
    std::vector<std::string> pci_path = {};  ///< as Gpu::pci_path
    bool can_open = true;  ///< its uverbs device may be opened for reading and writing
    std::optional<bool> dmabuf =
        {};  ///< its driver registers memory by dma-buf; nothing: nobody has tried
    /// False: a capture does not tell its name, and `name` stands for it: "NIC0", a PCI address.
    bool is_named = true;
};

struct NetworkInterface {
    std::string name;
    bool is_running = true;
    bool has_default_route = false;
    double rate_gbps = 0;                     ///< 0: unknown
    std::vector<std::string> addresses = {};  ///< numeric, without prefix length
    std::string bdf = {};                     ///< empty: virtual, or unknown
};

/// How two devices reach each other, nearest first; the names are nvidia-smi's and NCCL's.
enum class PathClass {
    nvlink,   ///< NVLink or xGMI
    pix,      ///< one PCIe switch
    pxb,      ///< several PCIe switches, below one host bridge
    phb,      ///< through a host bridge
    node,     ///< through several host bridges of one NUMA node
    sys,      ///< between NUMA nodes
    unknown,  ///< nothing says it
};

/// A path that was told as such, by `nvidia-smi topo -m` or the driver: it wins over what PCI
/// addresses suggest.
struct ToldPath {
    std::string from, to;  ///< a GPU's PCI address (or "GPU0" where a capture has none), and the
                           ///< same or an HCA's name
    PathClass path = PathClass::unknown;
    int links = 0;  ///< of NVLink
};

inline constexpr const char* kThisMachine = "this machine";

struct NodeTopology {
    std::string hostname;
    std::string cpu_model;
    std::vector<Core> cores;           ///< with at least one allowed CPU, by first CPU
    bool cores_are_told = true;        ///< false: a capture told CPUs alone, each stands for a core
    std::vector<NumaNode> numa_nodes;  ///< with CPUs and memory that we may use; empty: not told
    std::vector<UnusableCpus> unusable_cpus = {};      ///< by package; for people
    std::vector<OtherNumaNode> other_numa_nodes = {};  ///< by index; for people
    std::vector<Gpu> gpus;                             ///< in PCI order, all that the machine shows
    std::vector<Hca> hcas;          ///< by name, as people count: mlx5_2 before mlx5_10
    std::vector<int> allowed_cpus;  ///< affinity mask ∩ cpuset
    std::optional<double> cpu_quota =
        {};  ///< CPUs' worth of time that the cgroup allows; nothing: no limit
    std::optional<std::uint64_t> memory_limit_bytes =
        {};  ///< that the cgroup allows all ranks; nothing: no limit
    std::vector<NetworkInterface> network_interfaces;  ///< of our network namespace, by name
    std::vector<ToldPath> told_paths;
    std::vector<std::uint64_t> l3_bytes;  ///< by Core::l3; empty: unknown
    std::string source = kThisMachine;    ///< or the capture's file name
    std::map<std::string, std::string> identity =
        {};  ///< of a saved machine: as read_machine_identity() tells it
    int package_count = 1;
    std::optional<bool> peermem =
        {};  ///< nvidia-peermem is loaded; nothing: unknown, or there is no HCA
    std::vector<std::string> notes;  ///< what was seen and left out, one sentence each
};

}  // namespace autolaunch::launcher
