#include "base/hash.hpp"
#include "checkpoint/json.hpp"

#include <autolaunch/checkpoint/manifest.hpp>
#include <autolaunch/checkpoint/safetensors.hpp>

#include <algorithm>
#include <set>

namespace autolaunch {

namespace {

using nlohmann::json;

constexpr std::string_view kDigestKey = "{\"manifest_xxh3_64\":\"";
constexpr std::size_t kDigestDigits = 16;
constexpr char kFormat[] = "autolaunch-checkpoint";

std::uint64_t parse_digest(const JsonReader& reader) {
    const std::string text = reader.text();
    std::uint64_t value = 0;
    for (const char digit : text) {
        const bool decimal = digit >= '0' && digit <= '9';
        if (!decimal && (digit < 'a' || digit > 'f')) reader.fail("is not a digest");
        value = value * 16 + static_cast<std::uint64_t>(decimal ? digit - '0' : digit - 'a' + 10);
    }
    if (text.size() != kDigestDigits) reader.fail("is not a digest");
    return value;
}

json to_json(const Manifest::File& file) {
    json digests = json::array();
    for (const std::uint64_t digest : file.block_digests) digests.push_back(hex64(digest));
    return {{"name", file.name}, {"bytes", file.bytes}, {"digests", digests}};
}

json to_json(const Manifest::Tensor& tensor) {
    json pieces = json::array();
    for (const auto& piece : tensor.pieces)
        pieces.push_back({piece.file_index, piece.file_offset, piece.offset, piece.count});
    return {{"name", tensor.name},
            {"dtype", safetensors::name_of(tensor.type)},
            {"shape", tensor.shape},
            {"pieces", pieces}};
}

template <class Items>
std::string lines_of(const Items& items) {
    std::string text;
    for (const auto& item : items) text += (text.empty() ? "\n " : ",\n ") + json_text(to_json(item));
    return text;
}

Manifest::File parse_file(const JsonReader& reader) {
    Manifest::File file;
    file.name = reader.field("name").text();
    // The name is joined to a path: it must not lead out of the directory.
    if (file.name.empty() || file.name.find('/') != std::string::npos || file.name[0] == '.')
        reader.fail("has a name that is no file name");
    file.bytes = static_cast<std::uint64_t>(reader.field("bytes").count());
    const JsonReader digests = reader.field("digests");
    for (std::size_t i = 0; i < digests.array_size(); ++i) file.block_digests.push_back(parse_digest(digests.item(i)));
    const std::uint64_t blocks = file.bytes / Manifest::kBlockBytes + (file.bytes % Manifest::kBlockBytes != 0 ? 1 : 0);
    if (file.block_digests.size() != blocks) digests.fail("does not have one digest for every block");
    return file;
}

Manifest::Piece parse_piece(const JsonReader& reader, const Manifest& manifest, const Manifest::Tensor& tensor) {
    if (reader.array_size() != 4) reader.fail("is not [file, file_offset, offset, count]");
    Manifest::Piece piece;
    piece.file_index = static_cast<std::size_t>(reader.item(0).count());
    piece.file_offset = static_cast<std::uint64_t>(reader.item(1).count());
    piece.offset = reader.item(2).count();
    piece.count = reader.item(3).count();
    if (piece.file_index >= manifest.files.size()) reader.fail("names a file that is not listed");
    const std::int64_t elements = tensor.element_count();
    if (piece.count == 0 || piece.offset > elements || piece.count > elements - piece.offset)
        reader.fail("is not inside its tensor");
    const std::uint64_t file_bytes = manifest.files[piece.file_index].bytes;
    const std::uint64_t piece_bytes = static_cast<std::uint64_t>(piece.count) * size_of(tensor.type);
    if (piece.file_offset > file_bytes || piece_bytes > file_bytes - piece.file_offset)
        reader.fail("is not inside its file");
    return piece;
}

Manifest::Tensor parse_tensor(const JsonReader& reader, const Manifest& manifest) {
    Manifest::Tensor tensor;
    tensor.name = reader.field("name").text();
    tensor.type = safetensors::type_named(reader.field("dtype").text());
    const JsonReader shape = reader.field("shape");
    for (std::size_t i = 0; i < shape.array_size(); ++i) tensor.shape.push_back(shape.item(i).count());
    const JsonReader pieces = reader.field("pieces");
    for (std::size_t i = 0; i < pieces.array_size(); ++i)
        tensor.pieces.push_back(parse_piece(pieces.item(i), manifest, tensor));
    return tensor;
}

}  // namespace

std::int64_t Manifest::Tensor::element_count() const {
    // Bounded so that the byte count fits 63 bits as well.
    std::int64_t bytes = static_cast<std::int64_t>(size_of(type));
    for (const std::int64_t extent : shape)
        if (extent <= 0 || __builtin_mul_overflow(bytes, extent, &bytes))
            throw Error(ErrorCode::corrupt, "tensor " + name + " has an impossible shape");
    return bytes / static_cast<std::int64_t>(size_of(type));
}

std::string Manifest::to_text() const {
    std::string body = "\",\n";
    body += "\"format\":\"" + std::string(kFormat) + "\",\"version\":" + std::to_string(kVersion) + ",\n";
    body += "\"step\":" + std::to_string(step) + ",\"world_size\":" + std::to_string(world_size) + ",\n";
    body += "\"digest_block_bytes\":" + std::to_string(kBlockBytes) + ",\n";
    body += "\"extra\":" + json_text(extra) + ",\n";
    body += "\"files\":[" + lines_of(files) + "],\n";
    body += "\"tensors\":[" + lines_of(tensors) + "]}\n";
    return std::string(kDigestKey) + hex64(hash64(body.data(), body.size())) + body;
}

Manifest Manifest::parse(std::string_view text) {
    const auto fail = [](const std::string& what) { throw Error(ErrorCode::corrupt, "manifest " + what); };
    const std::size_t body_at = kDigestKey.size() + kDigestDigits;
    if (text.size() < body_at || !text.starts_with(kDigestKey)) fail("does not start with its digest");
    const std::string_view body = text.substr(body_at);
    if (text.substr(kDigestKey.size(), kDigestDigits) != hex64(hash64(body.data(), body.size())))
        fail("does not have the digest it was written with");
    const auto parsed = json::parse(text, nullptr, false);
    if (!parsed.is_object()) fail("is not a JSON object");
    const JsonReader reader(parsed, "manifest");
    if (reader.field("format").text() != kFormat) fail("is of another format");
    if (reader.field("version").count() != kVersion)
        throw Error(ErrorCode::unsupported, "manifest is of version " +
                                                std::to_string(reader.field("version").count()) +
                                                "; this build reads version " + std::to_string(kVersion));
    if (reader.field("digest_block_bytes").count() != static_cast<std::int64_t>(kBlockBytes))
        fail("has another block size");
    Manifest manifest;
    manifest.step = reader.field("step").count();
    manifest.world_size = static_cast<int>(reader.field("world_size").count(INT32_MAX));
    manifest.extra = reader.field("extra").text();
    const JsonReader files = reader.field("files"), tensors = reader.field("tensors");
    for (std::size_t i = 0; i < files.array_size(); ++i) manifest.files.push_back(parse_file(files.item(i)));
    std::set<std::string> names;
    for (std::size_t i = 0; i < tensors.array_size(); ++i) {
        manifest.tensors.push_back(parse_tensor(tensors.item(i), manifest));
        if (!names.insert(manifest.tensors.back().name).second) tensors.item(i).fail("has a name that is taken");
    }
    return manifest;
}

void Manifest::require_complete() const {
    for (const Tensor& tensor : tensors) {
        std::vector<Piece> sorted = tensor.pieces;
        std::sort(sorted.begin(), sorted.end(), [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
        std::int64_t end = 0;
        bool contiguous = true;
        for (const Piece& piece : sorted) {
            contiguous = contiguous && piece.offset == end;
            end = piece.offset + piece.count;
        }
        if (!contiguous || end != tensor.element_count())
            throw Error(ErrorCode::corrupt, "the pieces of tensor " + tensor.name + " do not cover it exactly once");
    }
}

const Manifest::Tensor* Manifest::find(std::string_view name) const {
    for (const Tensor& tensor : tensors)
        if (tensor.name == name) return &tensor;
    return nullptr;
}

}  // namespace autolaunch
