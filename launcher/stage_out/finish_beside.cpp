#include "stage_out/finish_beside.hpp"

#include "base/unique_fd.hpp"
#include "exit_codes/exit_error.hpp"

#include <autolaunch/error.hpp>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <exception>

namespace autolaunch::launcher {

namespace {

constexpr char kBetween = '\0';
constexpr std::size_t kMostWord = 64 << 10;

/// Its exit code; of one that failed also why, and what to do.
std::string last_word(const FinishRequest& request,
                      const std::function<void(const std::string&)>& print) {
    try {
        return {static_cast<char>(finish_left(request, print))};
    } catch (const std::exception& error) {
        const ExitError said = as_exit_error(error);
        std::string word(1, static_cast<char>(said.exit_code()));
        word += said.what();
        word += kBetween + said.hint();
        word.resize(std::min(word.size(), kMostWord));
        return word;
    }
}

int take_last_word(const std::string& word) {
    const int code = static_cast<unsigned char>(word.at(0));
    if (word.size() == 1)
        return code;
    const std::size_t between = std::min(word.find(kBetween), word.size() - 1);
    throw ExitError(code, ErrorCode::invalid_argument, word.substr(1, between - 1),
                    word.substr(between + 1));
}

}  // namespace

// The word is one packet: a process of which a thread hangs in the kernel closes nothing.
int finish_beside(const FinishRequest& request,
                  const std::function<void(const std::string&)>& print) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        throw SystemError(errno, "make a pair of sockets");
    UniqueFd ours(ends[0]), its(ends[1]);
    const pid_t parent = ::getpid(), child = ::fork();
    if (child < 0)
        throw SystemError(errno, "start a process that copies");
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() == parent) {
            const std::string word = last_word(request, print);
            ::send(its.get(), word.data(), word.size(), MSG_NOSIGNAL);
        }
        ::_exit(0);
    }
    its.reset();
    std::string word(kMostWord, '\0');
    ssize_t got = 0;
    while ((got = ::recv(ours.get(), word.data(), word.size(), 0)) < 0 && errno == EINTR) {
    }
    if (got <= 0) {
        ::waitpid(child, nullptr, 0);
        throw ExitError(exit_code::kUnavailable, ErrorCode::closed,
                        "the process that copies was ended",
                        "autolaunch stage-out goes on where it was");
    }
    word.resize(static_cast<std::size_t>(got));
    return take_last_word(word);
}

}  // namespace autolaunch::launcher
