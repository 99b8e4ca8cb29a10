#pragma once
#include <autolaunch/digest.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace autolaunch::launcher {

// What movers say to each other (docs/hand-over-protocol.md): who pulls asks, several times before
// the first answer; who is asked answers in that order. Integers little-endian.

enum class LinkAsk : std::uint8_t {
    list,
    chunk,
    fetch,  ///< a piece, also if it has to be read or asked for elsewhere
};
enum class LinkAnswer : std::uint8_t {
    here,   ///< the bytes follow
    never,  ///< it is not to be had here
    wait,   ///< not yet; another answer to the same question follows
};

inline constexpr std::size_t kAskBytes = 9, kAnswerHeadBytes = 21;
/// Asked for before the first answer: what a link may have on its way.
inline constexpr std::size_t kAsked = 32;
inline constexpr std::uint32_t kMostListBytes = 64U << 20;

inline void put_u32(char* to, std::uint32_t value) {
    for (int i = 0; i < 4; ++i)
        to[i] = static_cast<char>(value >> (8 * i) & 0xFF);
}
inline std::uint32_t get_u32(const char* from) {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i)
        value |= static_cast<std::uint32_t>(static_cast<unsigned char>(from[i])) << (8 * i);
    return value;
}
inline void put_u64(char* to, std::uint64_t value) {
    put_u32(to, static_cast<std::uint32_t>(value));
    put_u32(to + 4, static_cast<std::uint32_t>(value >> 32));
}
inline std::uint64_t get_u64(const char* from) {
    return get_u32(from) | static_cast<std::uint64_t>(get_u32(from + 4)) << 32;
}

using AskText = std::array<char, kAskBytes>;
inline AskText ask_text(LinkAsk ask, std::size_t file, std::size_t chunk) {
    AskText text{static_cast<char>(ask)};
    put_u32(text.data() + 1, static_cast<std::uint32_t>(file));
    put_u32(text.data() + 5, static_cast<std::uint32_t>(chunk));
    return text;
}

using AnswerHead = std::array<char, kAnswerHeadBytes>;  // kind, bytes, digest: high half first
inline AnswerHead answer_head(LinkAnswer answer, std::size_t bytes, const Digest128& digest) {
    AnswerHead head{static_cast<char>(answer)};
    put_u32(head.data() + 1, static_cast<std::uint32_t>(bytes));
    put_u64(head.data() + 5, digest.high);
    put_u64(head.data() + 13, digest.low);
    return head;
}
inline Digest128 digest_in(const AnswerHead& head) {
    return {get_u64(head.data() + 5), get_u64(head.data() + 13)};
}

template <class Text>
std::string_view view_of(const Text& text) {
    return {text.data(), text.size()};
}

}  // namespace autolaunch::launcher
