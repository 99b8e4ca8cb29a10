#pragma once
#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace autolaunch {

/// Checks against accidents that others have chosen; for ours see hash.hpp. All of them are
/// reflected, and begin and end with all ones.
enum class Crc { crc32, crc32c, crc64_nvme };

AUTOLAUNCH_API std::uint64_t crc_of(Crc kind, std::span<const std::byte> bytes);
/// Of a whole that is known by those of its parts in order, which have so many bytes, and the last
/// of them `last_bytes`. Of no bytes where there is none.
AUTOLAUNCH_API std::uint64_t crc_of_parts(Crc kind, std::span<const std::uint64_t> parts,
                                          std::uint64_t part_bytes, std::uint64_t last_bytes);

}  // namespace autolaunch
