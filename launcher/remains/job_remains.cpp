#include "remains/job_remains.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/unique_fd.hpp"
#include "spawn/process_tree.hpp"

#include <autolaunch/error.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;

constexpr int kMostGenerationFolders = 64;
constexpr std::size_t kMostUnclaimed = 16;
constexpr int kMostSharedFiles = 4096;
constexpr char kSharedMemory[] = "/dev/shm";

// The kernel's word: whatever was started below us and has not ended is our child by now.
void look_at_processes(const JobTraces& traces, ExitCertificate& certificate) {
    siginfo_t ended{};
    if (::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD) {
        certificate.gone.push_back({"process", traces.processes,
                                    "the agent, which inherits all that was started below it, "
                                    "has no child"});
        return;
    }
    for (const pid_t child : list_children())
        for (const pid_t pid : list_tree(child))
            certificate.left.push_back(
                {"process", describe_process(pid), "SIGKILL did not end it"});
}

bool is_there(const fs::path& path) {
    struct stat facts {};
    return ::lstat(path.c_str(), &facts) == 0 || errno != ENOENT;
}

// In every place that one is made in, and MPI's folders, which are called after it.
void look_at_folders(const JobTraces& traces, ExitCertificate& certificate) {
    if (traces.scratch.empty())
        return;
    const std::string name = traces.scratch.filename();
    std::vector<fs::path> paths{traces.scratch, fs::path(kSharedMemory) / name,
                                fs::path("/tmp") / name};
    paths.push_back(fs::path(kSharedMemory) / (name + "-secrets"));
    const int first =
        std::max(traces.first_generation, traces.last_generation - kMostGenerationFolders + 1);
    for (int generation = first; generation <= traces.last_generation; ++generation)
        paths.push_back(fs::path(kSharedMemory) / fmt::format("{}-mpi-{}", name, generation));
    std::sort(paths.begin(), paths.end());
    paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
    const std::size_t before = certificate.left.size();
    for (const fs::path& path : paths)
        if (is_there(path))
            certificate.left.push_back({"folder", path.string(), "it could not be removed"});
    if (certificate.left.size() == before)
        certificate.gone.push_back(
            {"folder", 1, "nothing is called " + name + " any more, nor as MPI's folders are"});
}

// What only we had is closed with us; that it can be bound again is the proof.
bool can_be_bound(std::uint16_t port) {
    const UniqueFd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    return probe && ::setsockopt(probe.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
           ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

void look_at_ports(const JobTraces& traces, ExitCertificate& certificate) {
    if (traces.ports.empty())
        return;
    GoneProof proof{"port", static_cast<int>(traces.ports.size()), "they can be bound again"};
    for (const std::uint16_t port : traces.ports) {
        if (can_be_bound(port))
            continue;
        if (certificate.left.empty())
            proof.proof = fmt::format(
                "closed with the agent's descriptors, and none of the job's "
                "processes is left; {} is another program's by now",
                port);
        else
            certificate.left.push_back({"port", std::to_string(port), "somebody listens on it"});
    }
    certificate.gone.push_back(std::move(proof));
}

void look_at_memory_files(const JobTraces& traces, ExitCertificate& certificate) {
    if (traces.memory_files == 0)
        return;
    const std::size_t before = certificate.left.size();
    std::error_code ignored;
    for (const fs::path& fd : list_folder("/proc/self/fd", ignored)) {
        std::error_code gone;
        const std::string target = fs::read_symlink(fd, gone).string();
        if (target.starts_with("/memfd:autolaunch-memory"))
            certificate.left.push_back({"memory file", target, "the agent has it open"});
    }
    if (certificate.left.size() == before)
        certificate.gone.push_back({"memory file", traces.memory_files,
                                    "the agent has closed them, and they have no name"});
}

// Shared memory that ranks made under names of their own: nobody can say of which job it is, and a
// data set may be meant to stay.
void look_at_shared_memory(const JobTraces& traces, ExitCertificate& certificate) {
    DIR* const folder = ::opendir(kSharedMemory);
    const auto began = std::chrono::system_clock::to_time_t(traces.began);
    int seen = 0;
    while (const dirent* entry = folder == nullptr ? nullptr : ::readdir(folder)) {
        struct stat facts {};
        if (++seen > kMostSharedFiles) {
            certificate.not_checked.push_back(
                {"shared memory", kSharedMemory,
                 fmt::format("it has more than {} entries", kMostSharedFiles)});
            break;
        }
        if (::fstatat(::dirfd(folder), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(facts.st_mode) || facts.st_uid != ::geteuid() ||
            facts.st_ctim.tv_sec < began || certificate.unclaimed.size() >= kMostUnclaimed)
            continue;
        certificate.unclaimed.push_back(
            {"shared memory", std::string(kSharedMemory) + "/" + entry->d_name,
             fmt::format("{} bytes, changed since the job began; it may be another job's, or be "
                         "meant to stay",
                         facts.st_size)});
    }
    if (folder != nullptr)
        ::closedir(folder);
}

std::string state_words(char state) {
    switch (state) {
        case 'D':
            return "in uninterruptible sleep: a device or file system does not answer";
        case 'Z':
            return "ended, and not reaped";
        case 'T':
        case 't':
            return "stopped";
        default:
            return "running";
    }
}

char state_in(const std::string& stat) {
    const std::size_t close = stat.rfind(") ");
    return close == stat.npos || close + 2 >= stat.size() ? '?' : stat[close + 2];
}

// A process has not ended before all of its threads have, and its own state is its first one's.
char state_of(int pid, const std::string& stat) {
    const char state = state_in(stat);
    std::error_code unreadable;
    for (const fs::path& thread : list_folder(fmt::format("/proc/{}/task", pid), unreadable)) {
        try {
            if (state == 'Z' && state_in(read_file(thread / "stat")) == 'D')
                return 'D';
        } catch (const Error&) {  // it has ended by now
        }
    }
    return state;
}

}  // namespace

std::string describe_process(int pid) {
    try {
        const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
        const std::size_t open = stat.find('('), close = stat.rfind(") ");
        if (open != stat.npos && close != stat.npos && close + 2 < stat.size())
            return fmt::format("{} ({}), {}", pid, stat.substr(open + 1, close - open - 1),
                               state_words(state_of(pid, stat)));
    } catch (const Error&) {  // it has ended by now, or hides itself
    }
    return std::to_string(pid);
}

void look_for_remains(const JobTraces& traces, ExitCertificate& certificate) {
    look_at_processes(traces, certificate);
    look_at_folders(traces, certificate);
    look_at_ports(traces, certificate);
    look_at_memory_files(traces, certificate);
    look_at_shared_memory(traces, certificate);
}

}  // namespace autolaunch::launcher
