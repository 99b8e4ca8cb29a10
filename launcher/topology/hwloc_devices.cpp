#include "base/text.hpp"
#include "topology/capture_parts.hpp"
#include "topology/cpu_sets.hpp"
#include "topology/hwloc_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string_view>

namespace autolaunch::launcher::from_hwloc {
namespace {

constexpr unsigned kVendorNvidia = 0x10de, kVendorAmd = 0x1002;
constexpr unsigned kClassDisplay = 0x03, kClassVga = 0x0300, kClassAccelerator = 0x12;
constexpr unsigned kClassOtherBridge = 0x0680;  // NVSwitch
constexpr unsigned kClassEthernet = 0x0200, kClassInfiniBand = 0x0207;

std::string bdf_of(hwloc_obj_t pci) {
    const auto& a = pci->attr->pcidev;
    return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", static_cast<unsigned>(a.domain), a.bus, a.dev,
                       a.func);
}

bool is_host_bridge(hwloc_obj_t bridge) {
    return bridge->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
}

// hwloc has an object for each PCI bridge, as sysfs has a folder: the names are sysfs's.
std::vector<std::string> pci_path_of(hwloc_obj_t pci) {
    std::vector<std::string> path;
    for (hwloc_obj_t bridge = pci->parent; bridge && bridge->type == HWLOC_OBJ_BRIDGE;
         bridge = bridge->parent) {
        const auto& below = bridge->attr->bridge.downstream.pci;
        path.push_back(is_host_bridge(bridge)
                           ? fmt::format("pci{:04x}:{:02x}", static_cast<unsigned>(below.domain),
                                         below.secondary_bus)
                           : bdf_of(bridge));
    }
    std::reverse(path.begin(), path.end());
    return path;
}

// The PCI device that an operating system's device belongs to.
hwloc_obj_t pci_of(hwloc_obj_t device) {
    for (hwloc_obj_t object = device->parent; object; object = object->parent)
        if (object->type == HWLOC_OBJ_PCI_DEVICE)
            return object;
    return nullptr;
}

std::vector<hwloc_obj_t> os_devices_of(hwloc_obj_t pci) {
    std::vector<hwloc_obj_t> devices;
    for (hwloc_obj_t child = pci->io_first_child; child; child = child->next_sibling)
        if (child->type == HWLOC_OBJ_OS_DEVICE && child->name)
            devices.push_back(child);
    return devices;
}

// A server board's own VGA chip may be AMD's too: such a one has no compute or render device.
bool has_compute_device(hwloc_obj_t pci) {
    const auto devices = os_devices_of(pci);
    return std::any_of(devices.begin(), devices.end(), [](hwloc_obj_t device) {
        const std::string_view name = device->name;
        return name.starts_with("rsmi") || name.starts_with("opencl") ||
               name.starts_with("renderD");
    });
}

const char* gpu_vendor(hwloc_obj_t pci) {
    const auto& attributes = pci->attr->pcidev;
    const unsigned base_class = attributes.class_id >> 8;
    if (base_class != kClassDisplay && base_class != kClassAccelerator)
        return nullptr;
    if (attributes.vendor_id == kVendorNvidia)
        return "nvidia";
    if (attributes.vendor_id != kVendorAmd)
        return nullptr;
    return attributes.class_id != kClassVga || has_compute_device(pci) ? "amd" : nullptr;
}

struct Near {
    std::optional<int> node;
    std::vector<int> cpus;
};

Near near(hwloc_topology_t topology, hwloc_obj_t device, const std::vector<NumaNode>& nodes) {
    const hwloc_obj_t ancestor = hwloc_get_non_io_ancestor_obj(topology, device);
    Near result{std::nullopt, numbers(ancestor->cpuset)};
    for (const NumaNode& node : nodes)
        if (!result.cpus.empty() && is_subset(result.cpus, node.cpus))
            result.node = node.index;
    const hwloc_obj_t root = hwloc_get_root_obj(topology);
    if (!result.node && hwloc_bitmap_isequal(ancestor->cpuset, root->cpuset))
        result.cpus.clear();  // says nothing
    return result;
}

// What the drivers' libraries told hwloc; sizes are in KiB.
void describe(hwloc_obj_t os_device, Gpu& gpu) {
    if (const std::string uuid = info(os_device, "NVIDIAUUID"); !uuid.empty())
        gpu.uuid = uuid;
    const std::string amd = info(os_device, "AMDUUID");
    if (amd.find_first_not_of('0') != amd.npos)
        gpu.uuid = "GPU-" + amd;  // as sysfs's unique_id; zeros: not told
    if (const std::string model = info(os_device, "GPUModel"); !model.empty())
        gpu.model = model;
    for (const char* name :
         {"CUDAGlobalMemorySize", "RSMIVRAMSize", "OpenCLGlobalMemorySize", "NVMLMemorySize"}) {
        long long kib = 0;
        if (gpu.memory_bytes == 0 && parse_integer(info(os_device, name), kib) && kib > 0 &&
            kib < 1LL << 40)
            gpu.memory_bytes = static_cast<std::uint64_t>(kib) * 1024;
    }
}

// rocm-smi's number of each device that it shows there, and the device.
std::map<int, hwloc_obj_t> rsmi_devices_of(hwloc_obj_t pci) {
    std::map<int, hwloc_obj_t> devices;  // by number: their order is not the file's
    for (const hwloc_obj_t device : os_devices_of(pci)) {
        long long number = 0;
        const std::string_view name = device->name;
        if (name.starts_with("rsmi") && parse_integer(name.substr(4), number) && number >= 0 &&
            number < 4096)
            devices.emplace(static_cast<int>(number), device);
    }
    return devices;
}

// ROCm shows each partition of an MI300 as a device of its own, with the PCI function of the whole.
std::vector<Gpu> partitions_of(hwloc_obj_t pci, const Gpu& whole) {
    const auto partitions = rsmi_devices_of(pci);
    if (partitions.size() == 1) {
        Gpu gpu = whole;
        gpu.runtime_index = partitions.begin()->first;
        return {gpu};
    }
    if (partitions.empty())
        return {whole};
    std::vector<Gpu> gpus;
    std::set<std::string> uuids;
    for (const auto& [number, device] : partitions) {
        Gpu gpu = whole;
        gpu.uuid.clear();
        gpu.memory_bytes = 0;
        describe(device, gpu);
        gpu.runtime_index = number;
        uuids.insert(gpu.uuid);
        gpus.push_back(std::move(gpu));
    }
    const bool is_of_whole = uuids.size() == 1;  // some versions tell the whole one's UUID for each
    for (Gpu& gpu : gpus) {
        gpu.partition_of = is_of_whole && !gpu.uuid.empty() ? gpu.uuid : gpu.bdf;
        if (is_of_whole)
            gpu.uuid.clear();
    }
    return gpus;
}

void read_gpus(hwloc_topology_t topology, const std::vector<NumaNode>& all, NodeTopology& result) {
    for (hwloc_obj_t pci = nullptr; (pci = hwloc_get_next_pcidev(topology, pci));) {
        const char* vendor = gpu_vendor(pci);
        if (!vendor)
            continue;
        Gpu gpu;
        gpu.bdf = bdf_of(pci);
        gpu.vendor = vendor;
        gpu.model = info(pci, "PCIDevice");
        gpu.pci_path = pci_path_of(pci);
        for (const hwloc_obj_t device : os_devices_of(pci))
            describe(device, gpu);
        const Near place = near(topology, pci, all);
        gpu.numa_node = place.node;
        if (!place.cpus.empty())
            gpu.numa_source = "hwloc locality";
        gpu.local_cpus = intersect(place.cpus, result.allowed_cpus);
        if (gpu.numa_node)
            gpu.node_distances = node_distances(topology, *gpu.numa_node, result.numa_nodes);
        for (Gpu& one : partitions_of(pci, gpu))
            result.gpus.push_back(std::move(one));
    }
}

// "fe80:0000:0000:0000:0c42:a103:006f:14ec"
std::optional<Gid> parse_gid(const std::string& text) {
    const std::vector<std::string> groups = split(text, ':');
    Gid gid;
    if (groups.size() != 8)
        return std::nullopt;
    for (std::size_t i = 0; i < groups.size(); ++i) {
        char* end = nullptr;
        const unsigned long value = std::strtoul(groups[i].c_str(), &end, 16);
        if (groups[i].empty() || *end != 0 || value > 0xffff)
            return std::nullopt;
        gid.bytes[2 * i] = static_cast<std::uint8_t>(value >> 8);
        gid.bytes[2 * i + 1] = static_cast<std::uint8_t>(value & 0xff);
    }
    return gid;
}

// hwloc tells a port's state, LID and first GID; not its rate. The class of the PCI function tells
// the link layer.
Hca::Port read_port(hwloc_obj_t object, int number, unsigned pci_class) {
    const auto field = [&](const char* name) {
        return info(object, fmt::format("Port{}{}", number, name).c_str());
    };
    Hca::Port port;
    port.number = number;
    port.active = field("State") == "4";
    port.lid = static_cast<int>(std::strtol(field("LID").c_str(), nullptr, 16));
    if (pci_class == kClassInfiniBand || port.lid > 0)
        port.link_layer = "InfiniBand";
    if (pci_class == kClassEthernet && port.lid == 0)
        port.link_layer = "Ethernet";
    const auto gid = parse_gid(field("GID0"));
    if (gid && port.link_layer == "InfiniBand")
        port.gids.push_back(*gid);
    return port;
}

// Interfaces of the same PCI function; hwloc counts their ports from 1.
void name_interfaces(hwloc_obj_t pci, Hca& hca) {
    for (const hwloc_obj_t device : os_devices_of(pci)) {
        if (device->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK)
            continue;
        long long number = 1;
        parse_integer(info(device, "Port"), number);
        for (Hca::Port& port : hca.ports)
            if (port.number == number && port.netdev.empty())
                port.netdev = device->name;
    }
}

Hca read_hca(hwloc_topology_t topology, hwloc_obj_t object, const std::vector<NumaNode>& all) {
    Hca hca;
    hca.name = object->name;
    hca.numa_node = near(topology, object, all).node;
    const hwloc_obj_t pci = pci_of(object);
    const unsigned pci_class = pci ? pci->attr->pcidev.class_id : 0;
    for (int port = 1;
         port < 255 && !info(object, fmt::format("Port{}State", port).c_str()).empty(); ++port)
        hca.ports.push_back(read_port(object, port, pci_class));
    if (!pci)
        return hca;
    hca.bdf = bdf_of(pci);
    hca.pci_id =
        fmt::format("{:04x}:{:04x}", pci->attr->pcidev.vendor_id, pci->attr->pcidev.device_id);
    hca.pci_path = pci_path_of(pci);
    name_interfaces(pci, hca);
    return hca;
}

// hwloc shows its interface ("hsi0"), and newer versions libfabric's device ("cxi0"). Neither has a
// state.
void add_slingshot(hwloc_topology_t topology, hwloc_obj_t object, const std::vector<NumaNode>& all,
                   NodeTopology& result) {
    Hca nic = read_hca(topology, object, all);
    nic.is_named = nic.name.starts_with("cxi");
    nic.ports = {{1, true, kSlingshot, 0}};
    const auto same = std::find_if(result.hcas.begin(), result.hcas.end(), [&](const Hca& other) {
        return !nic.bdf.empty() && other.bdf == nic.bdf;
    });
    if (!nic.is_named)
        nic.ports.front().netdev = nic.name;
    if (same == result.hcas.end()) {
        result.hcas.push_back(std::move(nic));
        return;
    }
    if (nic.is_named)
        same->name = nic.name, same->is_named = true;
    else
        same->ports.front().netdev = nic.name;
}

bool is_slingshot(hwloc_obj_t object) {
    constexpr unsigned kVendorCray = 0x17db;
    const hwloc_obj_t pci = pci_of(object);
    return pci && pci->attr->pcidev.vendor_id == kVendorCray;
}

void read_networks(hwloc_topology_t topology, const std::vector<NumaNode>& all,
                   NodeTopology& result) {
    for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_osdev(topology, object));) {
        if (!object->name)
            continue;
        if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK) {
            const hwloc_obj_t pci = pci_of(object);
            result.network_interfaces.push_back(
                {object->name, true, false, 0, {}, pci ? bdf_of(pci) : ""});
        }
        if (is_slingshot(object))
            add_slingshot(topology, object, all, result);
        else if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
            result.hcas.push_back(read_hca(topology, object, all));
    }
}

