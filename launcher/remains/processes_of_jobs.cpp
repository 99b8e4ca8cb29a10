#include "remains/processes_of_jobs.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "remains/job_remains.hpp"
#include "session/environment.hpp"
#include "spawn/process_tree.hpp"

#include <autolaunch/error.hpp>

#include <dirent.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <thread>

namespace autolaunch::launcher {

namespace {

constexpr int kMostAncestorsOfOurs = 64;
constexpr auto kPauseBetweenPasses = std::chrono::milliseconds(5);

std::string environment_of(pid_t pid) {
    try {
        return read_file("/proc/" + std::to_string(pid) + "/environ");
    } catch (const Error&) {  // it has ended, or hides itself: then it cannot be told
        return {};
    }
}

bool is_our_users(pid_t pid) {
    struct stat facts {};
    return ::stat(("/proc/" + std::to_string(pid)).c_str(), &facts) == 0 &&
           facts.st_uid == ::geteuid();
}

std::vector<pid_t> all_processes() {
    std::vector<pid_t> pids;
    DIR* const folder = ::opendir("/proc");
    while (const dirent* entry = folder == nullptr ? nullptr : ::readdir(folder)) {
        long long pid = 0;
        if (parse_integer(entry->d_name, pid) && pid > 0)
            pids.push_back(static_cast<pid_t>(pid));
    }
    if (folder != nullptr)
        ::closedir(folder);
    return pids;
}

std::set<pid_t> ourselves() {
    std::set<pid_t> line;
    for (pid_t pid = ::getpid(); pid > 0 && line.size() < kMostAncestorsOfOurs;
         pid = parent_of(pid))
        line.insert(pid);
    return line;
}

// A number may be another process's by now: the descriptor is of the one whose variables are read
// behind it.
bool kill_if_still_of(pid_t pid, const std::string& folder) {
    const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!process || !is_our_users(pid) || folder_in_environment(environment_of(pid)) != folder)
        return false;
    return ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) == 0;
}

}  // namespace

std::string folder_in_environment(std::string_view environment) {
    const std::string name = std::string(env::kSocket) + "=";
    for (std::size_t begin = 0; begin < environment.size();) {
        const std::size_t end = std::min(environment.find('\0', begin), environment.size());
        const std::string_view variable = environment.substr(begin, end - begin);
        if (variable.starts_with(name)) {
            const std::filesystem::path path(variable.substr(name.size()));
            return path.parent_path().filename().string();
        }
        begin = end + 1;
    }
    return {};
}

std::map<std::string, std::vector<pid_t>> processes_by_folder(
    const std::set<std::string>& folders) {
    std::map<std::string, std::vector<pid_t>> found;
    if (folders.empty())
        return found;
    for (const pid_t pid : all_processes()) {
        if (!is_our_users(pid))
            continue;
        const std::string folder = folder_in_environment(environment_of(pid));
        if (!folder.empty() && folders.contains(folder))
            found[folder].push_back(pid);
    }
    return found;
}

EndedProcesses end_processes_of(const std::set<std::string>& folders, Deadline deadline) {
    EndedProcesses outcome;
    if (folders.empty())
        return outcome;
    const std::set<pid_t> spared = ourselves();
    std::map<pid_t, std::string> told;  // each is told of once
    for (;;) {
        bool waiting = false;
        for (const auto& [folder, pids] : processes_by_folder(folders)) {
            for (const pid_t pid : pids) {
                if (spared.contains(pid))
                    continue;
                waiting = true;
                if (!told.contains(pid)) {
                    told[pid] = describe_process(pid);
                    outcome.ended[folder].push_back({"process", told[pid]});
                }
                kill_if_still_of(pid, folder);
            }
        }
        if (!waiting || deadline.passed())
            break;
        std::this_thread::sleep_for(kPauseBetweenPasses);
    }
    for (const auto& [folder, pids] : processes_by_folder(folders)) {
        for (const pid_t pid : pids) {
            const bool own = spared.contains(pid);
            outcome.left[folder].push_back(
                {"process", describe_process(pid), own ? kRunsBelow : "SIGKILL did not end it"});
            if (told.contains(pid))
                std::erase(outcome.ended[folder], Remnant{"process", told[pid]});
        }
    }
    return outcome;
}

}  // namespace autolaunch::launcher
