// What this process may use of a machine: time on CPUs, device nodes; and the order in which
// devices are listed.

#include "fake_system.hpp"
#include "topology/capture.hpp"
#include "topology/natural_order.hpp"
#include "topology/read_topology.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace topology_grants_test {

namespace fs = std::filesystem;
using namespace autolaunch::launcher;
using testing::FakeSystem;
using testing::two_sockets;
using Names = std::vector<std::string>;

namespace {

const std::vector<int> kAll = {0, 1, 2, 3, 4, 5, 6, 7};

std::optional<double> quota_of(const FakeSystem& system) {
    return read_local_topology(system.options(kAll)).cpu_quota;
}

void add_gpu(FakeSystem& system, int number) {
    const std::string bdf = fmt::format("0000:1{}:00.0", number);
    system.pci("pci0000:10/" + bdf, "0x10de", "0x030200", 0, "nvidia");
    system.nvidia(bdf, number);
}

void add_hca(FakeSystem& system, int number) {
    system.file(fmt::format("sys/class/infiniband/mlx5_{}/ports/1/state", number), "4: ACTIVE");
    system.file(fmt::format("sys/class/infiniband_verbs/uverbs{}/ibdev", number),
                fmt::format("mlx5_{}", number));
    system.file(fmt::format("dev/infiniband/uverbs{}", number), "");
}

}  // namespace

TEST_CASE("version 2: the least of a cgroup and those above it") {
    FakeSystem system;
    two_sockets(system);
    CHECK(quota_of(system) == std::nullopt);
    system.file("proc/self/cgroup", "0::/kubepods/pod7/main");
    CHECK(quota_of(system) == std::nullopt);
    system.file("sys/fs/cgroup/kubepods/pod7/main/cpu.max", "max 100000");
    CHECK(quota_of(system) == std::nullopt);
    system.file("sys/fs/cgroup/kubepods/pod7/cpu.max", "350000 100000");
    CHECK(quota_of(system) == 3.5);
    system.file("sys/fs/cgroup/kubepods/pod7/main/cpu.max", "200000 100000");
    CHECK(quota_of(system) == 2);
    system.file("sys/fs/cgroup/kubepods/cpu.max", "100000 300000");
    CHECK(quota_of(system) == 0.33);
}

TEST_CASE("version 2 in a container: the path is the host's, or the root") {
    FakeSystem system;
    two_sockets(system);
    system.file("sys/fs/cgroup/cpu.max", "400000 100000");
    for (const char* path : {"/", "/docker/0123abcd", "/../other", ""}) {
        system.file("proc/self/cgroup", fmt::format("0::{}", path));
        CHECK(quota_of(system) == 4);
    }
}

TEST_CASE("version 1, alone and beside version 2") {
    FakeSystem system;
    two_sockets(system);
    system.file("proc/self/cgroup",
                "5:memory:/slurm/job_7\n4:cpu,cpuacct:/slurm/job_7/step_0\n1:name=systemd:/\n0::/");
    const std::string folder = "sys/fs/cgroup/cpu,cpuacct/slurm/job_7";
    system.file(folder + "/step_0/cpu.cfs_quota_us", "-1");
    system.file(folder + "/step_0/cpu.cfs_period_us", "100000");
    CHECK(quota_of(system) == std::nullopt);
    system.file(folder + "/cpu.cfs_quota_us", "150000");
    system.file(folder + "/cpu.cfs_period_us", "100000");
    CHECK(quota_of(system) == 1.5);
    system.link("sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct");
    CHECK(quota_of(system) == 1.5);
    system.file("sys/fs/cgroup/cpu.max", "100000 100000");
    CHECK(quota_of(system) == 1);
}

