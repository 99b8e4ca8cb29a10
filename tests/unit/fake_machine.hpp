#pragma once
// A machine on which every check is content, as files of a temporary folder, to be broken one thing
// at a time.
#include "doctor/check.hpp"
#include "doctor/examination.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace autolaunch::launcher::testing {

/// Two sockets with four cores each; two H100 and two ConnectX-7, one pair below one switch of each
/// socket.
class FakeMachine {
public:
    FakeMachine() {
        char pattern[] = "/tmp/autolaunch-doctor-XXXXXX";
        root = ::mkdtemp(pattern);
        for (int cpu = 0; cpu < 8; ++cpu)
            add_cpu(cpu);
        for (int node = 0; node < 2; ++node)
            add_numa_node(node);
        for (int i = 0; i < 2; ++i) {
            add_gpu(i);
            add_hca(i);
        }
        add_system();
        write("driver", kDriver);
        ::setenv("FAKE_NVML_MACHINE", (root / "driver").c_str(), 1);
        write("verbs", kVerbs);
        ::setenv("FAKE_VERBS_MACHINE", (root / "verbs").c_str(), 1);
        describe_sources();
    }
    FakeMachine(const FakeMachine&) = delete;
    FakeMachine& operator=(const FakeMachine&) = delete;
    ~FakeMachine() {
        std::error_code error;
        std::filesystem::remove_all(root, error);
    }

    /// Writes `text` to a file of the machine, whatever it had.
    void write(const std::string& path, const std::string& text) const {
        const auto whole = root / path;
        std::filesystem::create_directories(whole.parent_path());
        std::ofstream(whole, std::ios::trunc) << text;
    }
    void link(const std::string& path, const std::string& target) const {
        const auto whole = root / path;
        std::filesystem::create_directories(whole.parent_path());
        std::filesystem::remove(whole);
        std::filesystem::create_symlink(target, whole);
    }
    void remove(const std::string& path) const { std::filesystem::remove_all(root / path); }

    std::string gpu_bdf(int i) const { return i == 0 ? "0000:17:00.0" : "0000:97:00.0"; }
    std::string hca_bdf(int i) const { return i == 0 ? "0000:18:00.0" : "0000:98:00.0"; }
    std::string hca_device(int i) const {
        return "sys/devices/" +
               std::string(i == 0 ? "pci0000:16/0000:16:01.0/" : "pci0000:96/0000:96:01.0/") +
               hca_bdf(i);
    }
    std::string port(int i) const {
        return "sys/class/infiniband/mlx5_" + std::to_string(i) + "/ports/1";
    }

    /// All checks, one after the other in this process.
    NodeReport examine(const CheckChoice& choice = {}) const {
        ExaminedNode state(sources);
        NodeReport report;
        report.node = sources.hostname;
        for (const Check& check : checks())
            for (std::size_t part = 0;
                 check.look && choice.has(check.name) && part < parts_of(check, sources); ++part)
                report.merge(run_check(check, state, part));
        return report;
    }

    /// What the driver tells of the GPUs: tests/integration/fake_nvml.c has the form.
    static constexpr const char* kDriver =
        "driver 550.54.15\ncuda 12040\n"
        "gpu 0000:17:00.0 GPU-00000000 NVIDIA H100 80GB HBM3\nmemory 85520809984\nremap 0 0\necc "
        "0\nclocks 1\n"
        "pcie 16 16 5 5\ncompute_mode 0\nfabric 3 0 00112233445566778899aabbccddeeff 7 0\n"
        "link 0000:97:00.0 gpu 0\nlink 0000:97:00.0 gpu 0\n"
        "gpu 0000:97:00.0 GPU-00000001 NVIDIA H100 80GB HBM3\nmemory 85520809984\nremap 0 0\necc "
        "0\nclocks 1\n"
        "pcie 16 16 5 5\ncompute_mode 0\nfabric 3 0 00112233445566778899aabbccddeeff 7 0\n"
        "link 0000:17:00.0 gpu 0\nlink 0000:17:00.0 gpu 0\n";
    /// The driver says something else, where it said `was` first.
    void driver_says(const std::string& was, const std::string& now) const {
        std::string text = kDriver;
        text.replace(text.find(was), was.size(), now);
        write("driver", text);
    }

    /// What libibverbs tells of the HCAs, where this build asks it: tests/integration/fake_verbs.c
    /// has the form.
    static constexpr const char* kVerbs = "device mlx5_0\nport 5\ndevice mlx5_1\nport 5\n";
#ifdef FAKE_VERBS
    static constexpr bool kHasVerbs = true;
    static constexpr const char* kVerbsLibrary = FAKE_VERBS;
#else
    static constexpr bool kHasVerbs = false;
    static constexpr const char* kVerbsLibrary = "libibverbs-is-not-here.so";
#endif

