#include "topology/nccl_topology.hpp"

#include "base/text.hpp"
#include "topology/capture_parts.hpp"
#include "topology/cpu_sets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace autolaunch::launcher {
namespace {

constexpr std::string_view kCray = "17db:";  // Slingshot's PCI vendor
constexpr std::size_t kMostNodes = 1024;
constexpr long long kMostMbps = 100'000'000;

/// Where an element is.
struct Place {
    std::optional<int> numa_node;
    std::vector<int> cpus;
    std::vector<std::string> pci_path;  ///< root first; empty outside a <pci>
    std::string bdf;                    ///< of the <pci> around it
    std::string name;                   ///< the same, or "BDF#2" where another has its address
    std::string pci_class, pci_id;
    bool bridge_per_domain = false;
};

/// An <nvlink> or <xgmi>.
struct Link {
    std::string from, to;
    bool to_switch = false;
    int count = 0;
};

class NcclReader {
public:
    explicit NcclReader(const std::string& file) : file_(file) {}
    NodeTopology read(const XmlElement& system);

private:
    [[noreturn]] void refuse(const XmlElement& at, const std::string& what) const {
        refuse_capture(file_, at.line, what,
                       "compare it with a file that NCCL_TOPO_DUMP_FILE writes");
    }
    long long number(const XmlElement& element, const char* attribute, long long low,
                     long long high, long long missing) const;
    std::vector<int> cpu_mask(const XmlElement& cpu) const;

    std::vector<const XmlElement*> cpus_of_one_host(const XmlElement& system);
    void read_cpu(const XmlElement& cpu);
    void read_pci(const XmlElement& pci, const Place& above);
    void add_gpu(const XmlElement* gpu, const Place& place, bool is_partition);
    void read_nic(const XmlElement& nic, const Place& place);
    void add_net(const XmlElement& net, const Place& place);
    double speed_of(const XmlElement& net);
    Hca& find_or_add_hca(const std::string& name, const Place& place);
    void tell_links();
    void add_notes();

