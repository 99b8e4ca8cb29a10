#include "nccl_env/nccl_env.hpp"

#include "../write_file.hpp"
#include "base/file_io.hpp"
#include "nccl_env/nccl_variables.hpp"
#include "nccl_machines.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace nccl_env_test {

using namespace autolaunch::launcher;
using testing::make_machine;
using Lines = std::vector<std::string>;

namespace {

NodeTopology gpu_machine(const std::vector<std::string>& hcas = {}) {
    NodeTopology topology = make_machine({.gpus = 2});
    for (const auto& name : hcas)
        topology.hcas.push_back({name, "", std::nullopt, {{1, true, "InfiniBand", 400}}});
    topology.network_interfaces = {{"eno1"}, {"ib0"}, {"lo"}};
    return topology;
}

NcclEnvironment decide(const NodeTopology& topology, const EnvironmentMap& found) {
    return decide_nccl_environment({.topology = topology, .found = found});
}

Lines warnings(const NodeTopology& topology, const EnvironmentMap& found) {
    return decide(topology, found).warnings;
}

}  // namespace

TEST_CASE("without GPUs there is nothing to say about NCCL") {
    const auto decided = decide(make_machine({}), {{"NCCL_IB_DISABLE", "1"}, {"NCCL_ALGO", "x"}});
    CHECK(decided.set.empty());
    CHECK(decided.kept.empty());
    CHECK(decided.warnings.empty());
}

TEST_CASE("NCCL_DEBUG is WARN unless the user chose") {
    const auto ours = decide(gpu_machine(), {{"PATH", "/bin"}});
    REQUIRE(ours.set.size() == 1);
    CHECK(ours.set[0].name == "NCCL_DEBUG");
    CHECK(ours.set[0].value == "WARN");
    CHECK(ours.kept.empty());
    const auto theirs = decide(gpu_machine(), {{"NCCL_DEBUG", "INFO"}, {"NCCL_NTHREADS", "256"}});
    CHECK(theirs.set.empty());
    REQUIRE(theirs.kept.size() == 2);
    CHECK(theirs.kept[0].name == "NCCL_DEBUG");
    CHECK(theirs.kept[1].value == "256");
}

TEST_CASE("NCCL_IB_DISABLE hurts only where HCAs are active") {
    CHECK(warnings(gpu_machine({"mlx5_0", "mlx5_1"}), {{"NCCL_IB_DISABLE", "1"}}) ==
          Lines{"NCCL_IB_DISABLE=1 while 2 HCAs are active: NCCL will use sockets; unset it"});
    CHECK(warnings(gpu_machine({"mlx5_0"}), {{"NCCL_IB_DISABLE", "0"}}).empty());
    CHECK(warnings(gpu_machine(), {{"NCCL_IB_DISABLE", "1"}}).empty());
    auto down = gpu_machine({"mlx5_0"});
    down.hcas[0].ports[0].active = false;
    CHECK(warnings(down, {{"NCCL_IB_DISABLE", "1"}}).empty());
}

TEST_CASE("NCCL_IB_HCA without '=' matches prefixes") {
    const auto machine = gpu_machine({"mlx5_0", "mlx5_1", "mlx5_10"});
    CHECK(warnings(machine, {{"NCCL_IB_HCA", "mlx5_1"}}) ==
          Lines{"NCCL_IB_HCA=mlx5_1: mlx5_1 also matches mlx5_10; write =mlx5_1 for whole names"});
    CHECK(warnings(machine, {{"NCCL_IB_HCA", "^mlx5_1"}}).size() == 1);
    CHECK(warnings(machine, {{"NCCL_IB_HCA", "mlx5_0,mlx5_1:1"}}).size() == 1);
    CHECK(warnings(machine, {{"NCCL_IB_HCA", "=mlx5_1"}}).empty());
    CHECK(warnings(machine, {{"NCCL_IB_HCA", "mlx5"}}).empty());            // a prefix is meant
    CHECK(warnings(machine, {{"NCCL_IB_HCA", "mlx5_1,mlx5_10"}}).empty());  // both are meant
    std::string many;
    for (int i = 0; i < 33; ++i)
        many += (i > 0 ? ",m" : "=m") + std::to_string(i);
    CHECK(warnings(machine, {{"NCCL_IB_HCA", many}})[0] ==
          "NCCL_IB_HCA names 33 HCAs and NCCL takes 32: name fewer");
}

