#include "topology/hwloc_topology.hpp"

#include "topology/system_files.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string_view>

namespace autolaunch::launcher {
namespace {

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

constexpr unsigned kVendorNvidia = 0x10de, kVendorAmd = 0x1002;
constexpr unsigned kClassDisplay = 0x03, kClassVga = 0x0300, kClassAccelerator = 0x12;

Topology load(const std::string& xml_path) {
    hwloc_topology_t raw = nullptr;
    if (hwloc_topology_init(&raw) != 0) throw Error(ErrorCode::system, "cannot initialise hwloc");
    Topology topology(raw, &hwloc_topology_destroy);
    hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_set_xml(raw, xml_path.c_str()) != 0 || hwloc_topology_load(raw) != 0) {
        throw Error(ErrorCode::invalid_argument, fmt::format("hwloc cannot read the topology in {}", xml_path),
                    "save one with: lstopo --whole-system file.xml");
    }
    return topology;
}

std::vector<int> numbers(hwloc_const_bitmap_t bitmap) {
    std::vector<int> list;
    if (!bitmap || hwloc_bitmap_weight(bitmap) < 0) return list;  // infinite: not said
    for (int i = hwloc_bitmap_first(bitmap); i >= 0; i = hwloc_bitmap_next(bitmap, i)) list.push_back(i);
    return list;
}

std::string info(hwloc_obj_t object, const char* name) {
    const char* value = object ? hwloc_obj_get_info_by_name(object, name) : nullptr;
    return value ? value : "";
}

// Memory of GPUs, CXL and MCDRAM also shows as NUMA nodes, with the CPUs of the node beside it: of nodes with the same
// CPUs the one with the lowest number is the ordinary memory.
std::vector<NumaNode> all_numa_nodes(hwloc_topology_t topology) {
    std::vector<NumaNode> nodes;
    std::set<std::vector<int>> seen;
    for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object));) {
        NumaNode node;
        node.index = static_cast<int>(object->os_index);
        node.memory_bytes = object->attr->numanode.local_memory;
        node.cpus = numbers(object->cpuset);
        const bool gpu_memory = object->subtype && std::string_view(object->subtype) == "GPUMemory";
        if (!gpu_memory && !node.cpus.empty() && node.memory_bytes > 0) nodes.push_back(std::move(node));
    }
    std::sort(nodes.begin(), nodes.end(), [](const NumaNode& a, const NumaNode& b) { return a.index < b.index; });
    nodes.erase(std::remove_if(nodes.begin(), nodes.end(),
                               [&](const NumaNode& node) { return !seen.insert(node.cpus).second; }),
                nodes.end());
    return nodes;
}

// Latencies from `from` to `to` by the kernel's node numbers; empty when the file has none.
std::vector<int> node_distances(hwloc_topology_t topology, int from, const std::vector<NumaNode>& to) {
    unsigned count = 1;
    hwloc_distances_s* raw = nullptr;
    constexpr unsigned long kKind = HWLOC_DISTANCES_KIND_FROM_OS | HWLOC_DISTANCES_KIND_MEANS_LATENCY;
    if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, &raw, kKind, 0) != 0 || count == 0) return {};
    const auto release = [topology](hwloc_distances_s* matrix) { hwloc_distances_release(topology, matrix); };
    const std::unique_ptr<hwloc_distances_s, decltype(release)> matrix(raw, release);
    const auto column_of = [&](int node) -> int {
        for (unsigned i = 0; i < matrix->nbobjs; ++i)
            if (static_cast<int>(matrix->objs[i]->os_index) == node) return static_cast<int>(i);
        return -1;
    };
    const int row = column_of(from);
    std::vector<int> distances;
    for (const NumaNode& node : to) {
        const int column = column_of(node.index);
        if (row < 0 || column < 0) return {};
        const std::size_t cell = static_cast<std::size_t>(row) * matrix->nbobjs + static_cast<std::size_t>(column);
        distances.push_back(static_cast<int>(matrix->values[cell]));
    }
    return distances;
}

std::vector<Core> read_cores(hwloc_topology_t topology, const std::vector<int>& allowed,
                             const std::vector<NumaNode>& nodes) {
    std::vector<Core> cores;
    std::map<const hwloc_obj*, int> l3_ordinals;
    for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, object));) {
        Core core;
        core.cpus = intersect(numbers(object->cpuset), allowed);
        if (core.cpus.empty()) continue;
        for (const NumaNode& node : nodes)
            if (is_subset(core.cpus, node.cpus)) core.numa_node = node.index;
        const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object);
        core.package = package ? static_cast<int>(package->logical_index) : 0;
        const hwloc_obj* cache = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_L3CACHE, object);
        if (!cache) cache = object->parent;  // without an L3, what the cores hang from
        core.l3 = l3_ordinals.emplace(cache, static_cast<int>(l3_ordinals.size())).first->second;
        cores.push_back(std::move(core));
    }
    std::sort(cores.begin(), cores.end(), [](const Core& a, const Core& b) { return a.cpus.front() < b.cpus.front(); });
    return cores;
}

// A server board's own VGA chip may be AMD's too: such a one has no compute or render device.
bool has_compute_device(hwloc_obj_t pci) {
    for (hwloc_obj_t child = pci->io_first_child; child; child = child->next_sibling) {
        const std::string_view name = child->name ? child->name : "";
        for (const char* prefix : {"rsmi", "opencl", "renderD"})
            if (name.starts_with(prefix)) return true;
    }
    return false;
}

