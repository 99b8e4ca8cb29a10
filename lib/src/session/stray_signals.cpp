#include "session/stray_signals.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>

namespace autolaunch::session {
namespace {

// A handler has nothing but what is global.
std::atomic<pid_t> this_process{0};
std::atomic<pid_t> agent{0}, starter{0};
std::atomic<int> noted_signal{0};
std::atomic<std::int64_t> noted_at{0};

static_assert(std::atomic<pid_t>::is_always_lock_free);
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t now_s() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

// Takes effect at once, or at the end of the signal's own handler, which blocks it.
void end_by(int signal) {
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    ::sigaction(signal, &standard, nullptr);
    ::raise(signal);
}

bool is_for_us(const siginfo_t& info) {
    const pid_t sender = info.si_pid;
    return info.si_code > 0 || ::getpid() != this_process || sender == 0 || sender == agent ||
           sender == starter || sender == this_process;
}

void on_stop(int signal, siginfo_t* info, void*) {
    if (is_for_us(*info))
        return end_by(signal);
    int none = 0;
    if (noted_signal.compare_exchange_strong(none, signal))
        noted_at = now_s();
}

bool is_default(int signal) {
    struct sigaction current {};
    return ::sigaction(signal, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) == 0 &&
           current.sa_handler == SIG_DFL;
}

pid_t peer_of(int socket) {
    ucred peer{};
    socklen_t bytes = sizeof peer;
    return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 ? peer.pid : 0;
}

// The launcher's own child leads the group; a shell may stand between it and us. The parent is the
// second field after the name, which may hold anything.
pid_t parent_of(pid_t process) {
    try {
        const std::string stat = read_file("/proc/" + std::to_string(process) + "/stat");
        const auto fields = split(std::string_view(stat).substr(stat.rfind(')') + 1), ' ');
        long long parent = 0;
        if (fields.size() > 2 && parse_integer(fields[2], parent))
            return static_cast<pid_t>(parent);
    } catch (const Error&) {  // it is gone
    }
    return ::getppid();
}

}  // namespace

void leave_notices_to_agent() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    for (const int signal : {SIGUSR1, SIGUSR2})
        if (is_default(signal))
            ::sigaction(signal, &ignore, nullptr);
}

void leave_stops_to_agent(int agent_socket) {
    this_process = ::getpid();
    agent = peer_of(agent_socket);
    starter = parent_of(::getpgrp());
    struct sigaction note {};
    note.sa_sigaction = on_stop;
    note.sa_flags = SA_SIGINFO | SA_RESTART;
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT})
        if (is_default(signal))
            ::sigaction(signal, &note, nullptr);
}

void end_if_unanswered() {
    const int signal = noted_signal;
    if (signal != 0 && now_s() - noted_at > kStrayPatience.count())
        end_by(signal);
}

}  // namespace autolaunch::session
