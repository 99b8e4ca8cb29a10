#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace autolaunch::launcher::oidc {

/// RFC 4648, section 5, without padding, as it would be written: one text for each content. Nothing
/// for all else. Pure.
std::optional<std::vector<std::uint8_t>> decode_base64url(std::string_view text);

}  // namespace autolaunch::launcher::oidc
