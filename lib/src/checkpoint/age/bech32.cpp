#include "checkpoint/age/bech32.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <array>
#include <cctype>

namespace autolaunch::age {
namespace {

using crypto::SecretBytes;

constexpr std::string_view kCharacters = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
constexpr std::size_t kChecksumCharacters = 6;

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }
char upper(char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); }

// BIP 173's polynomial over GF(32).
std::uint32_t add_to_checksum(std::uint32_t checksum, std::uint8_t value) {
    static constexpr std::array<std::uint32_t, 5> kGenerator = {0x3b6a57b2, 0x26508e6d, 0x1ea119fa,
                                                                0x3d4233dd, 0x2a1462b3};
    const std::uint32_t top = checksum >> 25;
    checksum = (checksum & 0x1ffffff) << 5 ^ value;
    for (std::size_t bit = 0; bit < kGenerator.size(); ++bit)
        if (top >> bit & 1)
            checksum ^= kGenerator[bit];
    return checksum;
}

std::uint32_t checksum_of(std::string_view prefix, std::span<const std::uint8_t> values) {
    std::uint32_t checksum = 1;
    for (const char c : prefix)
        checksum = add_to_checksum(checksum, static_cast<std::uint8_t>(lower(c)) >> 5);
    checksum = add_to_checksum(checksum, 0);
    for (const char c : prefix)
        checksum = add_to_checksum(checksum, static_cast<std::uint8_t>(lower(c)) & 31);
    for (const std::uint8_t value : values)
        checksum = add_to_checksum(checksum, value);
    return checksum;
}

[[noreturn]] void refuse_key(const char* why) {
    throw Error(ErrorCode::invalid_argument, std::string("not a Bech32 key: ") + why);
}

// Bits that were read in groups of `from`, in groups of `to`. What is left over must be less than a
// group of zeros.
SecretBytes regroup(std::span<const std::uint8_t> values, unsigned from, unsigned to, bool pad) {
    SecretBytes regrouped;
    regrouped.reserve(values.size() * from / to + 1);
    std::uint32_t bits = 0;
    unsigned count = 0;
    for (const std::uint8_t value : values) {
        bits = bits << from | value;
        count += from;
        for (; count >= to; count -= to)
            regrouped.push_back(static_cast<std::uint8_t>(bits >> (count - to) & ((1U << to) - 1)));
        bits &= (1U << count) - 1;
    }
    if (pad) {
        if (count > 0)
            regrouped.push_back(static_cast<std::uint8_t>(bits << (to - count) & ((1U << to) - 1)));
    } else if (count >= from || bits != 0) {
        refuse_key("its last character has bits that mean nothing");
    }
    return regrouped;
}

}  // namespace

Bech32 decode_bech32(std::string_view text) {
    const bool has_lower =
        std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::islower(c); });
    const bool has_upper =
        std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::isupper(c); });
    if (has_lower && has_upper)
        refuse_key("upper and lower case are mixed");
    const std::size_t separator = text.rfind('1');
    if (separator == std::string_view::npos || separator == 0)
        refuse_key("it has no prefix");
    if (text.size() - separator - 1 < kChecksumCharacters)
        refuse_key("it is too short");
    const std::string_view prefix = text.substr(0, separator);
    if (std::any_of(prefix.begin(), prefix.end(), [](char c) { return c < 33 || c > 126; }))
        refuse_key("its prefix has a character that cannot be there");
    SecretBytes values;
    values.reserve(text.size());
    for (const char c : text.substr(separator + 1)) {
        const std::size_t value = kCharacters.find(lower(c));
        if (value == std::string_view::npos)
            refuse_key("it has a character that no key has");
        values.push_back(static_cast<std::uint8_t>(value));
    }
    if (checksum_of(prefix, values) != 1)
        refuse_key("its checksum is wrong; was all of it copied?");
    values.resize(values.size() - kChecksumCharacters);
    return {std::string(prefix), regroup(values, 5, 8, false)};
}

SecretBytes encode_bech32(std::string_view prefix, std::span<const std::uint8_t> data) {
    SecretBytes values = regroup(data, 8, 5, true);
    const std::size_t data_characters = values.size();
    values.resize(data_characters + kChecksumCharacters);
    const std::uint32_t checksum = checksum_of(prefix, values) ^ 1;
    for (std::size_t i = 0; i < kChecksumCharacters; ++i)
        values[data_characters + i] =
            static_cast<std::uint8_t>(checksum >> (5 * (kChecksumCharacters - 1 - i)) & 31);
    const bool shout =
        std::any_of(prefix.begin(), prefix.end(), [](unsigned char c) { return std::isupper(c); });
    SecretBytes text(prefix.begin(), prefix.end());
    text.reserve(prefix.size() + 1 + values.size());
    text.push_back('1');
    for (const std::uint8_t value : values)
        text.push_back(
            static_cast<std::uint8_t>(shout ? upper(kCharacters[value]) : kCharacters[value]));
    return text;
}

}  // namespace autolaunch::age
