#include "base/escaped_word.hpp"

#include <cstddef>

namespace autolaunch {

namespace {

constexpr std::string_view kDigitsOfByte = "0123456789ABCDEF";

int digit_of_byte(char c) {
    const std::size_t digit = kDigitsOfByte.find(c);
    return digit == std::string_view::npos ? -1 : static_cast<int>(digit);
}

}  // namespace

std::string escaped_word(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte <= 0x20 || byte == 0x7F || c == '%') {
            out += '%';
            out += kDigitsOfByte[byte >> 4];
            out += kDigitsOfByte[byte & 15];
        } else {
            out += c;
        }
    }
    return out;
}

std::optional<std::string> plain_word(std::string_view word) {
    std::string out;
    out.reserve(word.size());
    for (std::size_t at = 0; at < word.size(); ++at) {
        if (word[at] != '%') {
            out += word[at];
            continue;
        }
        const int high = at + 2 < word.size() ? digit_of_byte(word[at + 1]) : -1;
        const int low = at + 2 < word.size() ? digit_of_byte(word[at + 2]) : -1;
        if (high < 0 || low < 0)
            return std::nullopt;
        out += static_cast<char>(high * 16 + low);
        at += 2;
    }
    return out;
}

}  // namespace autolaunch
