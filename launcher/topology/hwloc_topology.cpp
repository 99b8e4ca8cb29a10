#include "topology/hwloc_topology.hpp"

#include "base/unique_fd.hpp"
#include "topology/capture_parts.hpp"
#include "topology/cpu_sets.hpp"
#include "topology/hwloc_parts.hpp"
#include "topology/odd_places.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <hwloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string_view>

namespace autolaunch::launcher {

namespace from_hwloc {

std::vector<int> numbers(hwloc_const_bitmap_t bitmap) {
    std::vector<int> list;
    if (!bitmap || hwloc_bitmap_weight(bitmap) < 0)
        return list;  // infinite: not said
    for (int i = hwloc_bitmap_first(bitmap); i >= 0; i = hwloc_bitmap_next(bitmap, i))
        list.push_back(i);
    return list;
}

std::string info(hwloc_obj_t object, const char* name) {
    const char* value = object ? hwloc_obj_get_info_by_name(object, name) : nullptr;
    return value ? value : "";
}

std::vector<int> node_distances(hwloc_topology_t topology, int from,
                                const std::vector<NumaNode>& to) {
    unsigned count = 1;
    hwloc_distances_s* raw = nullptr;
    constexpr unsigned long kKind =
        HWLOC_DISTANCES_KIND_FROM_OS | HWLOC_DISTANCES_KIND_MEANS_LATENCY;
    if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, &raw, kKind, 0) != 0 ||
        count == 0)
        return {};
    const auto release = [topology](hwloc_distances_s* matrix) {
        hwloc_distances_release(topology, matrix);
    };
    const std::unique_ptr<hwloc_distances_s, decltype(release)> matrix(raw, release);
    const auto column_of = [&](int node) -> int {
        for (unsigned i = 0; i < matrix->nbobjs; ++i)
            if (static_cast<int>(matrix->objs[i]->os_index) == node)
                return static_cast<int>(i);
        return -1;
    };
    const int row = column_of(from);
    std::vector<int> distances;
    for (const NumaNode& node : to) {
        const int column = column_of(node.index);
        if (row < 0 || column < 0)
            return {};
        const std::size_t cell =
            static_cast<std::size_t>(row) * matrix->nbobjs + static_cast<std::size_t>(column);
        distances.push_back(static_cast<int>(matrix->values[cell]));
    }
    return distances;
}

}  // namespace from_hwloc

namespace {

using namespace from_hwloc;

constexpr unsigned kMostSeconds = 10;
constexpr int kRefused = 3;

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

Topology load(const std::string& xml_path) {
    hwloc_topology_t raw = nullptr;
    if (hwloc_topology_init(&raw) != 0)
        throw Error(ErrorCode::system, "cannot initialise hwloc");
    Topology topology(raw, &hwloc_topology_destroy);
    hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_set_xml(raw, xml_path.c_str()) != 0 || hwloc_topology_load(raw) != 0) {
        refuse_capture(xml_path, 0, "hwloc cannot read its topology",
                       "save one with: lstopo --whole-system file.xml");
    }
    return topology;
}

// Memory of GPUs, CXL and MCDRAM also shows as NUMA nodes, with the CPUs of the node beside it: of
// nodes with the same CPUs the one with the lowest number is the ordinary memory. What is none goes
// to `others`. A node without memory is a place nevertheless: CPUs and devices are there.
std::vector<NumaNode> all_numa_nodes(hwloc_topology_t topology,
                                     std::vector<OtherNumaNode>& others) {
    std::vector<NumaNode> nodes, ordinary;
    std::map<std::vector<int>, int> seen;
    for (hwloc_obj_t object = nullptr;
         (object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object));) {
        NumaNode node;
        node.index = static_cast<int>(object->os_index);
        node.memory_bytes = object->attr->numanode.local_memory;
        node.cpus = numbers(object->cpuset);
        const bool gpu_memory = object->subtype && std::string_view(object->subtype) == "GPUMemory";
        if (gpu_memory)
            others.push_back({node.index, node.memory_bytes, {}, "memory of a GPU"});
        else if (node.cpus.empty())
            others.push_back({node.index, node.memory_bytes, {}, kMemoryAlone});
        else
            nodes.push_back(std::move(node));
    }
    std::stable_sort(nodes.begin(), nodes.end(), [](const NumaNode& a, const NumaNode& b) {
        return std::pair(a.memory_bytes == 0, a.index) < std::pair(b.memory_bytes == 0, b.index);
    });
    for (NumaNode& node : nodes) {
        const auto [first, is_new] = seen.emplace(node.cpus, node.index);
        if (is_new)
            ordinary.push_back(std::move(node));
        else
            others.push_back({node.index,
                              node.memory_bytes,
                              {},
                              fmt::format("further memory of the CPUs of node {}", first->second)});
    }
    std::sort(ordinary.begin(), ordinary.end(),
              [](const NumaNode& a, const NumaNode& b) { return a.index < b.index; });
    return ordinary;
}

