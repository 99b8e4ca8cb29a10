#include "readings/node_reader.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "readings/kernel_texts.hpp"
#include "topology/system_files.hpp"

#include <autolaunch/error.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <unordered_map>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

// Of a file of procfs or sysfs; empty where it cannot be read.
std::string text_of(const fs::path& path) {
    try {
        return read_file(path);
    } catch (const SystemError&) {
        return {};
    }
}

std::int64_t ms_of(clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    constexpr std::int64_t kMsPerSecond = 1000, kNsPerMs = 1'000'000;
    return now.tv_sec * kMsPerSecond + now.tv_nsec / kNsPerMs;
}

/// All processes of this user by their number; root's are all, without the kernel's own threads.
std::unordered_map<int, ProcessStat> read_processes(const fs::path& proc) {
    std::unordered_map<int, ProcessStat> processes;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(proc.c_str()), ::closedir);
    if (!folder)
        return processes;
    const int folder_fd = ::dirfd(folder.get());
    const uid_t user = ::geteuid();
    constexpr int kThreadsOfKernel = 2;  // the parent of all of them
    std::array<char, 1024> text;
    while (const dirent* entry = ::readdir(folder.get())) {
        const std::string_view name = entry->d_name;
        int pid = 0;
        const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
        if (error != std::errc() || end != name.data() + name.size() || pid == kThreadsOfKernel)
            continue;
        struct stat facts {};
        if (::fstatat(folder_fd, entry->d_name, &facts, 0) != 0 ||
            (user != 0 && facts.st_uid != user))
            continue;
        const std::string path = std::string(name) + "/stat";
        const UniqueFd file(::openat(folder_fd, path.c_str(), O_RDONLY | O_CLOEXEC));
        const ssize_t got = file ? ::read(file.get(), text.data(), text.size()) : -1;
        if (got <= 0)
            continue;
        const auto stat = parse_process_stat({text.data(), static_cast<std::size_t>(got)});
        if (stat && stat->parent != kThreadsOfKernel)
            processes.emplace(pid, *stat);
    }
    return processes;
}

void add_disk_use(const fs::path& proc, int pid, RankCounters& rank) {
    const std::string text = text_of(proc / std::to_string(pid) / "io");
    if (const auto bytes = number_after(text, "read_bytes:"))
        rank.read_bytes = rank.read_bytes.value_or(0) + *bytes;
    if (const auto bytes = number_after(text, "write_bytes:"))
        rank.written_bytes = rank.written_bytes.value_or(0) + *bytes;
}

std::optional<std::uint64_t> limit_in(const fs::path& path) {
    const auto number = read_number(path.string());
    constexpr long long kNoLimit = 1LL << 60;  // v1 says so by a number near 2^63; v2: "max"
    return number && *number >= 0 && *number < kNoLimit
               ? std::optional(static_cast<std::uint64_t>(*number))
               : std::nullopt;
}

std::optional<std::uint64_t> counter(const fs::path& folder, const char* name) {
    return limit_in(folder / name);
}

}  // namespace

std::int64_t boot_ms() { return ms_of(CLOCK_BOOTTIME); }
std::int64_t clock_ms() { return ms_of(CLOCK_REALTIME); }

NodeReader::NodeReader(Options options) : options_(std::move(options)) {
    const std::string own = text_of(options_.proc / "self/cgroup");
    // A container may show the folder of the host's tree, which it does not have: then its own
    // root.
    const auto folder = [&](const fs::path& mount, const std::optional<std::string>& path) {
        std::error_code ignored;
        if (!path)
            return fs::path();
        const fs::path found = mount / fs::path(*path).relative_path();
        return fs::is_directory(found, ignored) ? found : mount;
    };
    cgroup_ = folder(options_.cgroups, cgroup_path(own, ""));
    cpu_cgroup_ = folder(options_.cgroups / "cpu", cgroup_path(own, "cpu"));
    memory_cgroup_ = folder(options_.cgroups / "memory", cgroup_path(own, "memory"));
}

NodeReading NodeReader::read(const std::vector<std::pair<int, int>>& ranks) const {
    NodeReading reading{.time_ms = clock_ms(), .boot_ms = boot_ms()};
    reading.cpu = parse_proc_stat(text_of(options_.proc / "stat"),
                                  static_cast<double>(::sysconf(_SC_CLK_TCK)));
    reading.load1 = parse_load1(text_of(options_.proc / "loadavg"));
    reading.memory = parse_meminfo(text_of(options_.proc / "meminfo"));
    read_pressure(reading);
    read_cgroup(reading);
    read_ranks(ranks, reading);
    reading.networks = parse_net_dev(text_of(options_.proc / "net/dev"));
    read_infiniband(reading);
    reading.disks = parse_diskstats(text_of(options_.proc / "diskstats"), whole_disks());
    if (!reading.cpu)
        reading.troubles.push_back((options_.proc / "stat").string() + " cannot be read");
    return reading;
}

