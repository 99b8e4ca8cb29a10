#include "checkpoint/format/write_plan.hpp"

#include "base/hash.hpp"
#include "checkpoint/format/json.hpp"
#include "checkpoint/format/opaque_tensors.hpp"
#include "checkpoint/format/run_boxes.hpp"

#include <autolaunch/checkpoint/safetensors.hpp>
#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <unordered_map>

namespace autolaunch {

namespace {

/// A box of one of the state's tensors, and where its elements are.
struct StateBox {
    std::size_t tensor_index = 0;
    RunBox box;
    const std::byte* memory = nullptr;
};

std::int64_t elements_of(const fsdp::StateTensor& tensor) {
    return fsdp::ParameterSpec{tensor.name, tensor.shape}.element_count();
}

std::uint64_t bytes_of(const fsdp::StateTensor& tensor, std::int64_t count) {
    return static_cast<std::uint64_t>(count) * size_of(tensor.type);
}

// Which of the state's tensors this rank writes its pieces of.
std::vector<bool> tensors_to_write(const fsdp::State& state, int rank, int world_size) {
    // Apart, because most saves write no frozen ones.
    std::vector<std::uint64_t> changing_bytes(static_cast<std::size_t>(world_size)),
        frozen_bytes = changing_bytes;
    std::vector<bool> mine(state.size());
    for (std::size_t i = 0; i < state.size(); ++i) {
        mine[i] = state[i].replica == 0;
        if (!mine[i] || !state[i].replicated)
            continue;
        auto& owned_bytes = state[i].frozen ? frozen_bytes : changing_bytes;
        const auto owner = std::min_element(owned_bytes.begin(), owned_bytes.end());
        *owner += bytes_of(state[i], elements_of(state[i]));
        mine[i] = owner - owned_bytes.begin() == rank;
    }
    return mine;
}

std::vector<StateBox> boxes_of(const fsdp::StateTensor& tensor, std::size_t tensor_index) {
    std::vector<StateBox> boxes;
    for (const auto& piece : tensor.pieces)
        for (auto& box : boxes_of_run(tensor.shape, piece.offset, piece.count)) {
            const std::byte* memory = piece.data + bytes_of(tensor, box.offset - piece.offset);
            boxes.push_back({tensor_index, std::move(box), memory});
        }
    return boxes;
}

// The boxes of every file of the frozen tensors or of the others: the largest of each tensor in the
// first, so that the others stay small. Wide types first, so that every element is aligned to its
// size.
std::vector<std::vector<StateBox>> boxes_of_files(const fsdp::State& state,
                                                  const std::vector<bool>& mine, bool frozen) {
    std::vector<std::vector<StateBox>> files;
    for (std::size_t i = 0; i < state.size(); ++i) {
        if (!mine[i] || state[i].frozen != frozen)
            continue;
        auto boxes = boxes_of(state[i], i);
        std::stable_sort(boxes.begin(), boxes.end(), [](const StateBox& a, const StateBox& b) {
            return a.box.count > b.box.count;
        });
        if (files.size() < boxes.size())
            files.resize(boxes.size());
        for (std::size_t file = 0; file < boxes.size(); ++file)
            files[file].push_back(std::move(boxes[file]));
    }
    for (auto& boxes : files)
        std::stable_sort(boxes.begin(), boxes.end(), [&](const StateBox& a, const StateBox& b) {
            return size_of(state[a.tensor_index].type) > size_of(state[b.tensor_index].type);
        });
    return files;
}

// Without a step it is the same for the same tensors.
std::string header_of(const fsdp::State& state, std::span<const StateBox> boxes,
                      std::optional<std::int64_t> step, int rank, int world_size) {
    std::vector<safetensors::Entry> entries;
    // DCP's readers look here for where the boxes lie; they ignore the shape, which tells others
    // what the whole is.
    nlohmann::json sharding = nlohmann::json::object();
    for (const StateBox& item : boxes) {
        const auto& tensor = state[item.tensor_index];
        entries.push_back({tensor.name, tensor.type, item.box.shape, 0, 0});
        sharding[tensor.name] = {{"saved_offsets", item.box.begin}, {"shape", tensor.shape}};
    }
    std::map<std::string, std::string> metadata = {
        {"format", "pt"},
        {"DCP_SHARDING_INFO", json_text(sharding)},
        {"autolaunch_version", std::to_string(Manifest::kVersion)},
        {"autolaunch_rank", std::to_string(rank)},
        {"autolaunch_world_size", std::to_string(world_size)}};
    if (step)
        metadata["autolaunch_step"] = std::to_string(*step);
    return safetensors::encode_header(entries, metadata);
}

// The names that PyTorch gives such files: ranks and files count from 1.
std::string shard_name(int rank, std::size_t file, std::size_t files) {
    char name[96];
    std::snprintf(name, sizeof name, "shard-%05d-model-%05zu-of-%05zu.safetensors", rank + 1,
                  file + 1, files);
    return name;
}

}  // namespace

WritePlan plan_shards(const fsdp::State& named, std::int64_t step, int rank, int world_size,
                      std::span<const OpaqueState> opaque) {
    WritePlan plan;
    plan.fragment.step = step;
    plan.fragment.world_size = world_size;
    plan.fragment.library = AUTOLAUNCH_LIBRARY_VERSION;
    fsdp::State state = named;
    for (auto& tensor : opaque_tensors(opaque, rank))
        state.push_back(std::move(tensor));
    for (const auto& tensor : state)
        plan.fragment.tensors.push_back({tensor.name, tensor.type, tensor.shape, {}});
    const auto mine = tensors_to_write(state, rank, world_size);
    auto files = boxes_of_files(state, mine, false);
    const std::size_t first_frozen = files.size();
    for (auto& boxes : boxes_of_files(state, mine, true))
        files.push_back(std::move(boxes));
    for (std::size_t index = 0; index < files.size(); ++index) {
        PlannedFile file;
        file.name = shard_name(rank, index, files.size());
        file.frozen = index >= first_frozen;
        file.header = header_of(state, files[index],
                                file.frozen ? std::nullopt : std::optional(step), rank, world_size);
        file.bytes = file.header.size();
        for (const StateBox& item : files[index]) {
            const std::uint64_t bytes = bytes_of(state[item.tensor_index], item.box.count);
            file.segments.push_back(
                {item.memory, bytes, file.bytes, state[item.tensor_index].arrival});
            plan.fragment.tensors[item.tensor_index].pieces.push_back(
                {index, file.bytes, item.box.offset, item.box.count});
            file.bytes += bytes;
        }
        plan.fragment.files.push_back({file.name, rank, file.bytes, {}, {}});
        plan.files.push_back(std::move(file));
    }
    // So that what the ranks exchange grows with the state, and not with the state times the ranks.
    if (rank != 0)
        std::erase_if(plan.fragment.tensors, [](const Manifest::Tensor& tensor) {
            return tensor.pieces.empty() && tensor.element_count() > 0;
        });
    return plan;
}

Manifest described(const WritePlan& plan, std::vector<BlockDigests> digests) {
    Manifest fragment = plan.fragment;
    for (std::size_t i = 0; i < fragment.files.size(); ++i) {
        fragment.files[i].digest = hash128_of(digests.at(i).xxh3);
        fragment.files[i].block_digests = std::move(digests[i].xxh3);
        fragment.files[i].block_sha256 = std::move(digests[i].sha256);
    }
    return fragment;
}

Manifest merge_fragments(std::vector<Manifest> fragments) {
    Manifest merged;
    std::unordered_map<std::string, std::size_t> known;  // tensors of `merged`
    for (Manifest& fragment : fragments) {
        if (&fragment == &fragments.front()) {
            merged = fragment;
            merged.files.clear();
            merged.tensors.clear();
        }
        const std::size_t first_file = merged.files.size();
        for (auto& file : fragment.files)
            merged.files.push_back(std::move(file));
        for (auto& tensor : fragment.tensors) {
            for (auto& piece : tensor.pieces)
                piece.file_index += first_file;
            const auto [found, is_new] = known.emplace(tensor.name, merged.tensors.size());
            if (is_new) {
                merged.tensors.push_back(std::move(tensor));
                continue;
            }
            Manifest::Tensor& whole = merged.tensors[found->second];
            if (whole.shape != tensor.shape || whole.type != tensor.type)
                throw Error(ErrorCode::mismatch,
                            "the ranks save the tensor " + tensor.name + " with different shapes");
            whole.pieces.insert(whole.pieces.end(), tensor.pieces.begin(), tensor.pieces.end());
        }
    }
    return merged;
}

}  // namespace autolaunch
