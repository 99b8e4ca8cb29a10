#include "base/stream_bytes.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace autolaunch {

#if defined(__x86_64__)

namespace {
constexpr std::size_t kLine = 64;
}  // namespace

void stream_bytes(void* to, const void* from, std::size_t bytes) {
    auto* out = static_cast<std::byte*>(to);
    const auto* in = static_cast<const std::byte*>(from);
    const std::size_t head =
        std::min(bytes, (kLine - reinterpret_cast<std::uintptr_t>(out) % kLine) % kLine);
    std::memcpy(out, in, head);
    std::size_t at = head;
    for (; at + kLine <= bytes; at += kLine) {
        const auto* from_line = reinterpret_cast<const __m128i*>(in + at);
        auto* to_line = reinterpret_cast<__m128i*>(out + at);
        const __m128i a = _mm_loadu_si128(from_line), b = _mm_loadu_si128(from_line + 1);
        const __m128i c = _mm_loadu_si128(from_line + 2), d = _mm_loadu_si128(from_line + 3);
        _mm_stream_si128(to_line, a);
        _mm_stream_si128(to_line + 1, b);
        _mm_stream_si128(to_line + 2, c);
        _mm_stream_si128(to_line + 3, d);
    }
    std::memcpy(out + at, in + at, bytes - at);
    _mm_sfence();  // others may look for the copy as soon as they are told
}

#else

void stream_bytes(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

#endif

}  // namespace autolaunch
