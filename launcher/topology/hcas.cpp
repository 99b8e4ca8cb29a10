#include "base/text.hpp"
#include "topology/readers.hpp"
#include "topology/system_files.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

namespace autolaunch::launcher {
namespace {

// state is "4: ACTIVE", rate is "400 Gb/sec (4X NDR)".
Hca::Port read_port(const std::string& folder, int number) {
    Hca::Port port;
    port.number = number;
    port.active = read_small(folder + "/state").value_or("").starts_with("4:");
    port.link_layer = read_small(folder + "/link_layer").value_or("");
    port.rate_gbps = std::strtod(read_small(folder + "/rate").value_or("0").c_str(), nullptr);
    return port;
}

}  // namespace

std::vector<Hca> read_hcas(const TopologyOptions& options, const std::vector<SystemNumaNode>& nodes) {
    const std::string folder = options.sysfs_root + "/class/infiniband";
    std::vector<Hca> hcas;
    for (const std::string& name : list_directory(folder)) {
        Hca hca;
        hca.name = name;
        std::error_code error;
        const auto device = std::filesystem::read_symlink(folder + "/" + name + "/device", error);
        if (!error) hca.bdf = device.filename();
        hca.numa_node = read_pci_locality(options.sysfs_root, hca.bdf, nodes).numa_node;
        for (const std::string& port : list_directory(folder + "/" + name + "/ports")) {
            long long number = 0;
            if (parse_integer(port, number))
                hca.ports.push_back(
                    read_port(fmt::format("{}/{}/ports/{}", folder, name, port), static_cast<int>(number)));
        }
        hcas.push_back(std::move(hca));
    }
    return hcas;
}

}  // namespace autolaunch::launcher