TEST_CASE("NCCL_IB_HCA as NCCL reads it: ports, exclusion, blanks, entries that mean nothing") {
    auto machine = gpu_machine({"mlx5_0", "mlx5_1", "mlx5_2"});
    machine.hcas[2].ports[0].active = false;
    const auto said = [&](const char* value) {
        const Lines lines = warnings(machine, {{"NCCL_IB_HCA", value}});
        return lines.empty() ? std::string() : lines.front();
    };
    for (const char* fine : {"mlx5_0:1", "=mlx5_0:1,mlx5_1", "^mlx5_2", "^=mlx5_7", "mlx5", ","})
        CHECK_MESSAGE(said(fine).empty(), said(fine));
    CHECK(said("=mlx5_0,mlx5_7").find("nothing here is meant by mlx5_7 (no such HCA);") !=
          std::string::npos);
    CHECK(said("=mlx5_2").find("mlx5_2 (no active port), NCCL will use sockets") !=
          std::string::npos);
    CHECK(said("mlx5_0:2").find("mlx5_0:2 (no such port), NCCL will use") != std::string::npos);
    CHECK(said("mlx5_0, mlx5_1").ends_with("write mlx5_0,mlx5_1"));
    CHECK(said("=^mlx5_0").find("no such HCA here") != std::string::npos);  // "^" comes first
    CHECK(said("^mlx5").find("it leaves no active HCA") != std::string::npos);
    CHECK(said("^").find("it leaves no active HCA") != std::string::npos);
    CHECK(decide(machine, {{"NCCL_IB_HCA", "^mlx5_0"}}).compute_hcas == Lines{"mlx5_1"});
}

TEST_CASE("NCCL_IB_HCA: a prefix that takes storage, too") {
    auto machine =
        testing::machine_with(2, 1, {{"mlx5_0", "sw0"}, {"mlx5_1", "sw1"}, {"mlx5_2", "root7"}});
    const Lines lines = warnings(machine, {{"NCCL_IB_HCA", "mlx5"}});
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].find("it takes more than what is for computing: mlx5_2 (no GPU is near") !=
          std::string::npos);
    CHECK(lines[0].ends_with("write =mlx5_0,mlx5_1"));
    CHECK(warnings(machine, {{"NCCL_IB_HCA", "=mlx5_0,mlx5_1,mlx5_2"}}).empty());  // their word
}

TEST_CASE("NCCL_SOCKET_IFNAME must name an interface that is here") {
    CHECK(warnings(gpu_machine(), {{"NCCL_SOCKET_IFNAME", "eth0"}}) ==
          Lines{"NCCL_SOCKET_IFNAME=eth0: no such interface here; name one of eno1, ib0, lo, or "
                "unset it"});
    for (const char* fine : {"ib0", "ib", "^eth0", "=eno1", "eth0,ib0"}) {
        INFO(fine);
        CHECK(warnings(gpu_machine(), {{"NCCL_SOCKET_IFNAME", fine}}).empty());
    }
    CHECK(warnings(gpu_machine(), {{"NCCL_SOCKET_IFNAME", "=ib"}}).size() == 1);
}

