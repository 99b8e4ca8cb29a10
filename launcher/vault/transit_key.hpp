#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// A key of Vault's transit engine, which encrypts and decrypts there and never leaves it.
struct TransitKey {
    std::string mount;  ///< of the engine: "transit"
    std::string name;

    /// "transit/run-7"
    std::string to_text() const { return mount + '/' + name; }
    bool operator==(const TransitKey&) const = default;
};

/// Of "transit/run-7", the mount first, which may have slashes itself. Nothing for other text.
/// Pure.
std::optional<TransitKey> transit_key_from(std::string_view text);

}  // namespace autolaunch::launcher
