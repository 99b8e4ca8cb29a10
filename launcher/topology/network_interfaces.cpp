#include "base/text.hpp"
#include "topology/readers.hpp"
#include "topology/system_files.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>

namespace autolaunch::launcher {
namespace {

/// What the kernel says of the interfaces of our own network namespace.
struct Told {
    bool is_running = false;
    std::vector<std::string> addresses;
};

std::string to_text(const sockaddr* address) {
    const void* const bytes =
        address->sa_family == AF_INET6
            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr)
            : &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    std::array<char, INET6_ADDRSTRLEN> text = {};
    return ::inet_ntop(address->sa_family, bytes, text.data(), text.size()) ? text.data() : "";
}

std::map<std::string, Told> ask_kernel() {
    std::map<std::string, Told> all;
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0)
        return all;
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, &::freeifaddrs);
    for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
        Told& told = all[entry->ifa_name];
        told.is_running = (entry->ifa_flags & IFF_UP) && (entry->ifa_flags & IFF_RUNNING);
        if (!entry->ifa_addr)
            continue;
        if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6)
            continue;
        if (std::string text = to_text(entry->ifa_addr); !text.empty())
            told.addresses.push_back(std::move(text));
    }
    return all;
}

std::vector<std::string> words_of(const std::string& line) {
    std::vector<std::string> words;
    constexpr const char* kBlanks = " \t\r";
    for (std::size_t end = 0, begin = line.find_first_not_of(kBlanks); begin != line.npos;
         begin = line.find_first_not_of(kBlanks, end)) {
        end = std::min(line.find_first_of(kBlanks, begin), line.size());
        words.push_back(line.substr(begin, end - begin));
    }
    return words;
}

unsigned long hex_of(const std::string& word) { return std::strtoul(word.c_str(), nullptr, 16); }

// IPv4: Iface Destination Gateway Flags RefCnt Use Metric Mask …, numbers in hexadecimal. IPv6:
// destination, its prefix length, source, its length, next hop, metric, two counters, flags,
// interface; "lo" has one that refuses everything.
std::set<std::string> read_default_routes(const std::string& proc_root) {
    std::set<std::string> names;
    for (const std::string& line : read_table(proc_root + "/net/route")) {
        const auto words = words_of(line);
        if (words.size() < 8 || words[1] != "00000000" || words[7] != "00000000")
            continue;
        if ((hex_of(words[3]) & RTF_UP) && !(hex_of(words[3]) & RTF_REJECT))
            names.insert(words[0]);
    }
    for (const std::string& line : read_table(proc_root + "/net/ipv6_route")) {
        const auto words = words_of(line);
        if (words.size() < 10 || words[0] != std::string(32, '0') || words[1] != "00")
            continue;
        if ((hex_of(words[8]) & RTF_UP) && !(hex_of(words[8]) & RTF_REJECT))
            names.insert(words[9]);
    }
    return names;
}

// As the kernel counts IFF_RUNNING: up, and its operational state up or not known.
bool read_is_running(const std::string& folder) {
    if (!(std::strtoul(read_small(folder + "/flags").value_or("0").c_str(), nullptr, 0) & IFF_UP))
        return false;
    const std::string state = read_small(folder + "/operstate").value_or("unknown");
    return state == "up" || state == "unknown";
}

}  // namespace

std::vector<NetworkInterface> read_network_interfaces(const TopologyOptions& options) {
    const std::string class_folder = options.sysfs_root + "/class/net";
    const bool is_this_machine = options.sysfs_root == "/sys" && options.proc_root == "/proc";
    const auto told = is_this_machine ? ask_kernel() : std::map<std::string, Told>{};
    const auto routes = read_default_routes(options.proc_root);
    std::vector<NetworkInterface> all;
    for (const std::string& name : list_directory(class_folder)) {
        if (name == "bonding_masters")
            continue;  // a file among the folders
        const std::string folder = class_folder + "/" + name;
        NetworkInterface interface;
        interface.name = name;
        interface.has_default_route = routes.contains(name);
        const auto known = told.find(name);
        interface.is_running =
            known != told.end() ? known->second.is_running : read_is_running(folder);
        if (known != told.end())
            interface.addresses = known->second.addresses;
        const std::string place = read_link(folder);
        interface.bdf = bdf_in_path(place.empty() ? read_link(folder + "/device") : place);
        // Hundreds of containers' interfaces may be here, and some drivers ask their firmware: so
        // only where it matters.
        const bool is_virtual = interface.bdf.empty() && !interface.has_default_route;
        if (interface.is_running && (!is_virtual || options.details)) {
            const long long megabits = read_number(folder + "/speed").value_or(0);
            if (megabits > 0 && megabits < 100'000'000)
                interface.rate_gbps = static_cast<double>(megabits) / 1000;
        }
        all.push_back(std::move(interface));
    }
    return all;
}

}  // namespace autolaunch::launcher