std::vector<NumaNode> usable_nodes(hwloc_topology_t topology, const std::vector<NumaNode>& all,
                                   NodeTopology& result) {
    std::vector<NumaNode> usable;
    const auto allowed_nodes = hwloc_topology_get_allowed_nodeset(topology);
    for (NumaNode node : all) {
        const std::size_t cpu_count = node.cpus.size();
        node.cpus = intersect(node.cpus, result.allowed_cpus);
        const bool may_have_memory =
            hwloc_bitmap_isset(allowed_nodes, static_cast<unsigned>(node.index)) != 0;
        const std::string why = why_no_rank_is_on(node, cpu_count, may_have_memory);
        if (why.empty())
            usable.push_back(std::move(node));
        else
            result.other_numa_nodes.push_back({node.index, node.memory_bytes, node.cpus, why});
    }
    std::sort(result.other_numa_nodes.begin(), result.other_numa_nodes.end(),
              [](const auto& a, const auto& b) { return a.index < b.index; });
    return usable;
}

// CPUs of a package, of those that `whole` says it has, that have no object are offline; those
// that have one and are not allowed are closed to us.
void read_unusable(hwloc_topology_t topology, NodeTopology& result) {
    std::vector<int> told;
    const auto add = [&](UnusableCpus::Why why, std::vector<int> cpus, std::optional<int> package,
                         int cores) {
        if (!cpus.empty())
            result.unusable_cpus.push_back({why, std::move(cpus), package, {}, cores});
    };
    const auto look_at = [&](hwloc_obj_t object, std::optional<int> package) {
        const std::vector<int> online = numbers(object->cpuset);
        const std::vector<int> closed = without(without(online, result.allowed_cpus), told);
        const std::vector<int> offline =
            without(without(numbers(object->complete_cpuset), online), told);
        int cores = 0;
        for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_inside_cpuset_by_type(
                                              topology, object->cpuset, HWLOC_OBJ_CORE, core));)
            cores += is_subset(numbers(core->cpuset), closed) ? 1 : 0;
        add(UnusableCpus::Why::not_allowed, closed, package, cores);
        add(UnusableCpus::Why::offline, offline, package, 0);
        told = unite(told, unite(closed, offline));
    };
    for (hwloc_obj_t object = nullptr;
         (object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object));)
        look_at(object, static_cast<int>(object->logical_index));
    look_at(hwloc_get_root_obj(topology), std::nullopt);
}

/// Which usable NUMA node a core goes to. One beside no memory of ours goes to the nearest, as on a
/// live machine.
class NodeFinder {
public:
    NodeFinder(hwloc_topology_t topology, const std::vector<NumaNode>& all,
               const std::vector<NumaNode>& usable)
        : topology_(topology), all_(all), usable_(usable) {}

    int find(const std::vector<int>& cpus) const {
        for (const NumaNode& node : usable_)
            if (is_subset(cpus, node.cpus))
                return node.index;
        if (usable_.empty())
            return 0;
        for (const NumaNode& node : all_) {
            if (!is_subset(cpus, node.cpus))
                continue;
            const auto distances = node_distances(topology_, node.index, usable_);
            if (distances.empty())
                break;
            const auto nearest = std::min_element(distances.begin(), distances.end());
            return usable_[static_cast<std::size_t>(nearest - distances.begin())].index;
        }
        return usable_.front().index;
    }

private:
    hwloc_topology_t topology_;
    const std::vector<NumaNode>&all_, &usable_;
};

void read_cores(hwloc_topology_t topology, const NodeFinder& nodes, NodeTopology& result) {
    std::vector<Core>& cores = result.cores;
    std::map<const hwloc_obj*, int> l3_ordinals;
    for (hwloc_obj_t object = nullptr;
         (object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, object));) {
        Core core;
        core.cpus = intersect(numbers(object->cpuset), result.allowed_cpus);
        if (core.cpus.empty())
            continue;
        core.numa_node = nodes.find(core.cpus);
        const hwloc_obj_t package =
            hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object);
        core.package = package ? static_cast<int>(package->logical_index) : 0;
        const hwloc_obj* cache =
            hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_L3CACHE, object);
        const std::uint64_t bytes = cache ? cache->attr->cache.size : 0;
        if (!cache)
            cache = object->parent;  // without an L3, what the cores hang from
        const auto [known, is_new] =
            l3_ordinals.emplace(cache, static_cast<int>(l3_ordinals.size()));
        if (is_new)
            result.l3_bytes.push_back(bytes);
        core.l3 = known->second;
        cores.push_back(std::move(core));
    }
    if (std::all_of(result.l3_bytes.begin(), result.l3_bytes.end(),
                    [](auto bytes) { return bytes == 0; }))
        result.l3_bytes.clear();
    std::sort(cores.begin(), cores.end(),
              [](const Core& a, const Core& b) { return a.cpus.front() < b.cpus.front(); });
}

