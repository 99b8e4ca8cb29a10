// The sysfs reader on trees made here and on this machine, and the hwloc reader on saved
// topologies.

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "captures.hpp"
#include "fake_system.hpp"
#include "topology/cpu_sets.hpp"
#include "topology/hwloc_topology.hpp"
#include "topology/read_topology.hpp"
#include "topology/system_files.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace topology_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using testing::FakeSystem;
using testing::two_sockets;
using Cpus = std::vector<int>;

namespace {

const Cpus kAll = {0, 1, 2, 3, 4, 5, 6, 7};

}  // namespace

TEST_CASE("the kernel's list format") {
    CHECK(*parse_list("0-3,8") == Cpus{0, 1, 2, 3, 8});
    CHECK(parse_list("")->empty());
    CHECK(*parse_list("5,1-2,2") == Cpus{1, 2, 5});
    for (const char* text : {"a", "1-", "3-1", "-1", "1,,2", "0-65536", "1-2-3"}) {
        INFO(text);
        CHECK_FALSE(parse_list(text));
    }
}

TEST_CASE("cores, caches, sockets and NUMA nodes") {
    FakeSystem system;
    two_sockets(system);
    const NodeTopology topology = read_local_topology(system.options(kAll));
    REQUIRE(topology.cores.size() == 4);
    CHECK(topology.cores[1].cpus == Cpus{1, 5});
    CHECK(topology.cores[2].cpus == Cpus{2, 6});
    CHECK(topology.cores[1].l3 == topology.cores[0].l3);
    CHECK(topology.cores[2].l3 != topology.cores[0].l3);
    CHECK(topology.cores[2].package == 1);
    CHECK(topology.cores[2].numa_node == 1);
    CHECK(topology.package_count == 2);
    REQUIRE(topology.numa_nodes.size() == 2);
    CHECK(topology.numa_nodes[1].memory_bytes == 2000 * 1024);
    CHECK(topology.numa_nodes[1].distances == Cpus{21, 10});
    CHECK(topology.gpus.empty());
}

TEST_CASE("what the mask leaves out is not there") {
    FakeSystem system;
    two_sockets(system);
    const NodeTopology topology = read_local_topology(system.options({1, 4, 5}));
    REQUIRE(topology.numa_nodes.size() == 1);
    CHECK(topology.numa_nodes[0].cpus == Cpus{1, 4, 5});
    REQUIRE(topology.cores.size() == 2);
    CHECK(topology.cores[0].cpus == Cpus{1, 5});
    CHECK(topology.cores[1].cpus == Cpus{4});
}

TEST_CASE(
    "memory without CPUs, CPUs without memory, and memory outside the cpuset are no NUMA nodes") {
    FakeSystem system;
    two_sockets(system);
    system.file("sys/devices/system/node/online", "0-3,252");
    system.node(2, "", 4000, "10");     // CXL
    system.node(3, "7", 0, "10");       // a socket without memory
    system.node(252, "", 16000, "10");  // a GPU's memory
    system.file("proc/self/status", "Mems_allowed_list:\t0,2-3,252");
    const NodeTopology topology = read_local_topology(system.options(kAll));
    REQUIRE(topology.numa_nodes.size() == 1);
    CHECK(topology.numa_nodes[0].index == 0);
}

TEST_CASE("without sysfs there is one node with one core for each CPU") {
    FakeSystem system;
    const NodeTopology topology = read_local_topology(system.options({3, 5}));
    REQUIRE(topology.cores.size() == 2);
    CHECK(topology.cores[1].cpus == Cpus{5});
    REQUIRE(topology.numa_nodes.size() == 1);
    CHECK(topology.numa_nodes[0].cpus == Cpus{3, 5});
    CHECK(topology.numa_nodes[0].memory_bytes > 0);
}

TEST_CASE("without an L3 the NUMA node stands in for it") {
    FakeSystem flat;
    flat.file("sys/devices/system/node/online", "0-1");
    flat.node(0, "0-1", 1000, "10 20");
    flat.node(1, "2-3", 1000, "20 10");
    for (int cpu = 0; cpu < 4; ++cpu)
        flat.cpu(cpu, std::to_string(cpu), "", "0-3");
    const NodeTopology topology = read_local_topology(flat.options({0, 1, 2, 3}));
    CHECK(topology.cores[0].l3 == topology.cores[1].l3);
    CHECK(topology.cores[2].l3 == 1);
    CHECK(topology.package_count == 1);
}

