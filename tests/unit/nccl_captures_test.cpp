// Compute HCAs of saved machines.

#include "captures.hpp"
#include "nccl_env/compute_hcas.hpp"
#include "nccl_env/site.hpp"

#include "base/file_io.hpp"
#include "topology/capture.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace nccl_captures_test {

using namespace autolaunch::launcher;

namespace {

struct Machine {
    std::string file;
    std::size_t compute, excluded;
    std::string list;
};

// The list is NCCL_IB_HCA's; empty: NCCL takes the same by itself.
const std::vector<Machine> kMachines = {
    {"smi-topo/dgx-a100-nps4-12nic.txt", 8, 4,
     "=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_6,mlx5_7,mlx5_8,mlx5_9"},
    {"smi-topo/a100x8-10nic-litgpt.txt", 8, 2,
     "=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_8,mlx5_9"},
    {"smi-topo/power9-4v100-4mlx5.txt", 4, 0, ""},
    {"smi-topo/rtx4090x8-dualport-nic.txt", 2, 0, ""},
    {"smi-topo/v100x4-1mlx5-sys.txt", 1, 0, ""},
    {"nccl-xml/azure-ndv4-topo.xml", 8, 0, ""},
    {"nccl-xml/oci-hpc-H100-topology.xml", 16, 0, ""},
    {"nccl-xml/nccl-issue2397-2xa100-dualport-roce.xml", 2, 0, ""},
    {"nccl-xml/panlichen-8x3090-1ib.xml", 1, 0, ""},
};

}  // namespace

TEST_CASE("saved machines") {
    const auto folder = testing::captures_folder("compute HCAs of saved machines");
    if (!folder)
        return;
    for (const Machine& machine : kMachines) {
        const NodeTopology topology = read_capture(*folder / machine.file);
        const ComputeHcas chosen = choose_compute_hcas(topology);
        INFO(machine.file);
        CHECK(chosen.hcas.size() == machine.compute);
        CHECK(chosen.excluded.size() == machine.excluded);
        CHECK(chosen.nccl_list == machine.list);
    }
}

TEST_CASE("a topology file fits the machine that it is of, and no other") {
    const auto folder = testing::captures_folder("topology files of saved machines");
    if (!folder)
        return;
    const std::vector<std::string> files = {"nccl-xml/azure-ndv4-topo.xml",
                                            "nccl-xml/azure-ncv4-topo.xml",
                                            "nccl-xml/oci-hpc-H100-topology.xml"};
    for (const auto& of : files)
        for (const auto& file : files) {
            INFO(of, " and ", file);
            const NodeTopology topology = read_capture(*folder / of);
            CHECK(topology_file_fits(autolaunch::read_file(*folder / file), topology) ==
                  (of == file));
        }
}

}  // namespace nccl_captures_test