NodeTopology convert(const std::string& xml_path) {
    const Topology owner = load(xml_path);
    hwloc_topology_t topology = owner.get();
    NodeTopology result;
    result.source = std::filesystem::path(xml_path).filename();
    const hwloc_obj_t machine = hwloc_get_root_obj(topology);
    result.hostname = info(machine, "HostName");
    for (const auto& [key, name] : {std::pair{"sys_vendor", "DMISysVendor"},
                                    {"product_name", "DMIProductName"},
                                    {"chassis_asset_tag", "DMIChassisAssetTag"}})
        if (std::string text = info(machine, name); !text.empty())
            result.identity.emplace(key, std::move(text));
    result.cpu_model = info(hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0), "CPUModel");
    result.allowed_cpus = numbers(hwloc_topology_get_allowed_cpuset(topology));

    const std::vector<NumaNode> all = all_numa_nodes(topology, result.other_numa_nodes);
    result.numa_nodes = usable_nodes(topology, all, result);
    for (NumaNode& node : result.numa_nodes)
        node.distances = node_distances(topology, node.index, result.numa_nodes);

    read_cores(topology, NodeFinder(topology, all, result.numa_nodes), result);
    if (result.cores.empty() && !result.allowed_cpus.empty())
        count_cpus_as_cores(result);
    std::set<int> packages;
    for (const Core& core : result.cores)
        packages.insert(core.package);
    result.package_count = static_cast<int>(packages.size());
    read_unusable(topology, result);
    read_devices(topology, all, result);
    note_odd_places(result,
                    [&](int node) { return node_distances(topology, node, result.numa_nodes); });
    return result;
}

/// hwloc trusts its files: an attribute that is missing can make it read through a null pointer. A
/// child process reads the file first, and dies in our place; its alarm ends one that takes too
/// long.
void try_in_child(const std::string& xml_path) {
    const pid_t child = ::fork();
    if (child < 0)
        throw SystemError(errno, "start a process that tries " + xml_path);
    if (child == 0) {
        for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM})
            ::signal(signal, SIG_DFL);
        const rlimit no_core = {0, 0};
        ::setrlimit(RLIMIT_CORE, &no_core);
        const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
        if (nowhere >= 0) {
            ::dup2(nowhere, STDOUT_FILENO);
            ::dup2(nowhere, STDERR_FILENO);
        }
        ::alarm(kMostSeconds);
        try {
            convert(xml_path);
        } catch (...) {
            ::_exit(kRefused);  // the parent will find out why
        }
        ::_exit(0);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return;  // SIGCHLD is ignored: nothing is known
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kRefused))
        return;
    const bool too_long = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    refuse_capture(
        xml_path, 0,
        too_long ? "hwloc takes too long to read it" : "hwloc crashes on it: it was damaged",
        "save it again: lstopo --whole-system file.xml");
}

/// What hwloc and libxml print of a file is no sentence of ours. Nothing else writes meanwhile:
/// captures are read before threads are started.
class QuietStderr {
public:
    QuietStderr() : kept_(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) {
        const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
        if (kept_ && nowhere)
            ::dup2(nowhere.get(), STDERR_FILENO);
    }
    ~QuietStderr() {
        if (kept_)
            ::dup2(kept_.get(), STDERR_FILENO);
    }
    QuietStderr(const QuietStderr&) = delete;
    QuietStderr& operator=(const QuietStderr&) = delete;

private:
    UniqueFd kept_;
};

NodeTopology read_whole(const std::string& xml_path) {
    try_in_child(xml_path);
    const QuietStderr quiet;
    return convert(xml_path);
}

}  // namespace

// hwloc's plugins look at the machine it runs on, which nobody wants here, and take longer than all
// the rest. Its own XML parser reads what lstopo writes; libxml, which is a plugin, reads all of
// XML.
NodeTopology read_hwloc_topology(const std::string& xml_path) {
    constexpr const char* kPlugins = "HWLOC_PLUGINS_PATH";
    if (std::getenv(kPlugins) != nullptr)
        return read_whole(xml_path);
    ::setenv(kPlugins, "/nonexistent", 1);
    try {
        NodeTopology topology = read_whole(xml_path);
        ::unsetenv(kPlugins);
        return topology;
    } catch (const Error&) {
        ::unsetenv(kPlugins);
        return read_whole(xml_path);
    }
}

}  // namespace autolaunch::launcher
