#include "checkpoint/crypto/key_command.hpp"

#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "checkpoint/crypto/key_file.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace autolaunch::crypto {
namespace {

/// `/bin/sh -c COMMAND` in a process group of its own, with a pipe from its stdout. Ends it when it
/// goes.
class Command {
public:
    explicit Command(const std::string& command) : name_(name_of_key_command(command)) {
        std::array<int, 2> ends = {-1, -1};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0)
            throw SystemError(errno, "make a pipe for " + name_);
        output_.reset(ends[0]);
        const UniqueFd writing(ends[1]);
        ::posix_spawn_file_actions_t actions;
        ::posix_spawnattr_t attributes;
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawnattr_init(&attributes);
        ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        ::posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
        ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
        std::string shell = "sh", option = "-c", text = command;
        std::array<char*, 4> arguments = {shell.data(), option.data(), text.data(), nullptr};
        const int error =
            ::posix_spawn(&pid_, "/bin/sh", &actions, &attributes, arguments.data(), environ);
        ::posix_spawn_file_actions_destroy(&actions);
        ::posix_spawnattr_destroy(&attributes);
        if (error != 0)
            throw SystemError(error, "start " + name_);
    }
    Command(const Command&) = delete;
    Command& operator=(const Command&) = delete;
    ~Command() {
        if (pid_ <= 0)
            return;
        ::kill(-pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }

    SecretBytes output(const Deadline& deadline) {
        SecretBytes text;
        for (std::size_t before = text.size() + 1; before != text.size();) {
            pollfd readable = {output_.get(), POLLIN, 0};
            const int ready = ::poll(&readable, 1, deadline.poll_timeout_ms());
            if (ready < 0 && errno != EINTR)
                throw SystemError(errno, "wait for " + name_);
            if (deadline.passed())
                throw TimeoutError(name_ + " printed no key in time");
            if (ready <= 0)
                continue;
            before = text.size();
            crypto::read_some(output_.get(), text, name_);
        }
        return text;
    }

    // It closed its output; it should end soon.
    void require_success(const Deadline& deadline) {
        int status = 0;
        pid_t ended = 0;
        while ((ended = ::waitpid(pid_, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
            if (deadline.passed())
                throw TimeoutError(name_ + " did not end in time");
            ::usleep(1000);
        }
        pid_ = -1;
        if (ended < 0)
            return;  // somebody else reaped it: its output must speak for it
        if (WIFSIGNALED(status))
            throw Error(ErrorCode::invalid_argument,
                        name_ + " was killed by " + signal_name(WTERMSIG(status)));
        if (WEXITSTATUS(status) != 0)
            throw Error(ErrorCode::invalid_argument,
                        name_ + " exited with " + std::to_string(WEXITSTATUS(status)));
    }

private:
    std::string name_;
    UniqueFd output_;
    pid_t pid_ = -1;
};

}  // namespace

std::string name_of_key_command(const std::string& command) {
    return "the command \"" + command + "\"";
}

SecretBytes output_of_key_command(const std::string& command, const Deadline& deadline) {
    Command running(command);
    SecretBytes text = running.output(deadline);
    running.require_success(deadline);
    return text;
}

}  // namespace autolaunch::crypto
