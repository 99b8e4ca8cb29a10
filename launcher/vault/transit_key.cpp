#include "vault/transit_key.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cctype>

namespace autolaunch::launcher {

namespace {

// As Vault names keys; mounts may have more, and seldom do.
bool is_name(std::string_view part) {
    return !part.empty() && part != "." && part != ".." &&
           std::all_of(part.begin(), part.end(), [](char c) {
               const auto byte = static_cast<unsigned char>(c);
               return byte < 0x80 && (std::isalnum(byte) != 0 || c == '_' || c == '-' || c == '.');
           });
}

}  // namespace

std::optional<TransitKey> transit_key_from(std::string_view text) {
    const auto parts = split(text, '/');
    if (parts.size() < 2 || !std::all_of(parts.begin(), parts.end(), is_name))
        return std::nullopt;
    const std::size_t last = text.rfind('/');
    return TransitKey{std::string(text.substr(0, last)), std::string(text.substr(last + 1))};
}

}  // namespace autolaunch::launcher
