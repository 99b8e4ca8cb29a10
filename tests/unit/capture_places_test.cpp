// What is there and no rank is placed on: sockets, CPUs and NUMA nodes that are offline, closed to
// us, without memory or without CPUs. All of it is shown, and what is near it is told.

#include "fake_system.hpp"
#include "topology/capture.hpp"
#include "topology_view/topology_json.hpp"
#include "topology_view/topology_svg.hpp"
#include "topology_view/topology_text.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace capture_places_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using testing::FakeSystem;
using testing::two_sockets;
using Cpus = std::vector<int>;

namespace {

void check_has(const std::string& text, std::string_view what) {
    CHECK_MESSAGE(text.find(what) != text.npos, what, " is not in\n", text);
}

std::string sets(int cpus, int nodes, int whole = 0) {
    return fmt::format(
        "cpuset=\"0x{0:08x}\" complete_cpuset=\"0x{1:08x}\" nodeset=\"0x{2:08x}\" "
        "complete_nodeset=\"0x{2:08x}\"",
        cpus, whole == 0 ? cpus : whole, nodes);
}

/// Cores of one thread each.
std::string cores_of(int cpus, int nodes) {
    std::string text;
    for (int cpu = 0; cpu < 16; ++cpu)
        if ((cpus & (1 << cpu)) != 0)
            text += fmt::format(
                "<object type=\"Core\" os_index=\"{0}\" {1} gp_index=\"{2}\"><object type=\"PU\" "
                "os_index=\"{0}\" {1} gp_index=\"{3}\"/></object>",
                cpu, sets(1 << cpu, nodes), 100 + cpu, 200 + cpu);
    return text;
}

struct Socket {
    int index, cpus, bytes;
    int offline = 0;
    std::string inside = {};
};

std::string machine(const std::vector<Socket>& sockets, int allowed_cpus, int allowed_nodes) {
    std::string text;
    int cpus = 0, nodes = 0, whole = 0;
    for (const Socket& socket : sockets) {
        const int node = 1 << socket.index;
        cpus |= socket.cpus;
        whole |= socket.cpus | socket.offline;
        nodes |= node;
        text += fmt::format(
            "<object type=\"Package\" os_index=\"{0}\" {1} gp_index=\"{2}\"><object "
            "type=\"NUMANode\" os_index=\"{0}\" {1} gp_index=\"{3}\" local_memory=\"{4}\"/>{5}{6}"
            "</object>",
            socket.index, sets(socket.cpus, node, socket.cpus | socket.offline), 10 + socket.index,
            20 + socket.index, socket.bytes, cores_of(socket.cpus, node), socket.inside);
    }
    return fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM "
        "\"hwloc2.dtd\">\n<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" {} "
        "allowed_cpuset=\"0x{:08x}\" allowed_nodeset=\"0x{:08x}\" gp_index=\"1\">{}</object>"
        "</topology>\n",
        sets(cpus, nodes, whole), allowed_cpus, allowed_nodes, text);
}

std::string gpu_at(int bus) {
    return fmt::format(
        "<object type=\"Bridge\" gp_index=\"{0}0\" bridge_type=\"0-1\" depth=\"0\" "
        "bridge_pci=\"0000:[{0:x}-{0:x}]\"><object type=\"PCIDev\" gp_index=\"{0}1\" "
        "pci_busid=\"0000:{0:x}:00.0\" pci_type=\"0302 [10de:2330] [0000:0000] a1\" "
        "pci_link_speed=\"31.5\"/></object>",
        bus);
}

NodeTopology read(FakeSystem& folder, const std::string& text) {
    folder.file("machine.xml", text);
    return read_capture(folder.root() / "machine.xml");
}

}  // namespace

TEST_CASE("hwloc: a socket that a cpuset closes, and CPUs that are offline, are shown") {
    FakeSystem folder;
    const NodeTopology topology =
        read(folder, machine({{0, 0x0f, 1 << 20, 0x30}, {1, 0xf00, 1 << 20}}, 0x0f, 0x3));
    CHECK(topology.package_count == 1);
    const std::string text = topology_text(topology);
    check_has(text, "2 packages · 1 NUMA node · 4 cores");
    check_has(text, "  CPU 4-5 offline\n");
    check_has(text, "package 1   CPU model unknown\n  4 cores: CPU 8-11 may not be used here");
    check_has(text, "NUMA node 1   1 MiB   none of its CPUs may be used here");
    const auto json = nlohmann::json::parse(topology_json(topology));
    CHECK(json["unusable_cpus"][0]["why"] == "offline");
    CHECK(json["unusable_cpus"][1]["cpus"] == Cpus{8, 9, 10, 11});
    CHECK(json["unusable_cpus"][1]["package"] == 1);
    CHECK(json["unusable_cpus"][1]["cores"] == 4);
    CHECK(json["other_numa_nodes"][0]["index"] == 1);
    check_has(topology_svg(topology), "no NUMA node that may be used");
}

