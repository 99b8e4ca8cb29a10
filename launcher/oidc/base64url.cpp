#include "oidc/base64url.hpp"

namespace autolaunch::launcher::oidc {

namespace {

int value_of(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

}  // namespace

std::optional<std::vector<std::uint8_t>> decode_base64url(std::string_view text) {
    if (text.size() % 4 == 1)
        return std::nullopt;
    std::vector<std::uint8_t> bytes;
    bytes.reserve(text.size() / 4 * 3 + 2);
    std::uint32_t bits = 0;
    int count = 0;
    for (const char c : text) {
        const int value = value_of(c);
        if (value < 0)
            return std::nullopt;
        bits = (bits << 6 | static_cast<std::uint32_t>(value)) & 0xFFFF;
        count += 6;
        if (count >= 8) {
            count -= 8;
            bytes.push_back(static_cast<std::uint8_t>(bits >> count));
        }
    }
    if ((bits & ((1U << count) - 1)) != 0)
        return std::nullopt;  // another text would mean the same
    return bytes;
}

}  // namespace autolaunch::launcher::oidc
