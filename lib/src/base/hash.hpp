#pragma once
#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace autolaunch {

/// XXH3, 64 bits: for digests that guard against accidents, not against people.
AUTOLAUNCH_API std::uint64_t hash64(const void* data, std::size_t bytes);
/// 16 lower-case hexadecimal digits.
AUTOLAUNCH_API std::string hex64(std::uint64_t value);
/// `bytes` random bytes from the kernel, as hexadecimal digits: for keys and names that nobody may guess.
AUTOLAUNCH_API std::string random_hex(std::size_t bytes);

}  // namespace autolaunch
