// What a saved machine's file does not tell, or tells in a way of its own: nothing is set from a
// guess, and each gap is said.

#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "plan/launch_plan.hpp"
#include "topology/capture.hpp"
#include "topology/path_class.hpp"
#include "topology_view/topology_text.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace capture_gaps_test {

namespace fs = std::filesystem;
using namespace autolaunch;
using namespace autolaunch::launcher;

namespace {

class Folder {
public:
    Folder() : path_(fs::temp_directory_path() / ("autolaunch-gaps-" + random_hex(8))) {
        fs::create_directories(path_);
    }
    ~Folder() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    fs::path write(const std::string& name, const std::string& text) const {
        fs::create_directories((path_ / name).parent_path());
        std::ofstream(path_ / name) << text;
        return path_ / name;
    }
    const fs::path& path() const { return path_; }

private:
    fs::path path_;
};

NodeTopology read(const std::string& text) {
    const Folder folder;
    return read_capture(folder.write("machine", text));
}

std::string refusal_of(const fs::path& path) {
    try {
        read_capture(path);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

LaunchPlan plan_of(const NodeTopology& topology, int ranks, const std::string& mode = "node") {
    JobSpec spec;
    spec.trainer.command = {"train"};
    spec.resources.ranks_per_node = ranks;
    spec.resources.binding = mode;
    return plan_saved_machine(spec, topology, "machine", {}, "/");
}

std::string value_of(const RankPlan& rank, std::string_view name) {
    for (const VariableChoice& variable : rank.environment)
        if (variable.name == name)
            return variable.value;
    return "(unset)";
}

bool says(const std::vector<std::string>& lines, std::string_view text) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const auto& line) { return line.find(text) != line.npos; });
}

std::string system_of(const std::string& inside, const std::string& cpu = "numaid='0'") {
    return "<system><cpu " + cpu + " affinity='ffff' arch='x86_64'>" + inside + "</cpu></system>";
}

std::string gpu(int bus, int number, const std::string& device_class = "0x030200") {
    return fmt::format("<pci busid='0000:{:02x}:00.0' class='{}'><gpu dev='{}'/></pci>", bus,
                       device_class, number);
}

std::string nic(int bus, const std::string& name) {
    return fmt::format(
        "<pci busid='0000:{:02x}:00.0' class='0x020700'><nic><net name='{}' port='1' "
        "speed='200000'/></nic></pci>",
        bus, name);
}

// Two GPUs, each with a NIC on its switch, and a third NIC on the root.
std::string table(const std::string& legend) {
    return "\tGPU0\tGPU1\tNIC0\tNIC1\tNIC2\tCPU Affinity\tNUMA Affinity\n"
           "GPU0\t X \tSYS\tPIX\tSYS\tSYS\t0-3\t0\n"
           "GPU1\tSYS\t X \tSYS\tPIX\tSYS\t4-7\t1\n" +
           legend;
}

}  // namespace

TEST_CASE("AMD: ranks take GPUs by the runtime's numbers, not by PCI order") {
    const NodeTopology topology = read(
        system_of(gpu(0x11, 2, "0x038000") + gpu(0x22, 0, "0x038000") + gpu(0x33, 1, "0x038000")));
    const LaunchPlan plan = plan_of(topology, 3);
    CHECK(plan.ranks[0].gpu->bdf == "0000:22:00.0");
    CHECK(plan.ranks[1].gpu->bdf == "0000:33:00.0");
    CHECK(plan.ranks[2].gpu->bdf == "0000:11:00.0");
    CHECK(value_of(plan.ranks[0], "CUDA_DEVICE_ORDER") == "(unset)");
    CHECK(topology_text(topology).find("ROCm's 2") != std::string::npos);
    CHECK_FALSE(says(topology.notes, "ROCm's numbers"));
}

