#include "spawn/process_tree.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

bool contains(const std::vector<pid_t>& pids, pid_t pid) {
    return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

void add_numbers(const std::string& text, std::vector<pid_t>& pids) {
    for (const auto& word : split(trim(text), ' ')) {
        long long pid = 0;
        if (parse_integer(word, pid))
            pids.push_back(static_cast<pid_t>(pid));
    }
}

// Of /proc/PID/stat what is behind the name, which may hold anything: state, parent, …; nothing of
// a process that is gone.
std::vector<std::string> fields_behind_name(pid_t process, const std::string& proc_root) {
    try {
        const std::string stat = read_file(proc_root + "/" + std::to_string(process) + "/stat");
        const std::size_t name_end = stat.rfind(") ");
        if (name_end == std::string::npos)
            return {};
        return split(std::string_view(stat).substr(name_end + 2), ' ');
    } catch (const Error&) {
        return {};
    }
}

bool has_ended(pid_t process) {
    const auto fields = fields_behind_name(process, "/proc");
    return fields.empty() || fields[0] == "Z" || fields[0] == "X";
}

// For kernels without CONFIG_PROC_CHILDREN.
std::vector<pid_t> children_by_scan(pid_t parent) {
    std::vector<pid_t> pids;
    std::error_code ignored;
    for (const auto& process : list_folder("/proc", ignored)) {
        long long pid = 0;
        if (parse_integer(process.filename().string(), pid) &&
            parent_of(static_cast<pid_t>(pid)) == parent)
            pids.push_back(static_cast<pid_t>(pid));
    }
    return pids;
}

// Its threads, each of which has children of its own. Of one there is no need to make a list: the
// folder has a link more for each.
std::vector<fs::path> threads_of(pid_t process) {
    const fs::path tasks = "/proc/" + std::to_string(process) + "/task";
    struct stat facts {};
    constexpr nlink_t kLinksOfOne = 3;
    if (::stat(tasks.c_str(), &facts) == 0 && facts.st_nlink == kLinksOfOne)
        return {tasks / std::to_string(process)};
    std::error_code ignored;
    return list_folder(tasks, ignored);
}

std::vector<pid_t> children_of(pid_t parent) {
    std::vector<pid_t> pids;
    for (const auto& task : threads_of(parent)) {
        try {
            add_numbers(read_file(task / "children"), pids);
        } catch (const Error&) {
            return children_by_scan(parent);
        }
    }
    return pids;
}

// False when nothing of that kind is left. Reaps at most one.
bool reap_one(pid_t pid) {
    siginfo_t info{};
    while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG) != 0)
        if (errno != EINTR)
            return false;
    return info.si_pid == pid;
}

}  // namespace

void adopt_orphans() {
    if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        throw SystemError(errno, "adopt orphaned processes");
}

pid_t parent_of(pid_t process, const std::string& proc_root) {
    const auto fields = fields_behind_name(process, proc_root);
    long long parent = 0;
    return fields.size() > 1 && parse_integer(fields[1], parent) ? static_cast<pid_t>(parent) : 0;
}

std::vector<pid_t> list_children() { return children_of(::getpid()); }

std::vector<pid_t> list_children(pid_t parent) { return children_of(parent); }

std::vector<std::string> running_children(const std::function<bool(pid_t)>& of_that_kind) {
    std::vector<std::string> names;
    for (const pid_t pid : list_children()) {
        if (!of_that_kind(pid))
            continue;
        const fs::path process = "/proc/" + std::to_string(pid);
        try {
            const std::string command = read_file(process / "cmdline");
            // Empty in the middle of an exec, too.
            if (command.find("from multiprocessing.") == std::string::npos && !has_ended(pid))
                names.push_back(std::string(trim(read_file(process / "comm"))) + " (pid " +
                                std::to_string(pid) + ")");
        } catch (const Error&) {  // it ended while we looked
        }
    }
    return names;
}

std::vector<pid_t> list_tree(pid_t pid) {
    std::vector<pid_t> tree{pid};
    for (std::size_t i = 0; i < tree.size(); ++i)
        for (const pid_t child : children_of(tree[i]))
            tree.push_back(child);
    return tree;
}

void kill_tree(pid_t pid) {
    for (const pid_t child : children_of(pid)) {
        kill_tree(child);  // before it: its children would become another's
        ::kill(child, SIGKILL);
    }
}

void reap_orphans(const std::vector<pid_t>& except) {
    for (const pid_t pid : list_children())
        if (!contains(except, pid))
            reap_one(pid);
}

bool end_children(const std::vector<pid_t>& except, Deadline deadline) {
    auto pause = std::chrono::microseconds(100);
    for (;;) {
        // The usual case costs one call: no children at all.
        siginfo_t info{};
        if (except.empty() && ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 &&
            errno == ECHILD)
            return true;
        bool left = false;
        for (const pid_t pid : list_children()) {
            if (contains(except, pid))
                continue;
            left = true;
            ::kill(pid, SIGKILL);
            reap_one(pid);
        }
        if (!left)
            return true;
        if (deadline.passed())
            return false;
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, std::chrono::microseconds(20'000));
    }
}

}  // namespace autolaunch::launcher
