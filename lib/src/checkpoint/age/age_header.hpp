#pragma once
#include "checkpoint/crypto/crypto.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::age {

// The text at the start of an age file, of version 1 of the format (C2SP's age.md). Pure.

/// A header longer than this is refused. One of 64 KiB has room for 500 recipients.
inline constexpr std::size_t kMaxHeaderBytes = 64 << 10;

/// How one recipient comes to the file's key.
struct Stanza {
    std::vector<std::string> arguments;  ///< the first is its type
    std::vector<std::uint8_t> body;

    bool operator==(const Stanza&) const = default;
};

struct Header {
    std::vector<Stanza> stanzas;
    crypto::Digest mac = {};

    bool operator==(const Header&) const = default;
};

/// The header's text up to and with "---": what the MAC is of.
std::string authenticated_text(const std::vector<Stanza>& stanzas);
/// All of it, with the line of the MAC.
std::string format(const Header& header);

struct ParsedHeader {
    Header header;
    std::size_t bytes = 0;  ///< how long its text is: the payload starts there
};
/// `start` is the first min(kMaxHeaderBytes, all) bytes of a file. Only what format() could have
/// written is a header: Error{corrupt} says what is not.
ParsedHeader parse_header(std::string_view start);

/// Base64 of RFC 4648 without padding.
std::string encode_base64(crypto::Bytes bytes);
/// False when it is not what encode_base64() writes.
bool decode_base64(std::string_view text, std::vector<std::uint8_t>& bytes);

}  // namespace autolaunch::age
