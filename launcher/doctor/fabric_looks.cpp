#include "doctor/examination.hpp"
#include "doctor/looks.hpp"

#include "doctor/rails.hpp"

#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "nccl_env/gid_choice.hpp"
#include "topology/path_class.hpp"
#include "topology/system_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

namespace autolaunch::launcher {

namespace {

bool has_active_port(const Hca& hca) {
    return std::any_of(hca.ports.begin(), hca.ports.end(),
                       [](const Hca::Port& port) { return port.active; });
}

/// True, and said so, when there is no HCA at all.
bool no_hcas(Examination& exam) {
    if (!exam.topology().hcas.empty())
        return false;
    exam.nothing_to_look_at("no HCA");
    return true;
}

std::string port_folder(Examination& exam, const Hca& hca, const Hca::Port& port) {
    return exam.sysfs(fmt::format("/class/infiniband/{}/ports/{}", hca.name, port.number));
}

template <class Visit>
void each_active_port(Examination& exam, Visit visit) {
    for (const Hca& hca : exam.topology().hcas)
        for (const Hca::Port& port : hca.ports)
            if (port.active)
                visit(hca, port);
}

std::string port_name(const Hca& hca, const Hca::Port& port) {
    return hca.ports.size() > 1 ? fmt::format("{} port {}", hca.name, port.number) : hca.name;
}

/// "4: ACTIVE" -> "ACTIVE".
std::string state_word(const std::string& text) {
    const std::size_t colon = text.find(':');
    return colon == std::string::npos ? text
                                      : std::string(trim(std::string_view(text).substr(colon + 1)));
}

/// Of the HCA's model; by PCI device, since the names of drivers are not models.
std::string model_of(Examination& exam, const Hca& hca) {
    const auto part = [&](const char* name) {
        return read_small(exam.sysfs("/class/infiniband/" + hca.name + "/device/" + name))
            .value_or("");
    };
    return part("vendor") + ":" + part("device");
}

std::string rate_text(double gbps) { return fmt::format("{:g} Gb/s", gbps); }

}  // namespace

namespace {

// Interfaces of RoCE ports, and IPoIB's; only those with an address can be asked for.
std::vector<Rail> rails_of(Examination& exam) {
    std::vector<Rail> rails;
    each_active_port(exam, [&](const Hca& hca, const Hca::Port& port) {
        const auto netdevs =
            list_directory(exam.sysfs("/class/infiniband/" + hca.name + "/device/net"));
        const std::string netdev = !port.netdev.empty() ? port.netdev
                                   : netdevs.empty()    ? ""
                                                        : netdevs.front();
        for (const NetworkInterface& interface : exam.topology().network_interfaces) {
            const auto address =
                std::find_if(interface.addresses.begin(), interface.addresses.end(),
                             [](const std::string& text) { return !text.starts_with("fe80:"); });
            if (interface.name == netdev && address != interface.addresses.end())
                rails.push_back({hca.name, netdev, *address});
        }
    });
    return rails;
}

}  // namespace

// A second port that nobody uses is usual, and so is a model that is for something else. An HCA
// without a link among others of its model that have one is a rail that is down.
void look_at_hca_ports(Examination& exam) {
    const auto& hcas = exam.topology().hcas;
    const auto active = std::count_if(hcas.begin(), hcas.end(), has_active_port);
    exam.fact("hca.count", std::to_string(active));
    std::vector<std::string> names;
    for (const Hca& hca : hcas)
        if (has_active_port(hca))
            names.push_back(hca.name);
    if (!names.empty())
        exam.fact("hca.order", join(names, " "));
    if (const auto rails = rails_of(exam); !rails.empty())
        exam.fact("rails", rails_text(rails));
    if (no_hcas(exam))
        return;
    if (active == 0)
        exam.found(
            fmt::format("none of {} HCAs has an active port: NCCL would use sockets", hcas.size()));
    std::set<std::string> models_in_use;
    for (const Hca& hca : hcas)
        if (has_active_port(hca))
            models_in_use.insert(model_of(exam, hca));
    for (const Hca& hca : hcas) {
        if (has_active_port(hca) || hca.ports.empty())
            continue;
        const std::string folder = port_folder(exam, hca, hca.ports.front());
        const std::string state = state_word(read_small(folder + "/state").value_or("unknown"));
        const std::string link = state_word(read_small(folder + "/phys_state").value_or("unknown"));
        if (state == "INIT" || state == "ARMED")
            exam.found(Severity::fail,
                       fmt::format("{} has a link and is in state {}", hca.name, state),
                       "no subnet manager has set it up: start opensm, or look at the fabric's");
        else if (models_in_use.contains(model_of(exam, hca)))
            exam.found(fmt::format("{} is {} (link {}) while others of its model are active",
                                   hca.name, state, link));
    }
}

void look_at_hca_rates(Examination& exam) {
    if (no_hcas(exam))
        return;
    std::map<std::string, std::map<double, std::vector<std::string>>> by_model;
    std::vector<std::string> rates;
    each_active_port(exam, [&](const Hca& hca, const Hca::Port& port) {
        by_model[model_of(exam, hca)][port.rate_gbps].push_back(port_name(hca, port));
        rates.push_back(fmt::format("{:g}", port.rate_gbps));
    });
    if (rates.empty())
        return exam.nothing_to_look_at("no active port");
    exam.fact("hca.rates", join(rates, " "));
    for (const auto& [model, rated] : by_model) {
        const double best = rated.rbegin()->first;
        for (const auto& [rate, names] : rated)
            if (rate < best)
                exam.found(fmt::format("{} runs at {}, {} at {}", join(names, ", "),
                                       rate_text(rate), join(rated.rbegin()->second, ", "),
                                       rate_text(best)));
    }
}

namespace {

// Those that a good link does not raise. Packet sequence errors and waits rise with congestion
// alone.
constexpr std::array kCounters = {
    "counters/symbol_error",
    "counters/link_error_recovery",
    "counters/link_downed",
    "counters/port_rcv_errors",
    "counters/port_rcv_remote_physical_errors",
    "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors",
    "counters/VL15_dropped",
    "hw_counters/rx_icrc_encapsulated",
    "hw_counters/local_ack_timeout_err",
};

using Counters = std::map<std::string, long long>;

Counters read_counters(Examination& exam) {
    Counters counters;
    each_active_port(exam, [&](const Hca& hca, const Hca::Port& port) {
        for (const char* name : kCounters)
            if (const auto value = read_number(port_folder(exam, hca, port) + "/" + name))
                counters[port_name(hca, port) + " " +
                         std::string(name).substr(std::string(name).find('/') + 1)] = *value;
    });
    return counters;
}

}  // namespace

void look_at_hca_counters(Examination& exam) {
    if (no_hcas(exam))
        return;
    const Counters before = read_counters(exam);
    if (before.empty())
        return exam.cannot_look("no active port shows its counters");
    exam.sources().pause();
    for (const auto& [name, value] : read_counters(exam)) {
        const auto first = before.find(name);
        if (first != before.end() && value > first->second)
            exam.found(fmt::format("{} rises: {} -> {}", name, first->second, value));
    }
}

namespace {

/// The rules under which NCCL takes a good GID of this port: the user's, or, where IPv4 leads
/// nowhere and no family was chosen, those for IPv6, which autolaunch then sets.
GidRules rules_for(const Hca::Port& port, const EnvironmentMap& settings) {
    const GidRules rules = read_gid_rules(settings);
    if (settings.contains("NCCL_IB_ADDR_FAMILY") ||
        gid_problem(port, choose_gid_index(port, rules)).empty())
        return rules;
    GidRules other = rules;
    other.ipv6 = true;
    return gid_problem(port, choose_gid_index(port, other)).empty() ? other : rules;
}

}  // namespace

void look_at_gid(Examination& exam) {
    if (no_hcas(exam))
        return;
    const EnvironmentMap settings = exam.state().nccl_settings();
    const auto& interfaces = exam.topology().network_interfaces;
    std::vector<std::string> families;
    int ports = 0;
    each_active_port(exam, [&](const Hca& hca, const Hca::Port& port) {
        if (port.link_layer != "Ethernet")
            return;
        ++ports;
        const int index = choose_gid_index(port, rules_for(port, settings));
        if (const std::string problem = gid_problem(port, index); !problem.empty())
            return exam.found(fmt::format("NCCL would take GID {} of {}: {}", index,
                                          port_name(hca, port), problem));
        const auto gid = std::find_if(port.gids.begin(), port.gids.end(),
                                      [&](const Gid& g) { return g.index == index; });
        if (gid == port.gids.end())
            return;
        families.emplace_back(is_ipv4(*gid) ? "IPv4" : "IPv6");
        const bool ours =
            std::any_of(interfaces.begin(), interfaces.end(),
                        [&](const NetworkInterface& i) { return i.name == gid->netdev; });
        if (!gid->netdev.empty() && !ours)
            exam.found(
                Severity::fail,
                fmt::format("GID {} of {} is on {}, which is not in this network namespace", index,
                            port_name(hca, port), gid->netdev),
                "start the container with the host's network, or pass the interface into it");
    });
    if (ports == 0)
        return exam.nothing_to_look_at("no active RoCE port");
    if (!families.empty())
        exam.fact("gid.family", join(families, " "));
}

namespace {

/// In bytes, as verbs tell it; of RoCE else from its interface. 0: not known.
int active_mtu(Examination& exam, const Hca& hca, const Hca::Port& port) {
    if (const VerbsDevice* device = exam.state().verbs_device(hca.name))
        for (const VerbsDevice::Port& told : device->ports)
            if (told.number == port.number && told.mtu_bytes > 0)
                return told.mtu_bytes;
    return port.mtu_bytes;
}

}  // namespace

void look_at_mtu(Examination& exam) {
    if (no_hcas(exam))
        return;
    std::map<int, std::vector<std::string>> by_mtu;
    std::vector<std::string> all, unknown;
    each_active_port(exam, [&](const Hca& hca, const Hca::Port& port) {
        const auto netdevs =
            list_directory(exam.sysfs("/class/infiniband/" + hca.name + "/device/net"));
        const std::string netdev = !port.netdev.empty() ? port.netdev
                                   : netdevs.empty()    ? ""
                                                        : netdevs.front();
        const auto net_mtu = read_number(exam.sysfs("/class/net/" + netdev + "/mtu"));
        const bool roce = port.link_layer == "Ethernet";
        const int mtu = active_mtu(exam, hca, port);
        if (mtu == 0)
            return unknown.push_back(port_name(hca, port));
        by_mtu[mtu].push_back(port_name(hca, port));
        all.push_back(std::to_string(mtu));
        if (roce && net_mtu && *net_mtu < 4200)
            exam.found(
                Severity::hint,
                fmt::format("{} is on {} with an MTU of {}", hca.name, netdev, *net_mtu),
                fmt::format(
                    "with jumbo frames RoCE sends 4096 bytes at once: ip link set {} mtu 9000",
                    netdev));
    });
    if (all.empty() && unknown.empty())
        return exam.nothing_to_look_at("no active port");
    const std::string& why = exam.state().why_no_verbs();
    if (unknown.empty())
        exam.fact("hca.mtu", join(all, " "));
    else  // nodes that know more would look different
        exam.cannot_look(fmt::format("MTU of {} is not told{}", join(unknown, ", "),
                                     why.empty() ? "" : ": " + why));
    if (by_mtu.size() > 1)
        exam.found(fmt::format("{} has {}, {} has {}", join(by_mtu.begin()->second, ", "),
                               by_mtu.begin()->first, join(by_mtu.rbegin()->second, ", "),
                               by_mtu.rbegin()->first));
}

void look_at_uverbs(Examination& exam) {
    if (no_hcas(exam))
        return;
    const std::string folder = exam.sysfs("/class/infiniband_verbs");
    std::set<std::string> with_device;
    for (const std::string& name : list_directory(folder)) {
        const auto hca = read_small(folder + "/" + name + "/ibdev");
        if (!hca)
            continue;
        with_device.insert(*hca);
        const std::string path = exam.dev("/infiniband/" + name);
        const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
        if (!fd)
            exam.found(fmt::format("{} of {}: {}", path, *hca, std::strerror(errno)));
    }
    for (const Hca& hca : exam.topology().hcas)
        if (has_active_port(hca) && !with_device.contains(hca.name))
            exam.found(Severity::fail, hca.name + " has no uverbs device", "modprobe ib_uverbs");
}

namespace {

struct PcieLink {
    long long width = 0, max_width = 0;
    double speed = 0, max_speed = 0;  // GT/s
};

std::optional<PcieLink> read_link(Examination& exam, const std::string& bdf) {
    const std::string device = exam.sysfs("/bus/pci/devices/" + bdf);
    const auto speed = [&](const char* name) {
        return std::strtod(read_small(device + name).value_or("0").c_str(), nullptr);
    };
    const PcieLink link{read_number(device + "/current_link_width").value_or(0),
                        read_number(device + "/max_link_width").value_or(0),
                        speed("/current_link_speed"), speed("/max_link_speed")};
    // Virtual machines show 0, and 255 for a device that does not answer.
    if (link.width <= 0 || link.max_width <= 0 || link.width >= 255 || link.max_width >= 255)
        return std::nullopt;
    return link;
}

}  // namespace

void look_at_nic_pcie(Examination& exam) {
    if (no_hcas(exam))
        return;
    int known = 0;
    std::vector<std::string> links;
    for (const Hca& hca : exam.topology().hcas) {
        const auto link = read_link(exam, hca.bdf);
        if (!link)
            continue;
        ++known;
        links.push_back(fmt::format("x{}@{:g}", link->width, link->speed));
        if (link->width < link->max_width || link->speed < link->max_speed)
            exam.found(fmt::format("{} ({}) runs with x{} at {:g} GT/s, can x{} at {:g}", hca.name,
                                   hca.bdf, link->width, link->speed, link->max_width,
                                   link->max_speed));
    }
    if (known == 0)
        return exam.cannot_look("sysfs shows no PCIe link of an HCA");
    exam.fact("hca.pcie", join(links, " "));
}

namespace {

// The modules that NCCL itself looks for.
bool has_peer_memory(Examination& exam, bool amd) {
    const std::vector<std::string> modules =
        amd ? std::vector<std::string>{"/kernel/mm/memory_peers/amdkfd/version"}
            : std::vector<std::string>{"/module/nvidia_peermem/version",
                                       "/kernel/mm/memory_peers/nv_mem/version",
                                       "/kernel/mm/memory_peers/nv_mem_nc/version"};
    return std::any_of(modules.begin(), modules.end(), [&](const std::string& module) {
        return ::access(exam.sysfs(module).c_str(), F_OK) == 0;
    });
}

bool kernel_knows_dmabuf(Examination& exam) {
    long long major = 0, minor = 0;
    const auto release = split(read_small(exam.proc("/sys/kernel/osrelease")).value_or(""), '.');
    if (release.size() > 1) {
        parse_integer(release[0], major);
        parse_integer(release[1], minor);
    }
    return major > 5 || (major == 5 && minor >= 12);
}

/// HCAs in use that do not take DMA-BUF memory: by NCCL's own probe, or, where that cannot be made,
/// by the kernel's age.
std::vector<std::string> hcas_without_dmabuf(Examination& exam) {
    std::vector<std::string> refusing;
    for (const Hca& hca : exam.topology().hcas) {
        if (!has_active_port(hca))
            continue;
        const VerbsDevice* const device = exam.state().verbs_device(hca.name);
        const bool takes = device != nullptr && device->takes_dmabuf ? *device->takes_dmabuf
                                                                     : kernel_knows_dmabuf(exam);
        if (!takes)
            refusing.push_back(hca.name);
    }
    return refusing;
}

}  // namespace

void look_at_gpudirect(Examination& exam) {
    const auto& gpus = exam.topology().gpus;
    if (gpus.empty())
        return exam.nothing_to_look_at("no GPU");
    if (no_hcas(exam))
        return;
    const bool amd = gpus.front().vendor == "amd";
    if (has_peer_memory(exam, amd))
        return exam.fact("gpudirect", "peer memory");
    const std::vector<std::string> refusing = hcas_without_dmabuf(exam);
    // Of NVIDIA's drivers only the open one hands out DMA-BUF.
    const bool gpus_give =
        amd || read_small(exam.proc("/driver/nvidia/version")).value_or("").find("Open Kernel") !=
                   std::string::npos;
    exam.fact("gpudirect", gpus_give && refusing.empty() ? "DMA-BUF" : "none");
    if (!gpus_give)
        exam.found("neither nvidia_peermem nor DMA-BUF: HCAs copy through the host's memory");
    else if (!refusing.empty())
        exam.found(fmt::format(
            "{} {} no DMA-BUF memory, and there is no peer-memory module: copies go through the "
            "host's memory",
            join(refusing, ", "), refusing.size() == 1 ? "takes" : "take"));
}

// With ACS on, traffic between two devices below one switch goes up to the root and back. Only root
// may read it; groups of their own are its sign.
void look_at_acs(Examination& exam) {
    const NodeTopology& topology = exam.topology();
    if (topology.gpus.empty() || topology.hcas.empty())
        return exam.nothing_to_look_at("no GPU or no HCA");
    const auto group = [&](const std::string& bdf) {
        std::error_code error;
        const auto link = std::filesystem::read_symlink(
            exam.sysfs("/bus/pci/devices/" + bdf + "/iommu_group"), error);
        return error ? std::string() : link.filename().string();
    };
    for (const Gpu& gpu : topology.gpus)
        for (const Hca& hca : topology.hcas) {
            if (path_between(topology, gpu, hca) != PathClass::pix)
                continue;
            const std::string of_gpu = group(gpu.bdf), of_hca = group(hca.bdf);
            if (!of_gpu.empty() && !of_hca.empty() && of_gpu != of_hca)
                return exam.found(
                    fmt::format("GPU {} and {} are below one switch, in IOMMU groups {} and {}",
                                gpu.bdf, hca.name, of_gpu, of_hca));
        }
}

}  // namespace autolaunch::launcher
