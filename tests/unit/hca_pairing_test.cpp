// Which HCA each rank is paired with.

#include "binding/hca_pairing.hpp"

#include "synthetic_topology.hpp"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hca_pairing_test {

using namespace autolaunch::launcher;
using testing::make_machine;
using Names = std::vector<std::string>;

namespace {

Hca make_hca(const std::string& name, const std::string& bdf, int numa, double rate = 400) {
    Hca hca{name, bdf, numa, {{1, true, "InfiniBand", rate}}};
    return hca;
}

std::vector<HcaSeeker> each_gpu(const NodeTopology& topology) {
    std::vector<HcaSeeker> seekers;
    for (std::size_t gpu = 0; gpu < topology.gpus.size(); ++gpu)
        seekers.push_back({static_cast<int>(gpu), {}});
    return seekers;
}

Names names(const NodeTopology& topology, const std::vector<HcaSeeker>& seekers,
            const Names& compute = {}) {
    Names found;
    for (const auto& pairing : pair_hcas(topology, seekers, compute))
        found.push_back(pairing ? topology.hcas[static_cast<std::size_t>(pairing->hca)].name : "-");
    return found;
}

// Switches of two GPUs and `hcas_each` HCAs: socket, root port, the switch's upstream port, a port
// a device.
NodeTopology with_switches(int hcas_each) {
    auto topology = make_machine({.cores_per_l3 = 8, .gpus = 8});
    for (int s = 0; s < 4; ++s) {
        const std::string root = fmt::format("pci0000:{:02x}", s * 16),
                          up = fmt::format("0000:{:02x}:01.0", s * 16);
        const std::string upstream = fmt::format("0000:{:02x}:00.0", s * 16 + 1);
        const auto port = [&](int k) { return fmt::format("0000:{:02x}:{:02x}.0", s * 16 + 2, k); };
        for (int g = 0; g < 2; ++g) {
            Gpu& gpu = topology.gpus[static_cast<std::size_t>(2 * s + g)];
            gpu.bdf = fmt::format("0000:{:02x}:00.0", s * 16 + 3 + g);
            gpu.pci_path = {root, up, upstream, port(g)};
        }
        for (int h = 0; h < hcas_each; ++h) {
            auto hca = make_hca(fmt::format("mlx5_{}", s * hcas_each + h),
                                fmt::format("0000:{:02x}:00.0", s * 16 + 6 + h), s / 2);
            hca.pci_path = {root, up, upstream, port(2 + h)};
            topology.hcas.push_back(hca);
        }
    }
    return topology;
}

}  // namespace

TEST_CASE("no HCAs, no pairing; nor with ports that are down, or devices that cannot be opened") {
    auto topology = make_machine({.gpus = 2});
    CHECK(names(topology, each_gpu(topology)) == Names{"-", "-"});
    topology.hcas = {make_hca("mlx5_0", "0000:01:00.0", 0), make_hca("mlx5_1", "0000:02:00.0", 0)};
    topology.hcas[0].ports[0].active = false;
    topology.hcas[1].can_open = false;
    CHECK(names(topology, each_gpu(topology)) == Names{"-", "-"});
}

TEST_CASE("the path class decides first, and the k-th GPU of a group gets the k-th HCA") {
    const auto two = with_switches(2);
    CHECK(names(two, each_gpu(two)) ==
          Names{"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7"});
    const auto pairing = pair_hcas(two, each_gpu(two)).at(3);
    CHECK(pairing->path == PathClass::pix);
    CHECK(pairing->reason == "its GPU and this HCA are on one PCIe switch; dealt from 2 alike");
    const auto one = with_switches(1);
    CHECK(names(one, each_gpu(one)) ==
          Names{"mlx5_0", "mlx5_0", "mlx5_1", "mlx5_1", "mlx5_2", "mlx5_2", "mlx5_3", "mlx5_3"});
}

TEST_CASE("GPUs that no rank uses keep their HCA, so jobs side by side take different ones") {
    const auto topology = with_switches(2);
    CHECK(names(topology, {{5, {}}, {1, {}}}) == Names{"mlx5_5", "mlx5_1"});
}

TEST_CASE("of HCAs of one class the nearer NUMA node, then the faster, then PCI order") {
    auto topology = make_machine({.packages = 2, .numa_per_package = 2, .gpus = 4});
    // GPU 0 is on node 0: node 1 is in its socket, node 2 is not.
    topology.hcas = {make_hca("far", "0000:01:00.0", 2), make_hca("near", "0000:02:00.0", 1)};
    CHECK(names(topology, {{0, {}}}) == Names{"near"});
    CHECK(pair_hcas(topology, {{0, {}}}).at(0)->path == PathClass::sys);
    topology.hcas = {make_hca("slow", "0000:01:00.0", 0, 100),
                     make_hca("fast", "0000:02:00.0", 0, 400),
                     make_hca("remote", "0000:03:00.0", 3, 800)};
    CHECK(names(topology, {{0, {}}}) == Names{"fast"});
    CHECK(names(topology, {{3, {}}}) == Names{"remote"});
    CHECK(pair_hcas(topology, {{0, {}}}).at(0)->reason ==
          "its GPU and this HCA are on one NUMA node");
}

