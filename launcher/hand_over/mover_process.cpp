#include "hand_over/mover_process.hpp"

#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "spawn/spawn.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <asio/buffer.hpp>
#include <asio/write.hpp>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostHeard = 256U << 20;
constexpr int kItsDoor = 3;
constexpr auto kEnd = std::chrono::seconds(2);

fs::path find_program(const std::string& name) {
    std::error_code error;
    const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
    if (!error)
        for (const char* place :
             {"../libexec/autolaunch", "hand_over", "staging", "stage_out", "."})
            if (const fs::path path = folder / place / name; ::access(path.c_str(), X_OK) == 0)
                return path;
    throw Error(ErrorCode::unsupported, name + " is not beside autolaunch");
}

std::pair<UniqueFd, UniqueFd> pair_of_sockets(int type) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0)
        throw SystemError(errno, "make a pair of sockets");
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

MoverProcess::MoverProcess(asio::io_context& io, std::chrono::milliseconds silence,
                           Handlers handlers, const Program& program)
    : socket_(io),
      timer_(io),
      silence_(silence),
      name_(program.name),
      handlers_(std::move(handlers)) {
    auto [ours, its] = pair_of_sockets(SOCK_STREAM);
    auto [our_door, its_door] = pair_of_sockets(SOCK_SEQPACKET);
    const UniqueFd nowhere = open_file("/dev/null", O_RDWR);
    ChildSpec spec;
    spec.argv = {find_program(name_)};
    spec.environment = program.environment;
    spec.workdir = "/";
    spec.stdin_fd = its.get();
    spec.stdout_fd = spec.stderr_fd = nowhere.get();
    spec.inherited_fd = {.fd = its_door.get(), .as = kItsDoor};
    spec.deaf = true;
    Child child = spawn_child(spec);
    pid_ = child.pid;
    pidfd_ = std::move(child.pidfd);
    door_ = std::move(our_door);
    ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
    socket_.assign(ours.release());
    read();
    watch();
}

MoverProcess::~MoverProcess() { kill(); }

void MoverProcess::kill() {
    if (pid_ <= 0)
        return;
    ::kill(pid_, SIGKILL);
    const Deadline deadline = Deadline::after(kEnd);
    while (::waitpid(pid_, nullptr, WNOHANG) == 0 && !deadline.passed())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    pid_ = -1;
}

void MoverProcess::send(std::string line) {
    unsent_ += std::move(line) + '\n';
    if (!writing_)
        write();
}

void MoverProcess::write() {
    writing_ = !unsent_.empty();
    if (!writing_)
        return;
    socket_.async_write_some(asio::buffer(unsent_),
                             [this](const std::error_code& error, std::size_t count) {
                                 if (error)
                                     return;  // reading tells
                                 unsent_.erase(0, count);
                                 write();
                             });
}

void MoverProcess::read() {
    socket_.async_read_some(asio::buffer(bytes_),
                            [this](const std::error_code& error, std::size_t count) {
                                if (error == asio::error::operation_aborted)
                                    return;
                                if (error || heard_.size() > kMostHeard)
                                    return end(name_ + " has ended");
                                heard_.append(bytes_, count);
                                watch();
                                read();
                                take_lines();  // last: its handler may end us
                            });
}

void MoverProcess::take_lines() {
    std::string lines;
    const auto last = heard_.rfind('\n');
    if (last == std::string::npos)
        return;
    lines = heard_.substr(0, last + 1);
    heard_.erase(0, last + 1);
    const auto on_line = handlers_.on_line;
    for (std::size_t at = 0, end; (end = lines.find('\n', at)) != std::string::npos; at = end + 1)
        on_line(lines.substr(at, end - at));
}

void MoverProcess::watch() {
    if (!is_awaited_)
        return;
    timer_.expires_after(silence_);
    timer_.async_wait([this](const std::error_code& error) {
        if (!error && is_awaited_)
            end(name_ + " does not answer");
    });
}

void MoverProcess::expect_nothing() {
    is_awaited_ = false;
    timer_.cancel();
}

void MoverProcess::end(const std::string& why) {
    std::error_code ignored;
    timer_.cancel();
    socket_.close(ignored);
    kill();
    if (const auto on_end = std::exchange(handlers_.on_end, nullptr))
        on_end(why);
}

}  // namespace autolaunch::launcher
