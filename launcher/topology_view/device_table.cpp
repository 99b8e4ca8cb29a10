#include "topology_view/device_table.hpp"

#include "topology/path_class.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace autolaunch::launcher {
namespace {

std::string cell(const Paths& paths, const Gpu& a, const Gpu& b) {
    if (&a == &b)
        return "X";
    if (!a.bdf.empty() && a.bdf == b.bdf)
        return "same";  // parts of one GPU
    const PathClass path = paths.between(a, b);
    const int links = paths.links(a, b);
    const std::string name(path_class_name(path));
    return path == PathClass::nvlink && links > 0 ? name + std::to_string(links) : name;
}

std::string describe_port(const Hca::Port& port) {
    std::string text =
        port.link_layer.empty() ? "port " + std::to_string(port.number) : port.link_layer;
    if (port.rate_gbps > 0)
        text += fmt::format(" {:g} Gb/s", port.rate_gbps);
    if (!port.netdev.empty())
        text += " (" + port.netdev + ")";
    if (!port.active)
        text += " · down";
    return text;
}

}  // namespace

std::string gpu_name(const Gpu& gpu) {
    return (gpu.partition_of.empty() ? "GPU " : "part ") + std::to_string(gpu.index);
}

std::string short_bdf(const std::string& bdf) {
    return bdf.starts_with("0000:") ? bdf.substr(5) : bdf;
}

std::string describe_size(std::uint64_t bytes) {
    constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    if (bytes == 0)
        return "size unknown";
    double value = static_cast<double>(bytes);
    std::size_t unit = 0;
    for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit)
        value /= 1024;
    const bool is_small = value < 10 && value != static_cast<int>(value);
    return fmt::format("{:.{}f} {}", value, is_small ? 1 : 0, kUnits[unit]);
}

std::string describe_gpu(const Gpu& gpu) {
    std::string text = !gpu.model.empty() ? gpu.model : gpu.vendor == "amd" ? "AMD" : "NVIDIA";
    if (gpu.runtime_index && *gpu.runtime_index != gpu.index)
        text += fmt::format(" · ROCm's {}", *gpu.runtime_index);
    if (gpu.memory_bytes > 0)
        text += " · " + describe_size(gpu.memory_bytes);
    if (!gpu.can_open)
        text += " · may not be opened";
    return text;
}

std::string describe_hca(const Hca& hca) {
    std::string text;
    for (const Hca::Port& port : hca.ports)
        text += (text.empty() ? "" : ", ") + describe_port(port);
    if (hca.ports.empty())
        text = "no port";
    if (!hca.can_open)
        text += " · may not be opened";
    return text;
}

PathMatrix path_matrix(const NodeTopology& topology) {
    PathMatrix matrix;
    const Paths paths(topology);
    matrix.gpu_count = topology.gpus.size();
    for (const Gpu& gpu : topology.gpus)
        matrix.columns.push_back("GPU" + std::to_string(gpu.index));
    for (const Hca& hca : topology.hcas)
        matrix.columns.push_back(hca.name);
    for (const Gpu& row : topology.gpus) {
        std::vector<std::string> cells;
        for (const Gpu& column : topology.gpus)
            cells.push_back(cell(paths, row, column));
        for (const Hca& hca : topology.hcas)
            cells.emplace_back(path_class_name(paths.between(row, hca)));
        matrix.cells.push_back(std::move(cells));
    }
    return matrix;
}

}  // namespace autolaunch::launcher
