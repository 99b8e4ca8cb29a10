#pragma once
#include "control/head_record_text.hpp"

#include <autolaunch/error.hpp>

#include <cstdlib>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// A head.json, whoever wrote it: a record that is written as one that reads the same, or refused.
/// Aborts where that is not so. Whether it is a record.
inline bool check_head_bytes(std::string_view bytes) {
    try {
        const HeadRecord record = parse_head_record(bytes, "head.json");
        if (!(parse_head_record(to_json(record), "head.json") == record))
            std::abort();
        return true;
    } catch (const Error& error) {
        if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::mismatch)
            std::abort();
        return false;
    }
}

}  // namespace autolaunch::launcher
