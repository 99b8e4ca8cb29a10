#include "nccl_env/footguns.hpp"

#include "base/text.hpp"
#include "nccl_env/gid_choice.hpp"
#include "nccl_env/hca_filter.hpp"
#include "nccl_env/nccl_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <optional>
#include <string_view>

namespace autolaunch::launcher {
namespace {

struct Scene {
    const NodeTopology& topology;
    const ComputeHcas& compute;
    const EnvironmentMap& settings;
};

std::size_t count_active(const std::vector<Hca>& hcas) {
    return static_cast<std::size_t>(std::count_if(hcas.begin(), hcas.end(), [](const Hca& hca) {
        return std::any_of(hca.ports.begin(), hca.ports.end(),
                           [](const Hca::Port& port) { return port.active; });
    }));
}

std::optional<std::string> ib_disabled(const Scene& here) {
    const auto* value = find_setting(here.settings, "NCCL_IB_DISABLE");
    const std::size_t active = count_active(here.topology.hcas);
    if (!value || number_of(*value) == 0 || active == 0)
        return std::nullopt;
    return fmt::format("NCCL_IB_DISABLE={} while {} {} active: NCCL will use sockets; unset it",
                       *value, active, active == 1 ? "HCA is" : "HCAs are");
}

std::optional<std::string> missing_interface(const Scene& here) {
    const auto* value = find_setting(here.settings, "NCCL_SOCKET_IFNAME");
    if (!value)
        return std::nullopt;
    const NameFilter filter = parse_name_filter(*value);
    if (filter.excludes || here.topology.network_interfaces.empty() || filter.entries.empty())
        return std::nullopt;
    for (const NetworkInterface& interface : here.topology.network_interfaces)
        if (filter.takes(interface.name))
            return std::nullopt;
    std::vector<std::string> names;
    for (const NetworkInterface& interface : here.topology.network_interfaces)
        names.push_back(interface.name);
    return fmt::format("NCCL_SOCKET_IFNAME={}: no such interface here; name one of {}, or unset it",
                       *value, join(names, ", "));
}

bool is_level(const std::string& value, const char* name, long long legacy) {
    return value == name ||
           (std::isdigit(static_cast<unsigned char>(value[0])) && number_of(value) >= legacy);
}

std::optional<std::string> gdr_everywhere(const Scene& here) {
    const auto* value = find_setting(here.settings, "NCCL_NET_GDR_LEVEL");
    if (!value || !is_level(*value, "SYS", 4))
        return std::nullopt;
    return fmt::format(
        "NCCL_NET_GDR_LEVEL={}: GPUDirect RDMA between sockets is slower than through memory; "
        "unset it",
        *value);
}

std::optional<std::string> gid_index(const Scene& here) {
    const auto* value = find_setting(here.settings, "NCCL_IB_GID_INDEX");
    if (!value || number_of(*value) < 0)
        return std::nullopt;
    const auto index = static_cast<int>(number_of(*value));
    for (const Hca* hca : here.compute.hcas)
        for (const Hca::Port& port : hca->ports) {
            if (!port.active || port.link_layer != "Ethernet" || port.gids.empty())
                continue;
            if (const std::string problem = gid_problem(port, index); !problem.empty())
                return fmt::format(
                    "NCCL_IB_GID_INDEX={}: on {} that is {}; unset it, NCCL finds the right one",
                    *value, hca->name, problem);
        }
    return std::nullopt;
}

std::optional<std::string> dmabuf_disabled(const Scene& here) {
    const auto* value = find_setting(here.settings, "NCCL_DMABUF_ENABLE");
    if (!value || number_of(*value) != 0 || here.compute.hcas.empty())
        return std::nullopt;
    if (here.topology.peermem != std::optional(false))
        return std::nullopt;
    return fmt::format(
        "NCCL_DMABUF_ENABLE={} while nvidia-peermem is not loaded: HCAs cannot reach GPUs' memory; "
        "unset it",
        *value);
}

// "0000:05:00.2" is function 2 of "0000:05:00". A card of two ports has two functions; more are a
// hypervisor's way to show cards that are distinct.
std::optional<std::string> fused_functions(const Scene& here) {
    for (const char* name : {"NCCL_IB_MERGE_VFS", "NCCL_IB_MERGE_NICS"})
        if (const auto* value = find_setting(here.settings, name); value && number_of(*value) == 0)
            return std::nullopt;
    std::map<std::string, std::vector<std::string>> functions;
    for (const Hca* hca : here.compute.hcas)
        if (const auto dot = hca->bdf.rfind('.'); dot != std::string::npos)
            functions[hca->bdf.substr(0, dot)].push_back(hca->name);
    for (const auto& [device, names] : functions)
        if (names.size() > 2)
            return fmt::format(
                "{} are functions of one PCI device, {}, and NCCL fuses up to 4 such into one NIC: "
                "if "
                "they are distinct cards, set NCCL_IB_MERGE_VFS=0 and NCCL_IB_MERGE_NICS=0",
                join(names, ", "), device);
    return std::nullopt;
}

enum class When { is_set, is_nonzero, is_word };

struct Leftover {
    const char* name;
    When when;
    const char* effect;
    const char* fix = "unset it";
};

constexpr const char* kDebugging = "a debug setting: NCCL chooses better by itself";
constexpr const char* kWord = "NCCL reads a number here and takes a word for 0";

constexpr Leftover kLeftovers[] = {
    {"NCCL_P2P_DISABLE", When::is_nonzero,
     "GPUs on this node will not use NVLink or PCIe peer access"},
    {"NCCL_SHM_DISABLE", When::is_nonzero, "ranks on this node will not use shared memory"},
    {"NCCL_P2P_LEVEL", When::is_set, "it overrides where NCCL uses peer access"},
    {"NCCL_ALGO", When::is_set, kDebugging},
    {"NCCL_PROTO", When::is_set,
     "a debug setting: a wrong protocol can corrupt data on some platforms"},
    {"NCCL_BUFFSIZE", When::is_set, kDebugging},
    {"NCCL_MIN_NCHANNELS", When::is_set, kDebugging},
    {"NCCL_MAX_NCHANNELS", When::is_set, kDebugging},
    {"NCCL_IGNORE_NET_MISMATCH", When::is_nonzero, "a mismatch between nodes becomes a silent hang",
     "set it to 0, so that NCCL refuses to start"},
    {"NCCL_HOSTID", When::is_set,
     "ranks with different values do not use NVLink between them, for tests only"},
    {"NCCL_IB_CUDA_SUPPORT", When::is_set, "NCCL has not read it since 2.4",
     "unset it, see NCCL_NET_GDR_LEVEL"},
    {"NCCL_IB_DISABLE", When::is_word, kWord, "write 1 or 0"},
    {"NCCL_P2P_DISABLE", When::is_word, kWord, "write 1 or 0"},
    {"NCCL_SHM_DISABLE", When::is_word, kWord, "write 1 or 0"},
};

bool applies(const Leftover& leftover, const std::string& value) {
    if (leftover.when == When::is_set)
        return true;
    if (leftover.when == When::is_nonzero)
        return number_of(value) != 0;
    return std::isdigit(static_cast<unsigned char>(value[0])) == 0 && value[0] != '-' &&
           value[0] != '+';
}

}  // namespace

std::vector<std::string> find_nccl_footguns(const NodeTopology& topology,
                                            const ComputeHcas& compute,
                                            const EnvironmentMap& settings) {
    std::vector<std::string> warnings;
    const Scene here{topology, compute, settings};
    if (const auto* value = find_setting(settings, "NCCL_IB_HCA"))
        warnings = check_hca_filter(topology, compute, *value);
    for (const auto check : {ib_disabled, missing_interface, gdr_everywhere, gid_index,
                             dmabuf_disabled, fused_functions})
        if (auto warning = check(here))
            warnings.push_back(std::move(*warning));
    for (const Leftover& leftover : kLeftovers) {
        const auto* value = find_setting(settings, leftover.name);
        if (value && applies(leftover, *value))
            warnings.push_back(
                fmt::format("{}={}: {}; {}", leftover.name, *value, leftover.effect, leftover.fix));
    }
    return warnings;
}

}  // namespace autolaunch::launcher
