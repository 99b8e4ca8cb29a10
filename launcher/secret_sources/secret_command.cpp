#include "secret_sources/secret_command.hpp"

#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "exit_codes/exit_error.hpp"
#include "secret_sources/secret_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <system_error>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostComplaint = 4096, kShownComplaint = 300;
constexpr int kLook = 20;  // ms, between two looks whether it has ended
constexpr auto kEndTime = std::chrono::seconds(1);

[[noreturn]] void refuse_command(const std::string& what, const std::string& why,
                                 std::string hint = {}, int code = exit_code::kUnavailable) {
    throw ExitError(code, ErrorCode::system, what + ": " + why, std::move(hint));
}

struct Pipe {
    UniqueFd reading, writing;
};

Pipe make_pipe(const std::string& what) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        refuse_command(what, "no pipe: " + std::generic_category().message(errno), {},
                       exit_code::kSystem);
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// In the new process. It writes to pipes that wait, as programs expect.
[[noreturn]] void become(const std::vector<char*>& argv, int out, int err, int report) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const rlimit no_core = {0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    for (int signal = 1; signal < NSIG; ++signal)
        ::signal(signal, SIG_DFL);
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::fcntl(out, F_SETFL, 0);
    ::fcntl(err, F_SETFL, 0);
    if (::dup2(nothing, 0) == 0 && ::dup2(out, 1) == 1 && ::dup2(err, 2) == 2)
        ::execvp(argv[0], argv.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t told = ::write(report, &error, sizeof error);
    ::_exit(127);
}

/// A command that runs, with all of its group.
class RunningCommand {
public:
    RunningCommand(const std::string& what, const std::vector<std::string>& argv);
    RunningCommand(const RunningCommand&) = delete;
    RunningCommand& operator=(const RunningCommand&) = delete;
    ~RunningCommand();

    /// What it has printed when it has ended; nothing at the deadline, or where it prints too much.
    bool wait(const Deadline& deadline);
    int status() const { return status_; }
    std::string& printed() { return printed_; }
    /// The last line of what it said on stderr.
    std::string complaint() const;
    /// errno of its execution; 0: it ran.
    int not_executed() const;

private:
    bool read_all();
    static bool read_some(const UniqueFd& from, std::string& to, std::size_t most, bool keep_last);

    pid_t pid_ = -1;
    int status_ = 0;
    Pipe out_, err_, report_;
    std::string printed_, complained_;
};

RunningCommand::RunningCommand(const std::string& what, const std::vector<std::string>& argv)
    : out_(make_pipe(what)), err_(make_pipe(what)), report_(make_pipe(what)) {
    std::vector<char*> pointers;
    for (const std::string& argument : argv)
        pointers.push_back(const_cast<char*>(argument.c_str()));  // execvp's old signature
    pointers.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ < 0)
        refuse_command(what, "it cannot be started: " + std::generic_category().message(errno),
                       "the limit on processes may be reached: see ulimit -u", exit_code::kSystem);
    if (pid_ == 0)
        become(pointers, out_.writing.get(), err_.writing.get(), report_.writing.get());
    ::setpgid(pid_, pid_);
    for (Pipe* pipe : {&out_, &err_, &report_})
        pipe->writing.reset();
}

RunningCommand::~RunningCommand() {
    if (pid_ <= 0)
        return;
    ::kill(-pid_, SIGKILL);
    const Deadline deadline = Deadline::after(kEndTime);  // it may hang in the kernel
    while (::waitpid(pid_, nullptr, WNOHANG) == 0 && !deadline.passed())
        ::usleep(1000);
}

bool RunningCommand::read_some(const UniqueFd& from, std::string& to, std::size_t most,
                               bool keep_last) {
    std::array<char, 65536> buffer;
    ssize_t got = 0;
    while ((got = ::read(from.get(), buffer.data(), buffer.size())) > 0) {
        to.append(buffer.data(), static_cast<std::size_t>(got));
        if (to.size() > most && !keep_last)
            return false;
        if (to.size() > most)
            to.erase(0, to.size() - most);
    }
    ::explicit_bzero(buffer.data(), buffer.size());
    return true;
}

bool RunningCommand::read_all() {
    return read_some(out_.reading, printed_, kLongestSecret, false) &&
           read_some(err_.reading, complained_, kMostComplaint, true);
}

// Its own end counts, not that of its output: a process that it left behind may hold that open.
bool RunningCommand::wait(const Deadline& deadline) {
    while (!deadline.passed()) {
        const pid_t ended = ::waitpid(pid_, &status_, WNOHANG);
        if (!read_all())
            return false;
        if (ended == pid_) {
            ::kill(-pid_, SIGKILL);
            pid_ = -1;
            return read_all();
        }
        std::array<pollfd, 2> come{pollfd{out_.reading.get(), POLLIN, 0},
                                   pollfd{err_.reading.get(), POLLIN, 0}};
        if (::poll(come.data(), come.size(), kLook) > 0 &&
            ((come[0].revents | come[1].revents) & POLLIN) == 0)
            ::usleep(kLook * 1000);  // both are closed, and it has not ended
    }
    return false;
}

std::string RunningCommand::complaint() const {
    const auto lines = split(trim(complained_), '\n');
    std::string line(lines.empty() ? std::string_view() : trim(lines.back()));
    if (line.size() > kShownComplaint)
        line.resize(kShownComplaint);
    return line.empty() ? std::string() : ": " + line;
}

int RunningCommand::not_executed() const {
    int error = 0;
    return ::read(report_.reading.get(), &error, sizeof error) == sizeof error ? error : 0;
}

// What it printed is nowhere in an error, also where it says it twice.
std::string without(std::string text, const std::string& printed) {
    for (const auto& line : split(printed, '\n')) {
        const std::string part(trim(line));
        for (std::size_t at = text.find(part); part.size() >= 4 && at != std::string::npos;
             at = text.find(part, at + 3))
            text.replace(at, part.size(), "***");
    }
    return text;
}

}  // namespace

std::string read_secret_of_command(const std::string& what, const std::vector<std::string>& argv,
                                   const Deadline& deadline) {
    const std::string hint =
        "it runs without a shell, on the head's node, and prints the secret and nothing else";
    RunningCommand command(what, argv);
    const bool whole = command.wait(deadline);
    if (const int error = command.not_executed())
        refuse_command(
            what, argv[0] + " cannot be executed: " + std::generic_category().message(error), hint);
    if (!whole && command.printed().size() > kLongestSecret)
        refuse_command(what, argv[0] + " prints more than 1 MiB", hint, exit_code::kBadData);
    const std::string said = without(command.complaint(), command.printed());
    if (!whole)
        refuse_command(what, argv[0] + " has not ended in its time" + said,
                       "does it ask for something? It has no terminal and no input");
    if (WIFSIGNALED(command.status()))
        refuse_command(
            what,
            fmt::format("{} was ended by signal {}{}", argv[0], WTERMSIG(command.status()), said),
            hint);
    if (WEXITSTATUS(command.status()) != 0)
        refuse_command(what,
                       fmt::format("{} ended with exit code {}{}", argv[0],
                                   WEXITSTATUS(command.status()), said),
                       hint);
    if (command.printed().find_first_not_of("\r\n") == std::string::npos)
        refuse_command(what, argv[0] + " printed nothing" + said, hint, exit_code::kBadData);
    return std::move(command.printed());
}

}  // namespace autolaunch::launcher