    const std::string& file_;
    NodeTopology result_;
    std::vector<Link> links_;
    std::set<std::string> other_hosts_;
    bool some_hcas_have_no_name_ = false;
    bool some_cpus_are_missing_ = false;
    bool said_odd_speed_ = false;
    std::map<std::string, int> switches_;  ///< how many have the address
    std::map<std::string, int> listed_;    ///< GPUs' addresses and "NUMA node 0", how often
};

// A NIC without a name: whoever filters by names cannot name it.
void take_unnamed(Hca& hca, const std::string& pci_class) {
    hca.is_named = false;
    hca.ports = {{1, true, pci_class.starts_with("0207") ? "InfiniBand" : "Ethernet", 0}};
}

std::string text(const XmlElement& element, const char* attribute) {
    const std::string* value = element.find(attribute);
    return value ? std::string(trim(*value)) : std::string();
}

std::string without_0x(std::string digits) {
    if (digits.starts_with("0x") || digits.starts_with("0X"))
        digits.erase(0, 2);
    return digits;
}

bool has_child(const XmlElement& element, std::string_view name) {
    return std::any_of(element.children.begin(), element.children.end(),
                       [&](const XmlElement& child) { return child.name == name; });
}

// A file for NCCL_TOPO_FILE leaves <gpu> and <nic> for NCCL to fill in: there the PCI class says
// what a device is.
bool is_gpu_class(const XmlElement& pci) {
    const std::string pci_class = without_0x(text(pci, "class"));
    const std::string vendor = without_0x(text(pci, "vendor"));
    return (pci_class.starts_with("03") || pci_class.starts_with("12")) &&
           (vendor.empty() || vendor == "10de" || vendor == "1002");
}

std::string gpu_vendor(const XmlElement* gpu, const Place& place) {
    if (place.pci_id.starts_with("1002:"))
        return "amd";
    if (place.pci_id.starts_with("10de:"))
        return "nvidia";
    const bool is_amd = place.pci_class == "038000" || place.pci_class.starts_with("12") ||
                        (gpu && (gpu->find("gcn") || has_child(*gpu, "xgmi")));
    return is_amd ? "amd" : "nvidia";
}

long long NcclReader::number(const XmlElement& element, const char* attribute, long long low,
                             long long high, long long missing) const {
    const std::string value = text(element, attribute);
    if (value.empty())
        return missing;
    long long parsed = 0;
    if (!parse_integer(value, parsed) || parsed < low || parsed > high)
        refuse(element, fmt::format("{} of <{}> is '{:.40}', expected a number from {} to {}",
                                    attribute, element.name, value, low, high));
    return parsed;
}

// "0003ff,f0003fff": 32 bits between commas, the highest first; a mask without commas may be of any
// length.
std::vector<int> NcclReader::cpu_mask(const XmlElement& cpu) const {
    const std::string mask = without_0x(text(cpu, "affinity"));
    const std::vector<std::string> groups = split(mask, ',');
    std::vector<int> cpus;
    if (mask.empty())
        return cpus;
    if (mask.size() > kMostCpus / 4)
        refuse(cpu, fmt::format("affinity of <cpu> has more than {} CPUs", kMostCpus));
    for (std::size_t i = 0; i < groups.size(); ++i) {
        const std::string& group = groups[i];
        if ((groups.size() > 1 && group.size() > 8) ||
            group.find_first_not_of("0123456789abcdefABCDEF") != group.npos)
            refuse(cpu,
                   fmt::format("affinity of <cpu> is '{:.40}', expected groups of 8 hex digits",
                               mask));
        const std::size_t base = 32 * (groups.size() - 1 - i);
        for (std::size_t digit = 0; digit < group.size(); ++digit) {
            const char c = group[group.size() - 1 - digit];
            const int bits = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
            for (std::size_t bit = 0; bit < 4; ++bit)
                if (bits >> bit & 1)
                    cpus.push_back(static_cast<int>(base + 4 * digit + bit));
        }
    }
    std::sort(cpus.begin(), cpus.end());
    return cpus;
}

// Machines that share NVLink (GB200 NVL72) are dumped into one file, each with its host_hash.
std::vector<const XmlElement*> NcclReader::cpus_of_one_host(const XmlElement& system) {
    std::vector<const XmlElement*> cpus;
    for (const XmlElement& child : system.children) {
        if (child.name != "cpu")
            continue;
        const std::string host = text(child, "host_hash");
        if (cpus.empty() || host == text(*cpus.front(), "host_hash"))
            cpus.push_back(&child);
        else
            other_hosts_.insert(host);
    }
    return cpus;
}

void NcclReader::read_cpu(const XmlElement& cpu) {
    Place place;
    const long long numa_id = number(cpu, "numaid", -1, kMostCpus, -1);
    place.cpus = cpu_mask(cpu);
    if (numa_id >= 0) {
        place.numa_node = static_cast<int>(numa_id);
        ++listed_[fmt::format("NUMA node {}", numa_id)];
    }
    const std::string arch = text(cpu, "arch");
    place.bridge_per_domain = arch == "arm64" || arch == "ppc64";
    if (result_.cpu_model.empty() && cpu.find("vendor"))
        result_.cpu_model = fmt::format("{} family {} model {}", text(cpu, "vendor"),
                                        text(cpu, "familyid"), text(cpu, "modelid"));

    if (place.numa_node && !place.cpus.empty()) {
        const auto same =
            std::find_if(result_.numa_nodes.begin(), result_.numa_nodes.end(),
                         [&](const NumaNode& node) { return node.index == *place.numa_node; });
        if (same == result_.numa_nodes.end())
            result_.numa_nodes.push_back({*place.numa_node, 0, place.cpus, {}});
        else
            same->cpus = unite(same->cpus, place.cpus);
    }
    some_cpus_are_missing_ = some_cpus_are_missing_ || place.cpus.empty();
    result_.allowed_cpus = unite(result_.allowed_cpus, place.cpus);
    for (const XmlElement& child : cpu.children) {
        if (child.name == "pci")
            read_pci(child, place);
        if (child.name == "nic")
            read_nic(child, place);
        if (child.name == "net")
            add_net(child, place);
        if (child.name == "gpu")
            add_gpu(&child, place, false);
    }
}

// sysfs shows a switch as an upstream port and, between it and each device, a downstream port. NCCL
// keeps the first alone: the second is put back, so that both count as one switch.
void NcclReader::read_pci(const XmlElement& pci, const Place& above) {
    Place place = above;
    place.bdf = sysfs_bdf(text(pci, "busid"));
    if (place.bdf.empty())
        refuse(pci, "<pci> without busid");
    if (!is_pci_address(place.bdf))
        refuse(pci, fmt::format("busid '{:.40}' is no PCI address", place.bdf));
    const int namesakes = has_child(pci, "pci") ? ++switches_[place.bdf] : 1;
    place.name = namesakes > 1 ? fmt::format("{}#{}", place.bdf, namesakes) : place.bdf;
    if (above.bdf.empty()) {
        const std::string domain =
            above.bridge_per_domain ? " domain " + place.bdf.substr(0, place.bdf.find(':')) : "";
        place.pci_path = {above.numa_node ? fmt::format("numa{}{}", *above.numa_node, domain)
                                          : "cpu" + domain};
    } else {
        place.pci_path.push_back(above.name);
        place.pci_path.push_back(above.name + ">" + place.name);
    }
    place.pci_class = without_0x(text(pci, "class"));
    const std::string vendor = without_0x(text(pci, "vendor")),
                      device = without_0x(text(pci, "device"));
    place.pci_id = vendor.empty() || device.empty() ? std::string() : vendor + ":" + device;

    const auto gpus = std::count_if(pci.children.begin(), pci.children.end(),
                                    [](const XmlElement& child) { return child.name == "gpu"; });
    for (const XmlElement& child : pci.children) {
        if (child.name == "pci")
            read_pci(child, place);
        if (child.name == "gpu")
            add_gpu(&child, place, gpus > 1);
        if (child.name == "nic")
            read_nic(child, place);
        if (child.name == "net")
            add_net(child, place);
    }
    if (gpus == 0 && is_gpu_class(pci))
        add_gpu(nullptr, place, false);
    if (place.pci_class.starts_with("02") && !has_child(pci, "nic") && !has_child(pci, "net")) {
        take_unnamed(find_or_add_hca(place.bdf, place), place.pci_class);
        some_hcas_have_no_name_ = true;
    }
}

void NcclReader::add_gpu(const XmlElement* gpu, const Place& place, bool is_partition) {
    if (result_.gpus.size() >= kMostGpus)
        refuse_capture(file_, gpu ? gpu->line : 0,
                       fmt::format("it has more than {} GPUs", kMostGpus));
    Gpu found;
    found.bdf = place.bdf;
    found.vendor = gpu_vendor(gpu, place);
    found.model = place.pci_id;
    found.pci_path = place.pci_path;
    found.numa_node = place.numa_node;
    if (is_partition)
        found.partition_of = place.bdf;  // the file tells no UUIDs
    found.numa_source = place.numa_node ? "NCCL's cpu numaid" : "";
    found.local_cpus = place.cpus;
    if (gpu && gpu->find("dev") && found.vendor == "amd")
        found.runtime_index = static_cast<int>(number(*gpu, "dev", 0, kMostGpus, 0));
    result_.gpus.push_back(std::move(found));
    if (!is_partition)
        ++listed_["GPU " + place.bdf];
    if (!gpu)
        return;
    for (const XmlElement& child : gpu->children) {
        if (child.name != "nvlink" && child.name != "xgmi")
            continue;
        const std::string target_class = without_0x(text(child, "tclass"));
        links_.push_back({place.bdf, sysfs_bdf(text(child, "target")), target_class == "068000",
                          static_cast<int>(number(child, "count", 0, 1024, 1))});
    }
}

void NcclReader::read_nic(const XmlElement& nic, const Place& place) {
    for (const XmlElement& child : nic.children)
        if (child.name == "net")
            add_net(child, place);
}

Hca& NcclReader::find_or_add_hca(const std::string& name, const Place& place) {
    for (Hca& hca : result_.hcas)
        if (hca.name == name)
            return hca;
    if (result_.hcas.size() >= kMostHcas)
        refuse_capture(file_, 0, fmt::format("it has more than {} NICs", kMostHcas));
    Hca& hca = result_.hcas.emplace_back();
    hca.name = name;
    hca.bdf = place.bdf;
    hca.numa_node = place.numa_node;
    hca.pci_id = place.pci_id;
    hca.pci_path = place.pci_path;
    return hca;
}

// A machine is not refused for one odd number: the rate is unknown then.
double NcclReader::speed_of(const XmlElement& net) {
    const std::string told = text(net, "speed");
    long long mbps = 0;
    const bool is_number = parse_integer(told, mbps) && mbps >= -1 && mbps <= kMostMbps;
    if (!told.empty() && !is_number && !said_odd_speed_) {
        said_odd_speed_ = true;
        result_.notes.push_back(fmt::format(
            "line {}: speed of <net> is '{:.40}', no number of Mb/s: it counts as unknown",
            net.line, told));
    }
    return is_number && mbps > 0 ? static_cast<double>(mbps) / 1000 : 0;
}

// NCCL lists what it may use: a port that is up. Its sockets have port 0; "mlx5_0+mlx5_1" is two
// ports that it joined, with the speed of both; "mlx5_0:1" names the port.
void NcclReader::add_net(const XmlElement& net, const Place& place) {
    const double gbps = speed_of(net);
    const long long told_port =
        number(net, "port", 0, 255, place.pci_class.starts_with("02") ? 1 : 0);
    const std::vector<std::string> parts = split(text(net, "name"), '+');
    for (const std::string& part : parts) {
        const std::size_t colon = part.rfind(':');
        long long named_port = 0;
        const bool names_port = colon != std::string::npos &&
                                parse_integer(part.substr(colon + 1), named_port) &&
                                named_port > 0 && named_port < 256;
        const std::string name = names_port ? part.substr(0, colon) : part;
        const bool is_cxi = name.starts_with("cxi");  // of NCCL's OFI plugin; else an interface
        const bool is_slingshot = is_cxi || place.pci_id.starts_with(kCray);
        const int port = static_cast<int>(names_port                       ? named_port
                                          : is_slingshot && told_port == 0 ? 1
                                                                           : told_port);
        if (name.empty())
            refuse(net, "<net> without a name");
        const double rate = gbps / static_cast<double>(parts.size());
        if (port == 0 || (is_slingshot && !is_cxi))
            result_.network_interfaces.push_back({name, true, false, rate, {}, place.bdf});
        if (port == 0)
            continue;
        Hca& hca = find_or_add_hca(name, place);
        const bool known =
            std::any_of(hca.ports.begin(), hca.ports.end(),
                        [&](const Hca::Port& known_port) { return known_port.number == port; });
        const char* layer = is_slingshot                          ? kSlingshot
                            : place.pci_class.empty()             ? ""
                            : place.pci_class.starts_with("0207") ? "InfiniBand"
                                                                  : "Ethernet";
        if (!known)
            hca.ports.push_back({port, true, layer, rate});
        if (is_slingshot && !is_cxi) {
            hca.is_named = false;
            hca.ports.back().netdev = name;
        }
    }
}

// Links to NVSwitches (class 0680) join every GPU that has some; links to the CPU, or to GPUs that
// are not in the file, join no two of ours.
void NcclReader::tell_links() {
    std::set<std::string> gpus;
    for (const Gpu& gpu : result_.gpus)
        gpus.insert(gpu.bdf);
    std::map<std::string, int> to_switches;
    std::map<std::pair<std::string, std::string>, int> joined, direct;
    for (const Link& link : links_) {
        if (link.to_switch)
            to_switches[link.from] += link.count;
        if (link.from != link.to && gpus.contains(link.to))
            joined[{link.from, link.to}] += link.count;
    }
    for (const auto& [ends, count] : joined) {  // each end lists it
        int& links = direct[std::minmax(ends.first, ends.second)];
        links = std::max(links, count);
    }
    for (const auto& [a, links_of_a] : to_switches)
        for (auto other = to_switches.upper_bound(a); other != to_switches.end(); ++other)
            direct[{a, other->first}] += std::min(links_of_a, other->second);
    for (const auto& [ends, links] : direct)
        if (links > 0)
            result_.told_paths.push_back({ends.first, ends.second, PathClass::nvlink, links});
}

void NcclReader::add_notes() {
    auto& notes = result_.notes;
    for (const auto& [name, count] : listed_)
        if (count > 1)
            notes.push_back(fmt::format("the file lists {} {} times", name, count));
    if (result_.numa_nodes.empty())
        notes.push_back("NUMA nodes are not told");
    if (!other_hosts_.empty())
        notes.push_back(
            fmt::format("the file holds {} machines that share NVLink: the first is shown",
                        other_hosts_.size() + 1));
    if (some_cpus_are_missing_)
        notes.push_back("the CPUs of some NUMA nodes are not told");
    if (some_hcas_have_no_name_)
        notes.push_back(
            "the file names no network devices: they go by their PCI address, each with one port "
            "taken as "
            "active, of unknown speed");
    notes.push_back(
        "NUMA memory and distances, GPU models and host bridges are not told: devices of one NUMA "
        "node "
        "count as below one host bridge");
}

NodeTopology NcclReader::read(const XmlElement& system) {
    const auto cpus = cpus_of_one_host(system);
    if (cpus.empty())
        refuse(system, "<system> has no <cpu>");
    if (cpus.size() > kMostNodes)
        refuse(*cpus.back(), fmt::format("more than {} <cpu>", kMostNodes));
    for (const XmlElement* cpu : cpus)
        read_cpu(*cpu);
    std::sort(result_.numa_nodes.begin(), result_.numa_nodes.end(),
              [](const NumaNode& a, const NumaNode& b) { return a.index < b.index; });
    put_in_order(result_);
    tell_links();
    count_cpus_as_cores(result_);
    add_notes();
    return std::move(result_);
}

}  // namespace

NodeTopology read_nccl_topology(const XmlElement& system, const std::string& file) {
    return NcclReader(file).read(system);
}

}  // namespace autolaunch::launcher
