#pragma once
#include "base/stream_listing.hpp"
#include "data/reader_state.hpp"
#include "data/token_header.hpp"
#include "data/windows.hpp"
#include "require.hpp"

#include <autolaunch/error.hpp>

#include <string_view>

/// A file's begin says what it is or is refused, and what it says fits into the file; a text is a
/// reader's state or refused, and one that is reads back as it is written. Aborts where that is not
/// so. The same for what the launcher lists of data that comes. True for any of them.
namespace autolaunch::data {

inline bool check_token_header(std::string_view bytes, std::uint64_t file_bytes, Format format,
                               const char* file) {
    try {
        const auto header =
            parse_token_header(bytes.substr(0, kBeginningBytes), file_bytes, file, format);
        const auto width = static_cast<std::uint64_t>(header.type);
        fuzz::require(header.tokens >= 0);
        fuzz::require(header.bytes + static_cast<std::uint64_t>(header.tokens) * width ==
                      file_bytes);
        return header.type != TokenType::u8;
    } catch (const Error& error) {
        fuzz::require(error.code() == ErrorCode::corrupt);
        return false;
    }
}

inline bool check_reader_state(std::string_view text) {
    try {
        const ReaderState state = reader_state_from(text);
        const std::string written = to_text(state);
        const ReaderState again = reader_state_from(written);
        check_goes_on(state, again);
        fuzz::require(to_text(again) == written);
        return true;
    } catch (const Error& error) {
        fuzz::require(error.code() == ErrorCode::corrupt || error.code() == ErrorCode::unsupported);
        return false;
    }
}

inline bool check_stream(std::string_view text) {
    if (const auto failure = parse_stream_failure(text)) {
        fuzz::require(parse_stream_failure(as_text(*failure)) == failure);
        return true;
    }
    try {
        const StreamListing listing = parse_stream_listing(text);
        fuzz::require(as_text(listing) == text);
        for (const StreamListing::File& file : listing.files)
            fuzz::require(!file.path.empty() && file.path.front() != '/' &&
                          ("/" + file.path + "/").find("/../") == std::string::npos);
        return true;
    } catch (const Error& error) {
        fuzz::require(error.code() == ErrorCode::corrupt);
        return false;
    }
}

inline bool check_token_data(std::string_view bytes) {
    if (check_stream(bytes))
        return true;
    bool known = check_token_header(bytes, bytes.size(), Format::automatic, "/data/a.bin");
    known |= check_token_header(bytes, bytes.size(), Format::automatic, "/data/a");
    known |= check_token_header(bytes, bytes.size() * 1000, Format::bin, "/data/a");
    return check_reader_state(bytes) || known;
}

}  // namespace autolaunch::data
