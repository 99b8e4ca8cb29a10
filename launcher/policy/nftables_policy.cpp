#include "policy/nftables_policy.hpp"

#include "base/refuse.hpp"
#include "base/text.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string_view>

namespace autolaunch::launcher {

namespace {

constexpr char kTable[] = "inet autolaunch";
constexpr char kNodes[] = "nodes";
constexpr char kNetworkForm[] = "--network nodes=10.1.0.0/16, where the job's nodes are";
// The head's doors (docs/control-protocol.md#finding-the-head).
constexpr int kFirstDoor = 20000, kLastDoor = 32767;

struct Network {
    std::vector<std::string> v4, v6;
};
using Networks = std::map<std::string, Network>;

struct PortRule {
    int first = 0, last = 0;
    std::string protocol;
    std::string source;  ///< a network's name; empty: from everywhere
    std::string place;
};

bool is_name(std::string_view text, std::size_t most) {
    return !text.empty() && text.size() <= most &&
           std::isalpha(static_cast<unsigned char>(text.front())) != 0 &&
           std::all_of(text.begin(), text.end(), [](unsigned char c) {
               return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
           });
}

// 4 or 6; nothing: no network.
std::optional<int> family_of(const std::string& cidr) {
    const std::size_t slash = cidr.find('/');
    const std::string address = cidr.substr(0, slash);
    unsigned char bytes[16];
    const int family = ::inet_pton(AF_INET, address.c_str(), bytes) == 1    ? 4
                       : ::inet_pton(AF_INET6, address.c_str(), bytes) == 1 ? 6
                                                                            : 0;
    if (family == 0)
        return std::nullopt;
    long long bits = 0;
    if (slash != std::string::npos && (!parse_integer(cidr.substr(slash + 1), bits) || bits < 1 ||
                                       bits > (family == 4 ? 32 : 128)))
        return std::nullopt;
    return family;
}

void add_network(Networks& networks, const std::string& name, const std::string& list) {
    Network& network = networks[name];
    for (const std::string& cidr : split(list, ',')) {
        const auto family = family_of(cidr);
        if (!family)
            refuse("--network " + name + "=" + list + ": " + cidr +
                       " is no network, such as 10.1.0.0/16 or fd00:1::/64",
                   kNetworkForm);
        (*family == 4 ? network.v4 : network.v6).push_back(cidr);
    }
}

Networks read_networks(const NftablesRequest& request) {
    Networks networks;
    for (const std::string& text : request.networks) {
        const std::size_t equals = text.find('=');
        const std::string name = text.substr(0, equals);
        if (equals == std::string::npos || !is_name(name, 24))
            refuse("--network " + text + ": expected NAME=CIDR[,CIDR...]", kNetworkForm);
        if (networks.contains(name))
            refuse("--network " + name + " is there twice", "name its networks with commas");
        add_network(networks, name, text.substr(equals + 1));
    }
    if (!networks.contains(kNodes))
        refuse("nftables needs to know where the job's nodes are", kNetworkForm);
    return networks;
}

[[noreturn]] void refuse_rule(const Value& rule, const std::string& what, const std::string& hint) {
    refuse(place_of(rule.at) + ": network_security.firewall_rules: " + what, hint);
}

std::string word_of(const Value& rule, const char* key) {
    const Entry* entry = rule.find(key);
    if (entry == nullptr)
        return {};
    if (!entry->value.is_scalar())
        refuse_rule(rule, std::string(key) + " is no text", "one port, protocol and source a rule");
    return entry->value.text;
}

// "29500" or "29500-29600".
void read_ports(const Value& rule, PortRule& read) {
    const std::string text = word_of(rule, "port");
    const auto parts = split(text, '-');
    long long first = 0, last = 0;
    const bool numbers = parts.size() <= 2 && parse_integer(parts.front(), first) &&
                         parse_integer(parts.back(), last);
    if (!numbers || first < 1 || last > 65535 || last < first)
        refuse_rule(rule, "port is " + (text.empty() ? "not there" : "\"" + text + "\""),
                    "port: 29500, or port: 29500-29600");
    read.first = static_cast<int>(first);
    read.last = static_cast<int>(last);
}

// A name of --network, or a network itself, which gets a name.
void read_source(const Value& rule, Networks& networks, PortRule& read) {
    const std::string source = word_of(rule, "source");
    if (source.empty() || source == "any")
        return;
    if (const auto family = family_of(source)) {
        read.source = "rule-" + std::to_string(rule.at.line);
        (*family == 4 ? networks[read.source].v4 : networks[read.source].v6).push_back(source);
        return;
    }
    if (!networks.contains(source))
        refuse_rule(rule, "source \"" + source + "\" is a name that nobody explained",
                    "--network " + source + "=10.9.0.0/24, or a network in its place");
    read.source = source;
}

std::vector<PortRule> read_rules(const SiteSettings& settings, Networks& networks) {
    std::vector<PortRule> rules;
    const SiteSetting* setting = settings.find("network_security.firewall_rules");
    if (setting == nullptr)
        return rules;
    for (const Value& rule : setting->value.items) {
        for (const Entry& entry : rule.entries)
            if (entry.key != "port" && entry.key != "protocol" && entry.key != "source")
                refuse_rule(rule, entry.key + " is no key that is acted on",
                            "port, protocol and source are");
        PortRule& read = rules.emplace_back();
        read.place = place_of(rule.at);
        read_ports(rule, read);
        const std::string protocol = word_of(rule, "protocol");
        read.protocol = protocol.empty() ? "tcp" : protocol;
        if (read.protocol != "tcp" && read.protocol != "udp")
            refuse_rule(rule, "protocol is \"" + protocol + "\"", "tcp or udp");
        read_source(rule, networks, read);
    }
    return rules;
}

std::string ports_text(int first, int last) {
    return std::to_string(first) + (first == last ? "" : "-" + std::to_string(last));
}

std::string set_text(const std::string& name, const char* type,
                     const std::vector<std::string>& elements) {
    if (elements.empty())
        return {};
    return "    set " + name + " {\n        type " + type +
           "\n        flags interval\n        auto-merge\n        elements = { " +
           join(elements, ", ") + " }\n    }\n";
}

std::string sets_text(const Networks& networks) {
    std::string text;
    for (const auto& [name, network] : networks)
        text += set_text(name + "-v4", "ipv4_addr", network.v4) +
                set_text(name + "-v6", "ipv6_addr", network.v6);
    return text;
}

// The rules that let a network through `match`, and one that drops the rest.
std::string guard_text(const std::string& match, const std::string& name, const Network& network,
                       const std::string& place) {
    const std::string of = place.empty() ? "" : "   # " + place;
    std::string text;
    if (!network.v4.empty())
        text += "        " + match + " ip saddr @" + name + "-v4 return" + of + "\n";
    if (!network.v6.empty())
        text += "        " + match + " ip6 saddr @" + name + "-v6 return" + of + "\n";
    return text;
}

std::string rule_text(const PortRule& rule, const Networks& networks) {
    const std::string match = rule.protocol + " dport " + ports_text(rule.first, rule.last);
    if (rule.source.empty())
        return "        " + match + " return   # " + rule.place + "\n";
    return guard_text(match, rule.source, networks.at(rule.source), rule.place) + "        " +
           match + " counter drop\n";
}

std::string jobs_text(const NftablesRequest& request, const Networks& networks) {
    const auto [first, last] = request.chosen_ports;
    const std::string ports =
        first <= kLastDoor + 1 && last >= kFirstDoor
            ? ports_text(std::min(kFirstDoor, first), std::max(kLastDoor, last))
            : "{ " + ports_text(kFirstDoor, kLastDoor) + ", " + ports_text(first, last) + " }";
    const std::string match = "tcp dport " + ports;
    return "        # The head's doors, and what the kernel chooses for the store, NCCL, gloo and "
           "MPI.\n" +
           guard_text("iifname \"" + request.interface + "\" " + match, kNodes, networks.at(kNodes),
                      "") +
           "        " + match + " counter drop\n";
}

}  // namespace

std::string render_nftables(const SiteSettings& settings, const std::string& file,
                            const NftablesRequest& request) {
    if (!is_name(request.interface, 15))
        refuse(request.interface.empty()
                   ? "nftables needs to know the jobs' interface"
                   : "--interface " + request.interface + " is no interface's name",
               "--interface ib0: `ip -br link` lists them");
    Networks networks = read_networks(request);
    const std::vector<PortRule> rules = read_rules(settings, networks);
    std::string text =
        "#!/usr/sbin/nft -f\n"
        "# Written by autolaunch policy render nftables" +
        (file.empty() ? "" : " from " + file) +
        ".\n"
        "# Check with nft -c -f, load with nft -f: that replaces this table, and leaves others.\n"
        "# Only connections that are begun are looked at. RDMA (InfiniBand, RoCE) passes the "
        "kernel\n"
        "# by: there, partitions (pkeys) and VLANs part jobs. Other services of a node that "
        "listen\n"
        "# on a port of this range need a rule of their own above it.\n"
        "table " +
        std::string(kTable) + "\ndelete table " + kTable + "\ntable " + kTable + " {\n" +
        sets_text(networks) +
        "    chain input {\n"
        "        type filter hook input priority filter; policy accept;\n"
        "        iifname \"lo\" return\n"
        "        ct state established,related return\n";
    for (const PortRule& rule : rules)
        text += rule_text(rule, networks);
    return text + jobs_text(request, networks) + "    }\n}\n";
}

}  // namespace autolaunch::launcher
