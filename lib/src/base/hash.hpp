#pragma once
#include <autolaunch/digest.hpp>
#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace autolaunch {

/// XXH3, 64 bits: for digests that guard against accidents, not against people.
AUTOLAUNCH_API std::uint64_t hash64(const void* data, std::size_t bytes);
/// XXH3, 128 bits.
AUTOLAUNCH_API Digest128 hash128(const void* data, std::size_t bytes);
/// The digest of a whole that is known by its parts: XXH3-128 over their digests in order, 16 bytes
/// each, the most significant byte first. The digest of no bytes when there is none.
AUTOLAUNCH_API Digest128 hash128_of(std::span<const Digest128> parts);
/// XXH3, 128 bits, of bytes that come in parts. Move-only. Owner: one. Threads: one.
class AUTOLAUNCH_API RunningHash {
public:
    RunningHash();
    RunningHash(RunningHash&&) noexcept;
    RunningHash& operator=(RunningHash&&) noexcept;
    ~RunningHash();

    void update(const void* data, std::size_t bytes);
    /// Of what came since the last call of it, and begins anew.
    Digest128 take();

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// 32 lower-case hexadecimal digits.
AUTOLAUNCH_API std::string hex128(const Digest128& value);
/// Exactly what hex128() writes; anything else is nothing.
AUTOLAUNCH_API std::optional<Digest128> parse_hex128(std::string_view text);
/// Two lower-case hexadecimal digits for each byte.
AUTOLAUNCH_API std::string hex(std::span<const std::uint8_t> bytes);
/// Exactly what hex() writes for so many bytes; anything else is false, and leaves `bytes`
/// undefined.
AUTOLAUNCH_API bool parse_hex(std::string_view text, std::span<std::uint8_t> bytes);
/// 16 lower-case hexadecimal digits.
AUTOLAUNCH_API std::string hex64(std::uint64_t value);
/// `bytes` random bytes from the kernel, as hexadecimal digits: for keys and names that nobody may
/// guess.
AUTOLAUNCH_API std::string random_hex(std::size_t bytes);

}  // namespace autolaunch
