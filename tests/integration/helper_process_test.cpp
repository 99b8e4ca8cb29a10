// Helper processes: what they say comes back, and nothing else of them stays.

#include "spawn/helper_process.hpp"

#include "../write_file.hpp"
#include "base/deadline.hpp"
#include "base/file_io.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

namespace helper_process_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

std::string all_output(HelperProcess& helper) {
    std::string text;
    const Deadline deadline = Deadline::after(20s);
    while (helper.read_some(text) && !deadline.passed()) {
        pollfd readable = {helper.output(), POLLIN, 0};
        ::poll(&readable, 1, deadline.poll_timeout_ms());
    }
    return text;
}

bool has_children() { return ::waitpid(-1, nullptr, WNOHANG) == 0; }

int open_files() {
    return static_cast<int>(
        std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

}  // namespace

TEST_CASE("what it writes comes back, more than a pipe holds") {
    const int before = open_files();
    {
        HelperProcess helper(
            [](int output) { write_all(output, std::string(300'000, 'x') + "end", "the pipe"); });
        const std::string text = all_output(helper);
        CHECK(text.size() == 300'003);
        CHECK(text.ends_with("xend"));
        CHECK(helper.pid() > 0);
    }
    CHECK(open_files() == before);
    CHECK_FALSE(has_children());
}

TEST_CASE("it has the pipe and no other descriptor of ours") {
    const UniqueFd ours(::open("/dev/zero", O_RDONLY));  // without O_CLOEXEC, to be hard on it
    REQUIRE(ours.get() > 2);
    HelperProcess helper([](int output) {
        std::string names;
        for (int fd = 0; fd < 1000; ++fd)
            if (::fcntl(fd, F_GETFD) >= 0)
                names += std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd))
                             .string()
                             .substr(0, 5) +
                         ' ';
        write_all(output, names, "the pipe");
    });
    CHECK(all_output(helper) == "/dev/ /dev/ /dev/ pipe: ");
}

TEST_CASE("it hears no request to stop, any other signal ends it, and it leaves no core file") {
    ::signal(SIGPIPE, SIG_IGN);
    sigset_t blocked, before;
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, SIGUSR1);
    ::sigprocmask(SIG_BLOCK, &blocked, &before);
    HelperProcess helper([](int output) {
        sigset_t mask;
        ::sigprocmask(SIG_SETMASK, nullptr, &mask);
        rlimit core = {};
        ::getrlimit(RLIMIT_CORE, &core);
        const bool right = ::sigismember(&mask, SIGUSR1) == 0 &&
                           ::signal(SIGTERM, SIG_DFL) == SIG_IGN &&
                           ::signal(SIGPIPE, SIG_DFL) == SIG_DFL && core.rlim_cur == 0;
        write_all(output, right ? "right" : "wrong", "the pipe");
    });
    ::signal(SIGPIPE, SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    CHECK(all_output(helper) == "right");
}

TEST_CASE("a crash or an exception is the end of the output, and not ours") {
    HelperProcess crashes([](int output) {
        write_all(output, "half", "the pipe");
        ::raise(SIGSEGV);
    });
    HelperProcess throws([](int) { throw std::runtime_error("no"); });
    CHECK(all_output(crashes) == "half");
    CHECK(all_output(throws).empty());
}

TEST_CASE("one that hangs is killed and reaped") {
    const auto hang = [](int) {
        ::signal(SIGTERM, SIG_IGN);
        for (;;)
            ::pause();
    };
    HelperProcess helper(hang);
    const pid_t pid = helper.pid();
    CHECK_FALSE(helper.gone());
    std::string text;
    CHECK(helper.read_some(text));  // does not wait
    helper.kill();
    CHECK(helper.output() == -1);
    const Deadline deadline = Deadline::after(20s);
    while (!helper.gone() && !deadline.passed())
        ::usleep(100);
    CHECK(helper.gone());
    CHECK(helper.pid() == -1);
    CHECK(::kill(pid, 0) == -1);

    helper = HelperProcess(hang);
    HelperProcess other = std::move(helper);
    CHECK(helper.gone());
    CHECK_FALSE(other.gone());
    other = HelperProcess();  // ends the one it had
    CHECK_FALSE(has_children());
}

TEST_CASE("somebody else may reap it") {
    HelperProcess helper([](int) {});
    REQUIRE(::waitpid(-1, nullptr, 0) == helper.pid());
    helper.kill();
    CHECK(helper.gone());
}

TEST_CASE("it ends with us") {
    const pid_t parent = ::fork();
    if (parent == 0) {
        HelperProcess helper([](int) {
            for (;;)
                ::pause();
        });
        write_file("/tmp/autolaunch-helper-" + std::to_string(::getpid()),
                           std::to_string(helper.pid()));
        ::raise(SIGKILL);
    }
    REQUIRE(::waitpid(parent, nullptr, 0) == parent);
    const std::string file = "/tmp/autolaunch-helper-" + std::to_string(parent);
    const pid_t pid = std::stoi(read_file(file));
    std::filesystem::remove(file);
    const Deadline deadline = Deadline::after(20s);
    const auto is_zombie_or_gone = [&] {
        try {
            return read_file("/proc/" + std::to_string(pid) + "/stat").find(") Z") !=
                   std::string::npos;
        } catch (const Error&) {
            return true;
        }
    };
    while (!is_zombie_or_gone() && !deadline.passed())
        ::usleep(1000);
    CHECK(is_zombie_or_gone());
}

}  // namespace helper_process_test
