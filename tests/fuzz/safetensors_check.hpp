#pragma once
#include <autolaunch/checkpoint/safetensors.hpp>
#include <autolaunch/error.hpp>

#include <cstdlib>
#include <string>
#include <string_view>

/// A file's start is a safetensors header or refused; the entries of one are whole, follow each
/// other to the file's end, and read back as they are written. Aborts where that is not so. True
/// for a valid one.
namespace autolaunch {

inline bool check_safetensors_bytes(std::string_view file) {
    try {
        const auto header = safetensors::parse_header(file, file.size());
        std::uint64_t end = 0;
        for (const auto& entry : header.entries) {
            if (entry.begin != end || entry.end < entry.begin)
                std::abort();
            end = entry.end;
        }
        if (header.data_begin + end != file.size())
            std::abort();
        const std::string written = safetensors::encode_header(header.entries, header.metadata);
        const auto again = safetensors::parse_header(written, written.size() + end);
        if (again.entries.size() != header.entries.size() || again.metadata != header.metadata)
            std::abort();
        return true;
    } catch (const Error& error) {
        if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::unsupported)
            std::abort();
        return false;
    }
}

}  // namespace autolaunch
