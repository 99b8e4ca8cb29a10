#include "base/hash.hpp"

#include <autolaunch/error.hpp>

#include <sys/random.h>

#include <cerrno>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace autolaunch {

std::uint64_t hash64(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

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

}  // namespace

std::string hex64(std::uint64_t value) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<unsigned char>(value >> (56 - 8 * i));
    return to_hex(bytes, sizeof bytes);
}

std::string random_hex(std::size_t bytes) {
    std::vector<unsigned char> buffer(bytes);
    std::size_t filled = 0;
    while (filled < bytes) {
        const ssize_t got = ::getrandom(buffer.data() + filled, bytes - filled, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw SystemError(errno, "read random bytes");
        filled += static_cast<std::size_t>(got);
    }
    return to_hex(buffer.data(), bytes);
}

}  // namespace autolaunch
