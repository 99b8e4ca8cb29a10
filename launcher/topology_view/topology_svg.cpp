#include "topology_view/topology_svg.hpp"

#include "base/text.hpp"
#include "topology_view/device_table.hpp"
#include "topology_view/machine_layout.hpp"
#include "topology_view/svg_canvas.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace autolaunch::launcher {
namespace {

constexpr double kGap = 10, kLine = 16, kNodeWidth = 330, kDeviceWidth = 150, kDeviceHeight = 36;
constexpr double kLegendWidth = 860;
constexpr double kCore = 9, kCoreGap = 2;
constexpr int kNodesInRow = 4, kCoresInRow = 16;

double block_width(std::size_t cores) {
    const auto columns = static_cast<double>(std::min<std::size_t>(cores, kCoresInRow));
    return std::max(columns * (kCore + kCoreGap) + 8, 40.0);
}

/// Each function draws at (x, y) and returns the height that it took.
class Picture {
public:
    explicit Picture(const NodeTopology& topology)
        : topology_(topology), layout_(lay_out(topology)) {}

    std::string draw() {
        const double width = page_width();
        double y = kGap + kLine;
        canvas_.text(kGap, y, topology_.hostname.empty() ? "machine" : topology_.hostname, "title");
        y += kLine + 2;
        canvas_.text(kGap, y, summary(), "faint");
        y += kGap;
        y += draw_packages(y);
        if (!layout_.elsewhere.empty()) {
            canvas_.text(kGap, y + kLine, "near no NUMA node that may be used here", "head");
            y += kLine + kGap;
            y += draw_groups(layout_.elsewhere, kGap, y, kNodeWidth) + kGap;
        }
        y += draw_matrix(y);
        return canvas_.document(width, y);
    }

private:
    static std::size_t columns_of(const PackageBox& package) {
        return std::clamp<std::size_t>(package.nodes.size(), 1, kNodesInRow);
    }
    static double width_of(const PackageBox& package) {
        return static_cast<double>(columns_of(package)) * (kNodeWidth + kGap) + kGap;
    }
    /// Side by side, as long as a row has no more NUMA nodes than it may.
    std::vector<std::vector<const PackageBox*>> package_rows() const {
        std::vector<std::vector<const PackageBox*>> rows;
        std::size_t columns = kNodesInRow;
        for (const PackageBox& package : layout_.packages) {
            if (columns + columns_of(package) > kNodesInRow) {
                rows.emplace_back();
                columns = 0;
            }
            columns += columns_of(package);
            rows.back().push_back(&package);
        }
        return rows;
    }
    double cell_width() const {
        std::size_t longest = 5;
        for (const Hca& hca : topology_.hcas)
            longest = std::max(longest, hca.name.size());
        return static_cast<double>(longest) * 7 + 8;
    }
    double page_width() const {
        const double devices = static_cast<double>(topology_.gpus.size() + topology_.hcas.size());
        const double matrix = topology_.gpus.empty() ? 0 : 80 + devices * cell_width();
        double widest = kLegendWidth;
        for (const auto& row : package_rows()) {
            double width = 0;
            for (const PackageBox* package : row)
                width += width_of(*package) + kGap;
            widest = std::max(widest, width);
        }
        return std::max(widest, matrix) + 2 * kGap;
    }

    std::string summary() const {
        const std::string parts =
            topology_.cores_are_told
                ? fmt::format("{} packages · {} NUMA nodes · {} cores, {} threads",
                              layout_.packages.size(), topology_.numa_nodes.size(),
                              layout_.core_count, layout_.thread_count)
                : fmt::format("{} NUMA nodes · {} CPUs, cores and packages unknown",
                              topology_.numa_nodes.size(), layout_.core_count);
        return fmt::format(
            "{} · {} GPUs · {} HCAs · {} · {}", parts, topology_.gpus.size(), topology_.hcas.size(),
            topology_.cpu_model.empty() ? "CPU model unknown" : trim(topology_.cpu_model),
            topology_.source);
    }

