#pragma once
// A machine made of files, for the readers of sysfs and procfs.

#include "base/hash.hpp"
#include "topology/read_topology.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace autolaunch::launcher::testing {

/// A folder with sys/, proc/ and dev/, removed at the end.
class FakeSystem {
public:
    FakeSystem()
        : root_(std::filesystem::temp_directory_path() / ("autolaunch-topology-" + random_hex(8))) {
    }
    ~FakeSystem() {
        std::error_code ignored;
        std::filesystem::remove_all(root_, ignored);
    }
    FakeSystem(const FakeSystem&) = delete;
    FakeSystem& operator=(const FakeSystem&) = delete;

    void file(const std::string& path, const std::string& content) {
        std::filesystem::create_directories((root_ / path).parent_path());
        std::ofstream(root_ / path) << content << '\n';
    }

    void cpu(int cpu, const std::string& siblings, const std::string& l3,
             const std::string& package) {
        const std::string folder = fmt::format("sys/devices/system/cpu/cpu{}/", cpu);
        file(folder + "topology/core_cpus_list", siblings);
        file(folder + "topology/core_siblings_list", package);
        file(folder + "cache/index0/level", "1");
        file(folder + "cache/index0/shared_cpu_list", siblings);
        if (l3.empty())
            return;
        file(folder + "cache/index1/level", "3");
        file(folder + "cache/index1/shared_cpu_list", l3);
    }

    void node(int index, const std::string& cpus, long long memory_kib,
              const std::string& distance) {
        const std::string folder = fmt::format("sys/devices/system/node/node{}/", index);
        file(folder + "cpulist", cpus);
        file(folder + "meminfo", fmt::format("Node {} MemTotal:       {} kB\nNode {} MemFree: 1 kB",
                                             index, memory_kib, index));
        file(folder + "distance", distance);
    }

    /// A device under a chain of bridges, as sysfs links it.
    void pci(const std::string& path, const std::string& vendor, const std::string& pci_class,
             int numa_node, const std::string& driver, const std::string& local_cpulist = "0-7") {
        const std::string bdf = std::filesystem::path(path).filename();
        const std::string folder = "sys/devices/" + path + "/";
        file(folder + "vendor", vendor);
        file(folder + "class", pci_class);
        file(folder + "numa_node", std::to_string(numa_node));
        file(folder + "local_cpulist", local_cpulist);
        link("sys/bus/pci/devices/" + bdf, "sys/devices/" + path);
        if (!driver.empty())
            link("sys/bus/pci/drivers/" + driver + "/" + bdf, "sys/devices/" + path);
    }

    void link(const std::string& path, const std::string& target) {
        std::filesystem::create_directories((root_ / path).parent_path());
        std::filesystem::create_directory_symlink(root_ / target, root_ / path);
    }

    void nvidia(const std::string& bdf, int minor) {
        file("proc/driver/nvidia/gpus/" + bdf + "/information",
             fmt::format("Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 0\nGPU UUID: \t GPU-{}\n"
                         "Bus Location: \t {}\nDevice Minor: \t {}",
                         minor, bdf, minor));
        file(fmt::format("dev/nvidia{}", minor), "");
    }

    void remove(const std::string& path) { std::filesystem::remove_all(root_ / path); }

    TopologyOptions options(const std::vector<int>& allowed) const {
        TopologyOptions options;
        options.sysfs_root = root_ / "sys";
        options.proc_root = root_ / "proc";
        options.dev_root = root_ / "dev";
        options.allowed_cpus = allowed;
        return options;
    }

    const std::filesystem::path& root() const { return root_; }

private:
    std::filesystem::path root_;
};

// Two sockets of two cores with two threads each, siblings four apart.
inline void two_sockets(FakeSystem& system) {
    system.file("sys/devices/system/node/online", "0-1");
    system.node(0, "0-1,4-5", 1000, "10 21");
    system.node(1, "2-3,6-7", 2000, "21 10");
    for (int cpu = 0; cpu < 8; ++cpu) {
        const std::string siblings = fmt::format("{},{}", cpu % 4, cpu % 4 + 4);
        const std::string socket = cpu % 4 < 2 ? "0-1,4-5" : "2-3,6-7";
        system.cpu(cpu, siblings, socket, socket);
    }
}

}  // namespace autolaunch::launcher::testing
