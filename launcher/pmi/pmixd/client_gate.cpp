#include "pmi/pmixd/client_gate.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/socket_owner.hpp"
#include "base/text.hpp"
#include "pmi/pmixd/pmix_claim.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

void set_patience(int socket, int seconds) {
    const timeval longest{seconds, 0};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
}

// What is looked at stays there for PMIx.
std::string peek(int socket, std::size_t bytes) {
    std::string text(bytes, '\0');
    const ssize_t count = ::recv(socket, text.data(), text.size(), MSG_PEEK | MSG_WAITALL);
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text;
}

std::optional<pmixd::PmixClaim> read_claim(int socket) {
    set_patience(socket, ClientGate::kPatienceSeconds);
    const auto bytes = pmixd::pmix_message_bytes(peek(socket, pmixd::kPmixHeaderBytes));
    const auto claim =
        bytes ? pmixd::parse_pmix_claim(peek(socket, std::min(*bytes, pmixd::kPmixClaimLimit)))
              : std::nullopt;
    set_patience(socket, 0);
    return claim;
}

// False as soon as the other end's last process has closed it, or PMIx has.
bool is_open(int socket) {
    pollfd one{socket, POLLRDHUP, 0};
    return ::poll(&one, 1, 0) == 0;
}

/// A process, and since when it is there, in the kernel's ticks.
struct Process {
    pid_t pid = -1;
    unsigned long long since = 0;
};

// The 22nd field of /proc/PID/stat; the second is a name in brackets, which may have blanks.
unsigned long long start_of(const fs::path& process) {
    constexpr std::size_t kFieldsAfterName = 19;
    std::string line;
    try {
        line = read_file(process / "stat");
    } catch (const Error&) {  // it has ended
        return 0;
    }
    const auto fields = split(line.substr(std::min(line.rfind(')') + 2, line.size())), ' ');
    long long since = 0;
    if (fields.size() <= kFieldsAfterName || !parse_integer(fields[kFieldsAfterName], since))
        return 0;
    return static_cast<unsigned long long>(since);
}

bool has_open(const fs::path& process, const std::string& socket) {
    std::error_code error;
    for (const fs::path& descriptor : list_folder(process / "fd", error))
        if (fs::read_symlink(descriptor, error) == socket)
            return true;
    return false;
}

// How /proc/PID/fd names the other end of `socket`; empty: nobody has it any more.
std::string name_of_far_end(int socket) {
    const auto ends = tcp_ends(socket);
    const auto inode = ends ? tcp_inode(ends->seen_from_far()) : std::nullopt;
    return inode ? "socket:[" + std::to_string(*inode) + "]" : "";
}

// Children inherit a client's socket: the eldest of those that have it made it. Some milliseconds;
// asked only when two want to be one rank.
std::optional<Process> client_behind(int socket) {
    const std::string wanted = name_of_far_end(socket);
    std::optional<Process> eldest;
    std::error_code error;
    for (const fs::path& process : list_folder("/proc", error)) {
        long long pid = 0;
        if (wanted.empty() || !parse_integer(process.filename().native(), pid) ||
            !has_open(process, wanted))
            continue;
        const Process found{static_cast<pid_t>(pid), start_of(process)};
        if (!eldest || std::pair(found.since, found.pid) < std::pair(eldest->since, eldest->pid))
            eldest = found;
    }
    return eldest;
}

// The number cannot become another process's between the last look and the signal.
void end_client(pid_t pid, int socket) {
    const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (process && has_open("/proc/" + std::to_string(pid), name_of_far_end(socket)))
        ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
}

std::string describe(const std::optional<Process>& process) {
    if (!process)
        return "a process that is not seen from here";
    const std::string pid = std::to_string(process->pid);
    std::string command;
    try {
        command = read_file("/proc/" + pid + "/cmdline");
    } catch (const Error&) {  // it has ended
    }
    return command.substr(0, command.find('\0')) + ", pid " + pid;
}

}  // namespace

std::string ClientGate::refuse(int socket) {
    const auto claim = read_claim(socket);
    if (!claim)
        return {};  // a tool, or what PMIx itself turns away
    auto& clients = clients_[{claim->name_space, claim->rank}];
    std::erase_if(clients, [](const UniqueFd& client) { return !is_open(client.get()); });
    for (const UniqueFd& client : clients) {
        const auto first = client_behind(client.get()), second = client_behind(socket);
        if ((first && second && first->pid == second->pid) || !is_open(client.get()))
            continue;
        const std::string text =
            "rank " + std::to_string(claim->rank) + " is " + describe(first) +
            ": a second process that called MPI_Init as this rank at the same time (" +
            describe(second) + ") was " + (second ? "killed" : "refused") +
            ". Does the rank start several MPI programs side by side (srun --mpi=none, xargs -P, "
            "make -j, &)? Start each by an mpirun of its own";
        if (second)
            end_client(second->pid, socket);
        return text;
    }
    clients.emplace_back(::fcntl(socket, F_DUPFD_CLOEXEC, 0));
    return {};
}

}  // namespace autolaunch::launcher