const char* gpu_vendor(hwloc_obj_t pci) {
    const auto& attributes = pci->attr->pcidev;
    const unsigned base_class = attributes.class_id >> 8;
    if (base_class != kClassDisplay && base_class != kClassAccelerator) return nullptr;
    if (attributes.vendor_id == kVendorNvidia) return "nvidia";
    if (attributes.vendor_id != kVendorAmd) return nullptr;
    return attributes.class_id != kClassVga || has_compute_device(pci) ? "amd" : nullptr;
}

std::string bdf_of(hwloc_obj_t pci) {
    const auto& a = pci->attr->pcidev;
    return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", static_cast<unsigned>(a.domain), a.bus, a.dev, a.func);
}

struct Near {
    std::optional<int> node;
    std::vector<int> cpus;
};

Near near(hwloc_topology_t topology, hwloc_obj_t device, const std::vector<NumaNode>& nodes) {
    const hwloc_obj_t ancestor = hwloc_get_non_io_ancestor_obj(topology, device);
    Near result{std::nullopt, numbers(ancestor->cpuset)};
    for (const NumaNode& node : nodes)
        if (!result.cpus.empty() && is_subset(result.cpus, node.cpus)) result.node = node.index;
    const hwloc_obj_t root = hwloc_get_root_obj(topology);
    if (!result.node && hwloc_bitmap_isequal(ancestor->cpuset, root->cpuset)) result.cpus.clear();  // says nothing
    return result;
}

void read_gpus(hwloc_topology_t topology, const std::vector<NumaNode>& all, NodeTopology& result) {
    for (hwloc_obj_t pci = nullptr; (pci = hwloc_get_next_pcidev(topology, pci));) {
        const char* vendor = gpu_vendor(pci);
        if (!vendor) continue;
        Gpu gpu;
        gpu.bdf = bdf_of(pci);
        gpu.vendor = vendor;
        gpu.model = info(pci, "PCIDevice");
        const Near place = near(topology, pci, all);
        gpu.numa_node = place.node;
        if (!place.cpus.empty()) gpu.numa_source = "hwloc locality";
        gpu.local_cpus = intersect(place.cpus, result.allowed_cpus);
        if (gpu.numa_node) gpu.node_distances = node_distances(topology, *gpu.numa_node, result.numa_nodes);
        result.gpus.push_back(std::move(gpu));
    }
    std::sort(result.gpus.begin(), result.gpus.end(), [](const Gpu& a, const Gpu& b) { return a.bdf < b.bdf; });
    for (std::size_t i = 0; i < result.gpus.size(); ++i) result.gpus[i].index = static_cast<int>(i);
}

void read_os_devices(hwloc_topology_t topology, const std::vector<NumaNode>& all, NodeTopology& result) {
    for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_osdev(topology, object));) {
        if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK) result.network_interfaces.push_back({object->name});
        if (object->attr->osdev.type != HWLOC_OBJ_OSDEV_OPENFABRICS) continue;
        Hca hca;
        hca.name = object->name;
        if (object->parent->type == HWLOC_OBJ_PCI_DEVICE) hca.bdf = bdf_of(object->parent);
        hca.numa_node = near(topology, object, all).node;
        for (int port = 1; port < 255; ++port) {
            const std::string state = info(object, fmt::format("Port{}State", port).c_str());
            if (state.empty()) break;
            hca.ports.push_back({port, state == "4", "", 0});
        }
        result.hcas.push_back(std::move(hca));
    }
    std::sort(result.hcas.begin(), result.hcas.end(), [](const Hca& a, const Hca& b) { return a.name < b.name; });
    std::sort(result.network_interfaces.begin(), result.network_interfaces.end(),
              [](const NetworkInterface& a, const NetworkInterface& b) { return a.name < b.name; });
}

}  // namespace

NodeTopology read_hwloc_topology(const std::string& xml_path) {
    const Topology owner = load(xml_path);
    hwloc_topology_t topology = owner.get();
    NodeTopology result;
    result.hostname = info(hwloc_get_root_obj(topology), "HostName");
    result.cpu_model = info(hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0), "CPUModel");
    result.allowed_cpus = numbers(hwloc_topology_get_allowed_cpuset(topology));

    const std::vector<NumaNode> all = all_numa_nodes(topology);
    for (NumaNode node : all) {
        node.cpus = intersect(node.cpus, result.allowed_cpus);
        const auto allowed_nodes = hwloc_topology_get_allowed_nodeset(topology);
        if (!node.cpus.empty() && hwloc_bitmap_isset(allowed_nodes, static_cast<unsigned>(node.index)))
            result.numa_nodes.push_back(std::move(node));
    }
    for (NumaNode& node : result.numa_nodes) node.distances = node_distances(topology, node.index, result.numa_nodes);

    result.cores = read_cores(topology, result.allowed_cpus, result.numa_nodes);
    std::set<int> packages;
    for (const Core& core : result.cores) packages.insert(core.package);
    result.package_count = static_cast<int>(packages.size());
    read_gpus(topology, all, result);
    read_os_devices(topology, all, result);
    return result;
}

}  // namespace autolaunch::launcher
