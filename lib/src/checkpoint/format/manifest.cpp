#include "base/hash.hpp"
#include "checkpoint/format/json.hpp"
#include "checkpoint/format/manifest_text.hpp"

#include <autolaunch/checkpoint/manifest.hpp>
#include <autolaunch/checkpoint/safetensors.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace autolaunch {

namespace {

using nlohmann::json;

constexpr char kFormat[] = "autolaunch-checkpoint";

Digest128 parse_digest(const JsonReader& reader) {
    const auto digest = parse_hex128(reader.text());
    if (!digest)
        reader.fail("is not a digest");
    return *digest;
}

json to_json(const Manifest::File& file) {
    json blocks = json::array();
    for (const Digest128& digest : file.block_digests)
        blocks.push_back(hex128(digest));
    json object = {{"name", file.name},
                   {"rank", file.rank},
                   {"bytes", file.bytes},
                   {"digest", hex128(file.digest)},
                   {"blocks", blocks}};
    if (file.plain_bytes)
        object["age_plain_bytes"] = *file.plain_bytes;
    for (const Digest256& digest : file.block_sha256)
        object["sha256"].push_back(hex(digest));
    return object;
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
    for (const auto& item : items)
        text += (text.empty() ? "\n " : ",\n ") + json_text(to_json(item));
    return text;
}

std::vector<Digest256> parse_sha256(const JsonReader& blocks, std::uint64_t expected) {
    if (blocks.array_size() != expected)
        blocks.fail("does not have one digest for every block");
    std::vector<Digest256> digests(expected);
    for (std::size_t i = 0; i < expected; ++i)
        if (!parse_hex(blocks.item(i).text(), digests[i]))
            blocks.item(i).fail("is not a digest");
    return digests;
}

Manifest::File parse_file(const JsonReader& reader) {
    Manifest::File file;
    file.name = reader.field("name").text();
    // The name is joined to a path: it must not lead out of the directory.
    if (file.name.empty() || file.name.find('/') != std::string::npos || file.name[0] == '.' ||
        file.name.find('\0') != std::string::npos)
        reader.fail("has a name that is no file name");
    file.rank = static_cast<int>(reader.field("rank").count(INT32_MAX));
    file.bytes = static_cast<std::uint64_t>(reader.field("bytes").count());
    if (reader.raw().contains("age_plain_bytes")) {
        file.plain_bytes = static_cast<std::uint64_t>(reader.field("age_plain_bytes").count());
        if (*file.plain_bytes > file.bytes)
            reader.fail("has a plaintext that is longer than the file");
    }
    file.digest = parse_digest(reader.field("digest"));
    const JsonReader blocks = reader.field("blocks");
    const std::uint64_t expected =
        file.bytes / Manifest::kBlockBytes + (file.bytes % Manifest::kBlockBytes != 0 ? 1 : 0);
    if (blocks.array_size() != expected)
        blocks.fail("does not have one digest for every block");
    for (std::size_t i = 0; i < blocks.array_size(); ++i)
        file.block_digests.push_back(parse_digest(blocks.item(i)));
    if (reader.raw().contains("sha256"))
        file.block_sha256 = parse_sha256(reader.field("sha256"), expected);
    if (hash128_of(file.block_digests) != file.digest)
        reader.fail("has a digest that is not that of its blocks");
    return file;
}

Manifest::Piece parse_piece(const JsonReader& reader, const Manifest& manifest,
                            const Manifest::Tensor& tensor) {
    if (reader.array_size() != 4)
        reader.fail("is not [file, file_offset, offset, count]");
    Manifest::Piece piece;
    piece.file_index = static_cast<std::size_t>(reader.item(0).count());
    piece.file_offset = static_cast<std::uint64_t>(reader.item(1).count());
    piece.offset = reader.item(2).count();
    piece.count = reader.item(3).count();
    if (piece.file_index >= manifest.files.size())
        reader.fail("names a file that is not listed");
    const std::int64_t elements = tensor.element_count();
    if (piece.count == 0 || piece.offset > elements || piece.count > elements - piece.offset)
        reader.fail("is not inside its tensor");
    const std::uint64_t file_bytes = manifest.files[piece.file_index].content_bytes();
    const std::uint64_t piece_bytes =
        static_cast<std::uint64_t>(piece.count) * size_of(tensor.type);
    if (piece.file_offset % size_of(tensor.type) != 0)
        reader.fail("does not start on a multiple of its element's size");
    if (piece.file_offset > file_bytes || piece_bytes > file_bytes - piece.file_offset)
        reader.fail("is not inside its file");
    return piece;
}

Manifest::Tensor parse_tensor(const JsonReader& reader, const Manifest& manifest) {
    Manifest::Tensor tensor;
    tensor.name = reader.field("name").text();
    if (tensor.name.empty())
        reader.fail("has no name");
    tensor.type = safetensors::type_named(reader.field("dtype").text());
    const JsonReader shape = reader.field("shape");
    for (std::size_t i = 0; i < shape.array_size(); ++i)
        tensor.shape.push_back(shape.item(i).count());
    const JsonReader pieces = reader.field("pieces");
    for (std::size_t i = 0; i < pieces.array_size(); ++i)
        tensor.pieces.push_back(parse_piece(pieces.item(i), manifest, tensor));
    return tensor;
}

// All but the files and tensors.
void parse_head(const JsonReader& reader, Manifest& manifest) {
    if (reader.field("format").text() != kFormat)
        reader.fail("is of another format");
    const std::int64_t version = reader.field("version").count();
    if (version != Manifest::kVersion)
        throw Error(ErrorCode::unsupported, "manifest is of version " + std::to_string(version) +
                                                "; this build reads version " +
                                                std::to_string(Manifest::kVersion));
    if (reader.field("digest_block_bytes").count() !=
        static_cast<std::int64_t>(Manifest::kBlockBytes))
        reader.fail("has another block size");
    manifest.library = reader.field("library").text();
    manifest.step = reader.field("step").count();
    manifest.generation = static_cast<std::uint64_t>(reader.field("generation").count());
    if (reader.raw().contains("run_id"))
        manifest.run_id = reader.field("run_id").text();
    if (reader.raw().contains("metric"))
        manifest.metric = reader.field("metric").number();
    if (reader.raw().contains("parent_step"))
        manifest.parent_step = reader.field("parent_step").count();
    manifest.saved_unix_ms = reader.field("saved_unix_ms").count();
    manifest.world_size = static_cast<int>(reader.field("world_size").count(INT32_MAX));
    manifest.strategy = reader.field("strategy").text();
    manifest.extra = reader.field("extra").text();
    if (reader.raw().contains("lineage")) {
        const json& lineage = reader.raw().at("lineage");
        if (!lineage.is_object())
            reader.field("lineage").fail("is not an object");
        manifest.lineage = json_text(lineage);
    }
    const JsonReader mesh = reader.field("mesh");
    std::int64_t ranks = 1;
    for (std::size_t i = 0; i < mesh.array_size(); ++i) {
        if (mesh.item(i).array_size() != 2)
            mesh.item(i).fail("is not [name, size]");
        const std::int64_t size = mesh.item(i).item(1).count(INT32_MAX);
        manifest.mesh.push_back({mesh.item(i).item(0).text(), static_cast<int>(size)});
        if (__builtin_mul_overflow(ranks, size, &ranks))
            mesh.fail("has too many ranks");
    }
    if (mesh.array_size() > 0 && ranks != manifest.world_size)
        mesh.fail("does not have world_size ranks");
}

void require_covered(const Manifest::Tensor& tensor) {
    std::vector<Manifest::Piece> sorted = tensor.pieces;
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return a.offset < b.offset; });
    std::int64_t end = 0;
    bool contiguous = true;
    for (const auto& piece : sorted) {
        contiguous = contiguous && piece.offset == end;
        end = piece.offset + piece.count;
    }
    if (!contiguous || end != tensor.element_count())
        throw Error(ErrorCode::corrupt,
                    "the pieces of tensor " + tensor.name + " do not cover it exactly once");
}

}  // namespace

