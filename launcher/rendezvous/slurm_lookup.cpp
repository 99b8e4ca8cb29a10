#include "rendezvous/slurm_lookup.hpp"

#include "base/text.hpp"
#include "base/unique_fd.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostOutputBytes = 64U << 10;

/// Runs scontrol with its standard output on `out`; 0 when it cannot be started.
pid_t start_scontrol(const std::string& node_name, int out) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    std::string words[] = {"scontrol", "--oneliner", "show", "node", node_name};
    char* argv[] = {words[0].data(), words[1].data(), words[2].data(),
                    words[3].data(), words[4].data(), nullptr};
    pid_t pid = 0;
    if (::posix_spawnp(&pid, "scontrol", &actions, &attributes, argv, environ) != 0)
        pid = 0;
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    return pid;
}

std::string read_until(int fd, const Deadline& deadline) {
    std::string text;
    char buffer[4096];
    while (text.size() < kMostOutputBytes) {
        pollfd ready{fd, POLLIN, 0};
        const int count = ::poll(&ready, 1, deadline.poll_timeout_ms());
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return {};
        const ssize_t got = ::read(fd, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return text;
        text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
}

}  // namespace

std::string read_node_address(std::string_view scontrol_output) {
    constexpr std::string_view kKey = "NodeAddr=";
    for (const auto& field : split(scontrol_output, ' '))
        if (field.starts_with(kKey))
            return std::string(trim(std::string_view(field).substr(kKey.size())));
    return {};
}

std::string slurm_node_address(const std::string& node_name, const Deadline& deadline) {
    int ends[2];
    if (node_name.starts_with('-') || ::pipe2(ends, O_CLOEXEC) != 0)
        return {};
    const UniqueFd in(ends[0]);
    UniqueFd out(ends[1]);
    const pid_t pid = start_scontrol(node_name, out.get());
    out.reset();
    if (pid == 0)
        return {};
    const std::string text = read_until(in.get(), deadline);
    ::kill(pid, SIGKILL);  // of no effect on one that has ended
    ::waitpid(pid, nullptr, 0);
    return read_node_address(text);
}

}  // namespace autolaunch::launcher