TEST_CASE("AMD: numbers that are not told are a note") {
    const std::string unnumbered =
        "<pci busid='0000:11:00.0' class='0x038000'><gpu/></pci>"
        "<pci busid='0000:22:00.0' class='0x038000'><gpu/></pci>";
    CHECK(says(read(system_of(unnumbered)).notes, "ROCm's numbers of AMD GPUs are not told"));
    for (const bool by_address : {true, false}) {
        std::string text =
            "<?xml version='1.0'?><topology version='2.0'><object type='Machine' os_index='0' "
            "cpuset='0x3' complete_cpuset='0x3' allowed_cpuset='0x3' nodeset='0x1' "
            "complete_nodeset='0x1' allowed_nodeset='0x1' gp_index='1'><object type='NUMANode' "
            "os_index='0' cpuset='0x3' complete_cpuset='0x3' nodeset='0x1' complete_nodeset='0x1' "
            "gp_index='2' local_memory='4096'/><object type='PU' os_index='0' cpuset='0x1' "
            "complete_cpuset='0x1' nodeset='0x1' complete_nodeset='0x1' gp_index='3'/><object "
            "type='PU' os_index='1' cpuset='0x2' complete_cpuset='0x2' nodeset='0x1' "
            "complete_nodeset='0x1' gp_index='4'/><object type='Bridge' gp_index='5' "
            "bridge_type='0-1' depth='0' bridge_pci='0000:[00-ff]'>";
        for (int i = 0; i < 2; ++i)
            text += fmt::format(
                "<object type='PCIDev' gp_index='{}' pci_busid='0000:{}1:00.0' "
                "pci_type='0380 [1002:7408] [0000:0000] 00' pci_link_speed='0'><object "
                "type='OSDev' gp_index='{}' name='rsmi{}' subtype='RSMI' osdev_type='5'/></object>",
                10 + i, i + 1, 20 + i, by_address ? i : 1 - i);
        const NodeTopology topology = read(text + "</object></object></topology>");
        REQUIRE(topology.gpus.size() == 2);
        CHECK(says(topology.notes, "rocm-smi's numbers") == by_address);
        CHECK(topology.gpus[0].runtime_index == (by_address ? 0 : 1));
    }
}

TEST_CASE("NVIDIA: PCI order, whatever the file numbers") {
    const LaunchPlan plan = plan_of(read(system_of(gpu(0x11, 1) + gpu(0x22, 0))), 2);
    CHECK(plan.ranks[0].gpu->bdf == "0000:11:00.0");
    CHECK(value_of(plan.ranks[0], "CUDA_DEVICE_ORDER") == "PCI_BUS_ID");
    CHECK(plan.notes.end() == std::find_if(plan.notes.begin(), plan.notes.end(), [](auto& note) {
              return note.find("AMD") != note.npos;
          }));
}

TEST_CASE("GPUs of two vendors: which are dropped, and why") {
    const LaunchPlan plan = plan_of(read(system_of(gpu(0x11, 0) + gpu(0x22, 0, "0x038000"))), 1);
    CHECK(plan.gpu_count == 1);
    CHECK(says(plan.notes, "1 GPU from AMD is left out"));
}

TEST_CASE("cores that are not told: none of its own, and no count of threads") {
    const NodeTopology topology = read(table(""));
    CHECK_FALSE(topology.cores_are_told);
    const LaunchPlan plan = plan_of(topology, 2, "exclusive");
    CHECK(value_of(plan.ranks[0], "OMP_NUM_THREADS") == "(unset)");
    CHECK(plan.ranks[0].binding.reason.find("shared: which CPUs are one core is not told") !=
          std::string::npos);
    CHECK(says(plan.warnings, "binding exclusive needs cores and caches"));
    const std::string text = topology_text(topology);
    CHECK(text.find("8 CPUs") != std::string::npos);
    CHECK(text.find("8 cores") == std::string::npos);
}

TEST_CASE("NUMA nodes that are not told are none, and a rank is not bound") {
    for (const std::string& text :
         {system_of(gpu(0x11, 0), "numaid='-1'"),
          std::string("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t\nGPU1\tPHB\t X \t\n")}) {
        const NodeTopology topology = read(text);
        CHECK(topology.numa_nodes.empty());
        CHECK(says(topology.notes, "NUMA nodes are not told"));
        CHECK(plan_of(topology, 1).ranks[0].binding.cpus.empty());
        CHECK(topology_text(topology).find("NUMA node 0") == std::string::npos);
    }
}

TEST_CASE("NICs without names: no filter that would leave out all of them") {
    const LaunchPlan nameless = plan_of(read(table("")), 2);
    CHECK(value_of(nameless.ranks[0], "NCCL_IB_HCA") == "(unset)");
    CHECK(says(nameless.nccl.warnings, "NCCL_IB_HCA is not set"));
    const LaunchPlan named =
        plan_of(read(table("NIC Legend:\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n  NIC2: mlx5_2\n")), 2);
    CHECK(value_of(named.ranks[0], "NCCL_IB_HCA") == "=mlx5_0,mlx5_1");

    const std::string other = "<pci busid='0000:90:00.0' class='0x020700'/>";
    const std::string below = "<pci busid='0000:10:00.0' class='0x060400'>" + gpu(0x11, 0) +
                              "<pci busid='0000:12:00.0' class='0x020700'/></pci>";
    const LaunchPlan by_address = plan_of(read(system_of(below + other)), 1);
    CHECK(value_of(by_address.ranks[0], "NCCL_IB_HCA") == "(unset)");
    CHECK(says(by_address.nccl.warnings, "0000:12:00.0 is not told by what name"));
}