    double draw_packages(double top) {
        double y = top;
        for (const auto& row : package_rows()) {
            double x = kGap, tallest = 0;
            for (const PackageBox* package : row) {
                tallest = std::max(tallest, draw_package(*package, x, y));
                x += width_of(*package) + kGap;
            }
            y += tallest + kGap;
        }
        return y - top;
    }

    double draw_package(const PackageBox& package, double left, double y) {
        const std::size_t place = canvas_.reserve();
        canvas_.text(left + kGap, y + kLine, fmt::format("package {}", package.package), "head");
        double bottom = y + kLine + kGap;
        for (std::size_t first = 0; first < package.nodes.size(); first += kNodesInRow) {
            double tallest = 0;
            const std::size_t end = std::min(first + kNodesInRow, package.nodes.size());
            for (std::size_t i = first; i < end; ++i) {
                const double x = left + kGap + static_cast<double>(i - first) * (kNodeWidth + kGap);
                tallest = std::max(tallest, draw_node(package.nodes[i], x, bottom));
            }
            bottom += tallest + kGap;
        }
        if (package.nodes.empty()) {
            canvas_.text(left + kGap, bottom + kLine, "no NUMA node that may be used", "small");
            bottom += kLine + kGap;
        }
        canvas_.fill(place, {left, y, width_of(package), bottom - y}, "package");
        return bottom - y;
    }

    double draw_node(const NumaBox& node, double x, double y) {
        const std::size_t place = canvas_.reserve();
        const double inside = kNodeWidth - 2 * kGap;
        canvas_.text(x + kGap, y + kLine,
                     fmt::format("NUMA node {} · {}", node.index, describe_size(node.memory_bytes)),
                     "head");
        canvas_.text(x + kGap, y + 2 * kLine - 2, shorten("CPU " + format_list(node.cpus), inside),
                     "faint");
        double bottom = y + 2 * kLine + kGap / 2;
        bottom += draw_caches(node.caches, x + kGap, bottom, inside);
        bottom += draw_groups(node.groups, x + kGap, bottom, inside);
        canvas_.fill(place, {x, y, kNodeWidth, bottom + kGap / 2 - y}, "node");
        return bottom + kGap / 2 - y;
    }

    double draw_caches(const std::vector<CacheBox>& caches, double left, double top, double width) {
        double x = left, y = top, row_height = 0;
        for (const CacheBox& cache : caches) {
            const double box = block_width(cache.cores.size());
            if (x > left && x + box > left + width) {
                x = left;
                y += row_height + 4;
                row_height = 0;
            }
            row_height = std::max(row_height, draw_cache(cache, x, y, box));
            x += box + 4;
        }
        return caches.empty() ? 0 : y + row_height + kGap - top;
    }

    double draw_cache(const CacheBox& cache, double x, double y, double width) {
        const auto rows = (cache.cores.size() + kCoresInRow - 1) / kCoresInRow;
        const double height = static_cast<double>(rows) * (kCore + kCoreGap) + kLine + 2;
        canvas_.rectangle({x, y, width, height}, "cache");
        for (std::size_t i = 0; i < cache.cores.size(); ++i) {
            const Core& core = topology_.cores[static_cast<std::size_t>(cache.cores[i])];
            const double column = static_cast<double>(i % kCoresInRow),
                         row = static_cast<double>(i / kCoresInRow);
            canvas_.rectangle({x + 4 + column * (kCore + kCoreGap),
                               y + 4 + row * (kCore + kCoreGap), kCore, kCore},
                              "core", "core with CPU " + format_list(core.cpus));
        }
        canvas_.text(x + 4, y + height - 4, cache.bytes == 0 ? "L3" : describe_size(cache.bytes),
                     "faint");
        return height;
    }