TEST_CASE("leftovers of debugging") {
    CHECK(warnings(gpu_machine(), {{"NCCL_P2P_DISABLE", "1"}}) ==
          Lines{"NCCL_P2P_DISABLE=1: GPUs on this node will not use NVLink or PCIe peer access; "
                "unset it"});
    CHECK(warnings(gpu_machine(),
                   {{"NCCL_P2P_DISABLE", "0"}, {"NCCL_SHM_DISABLE", "0"}, {"NCCL_ALGO", ""}})
              .empty());
    CHECK(warnings(gpu_machine(),
                   {{"NCCL_ALGO", "Ring"}, {"NCCL_PROTO", "LL"}, {"NCCL_SHM_DISABLE", "1"}})
              .size() == 3);
}

TEST_CASE("words where NCCL reads numbers") {
    CHECK(
        warnings(gpu_machine({"mlx5_0"}), {{"NCCL_IB_DISABLE", "true"}}) ==
        Lines{
            "NCCL_IB_DISABLE=true: NCCL reads a number here and takes a word for 0; write 1 or 0"});
    CHECK(warnings(gpu_machine({"mlx5_0"}), {{"NCCL_IB_DISABLE", "0x1"}})[0].starts_with(
        "NCCL_IB_DISABLE=0x1 while"));
}

