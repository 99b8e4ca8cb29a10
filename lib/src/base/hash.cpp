#include "base/hash.hpp"

#include <autolaunch/error.hpp>

#include <sys/random.h>

#include <cerrno>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace autolaunch {

std::uint64_t hash64(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

Digest128 hash128(const void* data, std::size_t bytes) {
    const XXH128_hash_t hash = XXH3_128bits(data, bytes);
    return {hash.high64, hash.low64};
}

Digest128 hash128_of(std::span<const Digest128> parts) {
    std::vector<XXH128_canonical_t> bytes(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i)
        XXH128_canonicalFromHash(&bytes[i], XXH128_hash_t{parts[i].low, parts[i].high});
    return hash128(bytes.data(), bytes.size() * sizeof(XXH128_canonical_t));
}

struct RunningHash::State {
    XXH3_state_t hash;  // aligned to 64 bytes by its type
};

RunningHash::RunningHash() : state_(std::make_unique<State>()) {
    XXH3_128bits_reset(&state_->hash);
}
RunningHash::RunningHash(RunningHash&&) noexcept = default;
RunningHash& RunningHash::operator=(RunningHash&&) noexcept = default;
RunningHash::~RunningHash() = default;

void RunningHash::update(const void* data, std::size_t bytes) {
    XXH3_128bits_update(&state_->hash, data, bytes);
}

Digest128 RunningHash::take() {
    const XXH128_hash_t digest = XXH3_128bits_digest(&state_->hash);
    XXH3_128bits_reset(&state_->hash);
    return {digest.high64, digest.low64};
}

namespace {

std::string to_hex(const unsigned char* data, std::size_t bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    text.reserve(2 * bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
        text += kDigits[data[i] >> 4];
        text += kDigits[data[i] & 15];
    }
    return text;
}

int digit_of(char digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

}  // namespace

std::string hex(std::span<const std::uint8_t> bytes) { return to_hex(bytes.data(), bytes.size()); }

bool parse_hex(std::string_view text, std::span<std::uint8_t> bytes) {
    if (text.size() != 2 * bytes.size())
        return false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const int digit = digit_of(text[i]);
        if (digit < 0)
            return false;
        bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] << 4 | digit);
    }
    return true;
}

std::string hex64(std::uint64_t value) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; ++i)
        bytes[i] = static_cast<unsigned char>(value >> (56 - 8 * i));
    return to_hex(bytes, sizeof bytes);
}

std::string hex128(const Digest128& value) { return hex64(value.high) + hex64(value.low); }

std::optional<Digest128> parse_hex128(std::string_view text) {
    if (text.size() != 32)
        return std::nullopt;
    std::uint64_t halves[2] = {};
    for (std::size_t i = 0; i < text.size(); ++i) {
        const int digit = digit_of(text[i]);
        if (digit < 0)
            return std::nullopt;
        halves[i / 16] = halves[i / 16] << 4 | static_cast<std::uint64_t>(digit);
    }
    return Digest128{halves[0], halves[1]};
}

std::string random_hex(std::size_t bytes) {
    std::vector<unsigned char> buffer(bytes);
    std::size_t filled = 0;
    while (filled < bytes) {
        const ssize_t got = ::getrandom(buffer.data() + filled, bytes - filled, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            throw SystemError(errno, "read random bytes");
        filled += static_cast<std::size_t>(got);
    }
    return to_hex(buffer.data(), bytes);
}

}  // namespace autolaunch
