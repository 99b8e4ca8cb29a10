#include "checkpoint/format/json.hpp"

#include <autolaunch/checkpoint/safetensors.hpp>
#include <autolaunch/error.hpp>

#include <algorithm>
#include <array>
#include <set>

namespace autolaunch::safetensors {

namespace {

constexpr char kMetadataKey[] = "__metadata__";
constexpr std::size_t kLengthBytes = 8;

struct NamedType {
    DataType type;
    std::string_view name;
};
constexpr std::array<NamedType, kDataTypes> kTypes = {{{DataType::f32, "F32"},
                                                       {DataType::f64, "F64"},
                                                       {DataType::bf16, "BF16"},
                                                       {DataType::f16, "F16"},
                                                       {DataType::i64, "I64"},
                                                       {DataType::i32, "I32"},
                                                       {DataType::i8, "I8"},
                                                       {DataType::u64, "U64"},
                                                       {DataType::u32, "U32"},
                                                       {DataType::u8, "U8"}}};

[[noreturn]] void corrupt(const std::string& what) {
    throw Error(ErrorCode::corrupt, "safetensors: " + what);
}

// False when the number of bytes does not fit 63 bits.
bool bytes_of(const Entry& entry, std::uint64_t& bytes) {
    std::int64_t count = static_cast<std::int64_t>(size_of(entry.type));
    for (const std::int64_t extent : entry.shape)
        if (extent < 0 || __builtin_mul_overflow(count, extent, &count))
            return false;
    bytes = static_cast<std::uint64_t>(count);
    return true;
}

Entry parse_entry(const std::string& name, const JsonReader& json) {
    Entry entry;
    entry.name = name;
    entry.type = type_named(json.field("dtype").text());
    const JsonReader shape = json.field("shape");
    for (std::size_t i = 0; i < shape.array_size(); ++i)
        entry.shape.push_back(shape.item(i).count());
    const JsonReader offsets = json.field("data_offsets");
    if (offsets.array_size() != 2)
        offsets.fail("is not a pair");
    entry.begin = static_cast<std::uint64_t>(offsets.item(0).count());
    entry.end = static_cast<std::uint64_t>(offsets.item(1).count());
    std::uint64_t bytes = 0;
    if (entry.end < entry.begin || !bytes_of(entry, bytes) || entry.end - entry.begin != bytes)
        corrupt("tensor " + name + " has offsets that do not match its shape and type");
    return entry;
}

std::map<std::string, std::string> parse_metadata(const JsonReader& json) {
    if (!json.raw().is_object())
        json.fail("is not an object");
    std::map<std::string, std::string> metadata;
    for (const auto& [key, value] : json.raw().items())
        metadata[key] =
            JsonReader(value, "safetensors: " + std::string(kMetadataKey) + "." + key).text();
    return metadata;
}

std::string member(const std::string& name, const nlohmann::ordered_json& value) {
    return nlohmann::ordered_json(name).dump() + ':' + value.dump();
}

// No hole, no overlap, and the last tensor ends where the file does.
void require_contiguous(const std::vector<Entry>& entries, std::uint64_t data_bytes) {
    std::uint64_t end = 0;
    for (const Entry& entry : entries) {
        if (entry.begin != end)
            corrupt("the data of tensor " + entry.name + " does not follow the one before");
        end = entry.end;
    }
    if (end != data_bytes)
        corrupt("the tensors have " + std::to_string(end) + " bytes, the file " +
                std::to_string(data_bytes));
}

}  // namespace

std::string_view name_of(DataType type) noexcept {
    for (const NamedType& named : kTypes)
        if (named.type == type)
            return named.name;
    return {};
}

DataType type_named(std::string_view name) {
    for (const NamedType& named : kTypes)
        if (named.name == name)
            return named.type;
    throw Error(ErrorCode::unsupported, "safetensors: no type here is called " + std::string(name));
}

std::string encode_header(std::span<const Entry> entries,
                          const std::map<std::string, std::string>& metadata) {
    // Member by member: an ordered object looks through all it has for each that is added.
    std::string text = "{";
    std::set<std::string_view> names = {kMetadataKey};
    std::uint64_t end = 0;
    try {
        if (!metadata.empty())
            text += member(kMetadataKey, metadata);
        for (const Entry& entry : entries) {
            if (!names.insert(entry.name).second)
                throw Error(ErrorCode::invalid_argument,
                            "safetensors: the name " + entry.name + " is taken");
            std::uint64_t bytes = 0;
            if (!bytes_of(entry, bytes) || __builtin_add_overflow(end, bytes, &bytes) ||
                bytes > INT64_MAX)
                throw Error(ErrorCode::invalid_argument,
                            "safetensors: tensor " + entry.name + " is too large");
            if (text.size() > 1)
                text += ',';
            text += member(entry.name, {{"dtype", safetensors::name_of(entry.type)},
                                        {"shape", entry.shape},
                                        {"data_offsets", {end, bytes}}});
            end = bytes;
        }
    } catch (const nlohmann::json::exception&) {
        throw Error(ErrorCode::invalid_argument, "safetensors: a name or text is not UTF-8");
    }
    text += '}';
    const std::size_t unpadded = kLengthBytes + text.size();
    text.append((unpadded + kDataAlignment - 1) / kDataAlignment * kDataAlignment - unpadded, ' ');
    if (text.size() > kMaxHeaderBytes)
        throw Error(ErrorCode::invalid_argument, "safetensors: the header is longer than 100 MB");
    std::string start;
    for (std::size_t i = 0; i < kLengthBytes; ++i)
        start += static_cast<char>(text.size() >> (8 * i));
    return start + text;
}

std::uint64_t header_bytes(std::string_view start, std::uint64_t file_bytes) {
    if (file_bytes < kLengthBytes || start.size() < kLengthBytes)
        corrupt("the file is shorter than 8 bytes");
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < kLengthBytes; ++i)
        length |= static_cast<std::uint64_t>(static_cast<unsigned char>(start[i])) << (8 * i);
    if (length > kMaxHeaderBytes)
        corrupt("the header claims " + std::to_string(length) + " bytes");
    if (length > file_bytes - kLengthBytes)
        corrupt("the file ends inside its header");
    return length;
}

Header parse_header(std::string_view start, std::uint64_t file_bytes) {
    const std::uint64_t length = header_bytes(start, file_bytes);
    if (start.size() < kLengthBytes + length)
        corrupt("the file ends inside its header");
    const std::string_view text = start.substr(kLengthBytes, length);
    if (!text.starts_with('{'))
        corrupt("the header does not start with {");
    const auto json = parse_strictly(text, "safetensors: the header");
    Header header;
    header.data_begin = kLengthBytes + length;
    for (const auto& [name, value] : json.items()) {
        const JsonReader reader(value, "safetensors: " + name);
        if (name == kMetadataKey) {
            header.metadata = parse_metadata(reader);
        } else {
            header.entries.push_back(parse_entry(name, reader));
        }
    }
    std::sort(header.entries.begin(), header.entries.end(), [](const Entry& a, const Entry& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    require_contiguous(header.entries, file_bytes - header.data_begin);
    return header;
}

}  // namespace autolaunch::safetensors
