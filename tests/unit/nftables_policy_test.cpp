// The firewall that an administrator is given for the ports of jobs: read by nft itself where it is
// installed.

#include "policy/nftables_policy.hpp"
#include "../write_file.hpp"
#include "base/hash.hpp"
#include "spec/yaml_reader.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace nftables_policy_test {

using namespace autolaunch;
using namespace autolaunch::launcher;

namespace {

SiteSettings settings_with(const std::string& rules) {
    std::vector<SpecError> errors;
    const Value root =
        read_yaml("network_security:\n  firewall_rules:\n" + rules, "s.yaml", errors);
    SiteSettings settings = read_site_settings(root, SiteSource::administrator, errors);
    REQUIRE(errors.empty());
    return settings;
}

const char* const kRules =
    "    - {port: 29500, protocol: tcp, source: nodes}\n"
    "    - {port: 6006, source: admins}\n"
    "    - {port: 9000-9010, protocol: udp, source: fd00:9::/64}\n"
    "    - {port: 22}\n";

NftablesRequest request() {
    return {
        "ib0", {"nodes=10.1.0.0/16,fd00:1::/64", "admins=10.9.0.0/24,10.9.0.7"}, {32768, 60999}};
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

std::string refusal(const std::string& rules, const NftablesRequest& asked) {
    try {
        render_nftables(settings_with(rules), "s.yaml", asked);
    } catch (const Error& error) {
        return std::string(error.what()) + " | " + error.hint();
    }
    return "it was accepted";
}

// The text, where nft takes it; what nft says, where not.
std::string checked_by_nft(const std::string& text) {
    namespace fs = std::filesystem;
    const fs::path file = fs::temp_directory_path() / ("autolaunch-nft-" + random_hex(8));
    write_file(file, text);
    const std::string command = "unshare -rn nft -c -f '" + file.string() + "' 2>&1";
    std::string said;
    FILE* const pipe = ::popen(command.c_str(), "re");
    REQUIRE(pipe != nullptr);
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe))
        said += static_cast<char>(c);
    const int status = ::pclose(pipe);
    fs::remove(file);
    return status == 0 ? text : "nft: " + said;
}

}  // namespace

TEST_CASE(
    "the jobs' ports are for the jobs' nodes, each rule is for its source, and replies pass") {
    const std::string text = render_nftables(settings_with(kRules), "s.yaml", request());
    for (const char* part :
         {"table inet autolaunch\ndelete table inet autolaunch\n", "ct state established,related",
          "elements = { 10.9.0.0/24, 10.9.0.7 }",
          "tcp dport 29500 ip saddr @nodes-v4 return   # s.yaml:3",
          "tcp dport 29500 ip6 saddr @nodes-v6 return", "tcp dport 29500 counter drop",
          "tcp dport 6006 ip saddr @admins-v4 return", "tcp dport 6006 counter drop",
          "udp dport 9000-9010 ip6 saddr @rule-5-v6 return", "tcp dport 22 return   # s.yaml:6\n",
          "iifname \"ib0\" tcp dport 20000-60999 ip saddr @nodes-v4 return",
          "        tcp dport 20000-60999 counter drop\n"})
        CHECK_MESSAGE(has(text, part), part, " is not in\n", text);
    CHECK_FALSE(has(text, "tcp dport 22 counter drop"));
    NftablesRequest apart = request();
    apart.chosen_ports = {40000, 50000};
    CHECK(has(render_nftables({}, "", apart), "tcp dport { 20000-32767, 40000-50000 } counter"));
}

TEST_CASE("nft takes what is written") {
    if (std::system("command -v nft >/dev/null 2>&1 && unshare -rn nft list ruleset >/dev/null "
                    "2>&1") != 0) {
        std::printf("skipped: nft is not installed (Debian's nftables), or may not be used here\n");
        std::exit(77);
    }
    for (const std::string& text :
         {render_nftables(settings_with(kRules), "s.yaml", request()),
          render_nftables({}, "", {"eth0.100", {"nodes=10.0.0.1"}, {10000, 15000}}),
          render_nftables({}, "", {"bond0", {"nodes=fd00::/8"}, {1024, 65535}})})
        CHECK(checked_by_nft(text) == text);
    CHECK(
        checked_by_nft("table inet x { chain y { tcp dport nobody drop } }").starts_with("nft: "));
}

TEST_CASE("what cannot be a rule is named by its line, and nothing of a name reaches nft") {
    CHECK(has(refusal("    - {port: 29500, source: cluster}\n", request()),
              "s.yaml:3: network_security.firewall_rules: source \"cluster\" is a name that nobody "
              "explained | --network cluster="));
    for (const char* rule :
         {"{port: http}", "{port: 0}", "{port: 70000}", "{port: 20-10}", "{source: nodes}",
          "{port: 1, protocol: icmp}", "{port: 1, action: accept}", "{port: 1, source: [a]}",
          "{port: 1-2-3}", "{port: 1, source: \"10.0.0.0/33\"}"})
        CHECK_MESSAGE(has(refusal(std::string("    - ") + rule + "\n", request()), "s.yaml:3: "),
                      rule);
    const auto with = [](const std::string& interface, std::vector<std::string> networks) {
        return refusal("    - {port: 1}\n", {interface, std::move(networks), {32768, 60999}});
    };
    for (const char* interface : {"", "ib0\" accept", "a b", "0123456789abcdef", "-x"})
        CHECK(has(with(interface, {"nodes=10.0.0.0/8"}), "interface"));
    for (const char* network : {"nodes", "nodes=", "nodes=10.0.0.0/8; drop", "nodes=10.0.0.0/0",
                                "a}=10.0.0.0/8", "nodes=10.0.0.0/8,"})
        CHECK(has(with("ib0", {network}), "--network "));
    CHECK(has(with("ib0", {"admins=10.0.0.0/8"}), "where the job's nodes are"));
    CHECK(has(with("ib0", {"nodes=10.0.0.0/8", "nodes=10.0.0.0/9"}), "is there twice"));
}

}  // namespace nftables_policy_test
