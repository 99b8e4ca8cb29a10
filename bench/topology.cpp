// What knowing the machine costs a launch: the sysfs reader against hwloc as cheap as it can be
// configured, each in fresh processes, since a launch reads the machine once; then the reader on a
// large machine made of files in memory. Prints milliseconds. docs/adr/0003-topology-cost.md,
// docs/topology.md.

#include "topology/read_topology.hpp"

#include <fmt/format.h>
#include <hwloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

namespace {

constexpr int kSamples = 51;

void load_hwloc(bool only_what_we_need) {
    hwloc_topology_t topology = nullptr;
    hwloc_topology_init(&topology);
    for (const char* component : {"cuda", "nvml", "opencl", "gl", "levelzero", "rsmi", "x86"})
        if (only_what_we_need)
            hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                          component);
    if (only_what_we_need) {
        hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
        for (const hwloc_obj_type_t type : {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_CORE})
            hwloc_topology_set_type_filter(topology, type, HWLOC_TYPE_FILTER_KEEP_ALL);
    }
    hwloc_topology_load(topology);
    hwloc_topology_destroy(topology);
}

// One call in a child of its own, in milliseconds; negative if the child failed.
template <class Call>
double measure_in_child(Call call) {
    int ends[2];
    if (::pipe(ends) != 0)
        return -1;
    const pid_t child = ::fork();
    if (child == 0) {
        const auto begin = std::chrono::steady_clock::now();
        call();
        const double ms =
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
                .count();
        ::_exit(::write(ends[1], &ms, sizeof ms) == sizeof ms ? 0 : 1);
    }
    double ms = -1;
    ::close(ends[1]);
    if (::read(ends[0], &ms, sizeof ms) != sizeof ms)
        ms = -1;
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    return ms;
}

template <class Call>
void report(const char* name, Call call) {
    std::vector<double> samples;
    for (int i = 0; i < kSamples; ++i)
        samples.push_back(measure_in_child(call));
    std::sort(samples.begin(), samples.end());
    if (samples.front() < 0) {
        fmt::print(stderr, "{}: a child failed\n", name);
        std::exit(1);
    }
    fmt::print("{:<44} fastest {:.3f} ms, median {:.3f} ms, slowest of {} {:.3f} ms\n", name,
               samples.front(), samples[kSamples / 2], kSamples, samples.back());
}

namespace fs = std::filesystem;

/// Two sockets with 192 CPUs each, 8 GPUs and 8 RoCE ports of 256 GIDs, as files; removed at the
/// end.
class LargeMachine {
public:
    LargeMachine() : root_(fs::path("/dev/shm") / fmt::format("autolaunch-bench-{}", ::getpid())) {
        file("sys/devices/system/node/online", "0-1");
        for (int node = 0; node < 2; ++node)
            add_node(node);
        for (int device = 0; device < 8; ++device)
            add_gpu_and_hca(device);
        file("proc/self/status", "Mems_allowed_list:\t0-1");
    }
    ~LargeMachine() {
        std::error_code ignored;
        fs::remove_all(root_, ignored);
    }
    LargeMachine(const LargeMachine&) = delete;
    LargeMachine& operator=(const LargeMachine&) = delete;

    autolaunch::launcher::TopologyOptions options(bool details) const {
        autolaunch::launcher::TopologyOptions options;
        options.sysfs_root = root_ / "sys";
        options.proc_root = root_ / "proc";
        options.dev_root = root_ / "dev";
        options.allowed_cpus.emplace(384);
        std::iota(options.allowed_cpus->begin(), options.allowed_cpus->end(), 0);
        options.details = details;
        return options;
    }

private:
    void file(const std::string& path, const std::string& content) {
        fs::create_directories((root_ / path).parent_path());
        std::ofstream(root_ / path) << content << '\n';
    }
    void link(const std::string& path, const std::string& target) {
        fs::create_directories((root_ / path).parent_path());
        fs::create_directory_symlink(root_ / target, root_ / path);
    }