std::string with_digest(std::string_view body) {
    return std::string(kManifestStart) + hex128(hash128(body.data(), body.size())) +
           std::string(body);
}

std::string_view body_of_manifest(std::string_view text) {
    const auto fail = [](const std::string& what) {
        throw Error(ErrorCode::corrupt, "manifest " + what);
    };
    const std::size_t body_at = kManifestStart.size() + kManifestDigestDigits;
    if (text.size() < body_at || !text.starts_with(kManifestStart))
        fail("does not start with its digest");
    const std::string_view body = text.substr(body_at);
    if (text.substr(kManifestStart.size(), kManifestDigestDigits) !=
        hex128(hash128(body.data(), body.size())))
        fail("does not have the digest it was written with");
    return body;
}

std::int64_t Manifest::Tensor::element_count() const {
    // Bounded so that the byte count fits 63 bits as well.
    std::int64_t bytes = static_cast<std::int64_t>(size_of(type));
    for (const std::int64_t extent : shape)
        if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes))
            throw Error(ErrorCode::corrupt, "tensor " + name + " has an impossible shape");
    return bytes / static_cast<std::int64_t>(size_of(type));
}

std::string Manifest::to_text() const {
    json dimensions = json::array();
    for (const MeshDimension& dimension : mesh)
        dimensions.push_back({dimension.name, dimension.size});
    std::string body = "\",\n";
    body += "\"format\":\"" + std::string(kFormat) + "\",\"version\":" + std::to_string(kVersion) +
            ",\"library\":" + json_text(library) + ",\n";
    body += "\"step\":" + std::to_string(step) + ",\"generation\":" + std::to_string(generation);
    if (!run_id.empty())
        body += ",\"run_id\":" + json_text(run_id);
    // JSON has no word for what is not finite: such a metric is none.
    if (metric && std::isfinite(*metric))
        body += ",\"metric\":" + json_text(*metric);
    if (parent_step)
        body += ",\"parent_step\":" + std::to_string(*parent_step);
    body += ",\"saved_unix_ms\":" + std::to_string(saved_unix_ms) + ",\n";
    body += "\"world_size\":" + std::to_string(world_size) + ",\"mesh\":" + json_text(dimensions) +
            ",\"strategy\":" + json_text(strategy) + ",\n";
    body += "\"digest_block_bytes\":" + std::to_string(kBlockBytes) + ",\n";
    body += "\"extra\":" + json_text(extra) + ",\n";
    if (!lineage.empty())
        body += "\"lineage\":" + lineage + ",\n";
    body += "\"files\":[" + lines_of(files) + "],\n";
    body += "\"tensors\":[" + lines_of(tensors) + "]}\n";
    return with_digest(body);
}