TEST_CASE("several switches with one address stay several") {
    const auto below = [](const std::string& inside) {
        return "<pci busid='ffff:ff:01.0' class='0x060400'>" + inside + "</pci>";
    };
    const NodeTopology topology = read(system_of(below(gpu(0x11, 0) + nic(0x12, "mlx5_0")) +
                                                 below(gpu(0x21, 1) + nic(0x22, "mlx5_1"))));
    REQUIRE(topology.gpus.size() == 2);
    for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t j = 0; j < 2; ++j)
            CHECK(path_between(topology, topology.gpus[i], topology.hcas[j]) ==
                  (i == j ? PathClass::pix : PathClass::phb));
}

TEST_CASE("Slingshot's NICs have paths and ranks, and are none of NCCL's own") {
    const NodeTopology topology = read(system_of(
        "<pci busid='0000:01:00.0' class='0x020000'><nic><net name='cxi0' speed='200000'/></nic>"
        "</pci>" +
        gpu(0x02, 0)));
    REQUIRE(topology.hcas.size() == 1);
    CHECK(topology.hcas[0].name == "cxi0");
    CHECK(topology.hcas[0].ports[0].link_layer == kSlingshot);
    CHECK(topology.hcas[0].ports[0].rate_gbps == 200);
    const LaunchPlan plan = plan_of(topology, 1);
    REQUIRE(plan.ranks[0].hca);
    CHECK(plan.ranks[0].hca->name == "cxi0");
    CHECK(value_of(plan.ranks[0], "NCCL_IB_HCA") == "(unset)");
}

TEST_CASE("an odd speed is unknown, and said once") {
    const NodeTopology topology =
        read(system_of("<nic><net name='a' port='1' speed='fast'/><net name='b' port='1' "
                       "speed='-7'/></nic>" +
                       gpu(0x02, 0)));
    REQUIRE(topology.hcas.size() == 2);
    CHECK(topology.hcas[0].ports[0].rate_gbps == 0);
    CHECK(std::count_if(topology.notes.begin(), topology.notes.end(), [](const auto& note) {
              return note.find("counts as unknown") != note.npos;
          }) == 1);
}

TEST_CASE("what a file lists twice is said") {
    CHECK(says(read(system_of(gpu(0x11, 0) + gpu(0x11, 1))).notes,
               "the file lists GPU 0000:11:00.0 2 times"));
    CHECK(
        says(read("<system><cpu numaid='3' affinity='f'/><cpu numaid='3' affinity='f0'/></system>")
                 .notes,
             "the file lists NUMA node 3 2 times"));
}

TEST_CASE("what is not told is a note below, not a warning above real ones") {
    const std::string text = plan_table(plan_of(read(table("")), 2));
    const std::size_t warnings = text.find("\nwarnings\n"), notes = text.find("\nnotes\n");
    REQUIRE(warnings != text.npos);
    REQUIRE(notes != text.npos);
    CHECK(warnings < notes);
    CHECK(text.find("are not told", warnings) > notes);
}

TEST_CASE("a folder with what makes one wait, or with links out of it") {
    const Folder folder;
    folder.write("sys/devices/system/cpu/online", "0-3\n");
    fs::create_symlink("cpu/online", folder.path() / "sys/devices/system/inside");
    CHECK(refusal_of(folder.path()).empty());

    fs::create_symlink("/proc/self/status", folder.path() / "sys/devices/out");
    CHECK(refusal_of(folder.path()).find("sys/devices/out: it links out of the folder") !=
          std::string::npos);
    fs::remove(folder.path() / "sys/devices/out");
    REQUIRE(::mkfifo((folder.path() / "sys/devices/system/cpu/possible").c_str(), 0600) == 0);
    CHECK(refusal_of(folder.path()).find("cpu/possible: it is no file, folder or link") !=
          std::string::npos);
}

}  // namespace capture_gaps_test
