#include "topology_view/topology_json.hpp"

#include "topology_view/device_table.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string_view>

namespace autolaunch::launcher {
namespace {

using Json = nlohmann::ordered_json;

void set_if_any(Json& json, const char* key, const std::string& value) {
    if (!value.empty())
        json[key] = value;
}

template <typename T>
Json optional(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

Json to_json(const UnusableCpus& group) {
    const bool offline = group.why == UnusableCpus::Why::offline;
    return {{"cpus", group.cpus},
            {"why", offline ? "offline" : "not allowed"},
            {"package", optional(group.package)},
            {"numa_node", optional(group.numa_node)},
            {"cores", group.cores > 0 ? Json(group.cores) : Json(nullptr)}};
}

Json to_json(const OtherNumaNode& node) {
    return {{"index", node.index},
            {"memory_bytes", node.memory_bytes},
            {"cpus", node.cpus},
            {"why", node.why}};
}

Json to_json(const Gpu& gpu) {
    Json json = {{"index", gpu.index},
                 {"vendor", gpu.vendor},
                 {"bdf", gpu.bdf},
                 {"numa_node", optional(gpu.numa_node)}};
    if (gpu.runtime_index)
        json["runtime_index"] = *gpu.runtime_index;
    set_if_any(json, "numa_source", gpu.numa_source);
    set_if_any(json, "uuid", gpu.uuid);
    set_if_any(json, "model", gpu.model);
    set_if_any(json, "partition_of", gpu.partition_of);
    if (gpu.memory_bytes > 0)
        json["memory_bytes"] = gpu.memory_bytes;
    json["can_open"] = gpu.can_open;
    json["local_cpus"] = gpu.local_cpus;
    json["pci_path"] = gpu.pci_path;
    return json;
}

Json to_json(const Hca::Port& port) {
    Json json = {{"number", port.number}, {"active", port.active}};
    set_if_any(json, "link_layer", port.link_layer);
    set_if_any(json, "netdev", port.netdev);
    if (port.rate_gbps > 0)
        json["rate_gbps"] = port.rate_gbps;
    if (port.mtu_bytes > 0)
        json["mtu_bytes"] = port.mtu_bytes;
    json["gids"] = Json::array();
    for (const Gid& gid : port.gids) {
        std::string text;
        for (std::size_t i = 0; i < gid.bytes.size(); ++i)
            text += fmt::format("{}{:02x}", i > 0 && i % 2 == 0 ? ":" : "", gid.bytes[i]);
        json["gids"].push_back(
            {{"index", gid.index}, {"gid", text}, {"roce_version", gid.roce_version}});
    }
    return json;
}

Json to_json(const Hca& hca) {
    Json json = {{"name", hca.name},         {"named", hca.is_named},
                 {"bdf", hca.bdf},           {"numa_node", optional(hca.numa_node)},
                 {"can_open", hca.can_open}, {"pci_path", hca.pci_path}};
    set_if_any(json, "pci_id", hca.pci_id);
    json["ports"] = Json::array();
    for (const Hca::Port& port : hca.ports)
        json["ports"].push_back(to_json(port));
    return json;
}

Json to_json(const NetworkInterface& interface) {
    Json json = {{"name", interface.name},
                 {"running", interface.is_running},
                 {"default_route", interface.has_default_route},
                 {"addresses", interface.addresses}};
    if (interface.rate_gbps > 0)
        json["rate_gbps"] = interface.rate_gbps;
    set_if_any(json, "bdf", interface.bdf);
    return json;
}

Json paths_json(const NodeTopology& topology) {
    const PathMatrix matrix = path_matrix(topology);
    Json paths = Json::object();
    for (std::size_t row = 0; row < matrix.cells.size(); ++row)
        for (std::size_t i = 0; i < matrix.cells[row].size(); ++i)
            if (i != row)
                paths[matrix.columns[row]][matrix.columns[i]] = matrix.cells[row][i];
    return paths;
}

template <typename T>
Json list(const std::vector<T>& items) {
    Json json = Json::array();
    for (const T& item : items)
        json.push_back(to_json(item));
    return json;
}

}  // namespace

std::string topology_json(const NodeTopology& topology) {
    Json json = {
        {"hostname", topology.hostname},
        {"source", topology.source},
        {"cpu_model", topology.cpu_model},
        {"packages", topology.cores_are_told ? Json(topology.package_count) : Json(nullptr)},
        {"allowed_cpus", topology.allowed_cpus},
        {"cpu_quota", optional(topology.cpu_quota)}};
    json["numa_nodes"] = Json::array();
    for (const NumaNode& node : topology.numa_nodes)
        json["numa_nodes"].push_back({{"index", node.index},
                                      {"memory_bytes", node.memory_bytes},
                                      {"cpus", node.cpus},
                                      {"distances", node.distances}});
    json["cores"] = Json::array();
    for (const Core& core : topology.cores_are_told ? topology.cores : std::vector<Core>())
        json["cores"].push_back({{"cpus", core.cpus},
                                 {"package", core.package},
                                 {"numa_node", core.numa_node},
                                 {"l3", core.l3}});
    json["unusable_cpus"] = list(topology.unusable_cpus);
    json["other_numa_nodes"] = list(topology.other_numa_nodes);
    json["l3_bytes"] = topology.l3_bytes;
    json["gpus"] = list(topology.gpus);
    json["hcas"] = list(topology.hcas);
    json["network_interfaces"] = list(topology.network_interfaces);
    json["paths"] = paths_json(topology);
    json["notes"] = topology.notes;
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace autolaunch::launcher
