#pragma once
#include "store/protocol.hpp"

#include <autolaunch/error.hpp>

#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace autolaunch::store {

struct ParsedBytes {
    std::vector<Request> requests;
    bool refused = false;
    Dialect dialect = Dialect::unknown;
};

inline ParsedBytes parse_in_pieces(std::string_view bytes, std::size_t piece_bytes) {
    Limits limits;
    limits.request_bytes = 1U << 20;
    limits.value_bytes = 1U << 20;
    RequestParser parser(limits);
    ParsedBytes parsed;
    try {
        for (std::size_t at = 0; at < bytes.size(); at += piece_bytes) {
            parser.feed(bytes.substr(at, piece_bytes));
            Request request;
            while (parser.next(request))
                parsed.requests.push_back(request);
        }
    } catch (const Error& error) {
        if (error.code() != ErrorCode::corrupt)
            std::abort();
        parsed.refused = true;
    }
    parsed.dialect = parser.dialect();
    return parsed;
}

/// What must hold for any bytes: in one piece or in many they become the same requests, or are
/// refused after the same. Aborts when it does not. The fuzzer and the replay of its seeds share
/// it. Returns how many requests there were.
inline std::size_t check_request_bytes(std::string_view bytes) {
    const ParsedBytes whole = parse_in_pieces(bytes, bytes.size() + 1);
    const ParsedBytes pieces = parse_in_pieces(bytes, 3);
    // Request 8 of an old client is told from another by whether more has come with it: there,
    // pieces do count.
    if (whole.dialect != pieces.dialect)
        return whole.requests.size();
    if (whole.refused != pieces.refused || whole.requests.size() != pieces.requests.size())
        std::abort();
    for (std::size_t i = 0; i < whole.requests.size(); ++i) {
        const Request& left = whole.requests[i];
        const Request& right = pieces.requests[i];
        if (left.command != right.command || left.keys != right.keys ||
            left.values != right.values || left.number != right.number)
            std::abort();
    }
    return whole.requests.size();
}

}  // namespace autolaunch::store