    double draw_groups(const std::vector<DeviceGroup>& groups, double x, double top, double width) {
        double y = top;
        for (const DeviceGroup& group : groups) {
            const std::size_t place = canvas_.reserve();
            const std::string name =
                group.name.empty() ? "place on the PCI bus unknown" : group.name;
            canvas_.text(x + 6, y + 13, (group.is_switch ? "switch below " : "") + name, "faint");
            double bottom = y + kLine + 2;
            const std::size_t count = group.gpus.size() + group.hcas.size();
            for (std::size_t i = 0; i < count; ++i) {
                const double column = static_cast<double>(i % 2), row = static_cast<double>(i / 2);
                draw_device(group, i, x + 4 + column * (kDeviceWidth + 4),
                            bottom + row * (kDeviceHeight + 4));
            }
            bottom += static_cast<double>((count + 1) / 2) * (kDeviceHeight + 4);
            canvas_.fill(place, {x, y, width, bottom - y}, "group");
            y = bottom + 4;
        }
        return y - top;
    }

    void draw_device(const DeviceGroup& group, std::size_t i, double x, double y) {
        std::string name, what, style;
        if (i < group.gpus.size()) {
            const Gpu& gpu = topology_.gpus[static_cast<std::size_t>(group.gpus[i])];
            name = gpu_name(gpu) + " · " + short_bdf(gpu.bdf);
            what = describe_gpu(gpu);
            style = "gpu";
        } else {
            const Hca& hca =
                topology_.hcas[static_cast<std::size_t>(group.hcas[i - group.gpus.size()])];
            const bool is_active = std::any_of(hca.ports.begin(), hca.ports.end(),
                                               [](const auto& p) { return p.active; });
            name = hca.name + " · " + short_bdf(hca.bdf);
            what = describe_hca(hca);
            style = is_active ? "hca" : "down";
        }
        canvas_.rectangle({x, y, kDeviceWidth, kDeviceHeight}, style, name + " · " + what);
        canvas_.text(x + 6, y + 14, shorten(name, kDeviceWidth - 8));
        canvas_.text(x + 6, y + 29, shorten(what, kDeviceWidth - 2), "faint");
    }

    static std::string_view cell_style(const std::string& cell) {
        if (cell.starts_with("NV"))
            return "nv";
        if (cell == "PIX" || cell == "same")
            return "pix";
        if (cell == "PXB")
            return "pxb";
        if (cell == "PHB")
            return "phb";
        if (cell == "NODE")
            return "near";
        return cell == "SYS" ? "sys" : "none";
    }

    double draw_matrix(double top) {
        const PathMatrix matrix = path_matrix(topology_);
        if (matrix.cells.empty() || matrix.columns.size() < 2)
            return 0;
        const double cell = cell_width();
        double y = top + kLine;
        for (std::size_t i = 0; i < matrix.columns.size(); ++i)
            canvas_.text(80 + static_cast<double>(i) * cell + 4, y, matrix.columns[i], "faint");
        for (std::size_t row = 0; row < matrix.cells.size(); ++row) {
            y += kLine + 2;
            canvas_.text(kGap, y, matrix.columns[row]);
            for (std::size_t i = 0; i < matrix.cells[row].size(); ++i) {
                const double x = 80 + static_cast<double>(i) * cell;
                canvas_.rectangle({x, y - 12, cell - 2, kLine}, cell_style(matrix.cells[row][i]));
                canvas_.text(x + 6, y, matrix.cells[row][i]);
            }
        }
        y += kLine + kGap;
        canvas_.text(kGap, y,
                     "NV# links of NVLink or xGMI · PIX one PCIe switch · PXB several · PHB a host "
                     "bridge · NODE host "
                     "bridges of one NUMA node · SYS between NUMA nodes",
                     "faint");
        return y + kGap - top;
    }

    const NodeTopology& topology_;
    const MachineLayout layout_;
    SvgCanvas canvas_;
};

}  // namespace

std::string topology_svg(const NodeTopology& topology) { return Picture(topology).draw(); }

}  // namespace autolaunch::launcher