TEST_CASE("hwloc: sockets are there also where no NUMA node is") {
    FakeSystem folder;
    const NodeTopology topology = read(folder, machine({{0, 0x0f, 1 << 20}}, 0x0f, 0x2));
    const std::string text = topology_text(topology);
    check_has(text, "1 package · NUMA nodes unknown · 4 cores");
    check_has(text, "  NUMA node unknown   4 cores: CPU 0-3\n");
    check_has(text, "its memory may not be used here (cpuset)");
}

TEST_CASE("hwloc: a socket without memory keeps its CPUs and its devices") {
    FakeSystem folder;
    const NodeTopology topology =
        read(folder, machine({{0, 0x0f, 1 << 20}, {1, 0xf0, 0, 0, gpu_at(0x40)}}, 0xff, 0x3));
    REQUIRE(topology.gpus.size() == 1);
    CHECK(topology.gpus[0].numa_node == 1);
    CHECK(topology.gpus[0].local_cpus == Cpus{4, 5, 6, 7});
    REQUIRE(topology.cores.size() == 8);
    CHECK(topology.cores[7].numa_node == 0);
    CHECK(topology.cores[7].package == 1);
    const std::string text = topology_text(topology);
    check_has(text, "CPU 4-7   no memory: its CPUs count to the nearest node that has some");
    check_has(text, "GPU 0 is on NUMA node 1, which no rank is placed on: node 0 is the only one");
}

TEST_CASE("live: offline CPUs, closed sockets, memory alone") {
    FakeSystem system;
    two_sockets(system);
    system.file("sys/devices/system/node/online", "0-3");
    system.node(0, "0-1,4-5", 1000, "10 21 17 30");
    system.node(1, "2-3,6-7", 2000, "21 10 30 17");
    system.node(2, "", 4000, "17 30 10 40");
    system.node(3, "", 0, "30 17 40 10");
    system.file("sys/devices/system/cpu/online", "0-7");
    system.file("sys/devices/system/cpu/present", "0-9");
    system.file("sys/devices/system/node/node1/cpu9/online", "0");
    system.pci("pci0000:10/0000:17:00.0", "0x10de", "0x030200", 2, "nvidia");
    system.nvidia("0000:17:00.0", 0);
    TopologyOptions options = system.options({2, 3, 6, 7});
    options.details = true;
    const NodeTopology topology = read_local_topology(options);
    CHECK(topology.cores[0].package == 1);
    const std::string text = topology_text(topology);
    check_has(text, "2 packages · 1 NUMA node · 2 cores, 4 threads");
    check_has(text, "package 0   CPU model unknown\n  2 cores: CPU 0-1,4-5 may not be used here");
    check_has(text, "of no package that is told\n  CPU 8 offline\n  NUMA node 1   CPU 9 offline");
    check_has(text, "NUMA node 2   3.9 MiB   no CPUs: memory alone");
    check_has(text, "NUMA node 3   size unknown   neither CPUs nor memory");
    check_has(text, "GPU 0 is on NUMA node 2, which no rank is placed on: node 1 is the only one");
    CHECK(read_local_topology(system.options({2})).unusable_cpus.empty());  // no launch pays for it
}

TEST_CASE("hwloc: a file that tells hardware threads alone has CPUs, and no cores") {
    FakeSystem folder;
    std::string text = machine({{0, 0x0f, 1 << 20}}, 0x0f, 0x1);
    for (std::size_t at; (at = text.find("<object type=\"Core\"")) != text.npos;)
        text.erase(at, text.find('>', at) + 1 - at);
    for (std::size_t at; (at = text.find("</object></object><object type=\"PU\"")) != text.npos;)
        text.erase(at, 9);
    for (std::size_t at; (at = text.find("/></object><object type=\"PU\"")) != text.npos;)
        text.erase(at + 2, 9);
    text.erase(text.find("</object>"), 9);
    const NodeTopology topology = read(folder, text);
    CHECK_FALSE(topology.cores_are_told);
    CHECK(topology.cores.size() == 4);
    check_has(topology_text(topology), "1 NUMA node · 4 CPUs");
}

}  // namespace capture_places_test
