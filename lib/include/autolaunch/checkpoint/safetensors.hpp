#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/comm/types.hpp>
#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::safetensors {

/// A header longer than this is refused, as the reference implementation does.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
/// The data starts on a multiple of this: the header is padded with spaces.
inline constexpr std::uint64_t kDataAlignment = 4096;

/// One tensor of a file.
struct Entry {
    std::string name;
    DataType type = DataType::f32;
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0;  ///< first byte, counted from the start of the data
    std::uint64_t end = 0;    ///< one past the last
};

struct Header {
    std::vector<Entry> entries;                   ///< in the order of their data
    std::map<std::string, std::string> metadata;  ///< "__metadata__"
    std::uint64_t data_begin = 0;                 ///< where the data starts in the file
};

/// "F32", "BF16", …: the format's names.
AUTOLAUNCH_API std::string_view name_of(DataType type) noexcept;
/// Throws Error{unsupported} for a name this library has no type for.
AUTOLAUNCH_API DataType type_named(std::string_view name);

/// The start of a file, up to its data: the length, the JSON header, the padding. Offsets are
/// worked out from the shapes in the given order; begin and end are ignored. Throws
/// Error{invalid_argument} for duplicate or reserved names.
AUTOLAUNCH_API std::string encode_header(std::span<const Entry> entries,
                                         const std::map<std::string, std::string>& metadata);

/// Reads the start of a file of `file_bytes` bytes; `start` must hold at least its first
/// min(file_bytes, 8 + header length) bytes. Checks every rule of the format: Error{corrupt} says
/// which is broken.
AUTOLAUNCH_API Header parse_header(std::string_view start, std::uint64_t file_bytes);
/// The length of the JSON header, from the first 8 bytes of a file of `file_bytes` bytes. Throws
/// Error{corrupt}.
AUTOLAUNCH_API std::uint64_t header_bytes(std::string_view start, std::uint64_t file_bytes);

}  // namespace autolaunch::safetensors
