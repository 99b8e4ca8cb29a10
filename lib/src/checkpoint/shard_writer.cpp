#include "base/hash.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/shard_file.hpp"

#include <autolaunch/checkpoint/safetensors.hpp>
#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstring>

namespace autolaunch {

namespace {

constexpr std::size_t kBufferBytes = 2 * Manifest::kBlockBytes;  // 8 MiB a write

// Collects bytes into large writes and digests every block while it is in cache.
class BlockWriter {
public:
    explicit BlockWriter(StorageFile& file) : file_(file), buffer_(kBufferBytes) {}

    void append(const std::byte* data, std::uint64_t bytes) {
        while (bytes > 0) {
            const std::size_t part = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kBufferBytes - filled_));
            std::memcpy(buffer_.data() + filled_, data, part);
            filled_ += part;
            data += part;
            bytes -= part;
            if (filled_ == kBufferBytes) flush();
        }
    }

    void flush() {
        for (std::size_t at = 0; at < filled_; at += Manifest::kBlockBytes)
            digests_.push_back(hash64(buffer_.data() + at, std::min<std::size_t>(filled_ - at, Manifest::kBlockBytes)));
        if (filled_ > 0) file_.write_at(written_, std::span(buffer_).first(filled_));
        written_ += filled_;
        filled_ = 0;
    }

    std::uint64_t written() const noexcept { return written_; }
    std::vector<std::uint64_t> take_digests() { return std::move(digests_); }

private:
    StorageFile& file_;
    std::vector<std::byte> buffer_;
    std::size_t filled_ = 0;
    std::uint64_t written_ = 0;
    std::vector<std::uint64_t> digests_;
};

std::uint64_t bytes_of(const fsdp::StateTensor& tensor, std::int64_t count) {
    return static_cast<std::uint64_t>(count) * size_of(tensor.type);
}

std::int64_t elements_of(const fsdp::StateTensor& tensor) {
    return fsdp::ParameterSpec{tensor.name, tensor.shape}.element_count();
}

bool is_whole(const fsdp::StateTensor& tensor, const fsdp::StateTensor::Piece& piece) {
    return piece.count == elements_of(tensor);
}

// The file explains itself: where every part of a tensor belongs.
std::map<std::string, std::string> describe(const fsdp::State& state, std::span<const ShardPiece> pieces,
                                            std::int64_t step, int rank, int world_size) {
    nlohmann::json parts = nlohmann::json::object();
    for (const ShardPiece& item : pieces) {
        const auto& tensor = state[item.tensor_index];
        if (is_whole(tensor, item.piece)) continue;
        parts[piece_name(tensor, item.piece)] = {
            {"tensor", tensor.name}, {"shape", tensor.shape}, {"offset", item.piece.offset}};
    }
    return {
        {"format", "autolaunch-shard"}, {"version", std::to_string(Manifest::kVersion)}, {"step", std::to_string(step)},
        {"rank", std::to_string(rank)}, {"world_size", std::to_string(world_size)},      {"pieces", json_text(parts)}};
}

std::vector<safetensors::Entry> entries_of(const fsdp::State& state, std::span<const ShardPiece> pieces) {
    std::vector<safetensors::Entry> entries;
    for (const ShardPiece& item : pieces) {
        const auto& tensor = state[item.tensor_index];
        const bool whole = is_whole(tensor, item.piece);
        safetensors::Entry entry;
        entry.name = piece_name(tensor, item.piece);
        entry.type = tensor.type;
        entry.shape = whole ? tensor.shape : std::vector<std::int64_t>{item.piece.count};
        entries.push_back(std::move(entry));
    }
    return entries;
}

}  // namespace

std::vector<ShardPiece> pieces_to_write(const fsdp::State& state, int rank, int world_size) {
    std::vector<std::uint64_t> owned_bytes(static_cast<std::size_t>(world_size));
    std::vector<ShardPiece> pieces;
    for (std::size_t i = 0; i < state.size(); ++i) {
        if (state[i].replica != 0) continue;
        if (state[i].replicated) {
            const auto owner = std::min_element(owned_bytes.begin(), owned_bytes.end());
            *owner += bytes_of(state[i], elements_of(state[i]));
            if (owner - owned_bytes.begin() != rank) continue;
        }
        for (const auto& piece : state[i].pieces) pieces.push_back({i, piece});
    }
    std::stable_sort(pieces.begin(), pieces.end(), [&](const ShardPiece& a, const ShardPiece& b) {
        return size_of(state[a.tensor_index].type) > size_of(state[b.tensor_index].type);
    });
    return pieces;
}

std::string piece_name(const fsdp::StateTensor& tensor, const fsdp::StateTensor::Piece& piece) {
    return is_whole(tensor, piece) ? tensor.name : tensor.name + "@" + std::to_string(piece.offset);
}

Manifest write_shard(Storage& storage, const std::filesystem::path& directory, const std::string& name,
                     const fsdp::State& state, std::int64_t step, int rank, int world_size) {
    const auto pieces = pieces_to_write(state, rank, world_size);
    const std::string header =
        safetensors::encode_header(entries_of(state, pieces), describe(state, pieces, step, rank, world_size));
    Manifest fragment;
    fragment.step = step;
    fragment.world_size = world_size;
    for (const auto& tensor : state) fragment.tensors.push_back({tensor.name, tensor.type, tensor.shape, {}});

    const auto file = storage.create(directory / name);
    BlockWriter writer(*file);
    writer.append(reinterpret_cast<const std::byte*>(header.data()), header.size());
    std::uint64_t offset = header.size();
    for (const ShardPiece& item : pieces) {
        const std::uint64_t bytes = bytes_of(state[item.tensor_index], item.piece.count);
        writer.append(item.piece.data, bytes);
        fragment.tensors[item.tensor_index].pieces.push_back({0, offset, item.piece.offset, item.piece.count});
        offset += bytes;
    }
    writer.flush();
    file->sync();
    storage.sync_directory(directory);
    fragment.files.push_back({name, writer.written(), writer.take_digests()});
    return fragment;
}

}  // namespace autolaunch