    std::filesystem::path root;
    NodeSources sources;
    rlim_t memlock = RLIM_INFINITY, nofile = 1048576;

private:
    void add_cpu(int cpu) const {
        const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu);
        write(folder + "/topology/physical_package_id", std::to_string(cpu / 4));
        write(folder + "/topology/core_id", std::to_string(cpu % 4));
        write(folder + "/topology/thread_siblings_list", std::to_string(cpu));
        write(folder + "/topology/core_cpus_list", std::to_string(cpu));
        write(folder + "/topology/core_siblings_list", cpu < 4 ? "0-3" : "4-7");
        write(folder + "/cpufreq/scaling_governor", "performance\n");
    }
    void add_numa_node(int node) const {
        const std::string folder = "sys/devices/system/node/node" + std::to_string(node);
        write("sys/devices/system/node/online", "0-1\n");
        write(folder + "/cpulist", node == 0 ? "0-3\n" : "4-7\n");
        write(folder + "/meminfo",
              "Node " + std::to_string(node) + " MemTotal:       268435456 kB\n");
        write(folder + "/distance", node == 0 ? "10 21\n" : "21 10\n");
    }
    void add_pci(const std::string& device, const std::string& bdf, int node,
                 const std::string& kind) const {
        write(device + "/vendor", kind == "gpu" ? "0x10de\n" : "0x15b3\n");
        write(device + "/device", kind == "gpu" ? "0x2330\n" : "0x1021\n");
        write(device + "/class", kind == "gpu" ? "0x030200\n" : "0x020700\n");
        write(device + "/numa_node", std::to_string(node) + "\n");
        for (const char* which : {"current", "max"}) {
            write(device + "/" + which + "_link_width", "16\n");
            write(device + "/" + which + "_link_speed", "32.0 GT/s PCIe\n");
        }
        write("sys/kernel/iommu_groups/" + std::to_string(10 + node) + "/type", "identity\n");
        link(device + "/iommu_group",
             (root / "sys/kernel/iommu_groups" / std::to_string(10 + node)).string());
        link("sys/bus/pci/devices/" + bdf, (root / device).string());
    }
    void add_gpu(int i) const {
        const std::string bdf = gpu_bdf(i);
        const std::string device = hca_device(i).substr(0, hca_device(i).rfind('/') + 1) + bdf;
        add_pci(device, bdf, i, "gpu");
        link("sys/bus/pci/drivers/nvidia/" + bdf, (root / device).string());
        write("proc/driver/nvidia/gpus/" + bdf + "/information",
              "Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-0000000" + std::to_string(i) +
                  "\nDevice Minor: \t " + std::to_string(i) + "\n");
        write("dev/nvidia" + std::to_string(i), "");
    }
    void add_hca(int i) const {
        const std::string number = std::to_string(i), name = "mlx5_" + number;
        add_pci(hca_device(i), hca_bdf(i), i, "hca");
        write(port(i) + "/state", "4: ACTIVE\n");
        write(port(i) + "/phys_state", "5: LinkUp\n");
        write(port(i) + "/rate", "400 Gb/sec (4X NDR)\n");
        write(port(i) + "/link_layer", "InfiniBand\n");
        write(port(i) + "/lid", "0x" + number + "1\n");
        write(port(i) + "/counters/symbol_error", "7\n");
        write(port(i) + "/counters/link_downed", "0\n");
        link("sys/class/infiniband/" + name + "/device", (root / hca_device(i)).string());
        write("sys/class/infiniband_verbs/uverbs" + number + "/ibdev", name + "\n");
        write("dev/infiniband/uverbs" + number, "");
    }
    void add_system() const {
        write("sys/module/nvidia_peermem/version", "550.54.15\n");
        write("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
        write("proc/sys/kernel/numa_balancing", "0\n");
        write("proc/meminfo", "MemTotal:       528000000 kB\n");
        write("proc/driver/nvidia/version",
              "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15\n");
        write("dev/kmsg", "6,1,100,-;Linux version 6.1.0\n");
        write("dev/nvidia-caps-imex-channels/channel0", "");
        write("dev/shm/.keep", "");
        write("checkpoints/.keep", "");
    }
    void describe_sources() {
        sources.roots.sysfs_root = root / "sys";
        sources.roots.proc_root = root / "proc";
        sources.roots.dev_root = root / "dev";
        sources.roots.allowed_cpus = {{0, 1, 2, 3, 4, 5, 6, 7}};
        sources.etc_root = root / "etc";
        sources.hostname = "node1";
        sources.peers = {"node2", "node3"};
        sources.folders = {{root / "checkpoints", "checkpoints"}};
        sources.nvml_library = FAKE_NVML;
        sources.verbs_library = kVerbsLibrary;
        sources.nccl_library = "libnccl-is-not-here.so";
        sources.limit = [this](int resource) {
            const rlim_t value = resource == RLIMIT_MEMLOCK ? memlock : nofile;
            return std::optional(rlimit{value, value});
        };
        sources.resolve = [](const std::string&) {
            return ResolvedName{.ipv4 = true, .ipv6 = true};
        };
        sources.pause = [] {};
    }
};

}  // namespace autolaunch::launcher::testing
