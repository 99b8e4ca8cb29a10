#include "checkpoint/s3/object_checksum.hpp"

#include "base/text.hpp"
#include "checkpoint/age/age_header.hpp"

#include <autolaunch/error.hpp>

#include <array>
#include <string_view>

namespace autolaunch::s3 {

namespace {

struct Known {
    ObjectChecksum::Kind kind;
    const char* name;
    const char* header;
    std::size_t bytes;
};
// The first is preferred: a CRC is computed while parts come, in any order, and SHA-256 over all of
// the file once it is there. SHA-1 and MD5 are not among them: libcrypto may refuse them (FIPS),
// and what only has one of these is old enough to have been compared at its upload.
constexpr std::array<Known, 4> kKnown = {
    {{ObjectChecksum::Kind::crc64_nvme, "CRC64NVME", "x-amz-checksum-crc64nvme", 8},
     {ObjectChecksum::Kind::crc32c, "CRC32C", "x-amz-checksum-crc32c", 4},
     {ObjectChecksum::Kind::crc32, "CRC32", "x-amz-checksum-crc32", 4},
     {ObjectChecksum::Kind::sha256, "SHA256", "x-amz-checksum-sha256", 32}}};
constexpr char kType[] = "x-amz-checksum-type", kOfParts[] = "COMPOSITE";
constexpr long long kMostParts = 10'000;

const Known& known(ObjectChecksum::Kind kind) {
    for (const Known& one : kKnown)
        if (one.kind == kind)
            return one;
    return kKnown.back();
}

/// "…=-7": of the checksums of seven parts.
ObjectChecksum parse(const Known& one, std::string_view text) {
    ObjectChecksum checksum{.kind = one.kind, .value = std::string(text.substr(0, text.find('-')))};
    long long parts = 0;
    if (checksum.value.size() < text.size() &&
        (!parse_integer(text.substr(checksum.value.size() + 1), parts) || parts < 1 ||
         parts > kMostParts))
        parts = -1;
    std::string_view digits = checksum.value;
    while (digits.ends_with('='))
        digits.remove_suffix(1);
    ChecksumBytes bytes;
    if (parts < 0 || !age::decode_base64(digits, bytes) || bytes.size() != one.bytes ||
        base64_of(bytes) != checksum.value)
        throw Error(ErrorCode::corrupt,
                    std::string("the S3 server's ") + one.header + " is no checksum",
                    "AWS_RESPONSE_CHECKSUM_VALIDATION=when_required asks for none");
    checksum.parts = static_cast<std::uint64_t>(parts);
    return checksum;
}

}  // namespace

std::optional<ObjectChecksum> checksum_in(const std::map<std::string, std::string>& headers) {
    const auto type = headers.find(kType);
    const bool is_of_parts = type != headers.end() && type->second == kOfParts;
    for (const Known& one : kKnown) {
        const auto found = headers.find(one.header);
        if (found == headers.end() || found->second.empty())
            continue;
        ObjectChecksum checksum = parse(one, found->second);
        // Of parts, and it does not say of how many: nothing to compare with.
        if (is_of_parts && checksum.parts == 0)
            return std::nullopt;
        return checksum;
    }
    return std::nullopt;
}

const char* name_of(ObjectChecksum::Kind kind) { return known(kind).name; }

std::optional<Crc> crc_in(ObjectChecksum::Kind kind) {
    switch (kind) {
        case ObjectChecksum::Kind::crc64_nvme:
            return Crc::crc64_nvme;
        case ObjectChecksum::Kind::crc32c:
            return Crc::crc32c;
        case ObjectChecksum::Kind::crc32:
            return Crc::crc32;
        case ObjectChecksum::Kind::sha256:
            break;
    }
    return std::nullopt;
}

ChecksumBytes checksum_of(ObjectChecksum::Kind kind, std::span<const std::byte> bytes) {
    if (const auto crc = crc_in(kind))
        return bytes_of_crc(*crc, crc_of(*crc, bytes));
    const crypto::Digest digest =
        crypto::sha256({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
    return {digest.begin(), digest.end()};
}

ChecksumBytes bytes_of_crc(Crc kind, std::uint64_t value) {
    ChecksumBytes bytes(kind == Crc::crc64_nvme ? 8 : 4);
    for (auto byte = bytes.rbegin(); byte != bytes.rend(); ++byte, value >>= 8)
        *byte = static_cast<std::uint8_t>(value);
    return bytes;
}

std::string base64_of(crypto::Bytes checksum) {
    std::string text = age::encode_base64(checksum);
    text.append((4 - text.size() % 4) % 4, '=');
    return text;
}

}  // namespace autolaunch::s3
