#pragma once
#include "data/arrivals.hpp"
#include "data/token_header.hpp"

#include <autolaunch/data/token_reader.hpp>
#include <autolaunch/digest.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::data {

using Beginnings = std::vector<std::optional<std::uint64_t>>;

/// The files of a data set as they were found, each that is there looked into.
struct DataSet {
    std::vector<TokenShard> shards;  ///< by name
    TokenType type = TokenType::u8;
    std::uint64_t header_bytes = 0;  ///< of each
    std::vector<std::string> passed_over;
    std::shared_ptr<Arrivals> arrivals;  ///< its files, which may still come

    /// XXH3-64 of the first kBeginningBytes of each; nothing of those that nobody has seen.
    Beginnings beginnings() const;
    /// Waits for all of them.
    Digest128 digest() const;
};

/// What a file says of itself, and the XXH3-64 of its first kBeginningBytes.
struct LookedInto {
    TokenHeader header;
    std::uint64_t beginning = 0;
};
/// Fills in its bytes and tokens. Throws as open_data_set().
LookedInto look_into(TokenShard& shard, Format format);

/// TokenReaderOptions::data, read with its `format`. Throws Error{invalid_argument} where nothing
/// is, Error{corrupt} and Error{mismatch} that name the file, and SystemError. Blocks: where its
/// first file still comes, up to `patience` for that one.
DataSet open_data_set(const std::string& data, Format format,
                      std::chrono::milliseconds patience = std::chrono::hours(24));

/// The digest of a list of files, in their order.
Digest128 digest_of(const std::vector<TokenShard>& shards, const Beginnings& beginnings);

}  // namespace autolaunch::data
