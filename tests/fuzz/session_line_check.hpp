#pragma once
#include "session/session_protocol.hpp"

#include <autolaunch/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

/// Each line is a message, none of ours, or refused, and a message formats to a line that reads the
/// same. Aborts where that is not so.
namespace autolaunch::session {

template <class Parse>
void check_line(const std::string& line, Parse parse) {
    try {
        const auto message = parse(line);
        if (!message)
            return;
        const std::string text = format(*message);
        if (text.empty() || text.back() != '\n' || text.size() > kMaxLineBytes)
            std::abort();
        const auto again = parse(std::string_view(text).substr(0, text.size() - 1));
        if (!again || format(*again) != text)
            std::abort();
    } catch (const Error& error) {
        if (error.code() != ErrorCode::corrupt)
            std::abort();
    }
}

inline void check_session_bytes(std::string_view bytes) {
    std::string buffer(bytes);
    std::string line;
    try {
        while (take_line(buffer, line)) {
            check_line(line, parse_rank_line);
            check_line(line, parse_agent_line);
        }
    } catch (const Error& error) {
        if (error.code() != ErrorCode::corrupt)
            std::abort();
    }
    check_line(buffer, parse_rank_line);
    check_line(buffer, parse_agent_line);
}

}  // namespace autolaunch::session
