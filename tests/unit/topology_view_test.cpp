// The pictures of a machine: what is in them, whatever the machine is like.

#include "synthetic_topology.hpp"
#include "topology_view/topology_json.hpp"
#include "topology_view/topology_svg.hpp"
#include "topology_view/topology_text.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace topology_view_test {

using namespace autolaunch::launcher;
using testing::make_machine;

namespace {

Hca hca(const char* name, const char* bdf, int numa_node, std::vector<std::string> path) {
    Hca made;
    made.name = name;
    made.bdf = bdf;
    made.numa_node = numa_node;
    made.ports = {{1, true, "InfiniBand", 400}};
    made.pci_path = std::move(path);
    return made;
}

/// Two sockets, a GPU and an HCA at one switch of each.
NodeTopology server() {
    NodeTopology machine =
        make_machine({.packages = 2, .l3_per_numa = 2, .cores_per_l3 = 4, .gpus = 2});
    machine.hostname = "node17";
    machine.cpu_model = "AMD EPYC 9654";
    machine.l3_bytes = {32 << 20, 32 << 20, 32 << 20, 32 << 20};
    machine.gpus[0].memory_bytes = std::uint64_t{80} << 30;
    machine.gpus[0].pci_path = {"pci0000:00", "0000:00:01.0", "0000:01:00.0", "0000:02:00.0"};
    machine.gpus[1].pci_path = {"pci0000:80", "0000:80:01.0", "0000:81:00.0", "0000:82:00.0"};
    machine.hcas = {hca("mlx5_0", "0000:11:00.0", 0,
                        {"pci0000:00", "0000:00:01.0", "0000:01:00.0", "0000:02:01.0"}),
                    hca("mlx5_1", "0000:22:00.0", 1,
                        {"pci0000:80", "0000:80:01.0", "0000:81:00.0", "0000:82:01.0"})};
    machine.told_paths = {{machine.gpus[0].bdf, machine.gpus[1].bdf, PathClass::nvlink, 18}};
    machine.notes = {"GPU 0000:99:00.0 is left out: it has no driver"};
    return machine;
}

std::size_t count(const std::string& text, std::string_view what) {
    std::size_t found = 0;
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size())
        ++found;
    return found;
}

void check_has(const std::string& text, std::string_view what) {
    CHECK_MESSAGE(text.find(what) != std::string::npos, what, " is not in\n", text);
}

}  // namespace

TEST_CASE("what may not be used is told: GPUs, HCAs, time") {
    NodeTopology machine = server();
    CHECK(topology_text(machine).find("may not be opened") == std::string::npos);
    CHECK(nlohmann::json::parse(topology_json(machine))["cpu_quota"].is_null());
    machine.gpus[1].can_open = false;
    machine.hcas[0].can_open = false;
    machine.cpu_quota = 7.5;
    CHECK(count(topology_text(machine), "may not be opened") == 2);
    check_has(topology_text(machine), "16 cores, 32 threads with 7.5 CPUs' worth of time");
    const auto json = nlohmann::json::parse(topology_json(machine));
    CHECK(json["cpu_quota"] == 7.5);
    CHECK(json["gpus"][0]["can_open"] == true);
    CHECK(json["gpus"][1]["can_open"] == false);
}

TEST_CASE("text: packages, nodes, devices by switch, paths, notes") {
    const std::string text = topology_text(server());
    check_has(text,
              "node17   2 packages · 2 NUMA nodes · 16 cores, 32 threads · 2 GPUs · 2 HCAs   (this "
              "machine)\n");
    check_has(text, "package 1   AMD EPYC 9654\n");
    check_has(text, "  NUMA node 1   64 GiB   8 cores: CPU 8-15,24-31   L3 2 x 32 MiB\n");
    check_has(text, "└ switch below 0000:00:01.0\n");
    check_has(text, "├ GPU 0    10:00.0  NVIDIA H100 80GB HBM3 · 80 GiB\n");
    check_has(text, "└ mlx5_0   11:00.0  InfiniBand 400 Gb/s\n");
    check_has(text, "GPU0         X    NV18     PIX     SYS\n");
    check_has(text, "note: GPU 0000:99:00.0 is left out");
}

TEST_CASE("text: a machine without devices has no matrix, an unknown place is said") {
    const std::string plain = topology_text(make_machine({.packages = 1, .threads = 1}));
    check_has(plain, "1 package · 1 NUMA node · 8 cores · no GPUs · no HCAs");
    CHECK(plain.find("PIX") == std::string::npos);

    NodeTopology lost = make_machine({.gpus = 2});
    lost.gpus[1].numa_node.reset();
    check_has(topology_text(lost),
              "near no NUMA node that may be used here\n    └ host bridge unknown\n");
    CHECK_FALSE(topology_text({}).empty());
}

TEST_CASE("text: parts of one GPU are named as such") {
    NodeTopology machine = make_machine({.gpus = 2});
    machine.gpus[1].bdf = machine.gpus[0].bdf;
    machine.gpus[1].partition_of = machine.gpus[0].uuid;
    const std::string text = topology_text(machine);
    check_has(text, "part 1");
    check_has(text, "same");
}

TEST_CASE("svg: every core, GPU and HCA is a rectangle, and names are escaped") {
    NodeTopology machine = server();
    machine.hostname = "<a&\"b\">\x01";
    const std::string svg = topology_svg(machine);
    CHECK(count(svg, "class=\"core\"") == 16);
    CHECK(count(svg, "class=\"gpu\"") == 2);
    CHECK(count(svg, "class=\"hca\"") == 2);
    CHECK(count(svg, "class=\"node\"") == 2);
    CHECK(count(svg, "class=\"package\"") == 2);
    CHECK(count(svg, "class=\"nv\"") == 2);
    check_has(svg, "&lt;a&amp;&quot;b&quot;&gt;<");
    CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    CHECK(svg.ends_with("</svg>\n"));
    CHECK(topology_svg({}).ends_with("</svg>\n"));
}

TEST_CASE("json: what is unknown is null or left out") {
    NodeTopology machine = server();
    machine.gpus[1].numa_node.reset();
    Gid gid;
    gid.index = 3;
    gid.bytes[0] = 0xfe;
    gid.bytes[1] = 0x80;
    gid.roce_version = 2;
    machine.hcas[0].ports[0].gids = {gid};
    const auto json = nlohmann::json::parse(topology_json(machine));
    CHECK(json["hostname"] == "node17");
    CHECK(json["gpus"][0]["numa_node"] == 0);
    CHECK(json["gpus"][1]["numa_node"].is_null());
    CHECK_FALSE(json["gpus"][1].contains("memory_bytes"));
    CHECK(json["hcas"][0]["ports"][0]["gids"][0]["gid"] ==
          "fe80:0000:0000:0000:0000:0000:0000:0000");
    CHECK(json["paths"]["GPU0"]["GPU1"] == "NV18");
    CHECK(json["paths"]["GPU0"]["mlx5_0"] == "PIX");
    CHECK(json["cores"].size() == 16);
    CHECK(json["numa_nodes"][1]["distances"] == nlohmann::json({32, 10}));
    CHECK(nlohmann::json::parse(topology_json({}))["gpus"].empty());
}

}  // namespace topology_view_test
