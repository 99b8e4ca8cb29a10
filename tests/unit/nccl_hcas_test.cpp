// Which HCAs are for computing: operators' own lists, from machines made up after their PCI trees.

#include "nccl_env/compute_hcas.hpp"

#include "nccl_machines.hpp"

#include <doctest/doctest.h>

#include <set>

namespace nccl_hcas_test {

using namespace autolaunch::launcher;
using testing::HcaShape;
using testing::machine_with;
using Names = std::vector<std::string>;

namespace {

Names names(const ComputeHcas& chosen) {
    Names list;
    for (const Hca* hca : chosen.hcas)
        list.push_back(hca->name);
    return list;
}

Names excluded(const ComputeHcas& chosen) {
    Names list;
    for (const auto& choice : chosen.excluded)
        list.push_back(choice.name);
    return list;
}

std::string reason_of(const ComputeHcas& chosen, const std::string& name) {
    for (const auto& choice : chosen.excluded)
        if (choice.name == name)
            return choice.reason;
    return {};
}

void check_disjoint(const ComputeHcas& chosen) {
    const Names in = names(chosen);
    for (const std::string& name : excluded(chosen))
        CHECK(std::count(in.begin(), in.end(), name) == 0);
}

}  // namespace

TEST_CASE("DGX A100: eight compute HCAs, two ports for storage") {
    std::vector<HcaShape> hcas;
    const std::set<int> storage = {4, 5, 10, 11};
    for (int i = 0, near = 0; i < 12; ++i) {
        const bool far = storage.contains(i);
        hcas.push_back({fmt::format("mlx5_{}", i),
                        far ? fmt::format("root{}", i) : fmt::format("sw{}", near / 2)});
        if (!far)
            ++near;
        hcas.back().link_layer = far ? "Ethernet" : "InfiniBand";
        if (far)
            hcas.back().netdev = fmt::format("enp{}s0", i);
    }
    const NodeTopology machine = machine_with(8, 2, hcas);
    const ComputeHcas chosen = choose_compute_hcas(machine);
    CHECK(chosen.nccl_list == "=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_6,mlx5_7,mlx5_8,mlx5_9");
    CHECK(excluded(chosen) == Names{"mlx5_4", "mlx5_5", "mlx5_10", "mlx5_11"});
    CHECK(reason_of(chosen, "mlx5_4").starts_with("no GPU is near (NODE)"));
    CHECK(chosen.reason == "8 of 12 HCAs are for computing: they share a PCIe switch with a GPU");
    check_disjoint(chosen);
}

TEST_CASE("DGX H100: one HCA a GPU, storage and BlueField elsewhere") {
    std::vector<HcaShape> hcas;
    const std::vector<int> compute = {0, 3, 4, 5, 6, 9, 10, 11};
    for (int i = 0; i < 12; ++i) {
        const auto found = std::find(compute.begin(), compute.end(), i);
        const bool far = found == compute.end();
        hcas.push_back(
            {fmt::format("mlx5_{}", i),
             far ? fmt::format("root{}", i) : fmt::format("sw{}", found - compute.begin()), 400});
    }
    CHECK(choose_compute_hcas(machine_with(8, 1, hcas)).nccl_list ==
          "=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11");
}

TEST_CASE("B200: nothing to leave out, nothing to set") {
    std::vector<HcaShape> hcas;
    for (int i = 0; i < 8; ++i)
        hcas.push_back({fmt::format("mlx5_{}", i), fmt::format("sw{}", i), 400});
    const NodeTopology machine = machine_with(8, 1, hcas);
    const ComputeHcas chosen = choose_compute_hcas(machine);
    CHECK(chosen.nccl_list.empty());
    CHECK(chosen.excluded.empty());
    CHECK(names(chosen).size() == 8);
}

TEST_CASE("GB200: a host bridge for each device, so the BlueFields go by their kind") {
    std::vector<HcaShape> hcas;
    for (int i = 0; i < 4; ++i)
        hcas.push_back(
            {fmt::format("mlx5_{}", i), fmt::format("root{}", i), 400, "InfiniBand", "15b3:1021"});
    for (int i = 4; i < 8; ++i)
        hcas.push_back(
            {fmt::format("mlx5_{}", i), fmt::format("root{}", i), 400, "InfiniBand", "15b3:a2dc"});
    NodeTopology machine = machine_with(4, 1, hcas);
    for (Gpu& gpu : machine.gpus)
        gpu.pci_path = {"pci-gpu", "gpu:port"};
    const ComputeHcas chosen = choose_compute_hcas(machine);
    CHECK(chosen.nccl_list == "=mlx5_0,mlx5_1,mlx5_2,mlx5_3");
    CHECK(reason_of(chosen, "mlx5_4") == "a BlueField DPU, and there are other HCAs");
    // Ports of management at a lower speed go first, whatever they are.
    for (std::size_t i = 4; i < 8; ++i)
        machine.hcas[i].ports[0].rate_gbps = 200;
    CHECK(reason_of(choose_compute_hcas(machine), "mlx5_4") ==
          "slower than others: 200 of 400 Gb/s");
}

TEST_CASE("BlueField SuperNICs stay where they are what there is most of") {
    std::vector<HcaShape> hcas;
    for (int i = 0; i < 8; ++i)
        hcas.push_back({fmt::format("rocep{}", i), fmt::format("root{}", i), 400, "Ethernet",
                        "15b3:a2dc", "eth"});
    hcas.push_back({"mlx5_s", "root9", 400, "Ethernet", "15b3:1021", "sto"});
    CHECK(choose_compute_hcas(machine_with(8, 1, hcas)).excluded.size() == 1);
}

TEST_CASE("Azure: a flat machine, the Ethernet function of the host is slower") {
    std::vector<HcaShape> hcas = {{"mlx5_an0", "root99", 100, "Ethernet", "15b3:101a", "eth1"}};
    for (int i = 0; i < 8; ++i)
        hcas.push_back({fmt::format("mlx5_ib{}", i), fmt::format("root{}", i), 400, "InfiniBand",
                        "15b3:101e"});
    NodeTopology machine = machine_with(8, 1, hcas);
    for (Gpu& gpu : machine.gpus)
        gpu.pci_path = {fmt::format("pci-vm{}", gpu.index)};
    machine.network_interfaces = {{.name = "eth1", .has_default_route = true}};
    const ComputeHcas chosen = choose_compute_hcas(machine);
    CHECK(excluded(chosen) == Names{"mlx5_an0"});
    CHECK(reason_of(chosen, "mlx5_an0") ==
          "on the default route, and slower than others: 100 of 400 Gb/s");
    CHECK(chosen.nccl_list.starts_with("=mlx5_ib0,"));
}

TEST_CASE("OCI: sixteen RoCE ports near GPUs, two that are not") {
    std::vector<HcaShape> hcas;
    for (int i = 0, near = 0; i < 18; ++i) {
        const bool far = i == 2 || i == 11;
        hcas.push_back({fmt::format("mlx5_{}", i),
                        far ? fmt::format("root{}", i) : fmt::format("sw{}", near++ / 2), 200,
                        "Ethernet", "15b3:1021", fmt::format("rdma{}", i)});
    }
    CHECK(choose_compute_hcas(machine_with(8, 1, hcas)).nccl_list ==
          "=mlx5_0,mlx5_1,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7,mlx5_8,mlx5_9,mlx5_10,mlx5_12,mlx5_13,"
          "mlx5_14,mlx5_15,"
          "mlx5_16,mlx5_17");
}

TEST_CASE("AWS: adapters that NCCL's own transport does not speak") {
    const NodeTopology machine =
        machine_with(8, 2, {{"rdmap79s0", "sw0", 100, "Unspecified", "1d0f:efa1"}});
    const ComputeHcas chosen = choose_compute_hcas(machine);
    CHECK(names(chosen).empty());
    CHECK(reason_of(chosen, "rdmap79s0") ==
          "NCCL's own transport does not speak its link layer (Unspecified)");
    CHECK(chosen.nccl_list.empty());
    CHECK(chosen.warnings.empty());
}

TEST_CASE("no HCAs: nothing to say") {
    const NodeTopology machine = machine_with(2, 1, {});
    const ComputeHcas chosen = choose_compute_hcas(machine);
    CHECK(chosen.nccl_list.empty());
    CHECK(chosen.excluded.empty());
    CHECK(chosen.warnings.empty());
}

TEST_CASE("what NCCL skips by itself is told, but sets nothing") {
    NodeTopology machine =
        machine_with(1, 1, {{"mlx5_0", "sw0"}, {"mlx5_1", "sw0"}, {"mlx5_2", "sw0"}});
    machine.hcas[1].ports[0].active = false;
    machine.hcas[2].can_open = false;
    const ComputeHcas chosen = choose_compute_hcas(machine);
    CHECK(chosen.nccl_list.empty());
    CHECK(reason_of(chosen, "mlx5_1") == "its port is not active");
    CHECK(reason_of(chosen, "mlx5_2") == "its device file may not be opened");
}

TEST_CASE("dual-port HCAs: both ports stay; one that does not is named by number") {
    NodeTopology machine = machine_with(2, 1, {{"mlx5_0", "root0"}, {"mlx5_1", "root1"}});
    for (Hca& hca : machine.hcas)
        hca.ports.push_back(hca.ports[0]), hca.ports[1].number = 2;
    CHECK(choose_compute_hcas(machine).nccl_list.empty());
    CHECK(choose_compute_hcas(machine).ports.size() == 4);

    machine.hcas[0].ports[1].link_layer = "Ethernet";  // the other port is an Ethernet uplink
    machine.hcas[0].ports[1].netdev = "eth0";
    const ComputeHcas chosen = choose_compute_hcas(machine);
    CHECK(chosen.nccl_list == "=mlx5_0:1,mlx5_1");
    CHECK(excluded(chosen) == Names{"mlx5_0:2"});
    CHECK(names(chosen) == Names{"mlx5_0", "mlx5_1"});
    check_disjoint(chosen);

    machine.hcas[0].ports[1].active = false;  // NCCL sees that itself
    CHECK(choose_compute_hcas(machine).nccl_list.empty());
}

TEST_CASE("RoCE needs its interface in our network namespace") {
    NodeTopology machine = machine_with(1, 1,
                                        {{"mlx5_0", "sw0", 200, "Ethernet", "15b3:1021", "eth0"},
                                         {"mlx5_1", "sw0", 200, "Ethernet", "15b3:1021", ""}});
    CHECK(choose_compute_hcas(machine).nccl_list == "=mlx5_0");
    CHECK(choose_compute_hcas(machine).excluded[0].reason ==
          "its network interface is in another network namespace");
    machine.hcas[0].ports[0].netdev.clear();  // no interface known at all: nothing is concluded
    CHECK(choose_compute_hcas(machine).hcas.size() == 2);
    machine.hcas[0].ports[0].gids = testing::roce_gids({});
    const ComputeHcas none = choose_compute_hcas(machine);
    CHECK(none.nccl_list.empty());
    REQUIRE(none.warnings.size() == 1);
    CHECK(none.warnings[0].find("set NCCL_IB_DISABLE=1") != std::string::npos);
}

TEST_CASE("more ports than NCCL takes") {
    std::vector<HcaShape> hcas;
    for (int i = 0; i < 33; ++i)
        hcas.push_back({fmt::format("mlx5_{}", i), "sw0"});
    NodeTopology machine = machine_with(1, 1, hcas);
    REQUIRE(choose_compute_hcas(machine).warnings.size() == 1);
    CHECK(choose_compute_hcas(machine).warnings[0].starts_with(
        "33 ports of HCAs are for computing and NCCL takes 32"));
    machine.hcas.pop_back();
    CHECK(choose_compute_hcas(machine).warnings.empty());
}

TEST_CASE("two that look like the others and are of another kind: named, and asked about") {
    std::vector<HcaShape> hcas;
    for (int i = 0; i < 8; ++i)
        hcas.push_back({fmt::format("mlx5_{}", i), fmt::format("sw{}", i), 400});
    for (int i = 8; i < 10; ++i)
        hcas.push_back({fmt::format("mlx5_{}", i), fmt::format("sw{}", i - 8), 200, "Ethernet",
                        "15b3:a2dc", fmt::format("eth{}", i)});
    NodeTopology machine = machine_with(8, 1, hcas);
    const Names asked = choose_compute_hcas(machine).warnings;
    REQUIRE(asked.size() == 1);
    CHECK(asked[0].starts_with("mlx5_8,mlx5_9 (15b3:a2dc, 200 Gb/s; the other 8: 15b3:101b, 400"));
    CHECK(asked[0].find("set NCCL_IB_HCA==mlx5_0,mlx5_1,") != std::string::npos);
    for (Hca& hca : machine.hcas)  // as in a file that tells neither product nor speed
        hca.pci_id.clear(), hca.ports[0].rate_gbps = 0;
    const Names unsure = choose_compute_hcas(machine).warnings;
    REQUIRE(unsure.size() == 1);
    CHECK(unsure[0].starts_with("10 HCAs for 8 GPUs, and nothing tells whether some serve"));
    machine.hcas.resize(8);
    CHECK(choose_compute_hcas(machine).warnings.empty());
}

}  // namespace nccl_hcas_test
