#pragma once
#include "quorum/quorum_bytes.hpp"

#include <autolaunch/error.hpp>

#include <cstdlib>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// What another agent says on who is head: a word that is written as one that reads the same, or
/// refused as corrupt. Aborts where that is not so. Whether it is a word.
inline bool check_succession_bytes(std::string_view bytes) {
    try {
        const std::string text = encode_succession(decode_succession(bytes));
        if (encode_succession(decode_succession(text)) != text)
            std::abort();
        return true;
    } catch (const Error& error) {
        if (error.code() != ErrorCode::corrupt)
            std::abort();
        return false;
    }
}

}  // namespace autolaunch::launcher
