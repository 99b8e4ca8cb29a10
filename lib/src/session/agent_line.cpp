#include "session/agent_line.hpp"

#include "base/deadline.hpp"
#include "session/descriptor_message.hpp"
#include "session/unix_address.hpp"

#include <autolaunch/error.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

namespace autolaunch::session {
namespace {
constexpr std::size_t kMaxPendingBytes = 256U << 10;
}  // namespace

AgentLine::AgentLine(const std::filesystem::path& socket, const Hello& hello,
                     std::chrono::milliseconds timeout) {
    try {
        socket_ = connect_to_unix(socket, Deadline::after(timeout));
    } catch (const Error&) {  // its directory is gone: so is the agent
    }
    announce(hello);
}

void AgentLine::report(const RankMessage& message) {
    flush();
    if (output_.size() < kMaxPendingBytes)
        announce(message);
}

void AgentLine::announce(const RankMessage& message) {
    if (!connected())
        return;
    output_ += format(message);
    flush();
}

void AgentLine::announce(const RankMessage& message, UniqueFd file) {
    file_ = std::move(file);
    file_at_ = output_.size();
    announce(message);
}

// A descriptor goes with the first byte of the send that carries it.
long AgentLine::send_some(std::size_t sent) {
    const bool with_file = file_ && file_at_ == sent;
    const std::size_t end = file_ && !with_file ? file_at_ : output_.size();
    const auto bytes = std::string_view(output_).substr(sent, end - sent);
    const ssize_t count = send_with_descriptor(socket_.get(), bytes, with_file ? file_.get() : -1);
    if (with_file && count > 0)
        file_.reset();
    return count;
}

void AgentLine::flush() {
    std::size_t sent = 0;
    while (connected() && sent < output_.size()) {
        const ssize_t count = send_some(sent);
        if (count >= 0) {
            sent += static_cast<std::size_t>(count);
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            output_.clear();
            return receive();  // the agent's last words; then its end
        }
    }
    output_.erase(0, sent);
    file_at_ -= std::min(file_at_, sent);
}

std::optional<AgentMessage> AgentLine::poll() {
    flush();
    receive();
    std::string line;
    try {
        while (take_line(input_, line)) {
            if (auto message = parse_agent_line(line))
                return message;
        }
    } catch (const Error&) {  // not an agent that we understand
        hang_up();
    }
    return std::nullopt;
}

/// What came before a hang-up still counts.
void AgentLine::receive() {
    std::array<char, 4096> bytes{};
    while (connected() && input_.size() < kMaxLineBytes) {
        const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
        if (count > 0) {
            input_.append(bytes.data(), static_cast<std::size_t>(count));
        } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
            socket_.reset();
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

void AgentLine::hang_up() {
    socket_.reset();
    output_.clear();
    input_.clear();
}

}  // namespace autolaunch::session
