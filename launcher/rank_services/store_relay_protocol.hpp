#pragma once
#include "store/protocol.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

/// What a node's store relay and the head say to each other: docs/store-protocol.md has the bytes.
/// Plain data and its codec. Tickets are numbers that the relay gives out: to its clients, and to
/// each request that has a reply.
namespace autolaunch::launcher::store_relay {

// From a relay.
struct Ask {
    std::uint64_t ticket = 0;  ///< of the request, or of the client when the request has no reply
    store::Request request;
};
/// Tell me when the key exists, or its queue has an element pushed after `after`.
struct Watch {
    std::uint64_t ticket = 0;
    std::uint64_t after = 0;
    std::string key;
};
/// The Watch or the BARRIER of this ticket is no longer of interest.
struct Unwatch {
    std::uint64_t ticket = 0;
    std::string key;
};
using Question = std::variant<Ask, Watch, Unwatch>;

// From the head.
struct Reply {
    std::uint64_t ticket = 0;
    std::string bytes;  ///< as they go to the client
};
/// The end of a Watch.
struct Appeared {
    std::uint64_t ticket = 0;
    std::uint64_t push = 0;  ///< 0: the key exists; else the number of the push
};
/// No reply exists for the request of this ticket: its client is to be disconnected.
struct Refused {
    std::uint64_t ticket = 0;
};
/// The relay sent what is no item: it is not listened to any more.
struct Hangup {};
using Answer = std::variant<Reply, Appeared, Refused, Hangup>;

void append(std::string& out, const Question& question);
void append(std::string& out, const Answer& answer);

/// The envelope of either.
struct Item {
    std::uint8_t kind = 0;
    std::uint64_t ticket = 0;
    std::string body;
};

/// Cuts a byte stream into items. Holds what has arrived, and refuses a length over the limit at
/// once. Owner: one per direction and node. Threads: one.
class ItemReader {
public:
    explicit ItemReader(std::size_t body_limit) : body_limit_(body_limit) {}
    void feed(std::string_view bytes) { buffer_.append(bytes); }
    /// Nothing when more bytes are needed. Throws Error{corrupt}: the stream is then of no use.
    std::optional<Item> next();
    /// Of memory, for an item that is not whole.
    std::size_t buffered_bytes() const { return buffer_.capacity(); }

private:
    std::size_t body_limit_;
    std::string buffer_;
    std::size_t offset_ = 0;
};

/// Limits of the bodies; a relay's and the head's.
std::size_t question_limit(const store::Limits& limits);
std::size_t answer_limit(const store::Limits& limits);

/// Throw Error{corrupt}: only this item is bad.
Question parse_question(Item&& item, const store::Limits& limits);
Answer parse_answer(Item&& item);

}  // namespace autolaunch::launcher::store_relay
