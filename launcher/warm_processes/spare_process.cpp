#include "warm_processes/spare_process.hpp"

#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "session/descriptor_message.hpp"
#include "session/environment.hpp"
#include "session/session_protocol.hpp"
#include "warm_processes/environment_change.hpp"
#include "warm_processes/process_priority.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <span>
#include <thread>
#include <utility>
#include <variant>

namespace autolaunch::launcher {

namespace {

constexpr int kItsSocket = 3;  // descriptor of the process
constexpr auto kEndTimeout = std::chrono::seconds(2);
constexpr off_t kMostPrinted = 4 << 20;
constexpr std::size_t kLastWords = 300;
/// So that what the environment becomes fits where the kernel shows it (lib/src/session/spare.cpp).
constexpr std::size_t kRoom = 6 << 10;

UniqueFd scratch(const char* name) {
    UniqueFd file(::memfd_create(name, MFD_CLOEXEC));
    if (!file)
        throw SystemError(errno, "make a memory file");
    ::fcntl(file.get(), F_SETFL, O_APPEND);
    return file;
}

std::string identity_of(const UniqueFd& file) {
    struct stat facts {};
    ::fstat(file.get(), &facts);
    return fmt::format("{}:{}", facts.st_dev, facts.st_ino);
}

off_t size_of(const UniqueFd& file) {
    struct stat facts {};
    return ::fstat(file.get(), &facts) == 0 ? facts.st_size : 0;
}

// `sender` is the kernel's word.
ssize_t receive_from(const UniqueFd& socket, std::span<char> bytes, pid_t& sender) {
    iovec part{bytes.data(), bytes.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t count = ::recvmsg(socket.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const cmsghdr* const header = count > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
    if (header != nullptr && header->cmsg_level == SOL_SOCKET &&
        header->cmsg_type == SCM_CREDENTIALS) {
        ucred credentials{};
        std::memcpy(&credentials, CMSG_DATA(header), sizeof credentials);
        sender = credentials.pid;
    }
    return count;
}

std::string signal_name(int signal) {
    const char* const name = ::sigabbrev_np(signal);
    return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

std::string describe(const ChildEnd& end) {
    return end.signal ? "it was ended by " + signal_name(*end.signal)
                      : fmt::format("it ended with exit code {}", end.exit_code.value_or(0));
}

// It stays to be waited for.
bool has_ended(pid_t child) {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == child;
}

}  // namespace

SpareProcess::SpareProcess(const ChildSpec& rank, bool low_priority)
    : started_with_(rank),
      low_priority_(low_priority),
      printed_(scratch("spare-stdout")),
      complained_(scratch("spare-stderr")),
      begun_at_(Clock::now()) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        throw SystemError(errno, "make a socket for a spare process");
    socket_.reset(ends[0]);
    const int wanted = 1;  // a child of its own inherits the other end, and its environment
    if (::setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &wanted, sizeof wanted) != 0)
        throw SystemError(errno, "have a spare process name itself");
    const UniqueFd its_end(ends[1]);
    auto& environment = started_with_.environment;
    environment = environment_of_spare(std::move(environment));
    environment.push_back(std::string(env::kStdout) + '=' + identity_of(printed_));
    environment.push_back(fmt::format("{}={}{}", env::kSpare, kItsSocket, std::string(kRoom, ' ')));
    const UniqueFd no_input = open_file("/dev/null", O_RDONLY);
    ChildSpec spec = started_with_;
    spec.stdin_fd = no_input.get();
    spec.stdout_fd = printed_.get();
    spec.stderr_fd = complained_.get();
    spec.inherited_fd = {.fd = its_end.get(), .as = kItsSocket};
    child_ = spawn_child(spec);
    if (low_priority_)
        lower_priority(child_.pid);
}

SpareProcess::~SpareProcess() { end(); }

void SpareProcess::end() {
    if (is_rank_ || child_.pid <= 0)
        return;
    ::kill(-child_.pid, SIGKILL);
    const Deadline deadline = Deadline::after(kEndTimeout);
    while (!reap_child(child_.pid, child_.pidfd.get()) && !deadline.passed())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    child_.pid = -1;
}

void SpareProcess::give_up(const std::string& why) {
    if (state_ == State::lost)
        return;
    why_lost_ = why;
    state_ = State::lost;
    end();
}

std::string SpareProcess::last_words() const {
    const off_t size = size_of(complained_);
    if (size == 0)
        return {};
    std::string text(kLastWords, '\0');
    const off_t from = std::max<off_t>(0, size - static_cast<off_t>(text.size()));
    const ssize_t count = ::pread(complained_.get(), text.data(), text.size(), from);
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    const auto lines = split(trim(text), '\n');
    return ": " + std::string(lines.empty() ? "" : trim(lines.back()));
}

SpareProcess::State SpareProcess::look() {
    if (state_ == State::lost)
        return state_;
    // What it has said is all here once it has ended: one that became the rank, and is done, is no
    // spare any more, and its end is the rank's.
    const bool ended = has_ended(child_.pid);
    hear();
    if (state_ == State::lost || is_rank_)
        return state_;
    if (const auto end = ended ? reap_child(child_.pid, child_.pidfd.get()) : std::nullopt) {
        child_.pid = -1;
        state_ = State::lost;
        why_lost_ = describe(*end) + last_words();
    } else if (std::max(size_of(printed_), size_of(complained_)) > kMostPrinted) {
        give_up("it has printed more than 4 MiB");
    }
    return state_;
}

void SpareProcess::hear() {
    std::array<char, 4096> bytes{};
    for (;;) {
        pid_t sender = -1;
        const ssize_t count = receive_from(socket_, bytes, sender);
        if (count <= 0)
            break;  // its end is seen by the process
        if (sender != child_.pid)
            return give_up("another process that it has started asked for a Session");
        input_.append(bytes.data(), static_cast<std::size_t>(count));
    }
    try {
        std::string line;
        while (state_ != State::lost && session::take_line(input_, line)) {
            const auto message = session::parse_rank_line(line);
            const auto* spare = message ? std::get_if<session::Spare>(&*message) : nullptr;
            if (spare == nullptr)
                continue;
            if (spare->state == "waits")
                state_ = State::waiting;
            else if (spare->state == "is_rank")
                is_rank_ = true;
            else
                give_up(spare->cannot);
        }
    } catch (const Error& error) {
        give_up(error.what());
    }
}

std::string SpareProcess::why_not(const ChildSpec& rank) const {
    if (rank.argv != started_with_.argv)
        return "its command line is another";
    if (rank.workdir != started_with_.workdir)
        return "its working directory is another";
    if (rank.cpus != started_with_.cpus || rank.memory_nodes != started_with_.memory_nodes)
        return "its CPUs are others";
    if (rank.file_limit != started_with_.file_limit)
        return "its limit on open files is another";
    return {};
}

void SpareProcess::copy_output(const ChildSpec& rank) {
    const UniqueFd* const from[2] = {&printed_, &complained_};
    const int to[2] = {rank.stdout_fd, rank.stderr_fd};
    std::array<char, 64 << 10> bytes{};
    for (int stream = 0; stream < 2; ++stream) {
        off_t& at = copied_[stream];
        while (at < kMostPrinted) {
            const ssize_t count = ::pread(from[stream]->get(), bytes.data(), bytes.size(), at);
            if (count <= 0 ||
                ::write(to[stream], bytes.data(), static_cast<std::size_t>(count)) != count)
                break;
            at += count;
        }
    }
}

std::optional<Child> SpareProcess::become(const ChildSpec& rank, std::chrono::milliseconds answer) {
    const EnvironmentChange change = change_between(started_with_.environment, rank.environment);
    session::BecomeRank become{change.set, change.unset};
    std::erase(become.unset, std::string(env::kSpare));  // it sees to that itself
    const std::string line = session::format(session::AgentMessage(become));
    const std::array<int, 2> streams = {rank.stdout_fd, rank.stderr_fd};
    if (low_priority_)
        restore_priority(child_.pid);
    copy_output(rank);
    if (line.size() > session::kMaxLineBytes ||
        send_with_descriptors(socket_.get(), line, streams) != static_cast<long>(line.size()))
        give_up("it could not be told which rank it is");
    const Deadline deadline = Deadline::after(answer);
    while (state_ != State::lost && !is_rank_ && !deadline.passed()) {
        pollfd waits[2] = {{socket_.get(), POLLIN, 0}, {child_.pidfd.get(), POLLIN, 0}};
        ::poll(waits, 2, deadline.poll_timeout_ms());
        look();
    }
    if (!is_rank_)
        give_up(fmt::format("it did not answer within {} s",
                            static_cast<double>(answer.count()) / 1000));
    if (state_ == State::lost)
        return std::nullopt;
    copy_output(rank);  // what it printed meanwhile
    return Child{.pid = child_.pid,
                 .pidfd = std::move(child_.pidfd),
                 .affinity_error = child_.affinity_error,
                 .memory_policy_error = child_.memory_policy_error};
}

}  // namespace autolaunch::launcher
