#pragma once
#include <autolaunch/data/token_reader.hpp>

#include <cstddef>
#include <cstdint>

namespace autolaunch::data {

/// Tokens below any number that a type has.
inline constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 32;

/// `length` + 1 tokens to inputs, all but the last, and targets, all but the first. False where one
/// of them is `limit` or more; all are written all the same.
bool convert(const std::byte* tokens, TokenType type, std::int64_t length, std::int32_t* inputs,
             std::int32_t* targets, std::uint64_t limit);

}  // namespace autolaunch::data
