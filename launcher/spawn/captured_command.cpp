#include "spawn/captured_command.hpp"

#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostComplaint = 4096, kShownComplaint = 300;
constexpr int kLook = 20;  // ms, between two looks whether it has ended
constexpr auto kCommandEndTime = std::chrono::seconds(1);

// What it is told, to be read from its beginning: a file in memory takes all of it at once, and a
// command that does not read it stops nobody.
UniqueFd input_of(std::string_view text) {
    if (text.empty())
        return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    UniqueFd file(::memfd_create("autolaunch-input", MFD_CLOEXEC));
    while (file && !text.empty()) {
        const ssize_t written = ::write(file.get(), text.data(), text.size());
        if (written <= 0)
            throw SystemError(errno, "keep the input of a command");
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    if (file)
        ::lseek(file.get(), 0, SEEK_SET);
    return file;
}

// In the new process. It writes to pipes that wait, as programs expect.
[[noreturn]] void become(const std::vector<char*>& argv, int in, int out, int err, int report) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const rlimit no_core = {0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    for (int signal = 1; signal < NSIG; ++signal)
        ::signal(signal, SIG_DFL);
    ::fcntl(out, F_SETFL, 0);
    ::fcntl(err, F_SETFL, 0);
    if (::dup2(in, 0) == 0 && ::dup2(out, 1) == 1 && ::dup2(err, 2) == 2)
        ::execvp(argv[0], argv.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t told = ::write(report, &error, sizeof error);
    ::_exit(127);
}

}  // namespace

CapturedCommand::Pipe CapturedCommand::make_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        throw SystemError(errno, "make a pipe");
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

CapturedCommand::CapturedCommand(const std::vector<std::string>& argv, std::string_view input,
                                 std::size_t most)
    : most_(most), out_(make_pipe()), err_(make_pipe()), report_(make_pipe()) {
    const UniqueFd in = input_of(input);
    std::vector<char*> pointers;
    for (const std::string& argument : argv)
        pointers.push_back(const_cast<char*>(argument.c_str()));  // execvp's old signature
    pointers.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ < 0)
        throw SystemError(errno, "start a process",
                          "the limit on processes may be reached: see ulimit -u");
    if (pid_ == 0)
        become(pointers, in.get(), out_.writing.get(), err_.writing.get(), report_.writing.get());
    ::setpgid(pid_, pid_);
    for (Pipe* pipe : {&out_, &err_, &report_})
        pipe->writing.reset();
}

CapturedCommand::~CapturedCommand() {
    if (pid_ <= 0)
        return;
    ::kill(-pid_, SIGKILL);
    const Deadline deadline = Deadline::after(kCommandEndTime);  // it may hang in the kernel
    while (::waitpid(pid_, nullptr, WNOHANG) == 0 && !deadline.passed())
        ::usleep(1000);
}

bool CapturedCommand::read_some(const UniqueFd& from, std::string& to, std::size_t most,
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

bool CapturedCommand::read_all() {
    return read_some(out_.reading, printed_, most_, false) &&
           read_some(err_.reading, complained_, kMostComplaint, true);
}

// Its own end counts, not that of its output: a process that it left behind may hold that open.
bool CapturedCommand::wait(const Deadline& deadline) {
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

std::string CapturedCommand::complaint() const {
    const auto lines = split(trim(complained_), '\n');
    std::string line(lines.empty() ? std::string_view() : trim(lines.back()));
    if (line.size() > kShownComplaint)
        line.resize(kShownComplaint);
    return line.empty() ? std::string() : ": " + line;
}

int CapturedCommand::not_executed() const {
    int error = 0;
    return ::read(report_.reading.get(), &error, sizeof error) == sizeof error ? error : 0;
}

}  // namespace autolaunch::launcher
