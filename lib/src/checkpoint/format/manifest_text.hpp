#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace autolaunch {

// How manifest.json begins: the digest is XXH3-128 of all bytes behind its digits, the body.

inline constexpr std::string_view kManifestStart = "{\"manifest_xxh3_128\":\"";
inline constexpr std::size_t kManifestDigestDigits = 32;

/// The whole text.
std::string with_digest(std::string_view body);
/// The reverse. Throws Error{corrupt} unless the digest is that of the body, which the text must
/// outlive.
std::string_view body_of_manifest(std::string_view text);

}  // namespace autolaunch
