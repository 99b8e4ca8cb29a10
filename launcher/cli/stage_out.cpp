#include "cli/stage_out.hpp"

#include "base/file_io.hpp"
#include "base/unique_fd.hpp"
#include "cli/scratch_of_site.hpp"
#include "cli/spec_errors.hpp"
#include "exit_codes/exit_error.hpp"
#include "site/site_file.hpp"
#include "spec/spec.hpp"
#include "stage_out/finish_left.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr char kDone = 'd', kFailed = 'f', kBetween = '\0', kOver = '\x04';

/// How it ended, in a form that says where it is over: a process of which a thread hangs closes
/// nothing.
std::string last_word(const FinishRequest& request,
                      const std::function<void(const std::string&)>& print) {
    try {
        return {static_cast<char>(finish_left(request, print)), kDone, kOver};
    } catch (const Error& error) {
        std::string word{static_cast<char>(exit_code_of(error)), kFailed};
        return word + error.what() + kBetween + error.hint() + kOver;
    } catch (const std::exception& error) {
        const ExitError said = as_exit_error(error);
        return std::string{static_cast<char>(said.exit_code()), kFailed} + said.what() + kBetween +
               said.hint() + kOver;
    }
}

int take_last_word(const std::string& word) {
    const int code = static_cast<unsigned char>(word.at(0));
    if (word.at(1) == kDone)
        return code;
    const std::size_t between = word.find(kBetween, 2);
    throw ExitError(code, ErrorCode::invalid_argument, word.substr(2, between - 2),
                    word.substr(between + 1, word.size() - between - 2));
}

/// In a process of its own, which nobody waits for where a target's file system does not answer:
/// not even SIGKILL ends who hangs in the kernel.
int finish_beside(const FinishRequest& request,
                  const std::function<void(const std::string&)>& print) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0)
        throw SystemError(errno, "make a pipe");
    UniqueFd ours(ends[0]), its(ends[1]);
    const pid_t parent = ::getpid(), child = ::fork();
    if (child < 0)
        throw SystemError(errno, "start a process that copies");
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() == parent)
            write_all(its.get(), last_word(request, print), "the end of what was copied");
        ::_exit(0);
    }
    its.reset();
    std::string word;
    char byte = 0;
    for (ssize_t got = 0; word.empty() || word.back() != kOver || word.size() < 3; word += byte) {
        while ((got = ::read(ours.get(), &byte, 1)) < 0 && errno == EINTR) {
        }
        if (got != 1) {
            ::waitpid(child, nullptr, 0);
            throw ExitError(exit_code::kUnavailable, ErrorCode::closed,
                            "the process that copies was ended",
                            "autolaunch stage-out goes on where it was");
        }
    }
    return take_last_word(word);
}

}  // namespace

int finish_stage_out(const CommandLine& line, const std::map<std::string, std::string>& environment,
                     const Screen& screen) {
    FinishRequest request{.scratch = line.gc.scratch,
                          .jobs = line.stage_out.jobs,
                          .only_list = line.stage_out.list,
                          .even_failed = line.stage_out.even_failed,
                          .may_overwrite = line.stage_out.overwrite,
                          .by_node = line.stage_out.layout == "node",
                          .discard = line.stage_out.discard,
                          .json = line.json};
    if (!line.spec_file.empty()) {
        const SpecResult result = load_spec({line.spec_file, {}, environment, {}, Secrets::mask});
        if (!result.errors.empty())
            return complain_of_spec(result.errors, screen);
        if (request.scratch.empty())
            request.scratch = scratch_of_spec(result.spec);
    }
    if (request.scratch.empty())
        request.scratch = scratch_of_site(read_site_file());
    return finish_beside(request, [&](const std::string& text) {
        line.json ? screen.print_json(text) : screen.print(text);
    });
}

}  // namespace autolaunch::launcher
