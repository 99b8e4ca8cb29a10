// NCCL's choice of a GID, as its net_ib.cc makes it.

#include "nccl_env/gid_choice.hpp"

#include "nccl_env/roce_addresses.hpp"
#include "nccl_machines.hpp"

#include <doctest/doctest.h>

namespace nccl_gid_test {

using namespace autolaunch::launcher;
using testing::make_gid;
using testing::roce_gids;
using Names = std::vector<std::string>;

namespace {

Hca::Port roce(std::vector<Gid> gids) {
    Hca::Port port;
    port.active = true;
    port.link_layer = "Ethernet";
    port.gids = std::move(gids);
    port.gids_read = 16;
    return port;
}

int chosen(const Hca::Port& port, const EnvironmentMap& settings = {}) {
    return choose_gid_index(port, read_gid_rules(settings));
}

std::string range_of(const std::vector<Hca::Port>& ports, const EnvironmentMap& settings = {}) {
    std::vector<const Hca::Port*> pointers;
    for (const auto& port : ports)
        pointers.push_back(&port);
    return choose_address_range(pointers, read_gid_rules(settings));
}

}  // namespace

TEST_CASE("RoCE: the first IPv4 address in version 2") {
    CHECK(chosen(roce(roce_gids({"10.1.0.5"}))) == 3);
    CHECK(chosen(roce(roce_gids({"10.1.0.5", "192.168.7.5"}))) == 3);
    CHECK(chosen(roce(roce_gids({"2001:db8::5", "10.1.0.5"}))) == 5);
    CHECK(gid_problem(roce(roce_gids({"10.1.0.5"})), 3).empty());
}

TEST_CASE("RoCE: IPv6 needs NCCL_IB_ADDR_FAMILY, else the link-local GID 0 stays") {
    const auto port = roce(roce_gids({"2001:db8::5"}));
    CHECK(chosen(port) == 0);
    CHECK(gid_problem(port, 0) == "link-local");
    CHECK(chosen(port, {{"NCCL_IB_ADDR_FAMILY", "AF_INET6"}}) == 3);
    CHECK(has_only_ipv6({&port}));
    const auto both = roce(roce_gids({"2001:db8::5", "10.1.0.5"}));
    CHECK_FALSE(has_only_ipv6({&port, &both}));
    const auto neither = roce(roce_gids({}));
    CHECK_FALSE(has_only_ipv6({&neither}));
    CHECK_FALSE(has_only_ipv6({}));
}

TEST_CASE("RoCE: the range, the version and the index that the user gives") {
    const auto port = roce(roce_gids({"10.1.0.5", "192.168.7.5"}));
    CHECK(chosen(port, {{"NCCL_IB_ADDR_RANGE", "192.168.0.0/16"}}) == 5);
    CHECK(chosen(port, {{"NCCL_IB_ADDR_RANGE", "192.168.7.4/30"}}) == 5);
    CHECK(chosen(port, {{"NCCL_IB_ADDR_RANGE", "172.16.0.0/12"}}) == 0);
    CHECK(chosen(port, {{"NCCL_IB_ADDR_RANGE", "192.168.0.0"}}) == 3);  // no mask: NCCL ignores it
    CHECK(chosen(port, {{"NCCL_IB_ADDR_RANGE", "192.168.0.0/33"}}) == 3);
    CHECK(chosen(port, {{"NCCL_IB_ROCE_VERSION_NUM", "1"}}) == 2);
    CHECK(chosen(port, {{"NCCL_IB_GID_INDEX", "7"}}) == 7);
    CHECK(gid_problem(port, 7) == "a hole");
    CHECK(gid_problem(port, 2) == "RoCE v1");
    CHECK(gid_problem(port, 16).empty());  // nobody has looked there
    CHECK(chosen(port, {{"NCCL_IB_ADDR_RANGE", "192.168.0.0/-1"}}) == 0);
    CHECK(chosen(port, {{"NCCL_IB_GID_INDEX", ""}}) == 3);
}

TEST_CASE("RoCE: holes, as a container sees other namespaces' GIDs") {
    CHECK(chosen(roce({make_gid(4, "10.1.0.5", 1), make_gid(5, "10.1.0.5", 2)})) == 5);
    CHECK(chosen(roce({make_gid(0, "fe80::1", 1)})) == 0);
    // NCCL's quirk: where IPv6 is wanted and only IPv4 is there, the zeros behind count as IPv6.
    const auto port = roce({make_gid(0, "10.1.0.5", 2)});
    CHECK(chosen(port, {{"NCCL_IB_ADDR_FAMILY", "AF_INET6"}}) == 1);
    CHECK(gid_problem(port, 1) == "a hole");
}

TEST_CASE("InfiniBand: index 0, or the FLID index where that GID has a FLID") {
    Hca::Port port;
    port.link_layer = "InfiniBand";
    port.gids = {make_gid(0, "fe80::ec0d:9a03:7b:1", 0), make_gid(1, "fe80::ec0d:9a03:7b:2", 0)};
    CHECK(chosen(port) == 0);
    CHECK(chosen(port, {{"NCCL_IB_GID_INDEX", "3"}}) == 0);
    CHECK(gid_problem(port, 0).empty());
    port.gids[1].bytes[5] = 7;
    CHECK(chosen(port) == 1);
    CHECK(chosen(port, {{"NCCL_IB_ROUTABLE_FLID_GID_INDEX", "2"}}) == 0);
}

TEST_CASE("addresses in several subnets: the range that NCCL's own choice lies in") {
    CHECK(range_of({roce(roce_gids({"10.1.0.5"}))}).empty());
    CHECK(range_of({roce(roce_gids({"10.1.0.5", "192.168.7.5"})),
                    roce(roce_gids({"10.1.1.5", "192.168.8.5"}))}) == "10.0.0.0/8");
    CHECK(range_of({roce(roce_gids({"10.1.0.5", "10.2.0.5"})), roce(roce_gids({"10.1.1.5"}))}) ==
          "10.1.0.0/16");
    CHECK(range_of({roce(roce_gids({"192.168.7.5", "10.1.0.5"})), roce(roce_gids({"10.1.1.5"}))}) ==
          "10.0.0.0/8");
    CHECK(range_of({roce(roce_gids({"10.1.0.5", "10.1.0.6"}))}).empty());  // one subnet
    CHECK(range_of({roce(roce_gids({"10.1.0.5", "10.2.0.5"})), roce(roce_gids({"172.16.0.1"}))})
              .empty());
    CHECK(range_of({roce({})}).empty());
}

TEST_CASE("IPv6: a range where a port has addresses in several networks") {
    const EnvironmentMap ipv6 = {{"NCCL_IB_ADDR_FAMILY", "AF_INET6"}};
    const auto rail = [](int number, const Names& further = {}) {
        Names addresses = {fmt::format("2001:db8:0:{}::5", number)};
        addresses.insert(addresses.end(), further.begin(), further.end());
        return roce(roce_gids(addresses));
    };
    CHECK(range_of({rail(1), rail(2)}, ipv6).empty());
    CHECK(range_of({rail(1, {"2001:db8:0:1::6"})}, ipv6)
              .empty());  // as hosts with temporary addresses have them
    CHECK(range_of({rail(1, {"fd00:7::5"}), rail(2, {"fd00:8::5"})}, ipv6) == "2001::/16");
    CHECK(range_of({rail(1, {"2001:db8:7::5"}), rail(2)}, ipv6) == "2001:db8::/48");
    CHECK(range_of({rail(1, {"2001:db8:0:2::5"}), rail(1)}, ipv6) == "2001:db8:0:1::/64");
    CHECK(range_of({rail(1, {"2001:db8:0:2::5"}), rail(3)}, ipv6).empty());
    CHECK(range_of({rail(1, {"fd00:7::5"})}).empty());  // NCCL takes IPv4 here
    // What comes out is what NCCL then goes by.
    const auto port = rail(1, {"fd00:7::5"});
    for (const auto& [range, index] :
         {std::pair("2001::/16", 3), {"fd00::/16", 5}, {"fd00:7::/64", 5}, {"::/0", 3}})
        CHECK(chosen(port, {{"NCCL_IB_ADDR_FAMILY", "AF_INET6"}, {"NCCL_IB_ADDR_RANGE", range}}) ==
              index);
}

TEST_CASE("a table longer than 16 entries: NCCL looks at all of it, and so do the rules") {
    Names addresses;
    for (int i = 0; i < 8; ++i)
        addresses.push_back(fmt::format("2001:db8:0:1::{}", i + 1));
    addresses.push_back("10.1.0.5");
    const auto port = roce(roce_gids(addresses));
    CHECK(port.gids.back().index == 19);
    CHECK(chosen(port) == 19);
    CHECK_FALSE(has_only_ipv6({&port}));
    CHECK_FALSE(repair_gid_index({&port}, {}));
}

TEST_CASE("an index is given only where NCCL would go wrong and one is good everywhere") {
    const auto good = roce(roce_gids({"10.1.0.5"}));
    CHECK_FALSE(repair_gid_index({&good}, {}));
    auto wrong = roce(
        {make_gid(0, "fe80::1", 1), make_gid(1, "10.1.0.5", 1), make_gid(2, "2001:db8::5", 2)});
    const auto repair = repair_gid_index({&wrong}, {});
    REQUIRE(repair);
    CHECK(repair->index == 2);
    CHECK(repair->instead_of == 1);
    CHECK(repair->problem == "RoCE v1");
    CHECK_FALSE(repair_gid_index({&wrong}, {.roce_version = 1}));
    CHECK_FALSE(repair_gid_index({&wrong, &good}, {}));  // index 2 is v1 there
    CHECK_FALSE(repair_gid_index({}, {}));
}

}  // namespace nccl_gid_test