TEST_CASE("other foot-guns, each with its fix") {
    const auto machine = gpu_machine({"mlx5_0"});
    CHECK(warnings(machine, {{"NCCL_IB_HCA", "=mlx5_7"}}) ==
          Lines{"NCCL_IB_HCA==mlx5_7: no such HCA here, NCCL will use sockets; name some of "
                "mlx5_0, or unset it"});
    CHECK(warnings(machine, {{"NCCL_IB_HCA", "^mlx5_7"}}).empty());
    for (const char* far : {"SYS", "4", "5"})
        CHECK(warnings(machine, {{"NCCL_NET_GDR_LEVEL", far}}).size() == 1);
    for (const char* fine : {"PXB", "PHB", "2"})
        CHECK(warnings(machine, {{"NCCL_NET_GDR_LEVEL", fine}}).empty());
    CHECK(warnings(machine, {{"NCCL_IGNORE_NET_MISMATCH", "1"}}).size() == 1);
    CHECK(warnings(machine, {{"NCCL_HOSTID", "a"}}).size() == 1);
    CHECK(warnings(machine, {{"NCCL_IB_CUDA_SUPPORT", "1"}}).size() == 1);
    for (const char* name :
         {"NCCL_BUFFSIZE", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_P2P_LEVEL"})
        CHECK(warnings(machine, {{name, "8"}}).size() == 1);
}

TEST_CASE("functions .0 to .3 of one device are fused") {
    auto machine = gpu_machine({"mlx5_0", "mlx5_1", "mlx5_2"});
    for (std::size_t i = 0; i < 3; ++i)
        machine.hcas[i].bdf = fmt::format("0000:05:00.{}", i);
    REQUIRE(warnings(machine, {}).size() == 1);
    CHECK(warnings(machine, {})[0].starts_with(
        "mlx5_0, mlx5_1, mlx5_2 are functions of one PCI device, 0000:05:00,"));
    CHECK(warnings(machine, {{"NCCL_IB_MERGE_VFS", "0"}}).empty());
    machine.hcas.pop_back();  // a card of two ports
    CHECK(warnings(machine, {}).empty());
}

namespace {

const VariableChoice* find(const std::vector<VariableChoice>& list, const std::string& name) {
    for (const auto& choice : list)
        if (choice.name == name)
            return &choice;
    return nullptr;
}

std::string value_in(const std::vector<VariableChoice>& list, const std::string& name) {
    const auto* choice = find(list, name);
    return choice != nullptr ? choice->value : "(none)";
}

// Two RoCE HCAs near the GPUs and one that is not.
NodeTopology roce_machine(const std::vector<std::string>& addresses) {
    auto machine =
        testing::machine_with(2, 2,
                              {{"mlx5_0", "sw0", 400, "Ethernet", "15b3:1021", "eth1"},
                               {"mlx5_1", "sw0", 400, "Ethernet", "15b3:1021", "eth2"},
                               {"mlx5_2", "root0", 100, "Ethernet", "15b3:101d", "eth0"}});
    for (auto& hca : machine.hcas)
        hca.ports[0].gids = testing::roce_gids(addresses);
    machine.network_interfaces = {{"eth0"}, {"eth1"}, {"eth2"}, {"lo"}};
    return machine;
}

}  // namespace

TEST_CASE("with more than one node: the interface that reaches the head, for NCCL and Gloo") {
    const auto machine = gpu_machine();
    const EnvironmentMap found;
    auto decided = decide_nccl_environment(
        {.topology = machine, .found = found, .node_count = 2, .rendezvous_interface = "eno1"});
    CHECK(value_in(decided.set, "NCCL_SOCKET_IFNAME") == "=eno1");
    CHECK(value_in(decided.set, "GLOO_SOCKET_IFNAME") == "eno1");
    CHECK(value_in(decided.set, "NCCL_SOCKET_FAMILY") == "(none)");
    decided = decide_nccl_environment({.topology = machine,
                                       .found = found,
                                       .node_count = 2,
                                       .rendezvous_interface = "eno1",
                                       .rendezvous_is_ipv6_only = true});
    CHECK(value_in(decided.set, "NCCL_SOCKET_FAMILY") == "AF_INET6");
    decided = decide_nccl_environment(
        {.topology = machine, .found = found, .rendezvous_interface = "eno1"});
    CHECK(value_in(decided.set, "NCCL_SOCKET_IFNAME") == "(none)");
    decided = decide_nccl_environment({.topology = machine, .found = found, .node_count = 2});
    CHECK(value_in(decided.set, "NCCL_SOCKET_IFNAME") == "(none)");
    REQUIRE(decided.at_start.size() == 2);
    CHECK(decided.at_start[1].name == "GLOO_SOCKET_IFNAME");
    CHECK(decided.at_start[1].value == "at start");
    const std::map<std::string, std::string> own = {{"NCCL_SOCKET_IFNAME", "eno1"}};
    decided = decide_nccl_environment({.topology = machine, .found = own, .node_count = 2});
    REQUIRE(decided.at_start.size() == 1);
    CHECK(decided.at_start[0].name == "GLOO_SOCKET_IFNAME");
}

TEST_CASE("what a start will choose: the candidates are named, and one alone is told") {
    auto machine = gpu_machine();
    const EnvironmentMap found;
    machine.network_interfaces[0].addresses = {"10.0.0.1"};
    auto decided = decide_nccl_environment({.topology = machine, .found = found, .node_count = 2});
    CHECK(decided.at_start[0].value == "=eno1 at start");
    CHECK(decided.at_start[1].value == "eno1 at start");
    machine.network_interfaces[1].addresses = {"10.1.0.1"};
    decided = decide_nccl_environment({.topology = machine, .found = found, .node_count = 2});
    CHECK(decided.at_start[0].reason.ends_with("here one of eno1, ib0"));
    CHECK(decide_nccl_environment({.topology = machine, .found = found}).at_start.empty());
}

TEST_CASE("compute HCAs, and what is not for computing") {
    const auto decided = decide(roce_machine({"10.1.0.5"}), {});
    CHECK(value_in(decided.set, "NCCL_IB_HCA") == "=mlx5_0,mlx5_1");
    CHECK(decided.compute_hcas == Lines{"mlx5_0", "mlx5_1"});
    REQUIRE(decided.excluded_hcas.size() == 1);
    CHECK(decided.excluded_hcas[0].name == "mlx5_2");
    CHECK(value_in(decided.set, "NCCL_IB_ADDR_FAMILY") == "(none)");
    CHECK(value_in(decided.set, "NCCL_IB_ADDR_RANGE") == "(none)");
    CHECK(value_in(decided.set, "NCCL_IB_GID_INDEX") == "(none)");
    CHECK(value_in(decided.left, "NCCL_IB_GID_INDEX") == "-1, automatic");
    for (const auto& choice : decided.set)
        CHECK(choice.source == "rule");
}

TEST_CASE("RoCE addresses decide the family, the range and at last the index") {
    CHECK(value_in(decide(roce_machine({"2001:db8::5"}), {}).set, "NCCL_IB_ADDR_FAMILY") ==
          "AF_INET6");
    CHECK(value_in(decide(roce_machine({"2001:db8::5"}), {}).set, "NCCL_IB_GID_INDEX") == "(none)");
    CHECK(value_in(decide(roce_machine({"10.1.0.5", "192.168.7.5"}), {}).set,
                   "NCCL_IB_ADDR_RANGE") == "10.0.0.0/8");
    CHECK(value_in(
              decide(roce_machine({"10.1.0.5", "192.168.7.5"}), {{"NCCL_IB_GID_INDEX", "3"}}).set,
              "NCCL_IB_ADDR_RANGE") == "(none)");
    auto odd = roce_machine({"10.1.0.5"});
    for (auto& hca : odd.hcas)
        hca.ports[0].gids[3] = testing::make_gid(3, "2001:db8::5", 2);
    const auto decided = decide(odd, {});
    CHECK(value_in(decided.set, "NCCL_IB_GID_INDEX") == "3");
    CHECK(find(decided.set, "NCCL_IB_GID_INDEX")->reason ==
          "NCCL would take GID 2, which is RoCE v1");
    CHECK(
        warnings(odd, {{"NCCL_IB_GID_INDEX", "2"}}) ==
        Lines{
            "NCCL_IB_GID_INDEX=2: on mlx5_0 that is RoCE v1; unset it, NCCL finds the right one"});
}

TEST_CASE("nccl.conf counts as the user's word, after the environment") {
    const auto machine = roce_machine({"10.1.0.5"});
    const EnvironmentMap found = {{"NCCL_DEBUG", "INFO"}};
    NcclConf conf;
    conf.settings = {{"NCCL_DEBUG", "TRACE", "in /etc/nccl.conf", "/etc/nccl.conf:1"},
                     {"NCCL_IB_HCA", "mlx5", "in /etc/nccl.conf", "/etc/nccl.conf:2"},
                     {"NCCL_P2P_DISABLE", "1", "in /etc/nccl.conf", "/etc/nccl.conf:3"}};
    conf.warnings = {"/etc/nccl.conf:9: odd"};
    const auto decided =
        decide_nccl_environment({.topology = machine, .found = found, .conf = conf});
    CHECK(decided.set.empty());
    REQUIRE(decided.kept.size() == 3);
    CHECK(value_in(decided.kept, "NCCL_DEBUG") == "INFO");
    CHECK(find(decided.kept, "NCCL_DEBUG")->source == "environment");
    CHECK(find(decided.kept, "NCCL_IB_HCA")->source == "/etc/nccl.conf:2");
    // What else the prefix takes, the leftover, and the file's own.
    INFO(decided.warnings.front());
    CHECK(decided.warnings.size() == 3);
}

TEST_CASE("a profile sets what the user has not, and keeps us from what others set") {
    const auto machine = roce_machine({"10.1.0.5"});
    const EnvironmentMap found = {{"NCCL_IB_SL", "1"}};
    NcclProfile profile;
    profile.name = "site";
    profile.set = {{"NCCL_IB_TC", "41", "lossless", "profile site"},
                   {"NCCL_IB_SL", "0", "", "profile site"}};
    profile.leave = {{"NCCL_IB_HCA", "", "the plugin's script sets it", "profile site"}};
    profile.required_text = {"source the script"};
    const auto decided = decide_nccl_environment(
        {.topology = machine, .found = found, .profile = profile, .node_count = 2});
    CHECK(value_in(decided.set, "NCCL_IB_TC") == "41");
    CHECK(find(decided.set, "NCCL_IB_TC")->source == "profile site");
    CHECK(value_in(decided.kept, "NCCL_IB_SL") == "1");
    CHECK(value_in(decided.set, "NCCL_IB_SL") == "(none)");
    CHECK(value_in(decided.set, "NCCL_IB_HCA") == "(none)");
    CHECK(find(decided.left, "NCCL_IB_HCA") != nullptr);
    CHECK(decided.warnings == Lines{"source the script"});
}

TEST_CASE("whatever is found, each variable is in one list only and the user's is never set") {
    const auto machine = roce_machine({"10.1.0.5", "192.168.7.5"});
    const auto rows = nccl_variables();
    for (std::size_t i = 0; i < rows.size(); ++i) {
        EnvironmentMap found = {{std::string(rows[i].name), "1"}};
        NcclConf conf;
        conf.settings = {{std::string(rows[(i + 7) % rows.size()].name), "1", "in f", "f:1"}};
        const auto decided = decide_nccl_environment({.topology = machine,
                                                      .found = found,
                                                      .conf = conf,
                                                      .node_count = 2,
                                                      .rendezvous_interface = "eth0",
                                                      .rendezvous_is_ipv6_only = true});
        INFO(rows[i].name);
        std::map<std::string, int> times;
        for (const auto* list : {&decided.set, &decided.kept, &decided.left})
            for (const auto& choice : *list)
                ++times[choice.name];
        for (const auto& [name, count] : times)
            CHECK_MESSAGE(count == 1, name);
        for (const auto& choice : decided.set) {
            CHECK_FALSE(found.contains(choice.name));
            CHECK(choice.name != conf.settings[0].name);
            CHECK_FALSE(choice.reason.empty());
        }
        CHECK(value_in(decided.kept, std::string(rows[i].name)) == "1");
    }
}

TEST_CASE("only what the table says is set is set, and often-set rows that are left are shown") {
    const auto machine = roce_machine({"10.1.0.5"});
    const EnvironmentMap found;
    const auto decided = decide_nccl_environment(
        {.topology = machine, .found = found, .node_count = 2, .rendezvous_interface = "eth0"});
    for (const auto& choice : decided.set) {
        const auto* row = find_nccl_variable(choice.name);
        REQUIRE_MESSAGE(row != nullptr, choice.name);
        CHECK(row->action == NcclAction::set);
    }
    for (const auto& row : nccl_variables())
        if (row.often_set)
            CHECK_MESSAGE(find(decided.left, std::string(row.name)) != nullptr, row.name);
    CHECK(find(decide(gpu_machine(), {}).left, "NCCL_IB_TIMEOUT") == nullptr);  // no HCAs
}

TEST_CASE("every row that warns does so when it is set badly, and no other row does") {
    const auto machine = roce_machine({"10.1.0.5"});
    for (const auto& row : nccl_variables()) {
        if (row.name == "NCCL_IB_MERGE_VFS")
            continue;  // of the machine, not of a setting
        const auto said = warnings(machine, {{std::string(row.name), "1"}});
        const bool names_it = !said.empty() && said[0].starts_with(row.name);
        if (row.action == NcclAction::warn)
            CHECK_MESSAGE(names_it, row.name);
        if (row.action == NcclAction::profile)
            CHECK_MESSAGE(!names_it, row.name);
    }
}

// To renew the file after a wanted change: AUTOLAUNCH_UPDATE_GOLDEN=1 unit_nccl_env_test, and read
// the difference.
TEST_CASE("docs/nccl.md has the table as it is") {
    const std::string path = std::string(AUTOLAUNCH_SOURCE_DIR) + "/docs/nccl.md";
    const std::string document = autolaunch::read_file(path);
    const auto mark = document.find("-->\n\n");
    REQUIRE(mark != std::string::npos);
    const std::string wanted = document.substr(0, mark + 5) + nccl_variables_markdown();
    if (std::getenv("AUTOLAUNCH_UPDATE_GOLDEN") != nullptr)
        autolaunch::write_file(path, wanted);
    CHECK(autolaunch::read_file(path) == wanted);
}

}  // namespace nccl_env_test