TEST_CASE("memory that a cgroup allows, by either version") {
    FakeSystem system;
    two_sockets(system);
    const auto limit_of = [&] {
        return read_local_topology(system.options(kAll)).memory_limit_bytes;
    };
    CHECK(limit_of() == std::nullopt);
    system.file("proc/self/cgroup", "0::/job/step");
    system.file("sys/fs/cgroup/job/step/memory.max", "max");
    CHECK(limit_of() == std::nullopt);
    system.file("sys/fs/cgroup/job/memory.max", "8589934592");
    CHECK(limit_of() == 8589934592);
    system.file("proc/self/cgroup", "5:memory:/slurm/job_7\n0::/");
    system.file("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "4294967296");
    CHECK(limit_of() == 4294967296);
    system.file("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "9223372036854771712");
    CHECK(limit_of() == std::nullopt);
    system.file("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "-1 nonsense");
    CHECK(limit_of() == std::nullopt);
}

TEST_CASE("nonsense in a cgroup's files is no limit") {
    FakeSystem system;
    two_sockets(system);
    system.file("proc/self/cgroup", "0::/job");
    for (const char* odd : {"", "max", "100000", "0 100000", "-5 100000", "100000 0", "1 2 3",
                            "99999999999999999999 1"}) {
        system.file("sys/fs/cgroup/job/cpu.max", odd);
        CHECK(quota_of(system) == std::nullopt);
    }
    system.file("sys/fs/cgroup/job/cpu.max", "200000 100000");
    for (const std::string& odd :
         Names{"", "0", "0:", "::", "x::/" + std::string(9000, 'y'), std::string(300, '/')})
        CHECK_NOTHROW((system.file("proc/self/cgroup", odd), quota_of(system)));
}

TEST_CASE("a GPU and an HCA that may not be opened are there, and known as that") {
    FakeSystem system;
    two_sockets(system);
    for (int i = 0; i < 3; ++i)
        add_gpu(system, i);
    for (int i = 0; i < 2; ++i)
        add_hca(system, i);
    TopologyOptions options = system.options(kAll);
    options.may_open = [](const std::string& path) {
        return !path.ends_with("nvidia1") && !path.ends_with("uverbs0");
    };
    const NodeTopology topology = read_local_topology(options);
    REQUIRE(topology.gpus.size() == 3);
    CHECK(topology.gpus[0].can_open);
    CHECK_FALSE(topology.gpus[1].can_open);
    CHECK(topology.gpus[2].can_open);
    REQUIRE(topology.hcas.size() == 2);
    CHECK_FALSE(topology.hcas[0].can_open);
    CHECK(topology.hcas[1].can_open);
    system.remove("sys/bus");  // the PCI bus is not shown
    const NodeTopology hidden = read_local_topology(options);
    REQUIRE(hidden.gpus.size() == 3);
    CHECK_FALSE(hidden.gpus[1].can_open);
}

TEST_CASE("files that this user may not open, and the same ones in a saved tree") {
    FakeSystem system;
    two_sockets(system);
    system.file("sys/devices/system/cpu/online", "0-7");
    add_gpu(system, 0);
    add_gpu(system, 1);
    const fs::path closed = system.root() / "dev/nvidia1";
    fs::permissions(closed, fs::perms::owner_read);
    const bool is_root = ::geteuid() == 0;
    if (is_root && ::seteuid(65534) != 0) {
        fmt::print("skipped: files that this user may not open: root cannot become another user\n");
        return;
    }
    if (is_root)
        CHECK(::access(system.root().c_str(), X_OK) == 0);
    const NodeTopology topology = read_local_topology(system.options(kAll));
    const NodeTopology saved = read_capture(system.root());
    if (is_root)
        REQUIRE(::seteuid(0) == 0);
    REQUIRE(topology.gpus.size() == 2);
    CHECK_FALSE(topology.gpus[1].can_open);
    if (!is_root)
        CHECK(topology.gpus[0].can_open);
    REQUIRE(saved.gpus.size() == 2);
    CHECK(saved.gpus[1].can_open);
}

TEST_CASE("names in the order of their numbers") {
    Names names = {"mlx5_10", "mlx5_2", "mlx5_bond_0", "mlx5_1", "mlx4_0", "eth01",
                   "eth1",    "eth",    "eth10",       "eth9",   ""};
    std::sort(names.begin(), names.end(), natural_less);
    CHECK(names == Names{"", "eth", "eth01", "eth1", "eth9", "eth10", "mlx4_0", "mlx5_1", "mlx5_2",
                         "mlx5_10", "mlx5_bond_0"});
    CHECK(natural_less("a99999999999999999999998", "a99999999999999999999999"));
    CHECK_FALSE(natural_less("a7", "a7"));
    for (const auto& a : names)  // a strict weak order, which sorting needs
        for (const auto& b : names)
            CHECK((natural_less(a, b) && natural_less(b, a)) == false);
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
    for (const Hca& hca : topology.hcas)
        hcas.push_back(hca.name);
    for (const NetworkInterface& interface : topology.network_interfaces)
        interfaces.push_back(interface.name);
    CHECK(hcas == Names{"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_10", "mlx5_11"});
    CHECK(interfaces == Names{"eth0", "eth1", "eth2", "eth10", "eth11"});
}

}  // namespace topology_grants_test
