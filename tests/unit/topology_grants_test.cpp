// The order in which devices are listed.

#include "fake_system.hpp"
#include "topology/natural_order.hpp"
#include "topology/read_topology.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace autolaunch::launcher;
using testing::FakeSystem;
using testing::two_sockets;
using Names = std::vector<std::string>;

namespace {

const std::vector<int> kAll = {0, 1, 2, 3, 4, 5, 6, 7};

void add_hca(FakeSystem& system, int number) {
    system.file(fmt::format("sys/class/infiniband/mlx5_{}/ports/1/state", number), "4: ACTIVE");
    system.file(fmt::format("sys/class/infiniband_verbs/uverbs{}/ibdev", number), fmt::format("mlx5_{}", number));
    system.file(fmt::format("dev/infiniband/uverbs{}", number), "");
}

}  // namespace

TEST_CASE("names in the order of their numbers") {
    Names names = {"mlx5_10", "mlx5_2", "mlx5_bond_0", "mlx5_1", "mlx4_0", "eth01", "eth1", "eth", "eth10", "eth9", ""};
    std::sort(names.begin(), names.end(), natural_less);
    CHECK(names ==
          Names{"", "eth", "eth01", "eth1", "eth9", "eth10", "mlx4_0", "mlx5_1", "mlx5_2", "mlx5_10", "mlx5_bond_0"});
    CHECK(natural_less("a99999999999999999999998", "a99999999999999999999999"));
    CHECK_FALSE(natural_less("a7", "a7"));
    for (const auto& a : names)  // a strict weak order, which sorting needs
        for (const auto& b : names) CHECK((natural_less(a, b) && natural_less(b, a)) == false);
}

TEST_CASE("HCAs and interfaces are listed in that order") {
    FakeSystem system;
    two_sockets(system);
    for (const int number : {0, 1, 2, 10, 11}) {
        add_hca(system, number);
        system.file(fmt::format("sys/class/net/eth{}/operstate", number), "up");
    }
    const NodeTopology topology = read_local_topology(system.options(kAll));
    Names hcas, interfaces;
    for (const Hca& hca : topology.hcas) hcas.push_back(hca.name);
    for (const NetworkInterface& interface : topology.network_interfaces) interfaces.push_back(interface.name);
    CHECK(hcas == Names{"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_10", "mlx5_11"});
    CHECK(interfaces == Names{"eth0", "eth1", "eth2", "eth10", "eth11"});
}
