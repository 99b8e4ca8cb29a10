#include "data/token_header.hpp"

#include <autolaunch/error.hpp>

#include <bit>
#include <cstring>
#include <limits>

namespace autolaunch::data {

static_assert(std::endian::native == std::endian::little, "files are mapped as they are");

namespace {

constexpr std::uint64_t kHeaderBytes = 256 * sizeof(std::int32_t);

struct Kind {
    std::int32_t magic;
    std::int32_t version;
    TokenType type;
    const char* name;
};
constexpr Kind kKinds[] = {{20240520, 1, TokenType::u16, "GPT-2, uint16"},
                           {20240801, 7, TokenType::u32, "Llama 3, uint32"}};

std::int32_t number_at(std::string_view bytes, std::size_t index) {
    std::int32_t number = 0;
    std::memcpy(&number, bytes.data() + index * sizeof number, sizeof number);
    return number;
}

[[noreturn]] void refuse(const std::string& what, const std::string& hint = {}) {
    throw Error(ErrorCode::corrupt, what, hint);
}

TokenHeader bin_header(std::string_view beginning, std::uint64_t file_bytes,
                       const std::string& file) {
    if (beginning.size() < kHeaderBytes)
        refuse(file + " has " + std::to_string(file_bytes) +
               " bytes, and the header of a .bin has " + std::to_string(kHeaderBytes));
    const std::int32_t magic = number_at(beginning, 0), version = number_at(beginning, 1),
                       count = number_at(beginning, 2);
    for (const Kind& kind : kKinds) {
        if (kind.magic != magic)
            continue;
        if (kind.version != version)
            refuse(file + " is of version " + std::to_string(version) + " of its format (" +
                   kind.name + "), and only " + std::to_string(kind.version) + " is known");
        if (count <= 0)
            refuse(file + ": its header says " + std::to_string(count) + " tokens");
        const std::uint64_t width = static_cast<std::uint64_t>(kind.type),
                            needed = kHeaderBytes + static_cast<std::uint64_t>(count) * width;
        if (needed != file_bytes)
            refuse(file + " has " + std::to_string(file_bytes) + " bytes, and by its header " +
                       std::to_string(count) + " tokens, which take " + std::to_string(needed),
                   file_bytes < needed ? "it is cut: copy or make it anew" : "make it anew");
        return {kind.type, kHeaderBytes, count};
    }
    refuse(file + " is no file of tokens: it begins with " + std::to_string(magic) +
               ", and not with 20240520 or 20240801",
           "llm.c's scripts of dev/data write such files; a text needs Format::text");
}

}  // namespace

std::string width_of(TokenType type) {
    return std::to_string(static_cast<int>(type)) + (type == TokenType::u8 ? " byte" : " bytes");
}

TokenHeader parse_token_header(std::string_view beginning, std::uint64_t file_bytes,
                               const std::string& file, Format format) {
    bool is_bin = format == Format::bin;
    if (format == Format::automatic) {
        is_bin = file.ends_with(".bin");
        for (const Kind& kind : kKinds)
            is_bin |= beginning.size() >= kHeaderBytes && number_at(beginning, 0) == kind.magic &&
                      number_at(beginning, 1) == kind.version;
    }
    if (is_bin)
        return bin_header(beginning, file_bytes, file);
    if (file_bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / 4))
        refuse(file + " has " + std::to_string(file_bytes) + " bytes");
    return {TokenType::u8, 0, static_cast<std::int64_t>(file_bytes)};
}

}  // namespace autolaunch::data
