#include "doctor/examination.hpp"
#include "doctor/looks.hpp"

#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "report/units.hpp"
#include "topology/system_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

namespace autolaunch::launcher {

namespace {

constexpr rlim_t kEnoughFiles = 16384;
constexpr std::uint64_t kEnoughSharedMemory = kGiB;
constexpr std::size_t kMostKernelLog = std::size_t{16} << 20;

bool has_accelerators(Examination& exam) {
    return !exam.topology().gpus.empty() || !exam.topology().hcas.empty();
}

std::string binary_size(std::uint64_t bytes) {
    if (bytes < 1024)
        return fmt::format("{} B", bytes);
    if (bytes < (std::uint64_t{1} << 20))
        return fmt::format("{} KiB", bytes >> 10);
    if (bytes < 10 * kGiB)
        return fmt::format("{} MiB", bytes >> 20);
    return fmt::format("{} GiB", bytes >> 30);
}

std::string limit_text(rlim_t limit, bool is_bytes) {
    if (limit == RLIM_INFINITY)
        return "unlimited";
    return is_bytes ? binary_size(limit) : std::to_string(limit);
}

std::optional<rlimit> limit_of(Examination& exam, int resource) {
    const auto limit = exam.sources().limit(resource);
    if (!limit)
        exam.cannot_look("getrlimit failed");
    return limit;
}

std::string hugepages(const std::string& sysfs) {
    std::vector<std::string> sizes;
    for (const std::string& name : list_directory(sysfs + "/kernel/mm/hugepages"))
        if (const auto count =
                read_number(sysfs + "/kernel/mm/hugepages/" + name + "/nr_hugepages");
            count.value_or(0) > 0)
            sizes.push_back(fmt::format("{} x {}", *count, name.substr(name.find('-') + 1)));
    return sizes.empty() ? "none" : join(sizes, ", ");
}

}  // namespace

void look_at_machine(Examination& exam) {
    const NodeTopology& topology = exam.topology();
    exam.fact("kernel", read_small(exam.proc("/sys/kernel/osrelease")).value_or("unknown"));
    exam.fact("shape", fmt::format("{} sockets, {} NUMA nodes, {} cores, {} CPUs",
                                   topology.package_count, topology.numa_nodes.size(),
                                   topology.cores.size(), topology.allowed_cpus.size()));
    exam.fact("hugepages", hugepages(exam.sources().roots.sysfs_root));
    // Firmware takes a little more or less of equal machines, so only whole steps of a sixteenth
    // tell them apart.
    const auto fields = read_fields(exam.proc("/meminfo"));
    const auto total = fields.find("MemTotal");
    long long kib = 0;
    if (total != fields.end() && parse_integer(split(total->second, ' ').front(), kib) && kib > 0) {
        long long step = 1;
        while (step * 16 <= kib >> 20)
            step *= 2;
        exam.fact("memory", fmt::format("{} GiB", ((kib >> 20) + step / 2) / step * step));
    }
}

void look_at_governor(Examination& exam) {
    std::map<std::string, int> governors;
    for (const int cpu : exam.topology().allowed_cpus)
        if (const auto name = read_small(
                exam.sysfs(fmt::format("/devices/system/cpu/cpu{}/cpufreq/scaling_governor", cpu))))
            ++governors[*name];
    if (governors.empty())
        return exam.nothing_to_look_at("the kernel does not scale these CPUs");
    const auto most =
        std::max_element(governors.begin(), governors.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    exam.fact("governor", most->first);
    for (const auto& [name, count] : governors)
        if (name == "powersave" || name == "conservative")
            exam.found(fmt::format("{} of {} CPUs are scaled by '{}'", count,
                                   exam.topology().allowed_cpus.size(), name));
}

void look_at_numa_balancing(Examination& exam) {
    if (exam.topology().numa_nodes.size() < 2)
        return exam.nothing_to_look_at("one NUMA node");
    const auto value = read_number(exam.proc("/sys/kernel/numa_balancing"));
    if (!value)
        return exam.nothing_to_look_at("this kernel has no NUMA balancing");
    exam.fact("numa_balancing", std::to_string(*value));
    if (*value != 0)
        exam.found(fmt::format("it is {}: the kernel moves pages of bound ranks about", *value));
}

void look_at_iommu(Examination& exam) {
    if (!has_accelerators(exam))
        return exam.nothing_to_look_at("no GPU and no HCA");
    std::vector<std::string> translated;
    bool any_group = false;
    const auto look = [&](const std::string& bdf, const std::string& name) {
        const auto type = read_small(exam.sysfs("/bus/pci/devices/" + bdf + "/iommu_group/type"));
        if (!type)
            return;
        any_group = true;
        if (type->starts_with("DMA"))
            translated.push_back(name);
    };
    for (const Gpu& gpu : exam.topology().gpus)
        look(gpu.bdf, "GPU " + gpu.bdf);
    for (const Hca& hca : exam.topology().hcas)
        look(hca.bdf, hca.name);
    exam.fact("iommu", translated.empty() ? (any_group ? "passthrough" : "off") : "translates");
    if (!translated.empty())
        exam.found(fmt::format("the IOMMU translates every access of {} devices, such as {}",
                               translated.size(), translated.front()));
}

void look_at_memlock(Examination& exam) {
    const auto limit = limit_of(exam, RLIMIT_MEMLOCK);
    if (!limit)
        return;
    exam.fact("memlock", limit_text(limit->rlim_cur, true));
    if (limit->rlim_cur == RLIM_INFINITY)
        return;
    if (exam.topology().hcas.empty())
        return exam.nothing_to_look_at("no HCA, which would need it");
    exam.found(fmt::format("{}, needs unlimited: HCAs cannot register memory",
                           limit_text(limit->rlim_cur, true)));
}

void look_at_nofile(Examination& exam) {
    const auto limit = limit_of(exam, RLIMIT_NOFILE);
    if (!limit)
        return;
    exam.fact("nofile", limit_text(limit->rlim_max, false));
    if (limit->rlim_max < kEnoughFiles)
        exam.found(fmt::format("at most {} open files, needs {}", limit->rlim_max, kEnoughFiles));
}

// Ranks of one node meet in /dev/shm: each must see the same one, and containers may have their
// own.
void look_at_shared_memory(Examination& exam) {
    const std::string path = exam.dev("/shm");
    struct statvfs space {};
    struct stat own {};
    if (::statvfs(path.c_str(), &space) != 0 || ::stat(path.c_str(), &own) != 0)
        return exam.found(Severity::warn, fmt::format("{}: {}", path, std::strerror(errno)),
                          "mount a tmpfs there");
    const std::uint64_t total = static_cast<std::uint64_t>(space.f_blocks) * space.f_frsize;
    const std::uint64_t free = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
    exam.fact("shm", binary_size(total));
    if (total < kEnoughSharedMemory)
        exam.found(fmt::format("{} is {} large, needs {}", path, binary_size(total),
                               binary_size(kEnoughSharedMemory)));
    else if (free < kEnoughSharedMemory / 2)
        exam.found(
            Severity::warn,
            fmt::format("{} of {} are left in {}", binary_size(free), binary_size(total), path),
            "remove what ended jobs left there: ls -l " + path);
    int unseen = 0;
    for (const pid_t task : exam.sources().tasks) {
        struct stat other {};
        if (::stat(exam.proc(fmt::format("/{}/root{}", task, path)).c_str(), &other) != 0) {
            ++unseen;
        } else if (other.st_dev != own.st_dev || other.st_ino != own.st_ino) {
            return exam.found(Severity::fail,
                              fmt::format("task with process {} has a {} of its own", task, path),
                              "start the node's tasks in one container, or share the host's IPC "
                              "namespace and /dev/shm");
        }
    }
    if (unseen > 0)
        exam.cannot_look(fmt::format("{} of {} tasks do not show their {}", unseen,
                                     exam.sources().tasks.size(), path));
}

namespace {

// A record of /dev/kmsg is "PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;text"; one read gives one record,
// EPIPE says that some were overwritten.
std::optional<std::string> read_kernel_log(const std::string& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd)
        return std::nullopt;
    std::string text;
    std::array<char, 8192> record;
    while (text.size() < kMostKernelLog) {
        const ssize_t got = ::read(fd.get(), record.data(), record.size());
        if (got < 0 && (errno == EPIPE || errno == EINTR))
            continue;
        if (got < 0 && errno == EPERM)
            return std::nullopt;
        if (got <= 0)
            break;
        text.append(record.data(), static_cast<std::size_t>(got));
    }
    return text;
}

struct XidCount {
    int count = 0;
    std::string last;
};

// "NVRM: Xid (PCI:0000:17:00): 79, pid=1234, GPU has fallen off the bus."
std::map<std::string, XidCount> count_xids(const std::string& log) {
    std::map<std::string, XidCount> xids;
    for (const std::string& line : split(log, '\n')) {
        const std::size_t start = line.find("NVRM: Xid (");
        const std::size_t close = start == std::string::npos ? start : line.find("): ", start);
        if (close == std::string::npos)
            continue;
        const std::string device = line.substr(start + 11, close - start - 11);
        const std::string rest = line.substr(close + 3);
        XidCount& xid = xids[fmt::format("Xid {} on {}", rest.substr(0, rest.find(',')), device)];
        ++xid.count;
        xid.last = rest.find(',') == std::string::npos ? "" : rest.substr(rest.find(',') + 1, 100);
    }
    return xids;
}

}  // namespace

void look_at_xid(Examination& exam) {
    const bool nvidia = std::any_of(exam.topology().gpus.begin(), exam.topology().gpus.end(),
                                    [](const Gpu& gpu) { return gpu.vendor == "nvidia"; });
    if (!nvidia)
        return exam.nothing_to_look_at("no NVIDIA GPU");
    const auto log = read_kernel_log(exam.dev("/kmsg"));
    if (!log)
        return exam.cannot_look("the kernel's log is not readable for this user");
    for (const auto& [name, xid] : count_xids(*log))
        exam.found(fmt::format("{}, {} {} since boot:{}", name, xid.count,
                               xid.count == 1 ? "time" : "times", xid.last));
}

}  // namespace autolaunch::launcher
