#pragma once
#include <autolaunch/data/token_reader.hpp>
#include <autolaunch/digest.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace autolaunch::data {

/// The files of a data set as they were found, each looked into.
struct DataSet {
    std::vector<TokenShard> shards;         ///< by name
    std::vector<std::uint64_t> beginnings;  ///< XXH3-64 of the first kBeginningBytes of each
    TokenType type = TokenType::u8;
    std::uint64_t header_bytes = 0;  ///< of each
    std::vector<std::string> passed_over;

    Digest128 digest() const;
};

/// TokenReaderOptions::data, read with its `format`. Throws Error{invalid_argument} where nothing
/// is, Error{corrupt} and Error{mismatch} that name the file, and SystemError.
DataSet open_data_set(const std::string& data, Format format);

/// The digest of a list of files, in their order.
Digest128 digest_of(const std::vector<TokenShard>& shards,
                    const std::vector<std::uint64_t>& beginnings);

}  // namespace autolaunch::data
