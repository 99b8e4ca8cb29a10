// What is told about the ports for computing: addresses, partition keys, traffic classes, and
// GPUDirect RDMA's drivers.

#include "nccl_env/port_checks.hpp"

#include "nccl_env/nccl_env.hpp"
#include "nccl_machines.hpp"

#include <doctest/doctest.h>

namespace nccl_ports_test {

using namespace autolaunch::launcher;
using testing::make_gid;
using testing::roce_gids;
using Lines = std::vector<std::string>;
using Keys = std::vector<std::uint16_t>;

namespace {

NodeTopology machine_of(const std::string& link_layer) {
    return testing::machine_with(2, 2,
                                 {{"mlx5_0", "sw0", 400, link_layer, "15b3:1021", "eth1"},
                                  {"mlx5_1", "sw0", 400, link_layer, "15b3:1021", "eth2"}});
}

NodeTopology roce_machine(const Lines& addresses) {
    auto machine = machine_of("Ethernet");
    for (auto& hca : machine.hcas) {
        hca.ports[0].gids = roce_gids(addresses);
        hca.ports[0].gids_read = 16;
    }
    return machine;
}

NodeTopology classes(std::optional<int> first, std::optional<int> second) {
    auto machine = roce_machine({"10.1.0.5"});
    machine.hcas[0].ports[0].traffic_class = first;
    machine.hcas[1].ports[0].traffic_class = second;
    return machine;
}

NodeTopology partitions(const Keys& first, const Keys& second) {
    auto machine = machine_of("InfiniBand");
    machine.hcas[0].ports[0].pkeys = first;
    machine.hcas[1].ports[0].pkeys = second;
    return machine;
}

Lines said(const NodeTopology& machine, const EnvironmentMap& settings = {}) {
    return check_compute_ports(choose_compute_hcas(machine), settings);
}

NcclEnvironment decide(const NodeTopology& machine, const EnvironmentMap& found = {},
                       bool manage = true) {
    return decide_nccl_environment({.topology = machine, .found = found, .manage = manage});
}

const VariableChoice* find(const std::vector<VariableChoice>& list, const std::string& name) {
    for (const auto& choice : list)
        if (choice.name == name)
            return &choice;
    return nullptr;
}

}  // namespace

TEST_CASE("partition keys: a full member's is good, an empty and a limited one is not") {
    CHECK(said(partitions({0xffff, 0}, {0xffff, 0})).empty());
    CHECK(said(partitions({0x8001}, {0x8001})).empty());
    CHECK(said(partitions({}, {})).empty());  // not known
    CHECK(said(partitions({0xffff, 0x8001}, {0, 0x8001})) ==
          Lines{"the partition key that NCCL takes on mlx5_1, index 0, is empty: NCCL cannot "
                "connect; set "
                "NCCL_IB_PKEY=1, whose key 0x8001 is a full member's"});
    CHECK(said(partitions({0x7fff, 0}, {0x7fff, 0})) ==
          Lines{"the partition key that NCCL takes on mlx5_0, index 0, is a limited member's "
                "(0x7fff): such nodes do "
                "not hear each other; ask for full membership of a partition"});
    CHECK(said(partitions({0x7fff, 0x8001}, {0x7fff, 0x8001}), {{"NCCL_IB_PKEY", "1"}}).empty());
    CHECK(said(partitions({0xffff, 0}, {0xffff, 0}), {{"NCCL_IB_PKEY", "1"}}).size() == 1);
    CHECK(said(partitions({0xffff, 0}, {0xffff, 0}), {{"NCCL_IB_PKEY", "9"}})
              .empty());  // nobody has looked there
    CHECK(said(partitions({0xffff, 0x8001}, {0xffff, 0x8001}), {{"NCCL_IB_PKEY", "0x8001"}}) ==
          Lines{"NCCL_IB_PKEY=0x8001: NCCL takes an index into the port's table here, not a key; "
                "write 1"});
    CHECK(said(partitions({0xffff}, {0xffff}), {{"NCCL_IB_PKEY", "0x8001"}})[0].ends_with(
        "not a key; unset it"));
}

TEST_CASE("traffic classes: the same on all ports, and what NCCL asks for too") {
    CHECK(said(classes({}, {})).empty());
    CHECK(said(classes(-1, -1), {{"NCCL_IB_TC", "106"}}).empty());
    CHECK(said(classes(106, 106), {{"NCCL_IB_TC", "106"}}).empty());
    CHECK(said(classes(106, {}), {{"NCCL_IB_TC", "0x6a"}}).empty());
    CHECK(said(classes(106, 106)) ==
          Lines{"the driver forces traffic class 106 upon RoCE, but not upon what GPUs send "
                "by themselves: set NCCL_IB_TC=106, best in /etc/nccl.conf"});
    CHECK(said(classes(106, 106), {{"NCCL_IB_TC", "41"}}) ==
          Lines{"NCCL_IB_TC=41: the driver forces traffic class 106 upon RoCE, and NCCL's stays "
                "without effect; make "
                "them one"});
    CHECK(said(classes(106, -1), {{"NCCL_IB_TC", "106"}}) ==
          Lines{"drivers force different traffic classes upon RoCE ports: none on mlx5_1, 106 on "
                "mlx5_0; write one to "
                "/sys/class/infiniband/*/tc/1/traffic_class"});
    CHECK(said(classes(106, 160)).size() == 1);
}

TEST_CASE("a profile's traffic class counts") {
    const auto machine = classes(106, 106);
    const EnvironmentMap found;
    NcclProfile profile;
    profile.name = "site";
    profile.set = {{"NCCL_IB_TC", "41", "lossless", "profile site"}};
    const auto decided =
        decide_nccl_environment({.topology = machine, .found = found, .profile = profile});
    REQUIRE(decided.warnings.size() == 1);
    CHECK(decided.warnings[0].starts_with("NCCL_IB_TC=41: the driver forces"));
}

TEST_CASE("ports that are not for computing have no say") {
    auto machine = classes(106, 160);
    machine.hcas[1].pci_path = testing::pci_path("root7", "mlx5_1");
    CHECK(said(machine, {{"NCCL_IB_TC", "106"}}).empty());
    auto keys = partitions({0xffff}, {0});
    keys.hcas[1].ports[0].active = false;
    CHECK(said(keys).empty());
}

TEST_CASE("a GID that cannot work, where no rule of ours mends it") {
    CHECK(said(roce_machine({"10.1.0.5"})).empty());
    CHECK(said(roce_machine({})) == Lines{"NCCL will take GID 0 of mlx5_0, which is link-local; "
                                          "give eth1 an address that other nodes reach"});
    CHECK(said(roce_machine({"10.1.0.5"}), {{"NCCL_IB_ADDR_RANGE", "172.16.0.0/12"}}) ==
          Lines{"NCCL will take GID 0 of mlx5_0, which is link-local; none of its addresses is in "
                "NCCL_IB_ADDR_RANGE=172.16.0.0/12: write one that is, or unset it"});
    CHECK(said(roce_machine({"10.1.0.5"}), {{"NCCL_IB_ADDR_FAMILY", "AF_INET6"}}) ==
          Lines{"NCCL will take GID 0 of mlx5_0, which is link-local; set "
                "NCCL_IB_ADDR_FAMILY=AF_INET"});
    CHECK(said(roce_machine({"10.1.0.5"}), {{"NCCL_IB_ROCE_VERSION_NUM", "1"}})
              .empty());  // as the user wants it
    auto unknown = roce_machine({});
    for (auto& hca : unknown.hcas)
        hca.ports[0].gids = {};
    CHECK(said(unknown).empty());
}

TEST_CASE(
    "what we set is looked at as well, and with nccl.manage false what we would have set is "
    "missing") {
    const auto machine = roce_machine({"2001:db8::5"});
    CHECK(decide(machine).warnings.empty());
    const auto alone = decide(machine, {}, false);
    CHECK(alone.set.empty());
    CHECK(alone.left.empty());
    CHECK(alone.warnings == Lines{"NCCL will take GID 0 of mlx5_0, which is link-local; set "
                                  "NCCL_IB_ADDR_FAMILY=AF_INET6"});
}

TEST_CASE("families and ranges that NCCL does not understand") {
    const auto machine = roce_machine({"10.1.0.5"});
    CHECK(
        said(machine, {{"NCCL_IB_ADDR_FAMILY", "ipv6"}}) ==
        Lines{"NCCL_IB_ADDR_FAMILY=ipv6: NCCL takes that for AF_INET; write AF_INET or AF_INET6"});
    for (const char* odd : {"10.0.0.0", "fd00::/8", "10.0.0.0/40", "eth0"})
        CHECK(said(machine, {{"NCCL_IB_ADDR_RANGE", odd}}) ==
              Lines{std::string("NCCL_IB_ADDR_RANGE=") + odd +
                    ": NCCL ignores it; write an IPv4 address and a length, such as 10.0.0.0/8"});
    CHECK(said(roce_machine({"fd00::5"}),
               {{"NCCL_IB_ADDR_FAMILY", "AF_INET6"}, {"NCCL_IB_ADDR_RANGE", "10.0.0.0/8"}}) ==
          Lines{"NCCL_IB_ADDR_RANGE=10.0.0.0/8: NCCL ignores it; write an IPv6 address and a "
                "length, such as fd00::/8"});
    CHECK(said(roce_machine({"fd00::5"}),
               {{"NCCL_IB_ADDR_FAMILY", "AF_INET6"}, {"NCCL_IB_ADDR_RANGE", "fd00::/8"}})
              .empty());
}

TEST_CASE(
    "IPv6 in several networks: the family and the range are set, and NCCL then takes a good GID") {
    const auto decided = decide(roce_machine({"2001:db8::5", "fd00::5"}));
    REQUIRE(find(decided.set, "NCCL_IB_ADDR_FAMILY") != nullptr);
    REQUIRE(find(decided.set, "NCCL_IB_ADDR_RANGE") != nullptr);
    CHECK(find(decided.set, "NCCL_IB_ADDR_RANGE")->value == "2001::/16");
    CHECK(find(decided.set, "NCCL_IB_GID_INDEX") == nullptr);
    CHECK(decided.warnings.empty());
}

TEST_CASE("dma-buf is turned off only where all that counts is known") {
    auto machine = machine_of("InfiniBand");
    const auto choice = [&] {
        const auto decided = decide(machine);
        const auto* found = find(decided.set, "NCCL_DMABUF_ENABLE");
        return found != nullptr ? found->value : "(none)";
    };
    machine.peermem = true;
    CHECK(choice() == "(none)");
    machine.hcas[0].dmabuf = false;
    CHECK(choice() == "(none)");
    machine.hcas[1].dmabuf = false;
    CHECK(choice() == "0");
    machine.peermem = false;
    CHECK(choice() == "(none)");
    machine.peermem.reset();
    CHECK(choice() == "(none)");
    machine.peermem = true;
    machine.hcas[1].dmabuf = true;
    CHECK(choice() == "(none)");
    CHECK(decide(machine, {{"NCCL_DMABUF_ENABLE", "0"}}).warnings.empty());
    machine.peermem = false;
    CHECK(decide(machine, {{"NCCL_DMABUF_ENABLE", "0"}}).warnings ==
          Lines{"NCCL_DMABUF_ENABLE=0 while nvidia-peermem is not loaded: HCAs cannot reach GPUs' "
                "memory; unset it"});
}

}  // namespace nccl_ports_test
