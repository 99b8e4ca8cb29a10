#include "nccl_env/site.hpp"

#include "nccl_env/compute_hcas.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace autolaunch::launcher {
namespace {

const NetworkInterface* find_interface(const NodeTopology& topology, const std::string& address) {
    const NetworkInterface* found = nullptr;
    for (const NetworkInterface& interface : topology.network_interfaces) {
        const auto& addresses = interface.addresses;
        if (std::find(addresses.begin(), addresses.end(), address) == addresses.end())
            continue;
        if (found == nullptr || (interface.is_running && !found->is_running))
            found = &interface;
    }
    return found;
}

// The value of an attribute of one XML tag; empty: it has none.
std::string attribute(std::string_view tag, std::string_view name) {
    const std::string opening = fmt::format(" {}=\"", name);
    const auto begin = tag.find(opening);
    if (begin == std::string_view::npos)
        return {};
    const auto value = tag.substr(begin + opening.size());
    return std::string(value.substr(0, value.find('"')));
}

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    return text;
}

struct NamedDevice {
    std::string bdf, pci_class;
};

// All but bridges: those of virtual machines' files are made up.
std::vector<NamedDevice> devices_in(std::string_view xml) {
    constexpr std::string_view kTag = "<pci ";
    std::vector<NamedDevice> devices;
    for (auto at = xml.find(kTag); at != std::string_view::npos; at = xml.find(kTag, at + 1)) {
        const auto tag = xml.substr(at, xml.find('>', at) - at);
        NamedDevice device{lower(attribute(tag, "busid")), lower(attribute(tag, "class"))};
        if (!device.pci_class.starts_with("0x0604"))
            devices.push_back(std::move(device));
    }
    return devices;
}

std::set<std::string> addresses_of(const NodeTopology& topology) {
    std::set<std::string> addresses;
    for (const Gpu& gpu : topology.gpus)
        addresses.insert(gpu.bdf);
    for (const Hca& hca : topology.hcas)
        addresses.insert(hca.bdf);
    return addresses;
}

bool has_roce(const NodeTopology& topology) {
    const ComputeHcas compute = choose_compute_hcas(topology);
    return std::any_of(compute.ports.begin(), compute.ports.end(),
                       [](const Hca::Port* port) { return port->link_layer == "Ethernet"; });
}

}  // namespace

std::string interface_with_address(const NodeTopology& topology, const std::string& address) {
    if (const auto scope = address.find('%'); scope != std::string::npos)
        return address.substr(scope + 1);
    const NetworkInterface* interface = find_interface(topology, address);
    return interface != nullptr ? interface->name : "";
}

bool is_ipv6_only(const NodeTopology& topology, const std::string& address) {
    const NetworkInterface* interface = find_interface(topology, address);
    if (interface == nullptr || address.find(':') == std::string::npos)
        return false;
    return std::all_of(
        interface->addresses.begin(), interface->addresses.end(),
        [](const std::string& other) { return other.find(':') != std::string::npos; });
}

const ProfileFile* matching_profile(const std::vector<ProfileFile>& profiles,
                                    const std::map<std::string, std::string>& identity) {
    for (const ProfileFile& profile : profiles) {
        const bool holds =
            std::all_of(profile.match.begin(), profile.match.end(), [&](const auto& entry) {
                const auto said = identity.find(entry.first);
                return said != identity.end() && said->second == entry.second;
            });
        if (!profile.match.empty() && holds)
            return &profile;
    }
    return nullptr;
}

bool topology_file_fits(std::string_view xml, const NodeTopology& topology) {
    const std::set<std::string> present = addresses_of(topology);
    std::set<std::string> named;
    for (const NamedDevice& device : devices_in(xml)) {
        if (!present.contains(device.bdf))
            return false;
        named.insert(device.bdf);
    }
    return !named.empty() && std::all_of(topology.gpus.begin(), topology.gpus.end(),
                                         [&](const Gpu& gpu) { return named.contains(gpu.bdf); });
}

std::string topology_file_stranger(std::string_view xml, const NodeTopology& topology) {
    std::set<std::string> present = addresses_of(topology);
    for (const NetworkInterface& interface : topology.network_interfaces)
        present.insert(interface.bdf);
    for (const NamedDevice& device : devices_in(xml)) {
        const bool is_gpu =
            device.pci_class.starts_with("0x03") || device.pci_class.starts_with("0x12");
        const bool is_nic = device.pci_class.starts_with("0x02") && !topology.hcas.empty();
        if ((is_gpu || is_nic) && !present.contains(device.bdf))
            return fmt::format("{} {}", is_gpu ? "the GPU" : "the NIC", device.bdf);
    }
    return {};
}

NcclProfile to_nccl_profile(const ProfileFile& file, const NodeTopology& topology,
                            const std::string& topology_file) {
    NcclProfile profile;
    profile.name = file.name;
    const std::string source = "profile " + file.name;
    const auto add = [&](const auto& from, auto& to) {
        for (const auto& variable : from)
            to.push_back({variable.name, variable.value, variable.reason, source});
    };
    add(file.set, profile.set);
    if (!file.set_with_roce.empty() && has_roce(topology))
        add(file.set_with_roce, profile.set);
    add(file.leave, profile.leave);
    if (!topology_file.empty())
        profile.set.push_back(
            {"NCCL_TOPO_FILE", topology_file, file.topology_files.reason, source});
    profile.required_text = file.notes;
    return profile;
}

}  // namespace autolaunch::launcher
