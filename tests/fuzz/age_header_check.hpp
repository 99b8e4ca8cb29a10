#pragma once
#include "checkpoint/age/age_header.hpp"

#include <autolaunch/error.hpp>

#include <cstdlib>
#include <string_view>

namespace autolaunch::age {

/// The bytes are a header, which is written again as they are, or are refused as corrupt. Aborts
/// where that is not so. True for a header.
inline bool check_header_bytes(std::string_view bytes) {
    try {
        const ParsedHeader parsed = parse_header(bytes);
        if (parsed.bytes > kMaxHeaderBytes ||
            format(parsed.header) != bytes.substr(0, parsed.bytes))
            std::abort();
        return true;
    } catch (const Error& error) {
        if (error.code() != ErrorCode::corrupt)
            std::abort();
        return false;
    }
}

}  // namespace autolaunch::age
