#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace autolaunch::launcher::store_relay {

/// For what the peer cannot have meant: Error{corrupt}.
[[noreturn]] void refuse_bytes(const std::string& what);

/// A byte stream in each direction, carried in messages of a connection that others use, too. What
/// is under way and not yet taken is at most a window, so that a large value holds up nobody and
/// fills no buffer. Each message is the number of bytes taken since the last one (u32), then bytes
/// of the stream. Pure.
///
/// Owner: each end, one per peer. Threads: one. Blocks: never.
class CreditedStream {
public:
    static constexpr std::size_t kWindowBytes = std::size_t{4} << 20;
    static constexpr std::size_t kMessageBytes = std::size_t{256} << 10;
    /// Whose backlog is longer takes no more to send from others.
    static constexpr std::size_t kPauseAboveBytes = std::size_t{1} << 20;

    using Send = std::function<void(std::string message)>;
    explicit CreditedStream(Send send) : send_(std::move(send)) {}

    /// Appends what is to go out; flush() sends.
    std::string& output() { return output_; }
    /// Sends what the window allows, and what was taken when that is worth a message.
    void flush();
    std::size_t backlog_bytes() const { return output_.size() - offset_; }

    /// The bytes of the stream in a message. Throws Error{corrupt} for what is none, or is beyond
    /// the window: the stream is then of no use.
    std::string_view receive(std::string_view message);
    /// Of what was received: the peer may send as much again.
    void taken(std::size_t bytes) { taken_ += bytes; }

private:
    void send_message(std::size_t bytes);

    Send send_;
    std::string output_;
    std::size_t offset_ = 0;
    std::size_t may_send_ = kWindowBytes;
    std::size_t may_arrive_ = kWindowBytes;
    std::size_t taken_ = 0;  // and not yet told
};

}  // namespace autolaunch::launcher::store_relay
