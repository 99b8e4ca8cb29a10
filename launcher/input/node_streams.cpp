#include "input/node_streams.hpp"

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

namespace {

// The first byte of a message.
constexpr char kReady = 'r';  // from the node: send
constexpr char kData = 'd';   // what follows is of the credited stream, either way
constexpr char kEnd = 'e';    // from the head: the input has ended
constexpr char kLeft = 'x';   // from the node: nobody reads any more

NodeSink::Send as_data(const NodeSink::Send& send) {
    return [send](std::string message) {
        message.insert(message.begin(), kData);
        send(std::move(message));
    };
}

char kind_of(std::string_view message) {
    if (message.empty())
        store_relay::refuse_bytes("an empty message about stdin");
    return message.front();
}

}  // namespace

NodeSink::NodeSink(Send send, std::function<void()> on_room)
    : send_(std::move(send)), on_room_(std::move(on_room)), stream_(as_data(send_)) {}

bool NodeSink::has_room() const {
    return is_ready_ && stream_.backlog_bytes() < store_relay::CreditedStream::kPauseAboveBytes;
}

void NodeSink::put(std::string_view bytes) {
    stream_.output().append(bytes);
    flush();
}

void NodeSink::finish() {
    is_finished_ = true;
    flush();
}

void NodeSink::flush() {
    stream_.flush();
    if (!is_finished_ || is_gone_ || stream_.backlog_bytes() > 0)
        return;
    is_gone_ = true;
    send_(std::string(1, kEnd));
}

void NodeSink::hear(std::string_view message) {
    switch (kind_of(message)) {
        case kReady:
            is_ready_ = true;
            break;
        case kLeft:
            is_gone_ = true;
            break;
        case kData:
            stream_.receive(message.substr(1));
            flush();
            break;
        default:
            store_relay::refuse_bytes("no message about stdin");
    }
    on_room_();
}

RelayedInput::RelayedInput(NodeSink::Send send) : send_(std::move(send)), stream_(as_data(send_)) {
    send_(std::string(1, kReady));
}

void RelayedInput::hear(std::string_view message) {
    switch (kind_of(message)) {
        case kData: {
            const std::string_view bytes = stream_.receive(message.substr(1));
            if (!left_)
                arrived_.append(bytes);
            break;
        }
        case kEnd:
            ended_ = true;
            break;
        default:
            store_relay::refuse_bytes("no message about stdin");
    }
    tell_ready();
}

void RelayedInput::give_up() {
    ended_ = true;
    tell_ready();
}

void RelayedInput::tell_ready() {
    if (const auto on_ready = std::exchange(on_ready_, nullptr))
        on_ready();
}

InputState RelayedInput::read(std::string& into, std::size_t most) {
    const std::size_t count = std::min(most, arrived_.size() - offset_);
    if (count == 0)
        return ended_ ? InputState::ended : InputState::nothing_yet;
    into.append(arrived_, offset_, count);
    offset_ += count;
    if (offset_ == arrived_.size()) {
        arrived_.clear();
        offset_ = 0;
    } else if (offset_ > arrived_.size() / 2) {
        arrived_.erase(0, std::exchange(offset_, 0));
    }
    stream_.taken(count);
    stream_.flush();
    return InputState::bytes;
}

void RelayedInput::leave() {
    if (std::exchange(left_, true) || ended_)
        return;
    arrived_ = {};
    offset_ = 0;
    send_(std::string(1, kLeft));
}

}  // namespace autolaunch::launcher
