#include "run/drain.hpp"

#include "base/deadline.hpp"
#include "base/unique_fd.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <vector>

extern char** environ;

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;

struct Ended {
    std::string output = {};
    int status = -1;         ///< as waitpid(2) has it
    std::string wrong = {};  ///< why there is none
};

// Reads until the pipe's end or the deadline, then ends the program.
Ended read_to_end(pid_t pid, int output, Deadline deadline) {
    Ended ended;
    std::array<char, 4096> buffer;
    for (pollfd waiting = {output, POLLIN, 0}; !deadline.passed();) {
        if (::poll(&waiting, 1, deadline.poll_timeout_ms()) <= 0)
            continue;
        const ssize_t got = ::read(output, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        ended.output.append(buffer.data(), static_cast<std::size_t>(got));
    }
    if (deadline.passed()) {
        ::kill(pid, SIGKILL);
        ended.wrong = "scontrol did not answer";
    }
    ::waitpid(pid, &ended.status, 0);
    return ended;
}

Ended scontrol(std::vector<std::string> arguments) {
    std::array<int, 2> ends = {-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        return {.wrong = std::strerror(errno)};
    const UniqueFd reading(ends[0]);
    UniqueFd writing(ends[1]);
    arguments.insert(arguments.begin(), "scontrol");
    std::vector<char*> argv;
    for (std::string& argument : arguments)
        argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    for (const int standard : {STDOUT_FILENO, STDERR_FILENO})
        ::posix_spawn_file_actions_adddup2(&actions, writing.get(), standard);
    pid_t pid = -1;
    const int error = ::posix_spawnp(&pid, "scontrol", &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        return {.wrong = fmt::format("cannot run scontrol: {}", std::strerror(error))};
    writing.reset();
    return read_to_end(pid, reading.get(), Deadline::after(5s));
}

}  // namespace

std::string drain_this_node(const std::string& reason, const EnvironmentMap& environment,
                            const std::string& hostname) {
    const auto named = environment.find("SLURMD_NODENAME");
    const std::string node = named != environment.end() && !named->second.empty()
                                 ? named->second
                                 : hostname.substr(0, hostname.find('.'));
    const Ended state = scontrol({"show", "node", "-o", node});
    if (!state.wrong.empty())
        return state.wrong;
    if (state.status == 0 && state.output.find("+DRAIN") != std::string::npos)
        return {};
    const Ended update =
        scontrol({"update", "NodeName=" + node, "State=DRAIN", "Reason=" + reason});
    if (!update.wrong.empty())
        return update.wrong;
    return update.status == 0 ? ""
                              : fmt::format("scontrol does not drain {}: {}", node, update.output);
}

}  // namespace autolaunch::launcher
