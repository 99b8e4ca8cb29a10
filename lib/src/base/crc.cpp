#include "base/crc.hpp"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace autolaunch {

namespace {

static_assert(std::endian::native == std::endian::little, "eight bytes are read as a number");

constexpr std::size_t kWord = 8;

/// What is known of one of them. A polynomial modulo the CRC's own is a number whose bit of
/// 2^(width - 1) is the coefficient of x^0.
class Terms {
public:
    Terms(unsigned width, std::uint64_t polynomial) : width_(width), polynomial_(polynomial) {
        for (std::size_t byte = 0; byte < 256; ++byte) {
            std::uint64_t state = byte;
            for (int bit = 0; bit < 8; ++bit)
                state = times_x(state);
            tables_[0][byte] = state;
        }
        for (std::size_t ahead = 1; ahead < kWord; ++ahead)
            for (std::size_t byte = 0; byte < 256; ++byte) {
                const std::uint64_t state = tables_[ahead - 1][byte];
                tables_[ahead][byte] = tables_[0][state & 255] ^ (state >> 8);
            }
        for (std::size_t i = 0; i < fold_.size(); ++i) {
            // A product of two such numbers is one bit lower than it should be: one x less.
            const std::uint64_t bits = i < 2 ? 512 : 128;
            fold_[i] = power(bits - 1 + (i % 2 == 0 ? 64 : 0)) << (64 - width_);
        }
    }

    std::uint64_t ones() const { return ~std::uint64_t{0} >> (64 - width_); }
    /// Of four vectors, and of one: for their lower and their upper half.
    const std::array<std::uint64_t, 4>& fold() const { return fold_; }

    std::uint64_t after(std::uint64_t state, const unsigned char* at, std::size_t bytes) const {
        for (; bytes >= kWord; at += kWord, bytes -= kWord) {
            std::uint64_t word = 0;
            std::memcpy(&word, at, kWord);
            word ^= state;
            state = 0;
#pragma GCC unroll 8
            for (std::size_t i = 0; i < kWord; ++i)
                state ^= tables_[kWord - 1 - i][word >> (8 * i) & 255];
        }
        for (; bytes > 0; ++at, --bytes)
            state = tables_[0][(state ^ *at) & 255] ^ (state >> 8);
        return state;
    }

    std::uint64_t product(std::uint64_t a, std::uint64_t b) const {
        std::uint64_t sum = 0;
        for (std::uint64_t bit = one(); bit != 0; bit >>= 1, b = times_x(b))
            if ((a & bit) != 0)
                sum ^= b;
        return sum;
    }

    /// x^exponent
    std::uint64_t power(std::uint64_t exponent) const {
        std::uint64_t result = one();
        for (std::uint64_t square = one() >> 1; exponent != 0; exponent >>= 1) {
            if (exponent % 2 != 0)
                result = product(result, square);
            square = product(square, square);
        }
        return result;
    }

private:
    std::uint64_t one() const { return std::uint64_t{1} << (width_ - 1); }
    std::uint64_t times_x(std::uint64_t value) const {
        return (value >> 1) ^ (value % 2 != 0 ? polynomial_ : 0);
    }

    unsigned width_;
    std::uint64_t polynomial_;
    std::array<std::array<std::uint64_t, 256>, kWord> tables_ = {};
    std::array<std::uint64_t, 4> fold_ = {};
};

const Terms& terms_of(Crc kind) {
    static const Terms crc32(32, 0xedb88320), crc32c(32, 0x82f63b78),
        crc64_nvme(64, 0x9a6c9329ac4bc9b5);
    return kind == Crc::crc32 ? crc32 : kind == Crc::crc32c ? crc32c : crc64_nvme;
}

#if defined(__x86_64__)

#define AUTOLAUNCH_FOLDS __attribute__((target("pclmul,sse4.1")))

constexpr std::size_t kVector = 16, kVectors = 4, kBlock = kVectors * kVector;

AUTOLAUNCH_FOLDS inline __m128i load(const unsigned char* at) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

/// What stands for `value` so many bits later, as `by` says.
AUTOLAUNCH_FOLDS inline __m128i later(__m128i value, __m128i by) {
    return _mm_xor_si128(_mm_clmulepi64_si128(value, by, 0x00),
                         _mm_clmulepi64_si128(value, by, 0x11));
}

/// As Terms::after(), for at least 64 bytes: 16 bytes that are the same modulo the polynomial are
/// left at the end, and go through the tables.
AUTOLAUNCH_FOLDS std::uint64_t folded(const Terms& terms, std::uint64_t state,
                                      const unsigned char* at, std::size_t bytes) {
    const __m128i by_four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(terms.fold().data()));
    const __m128i by_one =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(terms.fold().data() + 2));
    __m128i sum[kVectors];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kVectors; ++i)
        sum[i] = load(at + i * kVector);
    sum[0] = _mm_xor_si128(sum[0], _mm_cvtsi64_si128(static_cast<long long>(state)));
    for (at += kBlock, bytes -= kBlock; bytes >= kBlock; at += kBlock, bytes -= kBlock)
#pragma GCC unroll 4
        for (std::size_t i = 0; i < kVectors; ++i)
            sum[i] = _mm_xor_si128(later(sum[i], by_four), load(at + i * kVector));
#pragma GCC unroll 4
    for (std::size_t i = 1; i < kVectors; ++i)
        sum[i] = _mm_xor_si128(sum[i], later(sum[i - 1], by_one));
    unsigned char rest[kVector];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(rest), sum[kVectors - 1]);
    return terms.after(terms.after(0, rest, kVector), at, bytes);
}

bool can_fold() {
    static const bool can = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    return can;
}

#endif

}  // namespace

std::uint64_t crc_of(Crc kind, std::span<const std::byte> bytes) {
    const Terms& terms = terms_of(kind);
    const auto* const at = reinterpret_cast<const unsigned char*>(bytes.data());
#if defined(__x86_64__)
    if (bytes.size() >= kBlock && can_fold())
        return folded(terms, terms.ones(), at, bytes.size()) ^ terms.ones();
#endif
    return terms.after(terms.ones(), at, bytes.size()) ^ terms.ones();
}

std::uint64_t crc_of_parts(Crc kind, std::span<const std::uint64_t> parts, std::uint64_t part_bytes,
                           std::uint64_t last_bytes) {
    if (parts.empty())
        return 0;
    const Terms& terms = terms_of(kind);
    // The ones of a part's beginning and those of the end of what is before it are no more there.
    const std::uint64_t behind = terms.power(8 * part_bytes);
    std::uint64_t sum = 0;
    for (const std::uint64_t part : parts.first(parts.size() - 1))
        sum = terms.product(sum, behind) ^ part;
    return terms.product(sum, terms.power(8 * last_bytes)) ^ parts.back();
}

}  // namespace autolaunch
