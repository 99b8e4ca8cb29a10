// Captures that somebody made to hurt: text that forges lines or speaks to a terminal, numbers that
// exhaust memory, sizes that exhaust time, links in circles.

#include "base/file_io.hpp"
#include "fake_system.hpp"
#include "plan/launch_plan.hpp"
#include "topology/capture.hpp"
#include "topology/path_class.hpp"
#include "topology/printable.hpp"
#include "topology_view/topology_json.hpp"
#include "topology_view/topology_svg.hpp"
#include "topology_view/topology_text.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace hostile_capture_test {

namespace fs = std::filesystem;
using namespace autolaunch;
using namespace autolaunch::launcher;
using testing::FakeSystem;

namespace {

constexpr const char* kForged = "forged line";
const std::string kHostile = std::string("\x1b]0;title\x07\n") + kForged + "\r\x7f";

void check_harmless(const std::string& text) {
    CHECK(text.find(std::string("\n") + kForged) == text.npos);
    for (const char c : text)
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t')
            FAIL("a control byte in: " << printable(text));
}

void check_all_views(const NodeTopology& topology) {
    JobSpec spec;
    spec.trainer.command = {"train"};
    spec.resources.nodes = 2;
    const LaunchPlan plan = plan_saved_machine(spec, topology, "machine", {}, "/");
    for (const std::string& text : {topology_text(topology), topology_json(topology),
                                    topology_svg(topology), plan_table(plan), plan_json(plan)})
        check_harmless(text);
}

std::string refusal_of(const fs::path& path) {
    try {
        read_capture(path);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

std::string own_capture(const char* name) {
    return read_file(std::string(AUTOLAUNCH_SOURCE_DIR) + "/tests/data/topology/" + name);
}

/// The values of an XML file's attributes: where they begin and end.
std::vector<std::pair<std::size_t, std::size_t>> values_in(const std::string& xml) {
    std::vector<std::pair<std::size_t, std::size_t>> places;
    for (std::size_t at = xml.find("<"); (at = xml.find("=\"", at)) != xml.npos; ++at)
        places.emplace_back(at + 2, xml.find('"', at + 2));
    return places;
}

}  // namespace

TEST_CASE("every text of a machine is made printable") {
    NodeTopology topology;
    Gpu gpu;
    gpu.bdf = gpu.uuid = gpu.model = gpu.partition_of = gpu.numa_source = kHostile;
    gpu.vendor = "nvidia";
    gpu.pci_path = {kHostile, kHostile};
    Hca hca;
    hca.name = hca.bdf = hca.pci_id = kHostile;
    hca.pci_path = {kHostile};
    hca.ports = {{1, true, kHostile, 100}};
    hca.ports[0].netdev = kHostile;
    hca.ports[0].gids = {{0, {}, 2, kHostile}};
    topology.hostname = topology.cpu_model = topology.source = kHostile;
    topology.gpus = {gpu};
    topology.hcas = {hca};
    topology.network_interfaces = {{kHostile, true, false, 1, {kHostile}, kHostile}};
    topology.other_numa_nodes = {{7, 1, {}, kHostile}};
    topology.told_paths = {{kHostile, kHostile, PathClass::nvlink, 1}};
    topology.identity = {{"sys_vendor", kHostile}};
    topology.notes = {"GPU " + printable(kHostile) + " is odd\nforged line"};
    topology.allowed_cpus = {0};
    topology.cores = {{{0}, 0, 0, 0}};
    make_printable(topology);
    check_harmless(topology.identity.at("sys_vendor"));
    check_harmless(topology.hcas[0].ports[0].gids[0].netdev);
    check_all_views(topology);
    CHECK(printable(std::string(100'000, 'x')).size() < 1000);
    CHECK(printable("mlx5_0") == "mlx5_0");
}

TEST_CASE("hostile words in each value of each own capture: refused, or shown harmless") {
    FakeSystem folder;
    const std::string word = "&#10;forged line&#13;";
    int shown = 0;
    for (const char* name : {"nccl.xml", "rccl.xml", "hwloc2.xml"}) {
        const std::string xml = own_capture(name);
        for (const auto& [begin, end] : values_in(xml)) {
            std::string changed = xml;
            changed.insert(end, word);
            folder.file("machine", changed);
            try {
                check_all_views(read_capture(folder.root() / "machine"));
                ++shown;
            } catch (const Error& refused) {
                check_harmless(refused.what());
            }
        }
    }
    CHECK(shown > 50);
}

TEST_CASE("hostile words in a table of nvidia-smi") {
    FakeSystem folder;
    folder.file("machine",
                "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPHB\tPIX\t0-3\t0\n"
                "GPU1\tPHB\t X \tPHB\t0-3\t0\nNIC Legend:\n  NIC0: mlx5\x1b[2J\x07_0\n");
    check_all_views(read_capture(folder.root() / "machine"));
}

TEST_CASE("numbers that would take all memory are refused, with the line") {
    FakeSystem folder;
    const auto said = [&](const std::string& from, const std::string& to) {
        std::string xml = own_capture("hwloc2.xml");
        const std::size_t at = xml.find(from);
        REQUIRE(at != xml.npos);
        folder.file("machine", xml.replace(at, from.size(), to));
        return refusal_of(folder.root() / "machine");
    };
    CHECK(said("type=\"PU\" os_index=\"3\"", "type=\"PU\" os_index=\"4000000000\"")
              .find("os_index is '4000000000', expected a number up to 16383") !=
          std::string::npos);
    CHECK(said("type=\"NUMANode\" os_index=\"0\"", "type=\"NUMANode\" os_index=\"99999999\"")
              .find("expected a number up to 65535") != std::string::npos);
    CHECK(said("cpuset=\"0x00000008\"", "cpuset=\"0x1" + std::string(60'000, ',') + "\"")
              .find("cpuset has more than") != std::string::npos);
    CHECK(said("value=\"madeup\"", "value=\"" + std::string(70'000, 'x') + "\"")
              .find("an attribute is longer than 64 KiB") != std::string::npos);
    CHECK(said("pci_busid=\"0000:13:00.0\"", "pci_busid=\"zz\"")
              .find("pci_busid 'zz' is no PCI address") != std::string::npos);
    CHECK(said("<topology version=\"2.0\">", "<topology version=\"9.0\">")
              .find("it is of hwloc 9.0, and versions up to") != std::string::npos);
    std::string gpus;
    for (int i = 0; i < 600; ++i)
        gpus += fmt::format(
            "<object type=\"PCIDev\" gp_index=\"{}\" pci_busid=\"0001:{:02x}:00.{}\" "
            "pci_type=\"0302 [10de:2330] [0000:0000] a1\" pci_link_speed=\"31.5\"/>",
            1000 + i, i / 8, i % 8);
    CHECK(said("<info name=\"HostName\" value=\"madeup\"/>", gpus)
              .find("it has more than 512 GPUs") != std::string::npos);
}

TEST_CASE("links in circles have words of ours") {
    FakeSystem folder;
    folder.file("here", "");
    fs::create_symlink("circle", folder.root() / "circle");
    CHECK(refusal_of(folder.root() / "circle").find("links lead in a circle") != std::string::npos);
    folder.file("machine/sys/devices/system/cpu/online", "0-1");
    fs::create_symlink("again", folder.root() / "machine/sys/again");
    CHECK(read_capture(folder.root() / "machine").allowed_cpus.size() == 2);
}

TEST_CASE("hwloc and libxml say nothing on our stderr") {
    FakeSystem folder;
    std::string xml = own_capture("hwloc2.xml");
    xml.replace(xml.find("gp_index=\"4\""), 12, "gp_index=\"zz\" odd=\"1\"");
    folder.file("machine", xml);
    const int kept = ::dup(STDERR_FILENO);
    const fs::path said = folder.root() / "stderr";
    std::FILE* file = std::fopen(said.c_str(), "w");
    REQUIRE(file != nullptr);
    ::setenv("HWLOC_XML_VERBOSE", "1", 1);
    ::dup2(::fileno(file), STDERR_FILENO);
    refusal_of(folder.root() / "machine");
    ::dup2(kept, STDERR_FILENO);
    ::unsetenv("HWLOC_XML_VERBOSE");
    ::close(kept);
    std::fclose(file);
    CHECK(read_file(said).empty());
}

TEST_CASE("as many links as fit in a file: each pair is looked up, not searched for") {
    constexpr int kGpus = 96;
    std::string xml = "<system><cpu numaid='0' affinity='ffff' arch='x86_64'>";
    for (int i = 0; i < kGpus; ++i) {
        xml += fmt::format("<pci busid='0000:{:02x}:00.0' class='0x030200'><gpu dev='{}'>", i, i);
        for (int j = 0; j < kGpus; ++j)
            xml +=
                fmt::format("<nvlink target='0000:{:02x}:00.0' count='2' tclass='0x030200'/>", j);
        xml += "</gpu></pci>";
    }
    FakeSystem folder;
    folder.file("machine", xml + "</cpu></system>");
    const NodeTopology topology = read_capture(folder.root() / "machine");
    CHECK(topology.told_paths.size() == kGpus * (kGpus - 1) / 2);
    const Paths paths(topology);
    CHECK(paths.between(topology.gpus[3], topology.gpus[90]) == PathClass::nvlink);
    CHECK(paths.links(topology.gpus[90], topology.gpus[3]) == 2);
}

}  // namespace hostile_capture_test