    void add_node(int node) {
        const std::string cpus =
            fmt::format("{}-{},{}-{}", node * 96, node * 96 + 95, 192 + node * 96, 287 + node * 96);
        const std::string folder = fmt::format("sys/devices/system/node/node{}/", node);
        file(folder + "cpulist", cpus);
        file(folder + "meminfo", fmt::format("Node {} MemTotal:       1056000000 kB", node));
        file(folder + "distance", node == 0 ? "10 21" : "21 10");
        for (int core = node * 96; core < node * 96 + 96; ++core)
            for (const int cpu : {core, core + 192}) {
                const std::string place = fmt::format("sys/devices/system/cpu/cpu{}/", cpu);
                const int l3 = core / 8 * 8;
                file(place + "topology/core_cpus_list", fmt::format("{},{}", core, core + 192));
                file(place + "topology/core_siblings_list", cpus);
                for (int index = 0; index < 4; ++index)
                    file(fmt::format("{}cache/index{}/level", place, index),
                         index == 3 ? "3" : "1");
                file(place + "cache/index3/shared_cpu_list",
                     fmt::format("{}-{},{}-{}", l3, l3 + 7, l3 + 192, l3 + 199));
                file(place + "cache/index3/size", "32768K");
            }
    }

    void add_gpu_and_hca(int device) {
        const std::string above =
            fmt::format("sys/devices/pci0000:{0:02x}/0000:{0:02x}:01.0/", 0x10 + device * 0x10);
        const std::string gpu = fmt::format("0000:{:02x}:00.0", 0x11 + device * 0x10);
        const std::string hca = fmt::format("0000:{:02x}:00.0", 0x12 + device * 0x10);
        for (const std::string& bdf : {gpu, hca}) {
            file(above + bdf + "/vendor", bdf == gpu ? "0x10de" : "0x15b3");
            file(above + bdf + "/device", "0x1021");
            file(above + bdf + "/class", "0x030200");
            file(above + bdf + "/numa_node", std::to_string(device / 4));
            link("sys/bus/pci/devices/" + bdf, above + bdf);
        }
        link("sys/bus/pci/drivers/nvidia/" + gpu, above + gpu);
        file("proc/driver/nvidia/gpus/" + gpu + "/information",
             fmt::format(
                 "Model: \t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-{0}\nDevice Minor: \t {0}",
                 device));
        file(fmt::format("dev/nvidia{}", device), "");
        const std::string place = fmt::format("sys/class/infiniband/mlx5_{}/", device);
        link(place + "device", above + hca);
        file(fmt::format("sys/class/infiniband_verbs/uverbs{}/ibdev", device),
             fmt::format("mlx5_{}", device));
        file(fmt::format("dev/infiniband/uverbs{}", device), "");
        const std::string port = place + "ports/1/", netdev = fmt::format("eth{}", device);
        file(port + "state", "4: ACTIVE");
        file(port + "rate", "400 Gb/sec (4X NDR)");
        file(port + "link_layer", "Ethernet");
        for (int gid = 0; gid < 256; ++gid) {
            file(fmt::format("{}gids/{}", port, gid),
                 gid < 4 ? "0000:0000:0000:0000:0000:ffff:0a00:0001"
                         : "0000:0000:0000:0000:0000:0000:0000:0000");
            if (gid >= 4)
                continue;
            file(fmt::format("{}gid_attrs/types/{}", port, gid), "RoCE v2");
            file(fmt::format("{}gid_attrs/ndevs/{}", port, gid), netdev);
        }
        const std::string net = above + hca + "/net/" + netdev;
        for (const auto& [name, value] : {std::pair{"mtu", "9000"},
                                          {"flags", "0x1003"},
                                          {"operstate", "up"},
                                          {"speed", "400000"}})
            file(net + "/" + name, value);
        link("sys/class/net/" + netdev, net);
    }

    fs::path root_;
};

}  // namespace

int main() {
    using autolaunch::launcher::read_local_topology;
    const auto topology = read_local_topology();
    fmt::print("{} CPUs, {} NUMA nodes, {} GPUs\n", topology.allowed_cpus.size(),
               topology.numa_nodes.size(), topology.gpus.size());
    report("sysfs reader", [] { read_local_topology(); });
    report("hwloc, components and types cut to the least", [] { load_hwloc(true); });
    report("hwloc, as it comes", [] { load_hwloc(false); });
    const LargeMachine large;
    report("384 CPUs, 8 GPUs, 8 RoCE ports as files",
           [&] { read_local_topology(large.options(false)); });
    report("  the same with details", [&] { read_local_topology(large.options(true)); });
}
