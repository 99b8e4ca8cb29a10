#include "staging/stager/agent_line.hpp"

#include "hand_over/agent_socket.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <thread>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostLine = 256U << 20;

}  // namespace

void say(const StagerWord& word) { send_to_agent(as_line(word)); }

void say_failed(StagingFailure failure) {
    say({.failed = {std::move(failure)}});
    ::_exit(0);
}

AgentLine::AgentLine() {
    std::thread([this] { listen(); }).detach();
}

std::string AgentLine::hear() {
    std::unique_lock lock(mutex_);
    heard_.wait(lock, [this] { return !lines_.empty(); });
    std::string line = std::move(lines_.front());
    lines_.pop_front();
    return line;
}

void AgentLine::listen() {
    std::string text;
    char bytes[65536];
    for (;;) {
        const ssize_t got = ::recv(0, bytes, sizeof bytes, 0);
        if (got <= 0 || text.size() > kMostLine)
            ::_exit(0);
        text.append(bytes, static_cast<std::size_t>(got));
        for (std::size_t end; (end = text.find('\n')) != std::string::npos;) {
            const std::lock_guard lock(mutex_);
            lines_.push_back(text.substr(0, end));
            text.erase(0, end + 1);
            heard_.notify_one();
        }
    }
}

}  // namespace autolaunch::launcher
