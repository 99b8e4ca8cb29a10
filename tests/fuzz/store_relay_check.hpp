#pragma once
#include "../integration/posted_members.hpp"
#include "rank_services/store_relay_head.hpp"
#include "rank_services/store_relay_protocol.hpp"
#include "store/table_service.hpp"

#include <autolaunch/error.hpp>

#include <asio/io_context.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

/// Bytes from a node's store relay: the head answers or refuses each item, hangs up on what is
/// none, and keeps no waiter of a node that is gone. Items that decode encode to the same bytes.
/// Aborts where that is not so.
namespace autolaunch::launcher::store_relay {

inline store::Limits small_limits() {
    store::Limits limits;
    limits.key_bytes = 1U << 10;
    limits.value_bytes = limits.request_bytes = limits.reply_bytes = 1U << 16;
    limits.table_bytes = 1U << 20;
    return limits;
}

/// Whatever decodes is what it was made of.
inline void check_items(std::string_view bytes, const store::Limits& limits) {
    ItemReader reader(question_limit(limits));
    reader.feed(bytes);
    while (auto item = reader.next()) {
        const Item original = *item;
        std::string encoded;
        try {
            append(encoded, parse_question(std::move(*item), limits));
        } catch (const Error&) {
            continue;
        }
        if (encoded.substr(8 + 9) != original.body)
            std::abort();
    }
}

/// Node 1 sends all bytes, in pieces, and node 2 every other one of them, which makes no items.
inline void check_head(std::string_view bytes, const store::Limits& limits) {
    constexpr std::size_t kPiece = 7;
    asio::io_context io;
    testing::PostedMembers members(io, 3);
    const auto table = std::make_shared<store::TableService>(limits);
    StoreRelayHead head(io, members[0], 0, table);
    for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
        std::string message(4, '\0');
        message.append(bytes.substr(at, kPiece));
        if (at / kPiece % 2 == 0)
            members[2].relay(control::RelayChannel::store, 0, 0, message);
        members[1].relay(control::RelayChannel::store, 0, 0, std::move(message));
    }
    io.run();
    head.forget(1);
    head.forget(2);
    if (table->waiter_count() != 0)
        std::abort();
}

inline void check_relay_bytes(std::string_view bytes) {
    const store::Limits limits = small_limits();
    try {
        check_items(bytes, limits);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::corrupt)
            std::abort();
    }
    check_head(bytes, limits);
}

}  // namespace autolaunch::launcher::store_relay