void NodeReader::read_pressure(NodeReading& into) const {
    const auto stalls = [&](const char* of) {
        return parse_pressure(text_of(options_.proc / "pressure" / of));
    };
    into.pressure.cpu_some = stalls("cpu").some;
    const Stalls memory = stalls("memory"), io = stalls("io");
    into.pressure.memory_some = memory.some;
    into.pressure.memory_full = memory.full;
    into.pressure.io_some = io.some;
    into.pressure.io_full = io.full;
}

void NodeReader::read_cgroup(NodeReading& into) const {
    CgroupCounters& cgroup = into.cgroup;
    if (!cgroup_.empty()) {
        parse_cpu_stat(text_of(cgroup_ / "cpu.stat"), cgroup);
        cgroup.memory_bytes = counter(cgroup_, "memory.current");
        cgroup.memory_limit_bytes = limit_in(cgroup_ / "memory.max");
        cgroup.oom_kills = number_after(text_of(cgroup_ / "memory.events"), "oom_kill");
    }
    if (!cgroup.throttled_seconds && !cpu_cgroup_.empty())
        parse_cpu_stat(text_of(cpu_cgroup_ / "cpu.stat"), cgroup);
    if (!cgroup.memory_bytes && !memory_cgroup_.empty()) {
        cgroup.memory_bytes = counter(memory_cgroup_, "memory.usage_in_bytes");
        cgroup.memory_limit_bytes = limit_in(memory_cgroup_ / "memory.limit_in_bytes");
        cgroup.oom_kills = number_after(text_of(memory_cgroup_ / "memory.oom_control"), "oom_kill");
    }
}

// Each process counts for the nearest rank above it.
void NodeReader::read_ranks(const std::vector<std::pair<int, int>>& ranks,
                            NodeReading& into) const {
    if (ranks.empty())
        return;
    const auto processes = read_processes(options_.proc);
    std::unordered_map<int, std::size_t> places;
    for (const auto& [rank, pid] : ranks)
        if (processes.contains(pid)) {
            places.emplace(pid, into.ranks.size());
            into.ranks.push_back({.rank = rank, .pid = pid});
        }
    const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    constexpr int kDeepest = 64;
    for (const auto& [pid, stat] : processes) {
        int above = pid;
        for (int depth = 0; depth < kDeepest && !places.contains(above); ++depth) {
            const auto parent = processes.find(above);
            if (parent == processes.end())
                break;
            above = parent->second.parent;
        }
        const auto place = places.find(above);
        if (place == places.end())
            continue;
        RankCounters& rank = into.ranks[place->second];
        rank.cpu_seconds += static_cast<double>(stat.ticks) / ticks;
        rank.resident_bytes += stat.resident_pages * page;
        rank.threads += stat.threads;
        add_disk_use(options_.proc, pid, rank);
    }
}

void NodeReader::read_infiniband(NodeReading& into) const {
    const fs::path root = options_.sys / "class/infiniband";
    constexpr std::uint64_t kWord = 4;  // port_rcv_data and port_xmit_data count words
    for (const std::string& device : list_directory(root.string()))
        for (const std::string& number : list_directory((root / device / "ports").string())) {
            const fs::path folder = root / device / "ports" / number,
                           counters = folder / "counters";
            long long port_number = 0;
            if (!parse_integer(number, port_number))
                continue;
            InfinibandCounters port{.device = device, .port = static_cast<int>(port_number)};
            // "4: ACTIVE"
            const std::string state = read_small((folder / "state").string()).value_or("");
            port.state =
                trim(std::string_view(state).substr(std::min(state.find(':') + 1, state.size())));
            port.link_bytes = parse_link_rate(read_small((folder / "rate").string()).value_or(""));
            if (const auto words = counter(counters, "port_rcv_data"))
                port.received_bytes = *words * kWord;
            if (const auto words = counter(counters, "port_xmit_data"))
                port.sent_bytes = *words * kWord;
            port.wait_ticks = counter(counters, "port_xmit_wait");
            port.link_downs = counter(counters, "link_downed");
            for (const char* name : {"port_rcv_errors", "symbol_error", "port_xmit_discards",
                                     "local_link_integrity_errors", "link_error_recovery"})
                if (const auto errors = counter(counters, name))
                    port.errors = port.errors.value_or(0) + *errors;
            into.infiniband.push_back(std::move(port));
        }
}

std::vector<std::string> NodeReader::whole_disks() const {
    return list_directory((options_.sys / "block").string());
}

}  // namespace autolaunch::launcher
