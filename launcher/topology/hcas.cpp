#include "base/text.hpp"
#include "topology/readers.hpp"
#include "topology/system_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>

namespace autolaunch::launcher {
namespace {

// Tables of GIDs have up to 256 entries a port, nearly all empty. NCCL looks at all of them; a
// launch reads RoCE's in blocks, until one ends with holes: the kernel fills the lowest hole first.
constexpr int kGidBlock = 16, kHolesAtEnd = 4, kMostGids = 1024;
constexpr int kPkeys = 8, kMostPkeys = 128;

std::string class_folder(const TopologyOptions& options) {
    return options.sysfs_root + "/class/infiniband";
}

/// An HCA's folder and what lies beside it.
struct Place {
    std::string folder;  ///< sys/class/infiniband/mlx5_0
    std::vector<std::string>
        net_names;  ///< network interfaces of its device in our network namespace
};

// "fe80:0000:0000:0000:0002:c903:0010:f3b1"
std::optional<std::array<std::uint8_t, 16>> parse_gid(std::string_view text) {
    std::array<std::uint8_t, 16> bytes = {};
    if (text.size() != 39)
        return std::nullopt;
    for (std::size_t group = 0; group < 8; ++group) {
        const char* const begin = text.data() + group * 5;
        unsigned value = 0;
        const auto parsed = std::from_chars(begin, begin + 4, value, 16);
        if (parsed.ptr != begin + 4 || (group < 7 && begin[4] != ':'))
            return std::nullopt;
        bytes[2 * group] = static_cast<std::uint8_t>(value >> 8);
        bytes[2 * group + 1] = static_cast<std::uint8_t>(value);
    }
    return bytes;
}

// A hole is all zeros, and reading its type fails with EINVAL.
std::optional<Gid> read_gid(const std::string& port_folder, int index, bool is_ethernet) {
    const auto bytes =
        parse_gid(read_small(fmt::format("{}/gids/{}", port_folder, index)).value_or(""));
    if (!bytes || *bytes == std::array<std::uint8_t, 16>{})
        return std::nullopt;
    Gid gid;
    gid.index = index;
    gid.bytes = *bytes;
    if (!is_ethernet)
        return gid;
    const auto type = read_small(fmt::format("{}/gid_attrs/types/{}", port_folder, index));
    if (!type)
        return std::nullopt;
    gid.roce_version = *type == "RoCE v2" ? 2 : 1;  // version 1 is called "IB/RoCE v1"
    gid.netdev = read_small(fmt::format("{}/gid_attrs/ndevs/{}", port_folder, index)).value_or("");
    return gid;
}

bool ends_with_holes(const std::vector<Gid>& gids, int read) {
    return gids.empty() || gids.back().index < read - kHolesAtEnd;
}

void read_gids(const std::string& port_folder, bool is_ethernet, bool details, Hca::Port& port) {
    const int most =
        details || is_ethernet ? kMostGids : 1;  // of InfiniBand the first is nearly always the one
    for (int index = 0; index < most; ++index) {
        if (index > 0 && index % kGidBlock == 0 && !details && ends_with_holes(port.gids, index))
            return;
        // Tables differ in length; asking for the end once in 64 is cheaper than listing the
        // folder.
        if (index % 64 == 0 && !exists(fmt::format("{}/gids/{}", port_folder, index)))
            return;
        if (auto gid = read_gid(port_folder, index, is_ethernet))
            port.gids.push_back(std::move(*gid));
        port.gids_read = index + 1;
    }
}

std::vector<std::uint16_t> read_pkeys(const std::string& port_folder, bool details) {
    std::vector<std::uint16_t> keys;
    for (int index = 0; index < (details ? kMostPkeys : kPkeys); ++index) {
        const auto text = read_small(fmt::format("{}/pkeys/{}", port_folder, index));
        const long long key =
            text && text->starts_with("0x") ? std::strtoll(text->c_str(), nullptr, 16) : -1;
        if (key < 0 || key > 0xffff)
            break;
        keys.push_back(static_cast<std::uint16_t>(key));
    }
    return keys;
}

// mlx5 of NVIDIA's own driver packages has the file, empty or with "Global tclass=106" and rules
// for single addresses.
std::optional<int> read_traffic_class(const std::string& hca_folder, int port) {
    constexpr std::string_view kGlobal = "Global tclass=";
    const auto text = read_small(fmt::format("{}/tc/{}/traffic_class", hca_folder, port));
    if (!text)
        return std::nullopt;
    if (!text->starts_with(kGlobal))
        return -1;
    long long value = 0;
    if (!parse_integer(std::string_view(split(*text, '\n').front()).substr(kGlobal.size()), value))
        return std::nullopt;
    return value >= 0 && value < 256 ? std::optional(static_cast<int>(value)) : std::nullopt;
}

// The interfaces of a device are told apart by dev_port, or by dev_id where the driver is old. A
// switch's virtual ports
// ("pf0vf1") are under their adapter too.
std::string find_netdev(const TopologyOptions& options, const std::vector<std::string>& names,
                        int port) {
    for (const std::string& name : names) {
        const std::string folder = options.sysfs_root + "/class/net/" + name;
        if (!exists(folder))
            continue;
        if (names.size() == 1)
            return name;
        const long long dev_port = read_number(folder + "/dev_port").value_or(0);
        const long long dev_id =
            std::strtoll(read_small(folder + "/dev_id").value_or("0").c_str(), nullptr, 0);
        if ((dev_port != 0 ? dev_port : dev_id) != port - 1)
            continue;
        const std::string role = read_small(folder + "/phys_port_name").value_or("");
        if (role.starts_with("pf") || role.find("vf") != std::string::npos)
            continue;
        return name;
    }
    return {};
}

// RoCE over a bond: the port's GIDs are the bond's, its device has one of the bond's members.
std::string bond_above(const TopologyOptions& options, const std::string& netdev,
                       const std::vector<Gid>& gids) {
    for (const Gid& gid : gids) {
        if (gid.netdev.empty() || gid.netdev == netdev)
            continue;
        if (exists(
                fmt::format("{}/class/net/{}/lower_{}", options.sysfs_root, gid.netdev, netdev)) &&
            exists(fmt::format("{}/class/net/{}/bonding", options.sysfs_root, gid.netdev)))
            return gid.netdev;
    }
    return netdev;
}

// What the kernel makes of the interface's MTU (iboe_get_mtu): the largest of InfiniBand's that
// fits beside 96 bytes of headers, and 4096 at most.
int roce_mtu(long long netdev_mtu) {
    int mtu = 0;
    for (const int candidate : {256, 512, 1024, 2048, 4096})
        if (netdev_mtu - 96 >= candidate)
            mtu = candidate;
    return mtu;
}

// state is "4: ACTIVE", rate is "400 Gb/sec (4X NDR)", lid is "0x1a".
Hca::Port read_port(const TopologyOptions& options, const Place& place, int number) {
    const std::string folder = fmt::format("{}/ports/{}", place.folder, number);
    Hca::Port port;
    port.number = number;
    port.active = read_small(folder + "/state").value_or("").starts_with("4:");
    port.link_layer = read_small(folder + "/link_layer").value_or("");
    port.rate_gbps = std::strtod(read_small(folder + "/rate").value_or("0").c_str(), nullptr);
    port.netdev = find_netdev(options, place.net_names, number);
    const bool is_ethernet = port.link_layer == "Ethernet";
    if (!is_ethernet) {
        const long long lid =
            std::strtoll(read_small(folder + "/lid").value_or("0").c_str(), nullptr, 0);
        port.lid = lid > 0 && lid < 1 << 24 ? static_cast<int>(lid) : 0;
    }
    if (port.active || options.details) {
        read_gids(folder, is_ethernet, options.details, port);
        if (is_ethernet)
            port.traffic_class = read_traffic_class(place.folder, number);
        else
            port.pkeys = read_pkeys(folder, options.details);
    }
    if (!is_ethernet || port.netdev.empty())
        return port;
    port.netdev = bond_above(options, port.netdev, port.gids);
    port.mtu_bytes =
        roce_mtu(read_number(fmt::format("{}/class/net/{}/mtu", options.sysfs_root, port.netdev))
                     .value_or(0));
    return port;
}

// HCA name -> its device node's name: "mlx5_0" -> "uverbs0".
std::map<std::string, std::string> read_verbs_names(const TopologyOptions& options) {
    const std::string folder = options.sysfs_root + "/class/infiniband_verbs";
    std::map<std::string, std::string> names;
    for (const std::string& name : list_directory(folder))
        if (const auto hca = read_small(folder + "/" + name + "/ibdev"))
            names.emplace(*hca, name);
    return names;
}

bool may_open_verbs(const TopologyOptions& options, const std::string& verbs_name) {
    if (!exists(options.dev_root))
        return true;  // a saved tree without device nodes
    return !verbs_name.empty() && may_open(options, options.dev_root + "/infiniband/" + verbs_name);
}

// The device link names the PCI function, or a part of it ("mlx5_core.sf.4") whose own place tells
// the function.
std::string read_bdf(const std::string& hca_folder) {
    const std::string target = bdf_in_path(read_link(hca_folder + "/device"));
    if (!target.empty())
        return target;
    std::error_code error;
    const auto device = std::filesystem::canonical(hca_folder + "/device", error);
    return error ? std::string() : bdf_in_path(device);
}

}  // namespace

std::optional<bool> read_peermem(const std::string& sysfs_root) {
    if (!exists(sysfs_root + "/module"))
        return std::nullopt;  // a saved tree without it
    const auto loaded = [&](const char* file) { return exists(sysfs_root + file); };
    return loaded("/module/nvidia_peermem/version") ||
           loaded("/kernel/mm/memory_peers/nv_mem/version") ||
           loaded("/kernel/mm/memory_peers/nv_mem_nc/version");
}

std::vector<Hca> read_hcas(const TopologyOptions& options,
                           const std::vector<SystemNumaNode>& nodes) {
    std::vector<Hca> hcas;
    const auto names = list_directory(class_folder(options));
    const auto verbs_names =
        names.empty() ? std::map<std::string, std::string>{} : read_verbs_names(options);
    for (const std::string& name : names) {
        const std::string folder = class_folder(options) + "/" + name;
        const Place place = {folder, list_directory(folder + "/device/net")};
        Hca hca;
        hca.name = name;
        hca.bdf = read_bdf(folder);
        hca.numa_node = read_pci_locality(options.sysfs_root, hca.bdf, nodes).numa_node;
        hca.pci_path = read_pci_path(options.sysfs_root, hca.bdf);
        hca.pci_id = read_pci_id(options.sysfs_root, hca.bdf);
        const auto verbs = verbs_names.find(name);
        hca.can_open = may_open_verbs(options, verbs == verbs_names.end() ? "" : verbs->second);
        for (const std::string& port : list_directory(folder + "/ports")) {
            long long number = 0;
            if (parse_integer(port, number) && number > 0 && number < 256)
                hca.ports.push_back(read_port(options, place, static_cast<int>(number)));
        }
        hcas.push_back(std::move(hca));
    }
    return hcas;
}

std::vector<Hca> read_slingshot(const TopologyOptions& options,
                                const std::vector<SystemNumaNode>& nodes,
                                const std::vector<NetworkInterface>& interfaces) {
    const std::string folder = options.sysfs_root + "/class/cxi";
    std::vector<Hca> nics;
    for (const std::string& name : list_directory(folder)) {
        Hca nic;
        nic.name = name;
        nic.bdf = read_bdf(folder + "/" + name);
        nic.numa_node = read_pci_locality(options.sysfs_root, nic.bdf, nodes).numa_node;
        nic.pci_path = read_pci_path(options.sysfs_root, nic.bdf);
        nic.pci_id = read_pci_id(options.sysfs_root, nic.bdf);
        nic.can_open =
            !exists(options.dev_root) || may_open(options, options.dev_root + "/" + name);
        Hca::Port port;
        port.link_layer = kSlingshot;
        for (const NetworkInterface& interface : interfaces)
            if (!nic.bdf.empty() && interface.bdf == nic.bdf) {
                port.netdev = interface.name;
                port.active = interface.is_running;
                port.rate_gbps = interface.rate_gbps;
            }
        nic.ports.push_back(std::move(port));
        nics.push_back(std::move(nic));
    }
    return nics;
}

}  // namespace autolaunch::launcher
