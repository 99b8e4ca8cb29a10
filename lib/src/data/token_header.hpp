#pragma once
#include <autolaunch/data/token_reader.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace autolaunch::data {

/// How much of a file's begin says what it is, and is compared with a reader's state.
inline constexpr std::size_t kBeginningBytes = 4096;

/// What a file of tokens says of itself.
struct TokenHeader {
    TokenType type = TokenType::u8;
    std::uint64_t bytes = 0;  ///< of the header; tokens follow
    std::int64_t tokens = 0;
};

/// `beginning` is the file's first kBeginningBytes, or all of it; `file` is for errors and names
/// it. Throws Error{corrupt} for a header that is none, or whose number of tokens is not the
/// file's. Pure.
TokenHeader parse_token_header(std::string_view beginning, std::uint64_t file_bytes,
                               const std::string& file, Format format);

/// "2 bytes".
std::string width_of(TokenType type);

}  // namespace autolaunch::data
