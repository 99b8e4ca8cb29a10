// What the amdgpu driver's compute part (KFD) says. A node there is what ROCm calls an agent: a
// CPU, a GPU, or a part of a GPU that was cut up (MI300 in TPX or CPX mode: several nodes at one
// PCI address).

#include "base/text.hpp"
#include "topology/readers.hpp"
#include "topology/system_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace autolaunch::launcher {
namespace {

constexpr std::uint64_t kXgmi = 11;  // CRAT_IOLINK_TYPE_XGMI

std::string nodes_folder(const TopologyOptions& options) {
    return options.sysfs_root + "/class/kfd/kfd/topology/nodes";
}

// Numbers as names, in the order of numbers.
std::vector<int> list_numbers(const std::string& folder) {
    std::vector<int> numbers;
    for (const std::string& name : list_directory(folder)) {
        long long number = 0;
        if (parse_integer(name, number) && number >= 0 && number < 1 << 20)
            numbers.push_back(static_cast<int>(number));
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
}

std::uint64_t value_of(const std::map<std::string, std::uint64_t>& properties, const char* key) {
    const auto found = properties.find(key);
    return found == properties.end() ? 0 : found->second;
}

// location_id is bus, device and function; a part of a GPU adds its number to the function or to
// the highest bits. A function other than 0 that is a GPU on the bus is a virtual machine's share.
std::string to_bdf(const TopologyOptions& options,
                   const std::map<std::string, std::uint64_t>& properties) {
    const std::uint64_t location = value_of(properties, "location_id");
    const std::string device = fmt::format("{:04x}:{:02x}:{:02x}", value_of(properties, "domain"),
                                           (location >> 8) & 0xff, (location >> 3) & 0x1f);
    const std::string function = fmt::format("{}.{}", device, location & 7);
    const std::string pci_class =
        read_small(fmt::format("{}/bus/pci/devices/{}/class", options.sysfs_root, function))
            .value_or("");
    const bool is_gpu = pci_class.starts_with("0x03") || pci_class.starts_with("0x12");
    return is_gpu ? function : device + ".0";
}

std::uint64_t read_bank_bytes(const std::string& folder) {
    std::uint64_t bytes = 0;
    for (const int bank : list_numbers(folder + "/mem_banks"))
        bytes += value_of(read_properties(fmt::format("{}/mem_banks/{}/properties", folder, bank)),
                          "size_in_bytes");
    return bytes;
}

// The lowest bandwidth is one link's, the highest that of all links together.
int count_links(const std::map<std::string, std::uint64_t>& link) {
    const std::uint64_t one = value_of(link, "min_bandwidth"),
                        all = value_of(link, "max_bandwidth");
    return one == 0 || all < one ? 1 : static_cast<int>(std::min<std::uint64_t>(all / one, 64));
}

}  // namespace

bool has_kfd(const TopologyOptions& options) { return exists(nodes_folder(options)); }

std::vector<KfdNode> read_kfd_gpus(const TopologyOptions& options) {
    std::vector<KfdNode> gpus;
    for (const int number : list_numbers(nodes_folder(options))) {
        const std::string folder = fmt::format("{}/{}", nodes_folder(options), number);
        // The driver refuses to show a GPU that a device cgroup keeps from us.
        const auto properties = read_properties(folder + "/properties");
        if (value_of(properties, "simd_count") == 0)
            continue;  // a CPU
        KfdNode gpu;
        gpu.number = number;
        gpu.runtime_index = static_cast<int>(gpus.size());
        gpu.bdf = to_bdf(options, properties);
        gpu.memory_bytes = read_bank_bytes(folder);
        if (const std::uint64_t unique = value_of(properties, "unique_id"))
            gpu.uuid = fmt::format("GPU-{:016x}", unique);
        gpus.push_back(std::move(gpu));
    }
    return gpus;
}

std::vector<ToldPath> read_kfd_links(const TopologyOptions& options) {
    const auto gpus = read_kfd_gpus(options);
    const auto bdf_of = [&](std::uint64_t number) {
        for (const KfdNode& gpu : gpus)
            if (static_cast<std::uint64_t>(gpu.number) == number)
                return gpu.bdf;
        return std::string();
    };
    std::map<std::pair<std::string, std::string>, int> links;  // each pair is told from both ends
    for (const KfdNode& gpu : gpus) {
        const std::string folder = fmt::format("{}/{}/io_links", nodes_folder(options), gpu.number);
        for (const int number : list_numbers(folder)) {
            const auto link = read_properties(fmt::format("{}/{}/properties", folder, number));
            const std::string peer = bdf_of(value_of(link, "node_to"));
            if (value_of(link, "type") != kXgmi || peer.empty() || peer == gpu.bdf)
                continue;
            int& count = links[std::minmax(gpu.bdf, peer)];
            count = std::max(count, count_links(link));
        }
    }
    std::vector<ToldPath> paths;
    for (const auto& [ends, count] : links)
        paths.push_back({ends.first, ends.second, PathClass::nvlink, count});
    return paths;
}

}  // namespace autolaunch::launcher