using Pair = std::pair<std::string, std::string>;

Pair ordered(const std::string& a, const std::string& b) { return a < b ? Pair{a, b} : Pair{b, a}; }

// "XGMIPeers" of rsmi0 names rsmi1 and more.
void find_xgmi(hwloc_topology_t topology, std::set<Pair>& pairs) {
    std::map<std::string, std::string> bdfs;
    for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_osdev(topology, object));)
        if (const hwloc_obj_t pci = pci_of(object); pci && object->name)
            bdfs.emplace(object->name, bdf_of(pci));
    for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_osdev(topology, object));) {
        if (!object->name || !bdfs.contains(object->name))
            continue;
        for (const std::string& peer : split(info(object, "XGMIPeers"), ' ')) {
            const auto found = bdfs.find(peer);
            if (found != bdfs.end() && found->second != bdfs[object->name])
                pairs.insert(ordered(bdfs[object->name], found->second));
        }
    }
}

// The matrix has GPUs and the ports of NVSwitches: GPUs with a link to a switch reach each other
// through it.
void find_nvlink(hwloc_topology_t topology, std::set<Pair>& pairs) {
    unsigned count = 1;
    hwloc_distances_s* raw = nullptr;
    if (hwloc_distances_get_by_name(topology, "NVLinkBandwidth", &count, &raw, 0) != 0 ||
        count == 0)
        return;
    const auto release = [topology](hwloc_distances_s* matrix) {
        hwloc_distances_release(topology, matrix);
    };
    const std::unique_ptr<hwloc_distances_s, decltype(release)> matrix(raw, release);
    const auto gpu_of = [](hwloc_obj_t object) -> std::string {
        const hwloc_obj_t pci =
            object && object->type == HWLOC_OBJ_OS_DEVICE ? pci_of(object) : object;
        return pci && pci->type == HWLOC_OBJ_PCI_DEVICE && gpu_vendor(pci) ? bdf_of(pci) : "";
    };
    std::vector<std::string> gpus;
    std::vector<bool> is_switch;  // else, where it is no GPU, a CPU
    for (unsigned i = 0; i < matrix->nbobjs; ++i) {
        const hwloc_obj_t object = matrix->objs[i];
        gpus.push_back(gpu_of(object));
        is_switch.push_back(object && object->type == HWLOC_OBJ_PCI_DEVICE &&
                            object->attr->pcidev.class_id == kClassOtherBridge);
    }
    std::set<std::string> on_a_switch;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        for (std::size_t j = 0; j < gpus.size() && !gpus[i].empty(); ++j) {
            if (matrix->values[i * gpus.size() + j] == 0 || i == j || gpus[i] == gpus[j])
                continue;
            if (is_switch[j])
                on_a_switch.insert(gpus[i]);
            else if (!gpus[j].empty())
                pairs.insert(ordered(gpus[i], gpus[j]));
        }
    }
    for (const std::string& a : on_a_switch)
        for (const std::string& b : on_a_switch)
            if (a < b)
                pairs.insert({a, b});
}

void add_notes(hwloc_topology_t topology, NodeTopology& result) {
    const auto add = [&](const char* note) { result.notes.emplace_back(note); };
    if (!hwloc_get_next_pcidev(topology, nullptr))
        return add("the file has no PCI devices: no GPUs and HCAs are told");
    bool has_bridges = false;
    for (hwloc_obj_t bridge = nullptr; (bridge = hwloc_get_next_bridge(topology, bridge));)
        has_bridges = has_bridges || !is_host_bridge(bridge);
    if (!has_bridges)
        add("the file has no PCI bridges: devices below one switch look as below one host bridge");
    if (!result.hcas.empty())
        add("the rates of HCAs are not told");
}

}  // namespace

void read_devices(hwloc_topology_t topology, const std::vector<NumaNode>& all,
                  NodeTopology& result) {
    read_gpus(topology, all, result);
    read_networks(topology, all, result);
    put_in_order(result);
    std::set<Pair> pairs;
    find_xgmi(topology, pairs);
    find_nvlink(topology, pairs);
    for (const auto& [a, b] : pairs)
        result.told_paths.push_back({a, b, PathClass::nvlink, 0});
    add_notes(topology, result);
}

}  // namespace autolaunch::launcher::from_hwloc
