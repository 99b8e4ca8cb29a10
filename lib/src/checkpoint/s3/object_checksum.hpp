#pragma once
#include "base/crc.hpp"
#include "checkpoint/crypto/crypto.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace autolaunch::s3 {

// What a server has of an object's bytes, and the same of ours. All but SHA-256 is pure.

struct ObjectChecksum {
    enum class Kind { crc64_nvme, crc32c, crc32, sha256 };
    Kind kind = Kind::crc64_nvme;
    std::string value;        ///< base64
    std::uint64_t parts = 0;  ///< 0: of all bytes; else of the checksums of so many parts in order

    bool operator==(const ObjectChecksum&) const = default;
};

/// Of the headers (lower-case names) of an answer about a whole object. Nothing where there is none
/// of these kinds. Throws Error{corrupt} for one that is none.
std::optional<ObjectChecksum> checksum_in(const std::map<std::string, std::string>& headers);
/// As S3 writes it: "CRC64NVME".
const char* name_of(ObjectChecksum::Kind kind);

/// None for SHA-256, which cannot be made of those of parts.
std::optional<Crc> crc_in(ObjectChecksum::Kind kind);
using ChecksumBytes = std::vector<std::uint8_t>;
ChecksumBytes checksum_of(ObjectChecksum::Kind kind, std::span<const std::byte> bytes);
ChecksumBytes bytes_of_crc(Crc kind, std::uint64_t value);
/// As S3 writes a checksum.
std::string base64_of(crypto::Bytes checksum);

}  // namespace autolaunch::s3