TEST_CASE("GPUs are found in PCI order with what the driver knows of them") {
    FakeSystem system;
    two_sockets(system);
    system.pci("pci0000:80/0000:80:01.0/0000:81:00.0", "0x10de", "0x030200", 1, "nvidia");
    system.pci("pci0000:10/0000:10:01.0/0000:17:00.0", "0x10de", "0x030200", 0, "nvidia");
    system.pci("pci0000:10/0000:10:01.0/0000:17:00.1", "0x10de", "0x040300", 0,
               "nvidia");                                                   // its sound function
    system.pci("pci0000:00/0000:00:02.0", "0x1a03", "0x030000", 0, "ast");  // the board's VGA
    system.pci("pci0000:90/0000:91:00.0", "0x10de", "0x030200", 1, "vfio-pci");  // lent to a guest
    system.nvidia("0000:17:00.0", 0);
    system.nvidia("0000:81:00.0", 1);
    const NodeTopology topology = read_local_topology(system.options(kAll));
    REQUIRE(topology.gpus.size() == 2);
    CHECK(topology.gpus[0].bdf == "0000:17:00.0");
    CHECK(topology.gpus[0].model == "NVIDIA H100 80GB HBM3");
    CHECK(topology.gpus[0].uuid == "GPU-0");
    CHECK(topology.gpus[1].numa_node == 1);
    CHECK(topology.gpus[1].numa_source == "sysfs numa_node");
    CHECK(topology.gpus[1].local_cpus == Cpus{2, 3, 6, 7});
    CHECK(topology.gpus[1].node_distances == Cpus{21, 10});
    CHECK(topology.notes.empty());
}

TEST_CASE("where a GPU is: its own word, a bridge's, its CPU list, or unknown") {
    FakeSystem system;
    two_sockets(system);
    system.file("sys/devices/pci0000:20/0000:20:01.0/numa_node", "1");
    system.pci("pci0000:20/0000:20:01.0/0000:21:00.0/0000:22:00.0", "0x1002", "0x120000", -1,
               "amdgpu");
    system.pci("pci0000:30/0000:31:00.0", "0x1002", "0x038000", -1, "amdgpu", "2-3");
    system.pci("pci0000:40/0000:41:00.0", "0x1002", "0x038000", -1, "amdgpu", "0-7");
    system.pci("pci0000:50/0000:51:00.0", "0x1002", "0x038000", -1, "amdgpu", "1-2");
    system.file("dev/kfd", "");
    const NodeTopology topology = read_local_topology(system.options(kAll));
    REQUIRE(topology.gpus.size() == 4);
    CHECK(topology.gpus[0].numa_node == 1);
    CHECK(topology.gpus[0].numa_source == "numa_node of a bridge above it");
    CHECK(topology.gpus[1].numa_node == 1);
    CHECK(topology.gpus[1].numa_source == "sysfs local_cpulist");
    CHECK(topology.gpus[1].local_cpus == Cpus{2, 3});
    CHECK_FALSE(topology.gpus[2].numa_node);
    CHECK(topology.gpus[2].local_cpus.empty());
    CHECK_FALSE(topology.gpus[3].numa_node);  // two nodes
    CHECK(topology.gpus[3].local_cpus == Cpus{1, 2});
}

TEST_CASE("a GPU of another container, or one without its device node, is left out") {
    FakeSystem system;
    two_sockets(system);
    for (const char* bdf : {"0000:17:00.0", "0000:18:00.0", "0000:19:00.0"})
        system.pci(std::string("pci0000:10/") + bdf, "0x10de", "0x030200", 0, "nvidia");
    system.nvidia("0000:17:00.0", 0);
    system.file("proc/driver/nvidia/gpus/0000:18:00.0/information", "Device Minor: \t 1");
    const NodeTopology topology = read_local_topology(system.options(kAll));
    REQUIRE(topology.gpus.size() == 1);
    CHECK(topology.gpus[0].bdf == "0000:17:00.0");
    REQUIRE(topology.notes.size() == 1);
    CHECK(topology.notes[0].starts_with("GPU 0000:18:00.0 is left out: it has a driver but no "));
}

