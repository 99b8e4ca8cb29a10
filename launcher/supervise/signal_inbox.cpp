#include "supervise/signal_inbox.hpp"

#include <autolaunch/error.hpp>

#include <csignal>
#include <string>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

// As nohup asks for. A shell without job control ignores SIGINT and SIGQUIT for whatever a script
// starts with `&`, and nobody asked for that: who sends them means us.
bool ignored(int signal) {
    if (signal == SIGINT || signal == SIGQUIT)
        return false;
    struct sigaction current {};
    return ::sigaction(signal, nullptr, &current) == 0 && current.sa_handler == SIG_IGN;
}

}  // namespace

SignalInbox::SignalInbox(asio::io_context& io, const std::vector<int>& signals,
                         std::function<void(int)> on_signal)
    : signals_(io), on_signal_(std::move(on_signal)) {
    for (const int signal : signals) {
        if (ignored(signal))
            continue;
        std::error_code error;
        signals_.add(signal, error);
        if (error)
            throw Error(ErrorCode::invalid_argument,
                        "cannot handle signal " + std::to_string(signal) + ": " + error.message(),
                        "leave it out of --signals-to-handle");
    }
    wait();
}

void SignalInbox::wait() {
    signals_.async_wait([this](const std::error_code& error, int signal) {
        if (error)
            return;
        const auto now = std::chrono::steady_clock::now();
        const auto last = last_.find(signal);
        const bool repeated =
            signal != SIGCHLD && last != last_.end() && now - last->second < kRepetition;
        last_[signal] = now;
        if (!repeated)
            on_signal_(signal);
        wait();
    });
}

}  // namespace autolaunch::launcher