TEST_CASE("a GPU that has one near HCA keeps it, though another GPU could take it too") {
    auto topology = make_machine({.packages = 1, .gpus = 2});
    topology.hcas = {make_hca("mlx5_0", "0000:01:00.0", 0), make_hca("mlx5_1", "0000:02:00.0", 0)};
    topology.told_paths = {{topology.gpus[0].bdf, "mlx5_0", PathClass::pxb},
                           {topology.gpus[0].bdf, "mlx5_1", PathClass::pxb},
                           {topology.gpus[1].bdf, "mlx5_0", PathClass::pix},
                           {topology.gpus[1].bdf, "mlx5_1", PathClass::pxb}};
    CHECK(names(topology, each_gpu(topology)) == Names{"mlx5_1", "mlx5_0"});
}

TEST_CASE("MIG devices take the HCA of their GPU") {
    auto topology = with_switches(2);
    Gpu part = topology.gpus[0];
    part.partition_of = topology.gpus[0].uuid;
    topology.gpus[0] = part;
    topology.gpus.insert(topology.gpus.begin(), {part, part});
    CHECK(names(topology, {{0, {}}, {1, {}}, {2, {}}, {3, {}}}) ==
          Names{"mlx5_0", "mlx5_0", "mlx5_0", "mlx5_1"});
}

TEST_CASE("only the compute HCAs, where some are named") {
    const auto topology = with_switches(2);
    CHECK(names(topology, {{0, {}}, {1, {}}}, {"mlx5_1", "mlx5_7"}) == Names{"mlx5_1", "mlx5_1"});
}

TEST_CASE("ranks without a GPU take turns at the HCAs of their NUMA node") {
    auto topology = make_machine({.packages = 2, .cores_per_l3 = 4, .threads = 1});
    topology.hcas = {make_hca("a", "0000:01:00.0", 0), make_hca("b", "0000:02:00.0", 1),
                     make_hca("c", "0000:03:00.0", 1)};
    const std::vector<HcaSeeker> seekers = {
        {{}, {0, 1}}, {{}, {4, 5}}, {{}, {6, 7}}, {{}, {0, 1, 2, 3, 4, 5, 6, 7}}};
    CHECK(names(topology, seekers) == Names{"a", "b", "c", "a"});
    CHECK(pair_hcas(topology, seekers).at(1)->path == PathClass::node);
}

TEST_CASE("where nothing says how near, the fastest, and the reason says so") {
    auto topology = make_machine({.packages = 2, .gpus = 1});
    topology.gpus[0].numa_node.reset();
    topology.gpus[0].node_distances.clear();
    topology.hcas = {make_hca("mlx5_0", "0000:01:00.0", 0, 100),
                     make_hca("mlx5_1", "0000:02:00.0", 1, 200)};
    const auto pairing = pair_hcas(topology, each_gpu(topology)).at(0);
    CHECK(pairing->hca == 1);
    CHECK(pairing->path == PathClass::unknown);
    CHECK(pairing->reason == "its GPU has no near HCA: nothing says how far this one is");
}

TEST_CASE("several near HCAs for each GPU are all shown") {
    const auto topology = with_switches(4);  // beside two GPUs
    const auto pairings = pair_hcas(topology, each_gpu(topology));
    REQUIRE(pairings.size() == 8);
    CHECK(pairings[0]->hca == 0);
    CHECK(pairings[0]->further == std::vector<int>{1});
    CHECK(pairings[1]->hca == 2);
    CHECK(pairings[1]->further == std::vector<int>{3});
    CHECK(pairings[7]->further == std::vector<int>{15});
    const auto shared = with_switches(2);
    CHECK(pair_hcas(shared, each_gpu(shared))[0]->further.empty());
}

TEST_CASE("without addresses, mlx5_9 comes before mlx5_10") {
    auto topology = make_machine({.cores_per_l3 = 8, .gpus = 2});
    for (const int number : {10, 9})
        topology.hcas.push_back(make_hca(fmt::format("mlx5_{}", number), "", 0));
    for (Gpu& gpu : topology.gpus)
        gpu.numa_node = 0;
    CHECK(names(topology, each_gpu(topology)) == Names{"mlx5_9", "mlx5_10"});
}

TEST_CASE("a nearer HCA that is down is named") {
    auto topology = with_switches(1);
    CHECK(describe_dead_hcas(topology, each_gpu(topology), pair_hcas(topology, each_gpu(topology)))
              .empty());
    topology.hcas[1].ports[0].active = false;
    topology.hcas[3].can_open = false;
    const auto said =
        describe_dead_hcas(topology, each_gpu(topology), pair_hcas(topology, each_gpu(topology)));
    CHECK(said ==
          Names{"mlx5_1 is nearer to GPUs 2, 3 than what their ranks use, but its port is down",
                "mlx5_3 is nearer to GPUs 6, 7 than what their ranks use, but its device "
                "file may not be opened"});
}

}  // namespace hca_pairing_test