Manifest Manifest::parse(std::string_view text) {
    body_of_manifest(text);
    const auto parsed = parse_strictly(text, "manifest");
    const JsonReader reader(parsed, "manifest");
    Manifest manifest;
    parse_head(reader, manifest);
    const JsonReader files = reader.field("files"), tensors = reader.field("tensors");
    std::set<std::string> names;
    for (std::size_t i = 0; i < files.array_size(); ++i) {
        manifest.files.push_back(parse_file(files.item(i)));
        if (!names.insert(manifest.files.back().name).second)
            files.item(i).fail("has a name that is taken");
        if (manifest.files.back().rank >= manifest.world_size)
            files.item(i).fail("is of a rank that is not there");
    }
    names.clear();
    for (std::size_t i = 0; i < tensors.array_size(); ++i) {
        manifest.tensors.push_back(parse_tensor(tensors.item(i), manifest));
        if (!names.insert(manifest.tensors.back().name).second)
            tensors.item(i).fail("has a name that is taken");
    }
    return manifest;
}

void Manifest::require_complete() const {
    struct Range {
        std::size_t file_index;
        std::uint64_t begin, end;
        const Tensor* tensor;
    };
    std::vector<Range> ranges;
    for (const Tensor& tensor : tensors) {
        require_covered(tensor);
        for (const Piece& piece : tensor.pieces)
            ranges.push_back(
                {piece.file_index, piece.file_offset,
                 piece.file_offset + static_cast<std::uint64_t>(piece.count) * size_of(tensor.type),
                 &tensor});
    }
    std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
        return std::pair(a.file_index, a.begin) < std::pair(b.file_index, b.begin);
    });
    for (std::size_t i = 1; i < ranges.size(); ++i) {
        const Range &before = ranges[i - 1], &range = ranges[i];
        if (before.file_index == range.file_index && before.end > range.begin)
            throw Error(ErrorCode::corrupt, "pieces of " + before.tensor->name + " and " +
                                                range.tensor->name + " overlap in the file " +
                                                files.at(range.file_index).name);
    }
}

const Manifest::Tensor* Manifest::find(std::string_view name) const& {
    for (const Tensor& tensor : tensors)
        if (tensor.name == name)
            return &tensor;
    return nullptr;
}

}  // namespace autolaunch