TEST_CASE("where the PCI bus is not shown, device nodes stand for the GPUs") {
    FakeSystem system;
    two_sockets(system);
    for (const char* name : {"nvidia0", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm"})
        system.file(std::string("dev/") + name, "");
    const NodeTopology topology = read_local_topology(system.options(kAll));
    REQUIRE(topology.gpus.size() == 3);
    CHECK(topology.gpus[2].index == 10);
    CHECK_FALSE(topology.gpus[0].numa_node);
}

TEST_CASE("HCAs with their ports, and network interfaces") {
    FakeSystem system;
    two_sockets(system);
    system.pci("pci0000:80/0000:82:00.0", "0x15b3", "0x020700", 1, "");
    const std::string hca = "sys/class/infiniband/mlx5_0/";
    system.file(hca + "ports/1/state", "4: ACTIVE");
    system.file(hca + "ports/1/rate", "400 Gb/sec (4X NDR)");
    system.file(hca + "ports/1/link_layer", "InfiniBand");
    system.link("sys/class/infiniband/mlx5_0/device", "sys/devices/pci0000:80/0000:82:00.0");
    system.file("sys/class/net/eth0/mtu", "1500");
    const NodeTopology topology = read_local_topology(system.options(kAll));
    REQUIRE(topology.hcas.size() == 1);
    CHECK(topology.hcas[0].bdf == "0000:82:00.0");
    CHECK(topology.hcas[0].numa_node == 1);
    REQUIRE(topology.hcas[0].ports.size() == 1);
    CHECK(topology.hcas[0].ports[0].active);
    CHECK(topology.hcas[0].ports[0].rate_gbps == 400);
    REQUIRE(topology.network_interfaces.size() == 1);
    CHECK(topology.network_interfaces.front().name == "eth0");
}

TEST_CASE("this machine: every allowed CPU is in one core and one NUMA node") {
    const NodeTopology topology = read_local_topology();
    CHECK(topology.allowed_cpus == read_affinity());
    CHECK_FALSE(topology.allowed_cpus.empty());
    Cpus of_cores, of_nodes;
    for (const Core& core : topology.cores)
        of_cores.insert(of_cores.end(), core.cpus.begin(), core.cpus.end());
    for (const NumaNode& node : topology.numa_nodes)
        of_nodes.insert(of_nodes.end(), node.cpus.begin(), node.cpus.end());
    std::sort(of_cores.begin(), of_cores.end());
    std::sort(of_nodes.begin(), of_nodes.end());
    CHECK(of_cores == topology.allowed_cpus);
    CHECK(is_subset(of_nodes, topology.allowed_cpus));
    CHECK(std::adjacent_find(of_nodes.begin(), of_nodes.end()) == of_nodes.end());
}

TEST_CASE("saved topologies: every GPU is where its machine's owners say") {
    const auto folder = testing::captures_folder("GPU locality of real machines");
    if (!folder)
        return;
    const auto facts = nlohmann::json::parse(read_file(*folder / "facts.json"));
    int machines = 0;
    for (const auto& item : facts.items()) {
        const std::string& name = item.key();
        const auto& fact = item.value();
        if (!name.starts_with("hwloc-xml/"))
            continue;
        INFO(name);
        ++machines;
        const NodeTopology topology = read_hwloc_topology(*folder / name);
        CHECK_FALSE(topology.cores.empty());
        std::map<std::string, const Gpu*> gpus;
        for (const Gpu& gpu : topology.gpus)
            gpus[gpu.bdf] = &gpu;
        CHECK(gpus.size() == (fact.contains("gpus") ? fact["gpus"].size() : 0));
        if (!fact.contains("gpus"))
            continue;
        for (const auto& expected : fact["gpus"]) {
            const std::string bdf = expected["pci"];
            INFO(bdf);
            REQUIRE(gpus.contains(bdf));
            REQUIRE(gpus[bdf]->numa_node);
            CHECK(std::to_string(*gpus[bdf]->numa_node) == expected["numa"].get<std::string>());
            CHECK(gpus[bdf]->local_cpus == *parse_list(expected["cpus"].get<std::string>()));
        }
    }
    CHECK(machines >= 15);
}

TEST_CASE("saved topologies: GPU memory is no NUMA node") {
    const auto folder = testing::captures_folder("NUMA nodes of real machines");
    if (!folder)
        return;
    const std::map<std::string, Cpus> expected = {
        {"flux-core-sierra", {0, 8}},
        {"hwloc-derived-p9-gpunumanodes-kept", {0, 8}},
        {"uliege-nvidia-gh-200", {0}},
        {"hwloc-derived-16amd64-cgroup-disallowed", {}},  // CPUs of node 0, memory of 2 and 3

        {"flux-sched-lassen", {0, 8}},
        {"mpibind-epyc-corona", {0, 1, 2, 3, 4, 5, 6, 7}},
    };
    for (const auto& entry : expected) {
        const std::string& name = entry.first;
        INFO(name);
        Cpus found;
        for (const NumaNode& node :
             read_hwloc_topology(*folder / "hwloc-xml" / (name + ".xml")).numa_nodes)
            found.push_back(node.index);
        CHECK(found == entry.second);
    }
}

TEST_CASE("a file that is no topology is refused") {
    FakeSystem system;
    system.file("x.xml", "<nothing/>");
    CHECK_THROWS_AS(read_hwloc_topology(system.options({}).sysfs_root + "/../x.xml"), Error);
}

}  // namespace topology_test
