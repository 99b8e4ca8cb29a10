#include "nccl_env/nccl_env.hpp"

#include "synthetic_topology.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace autolaunch::launcher;
using testing::make_machine;
using Lines = std::vector<std::string>;

namespace {

NodeTopology gpu_machine(const std::vector<std::string>& hcas = {}) {
    NodeTopology topology = make_machine({.gpus = 2});
    for (const auto& name : hcas) topology.hcas.push_back({name, "", std::nullopt, {{1, true, "InfiniBand", 400}}});
    topology.network_interfaces = {{"eno1"}, {"ib0"}, {"lo"}};
    return topology;
}

NcclEnvironment decide(const NodeTopology& topology, const EnvironmentMap& found) {
    return decide_nccl_environment({.topology = topology, .found = found});
}

Lines warnings(const NodeTopology& topology, const EnvironmentMap& found) { return decide(topology, found).warnings; }

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
          Lines{"NCCL_IB_DISABLE=1 while 2 HCAs are active: NCCL will use sockets"});
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
    for (int i = 0; i < 33; ++i) many += (i > 0 ? ",m" : "=m") + std::to_string(i);
    CHECK(warnings(machine, {{"NCCL_IB_HCA", many}}) == Lines{"NCCL_IB_HCA names 33 HCAs; NCCL takes at most 32"});
}

TEST_CASE("NCCL_SOCKET_IFNAME must name an interface that is here") {
    CHECK(warnings(gpu_machine(), {{"NCCL_SOCKET_IFNAME", "eth0"}}) ==
          Lines{"NCCL_SOCKET_IFNAME=eth0: no such interface here; there are eno1, ib0, lo"});
    for (const char* fine : {"ib0", "ib", "^eth0", "=eno1", "eth0,ib0"}) {
        INFO(fine);
        CHECK(warnings(gpu_machine(), {{"NCCL_SOCKET_IFNAME", fine}}).empty());
    }
    CHECK(warnings(gpu_machine(), {{"NCCL_SOCKET_IFNAME", "=ib"}}).size() == 1);
}

TEST_CASE("leftovers of debugging") {
    CHECK(warnings(gpu_machine(), {{"NCCL_P2P_DISABLE", "1"}}) ==
          Lines{"NCCL_P2P_DISABLE=1: GPUs on this node will not use NVLink or PCIe peer access"});
    CHECK(warnings(gpu_machine(), {{"NCCL_P2P_DISABLE", "0"}, {"NCCL_SHM_DISABLE", "0"}, {"NCCL_ALGO", ""}}).empty());
    CHECK(warnings(gpu_machine(), {{"NCCL_ALGO", "Ring"}, {"NCCL_PROTO", "LL"}, {"NCCL_SHM_DISABLE", "1"}}).size() ==
          3);
}
