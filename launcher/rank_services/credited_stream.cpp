#include "rank_services/credited_stream.hpp"

#include "store/protocol.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <utility>

namespace autolaunch::launcher::store_relay {

void refuse_bytes(const std::string& what) {
    throw Error(ErrorCode::corrupt, "store relay: " + what);
}
namespace {

constexpr std::size_t kCreditBytes = 4;
constexpr std::size_t kWorthAMessage = CreditedStream::kWindowBytes / 4;

}  // namespace

void CreditedStream::send_message(std::size_t bytes) {
    std::string message;
    message.reserve(kCreditBytes + bytes);
    store::append_u32(message, static_cast<std::uint32_t>(taken_));
    may_arrive_ += std::exchange(taken_, 0);
    message.append(output_, offset_, bytes);
    offset_ += bytes;
    may_send_ -= bytes;
    send_(std::move(message));
}

void CreditedStream::flush() {
    while (backlog_bytes() > 0 && may_send_ > 0) {
        send_message(std::min({backlog_bytes(), may_send_, kMessageBytes}));
    }
    if (taken_ >= kWorthAMessage)
        send_message(0);
    if (offset_ == output_.size()) {
        output_.clear();
        if (output_.capacity() > kWindowBytes)
            output_.shrink_to_fit();
        offset_ = 0;
    } else if (offset_ > output_.size() / 2) {
        output_.erase(0, offset_);
        offset_ = 0;
    }
}

std::string_view CreditedStream::receive(std::string_view message) {
    if (message.size() < kCreditBytes)
        refuse_bytes("a message without its credit");
    const auto credit = static_cast<std::size_t>(store::load_le(message.data(), kCreditBytes));
    message.remove_prefix(kCreditBytes);
    if (credit > kWindowBytes - may_send_)
        refuse_bytes("more was taken than was sent");
    if (message.size() > may_arrive_)
        refuse_bytes("more came than the window allows");
    may_send_ += credit;
    may_arrive_ -= message.size();
    return message;
}

}  // namespace autolaunch::launcher::store_relay
