#pragma once
#include "data/data_set.hpp"

#include <autolaunch/data/token_reader.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace autolaunch::data {

/// What TokenReader::state() says.
struct ReaderState {
    std::int64_t epoch = 0;
    std::int64_t row = 0;  ///< of the epoch
    std::int64_t length = 0;
    std::int64_t global_batch = 0;
    Order order = Order::sequential;
    std::uint64_t seed = 0;
    Boundary boundary = Boundary::join;
    Digest128 digest;
    std::vector<TokenShard> shards;  ///< names and bytes
    Beginnings beginnings;
};

std::string to_text(const ReaderState& state);
/// Throws Error{corrupt} for any other text, and Error{unsupported} for one of a later version.
/// Pure.
ReaderState reader_state_from(std::string_view text);

/// Throws Error{mismatch} where a reader as `now` would not go on as the one that was in `then`;
/// only their places may differ. Pure.
void check_goes_on(const ReaderState& then, const ReaderState& now);

}  // namespace autolaunch::data
