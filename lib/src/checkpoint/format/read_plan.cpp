#include "checkpoint/format/read_plan.hpp"

#include "base/text.hpp"
#include "checkpoint/format/element_cast.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <map>

namespace autolaunch {

namespace {

std::string format_shape(std::span<const std::int64_t> shape) {
    std::vector<std::string> extents;
    for (const std::int64_t extent : shape)
        extents.push_back(std::to_string(extent));
    return "[" + join(extents, ", ") + "]";
}

[[noreturn]] void throw_missing(const TensorIndex& tensors, const std::string& wanted) {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors)
        names.emplace_back(name);
    const std::string close = nearest(wanted, names);
    throw Error(ErrorCode::mismatch, "the checkpoint has no tensor named " + wanted,
                close.empty() ? "" : "it has " + close);
}

void require_same(const Manifest::Tensor& stored, const fsdp::StateTensor& wanted, bool cast) {
    const bool castable = can_cast(stored.type, wanted.type);
    if (stored.shape == wanted.shape && (stored.type == wanted.type || (cast && castable)))
        return;
    throw Error(ErrorCode::mismatch,
                "tensor " + wanted.name + " is " + format_shape(stored.shape) + " " +
                    std::string(name_of(stored.type)) + " in the checkpoint, " +
                    format_shape(wanted.shape) + " " + std::string(name_of(wanted.type)) +
                    " in the model",
                stored.shape == wanted.shape && castable ? "LoadOptions::cast converts it" : "");
}

void plan_tensor(const Manifest::Tensor& stored, const fsdp::StateTensor& wanted,
                 std::vector<ReadPart>& parts) {
    const std::uint64_t stored_bytes = size_of(stored.type), wanted_bytes = size_of(wanted.type);
    for (const auto& piece : wanted.pieces) {
        for (const auto& source : stored.pieces) {
            const std::int64_t begin = std::max(piece.offset, source.offset);
            const std::int64_t end =
                std::min(piece.offset + piece.count, source.offset + source.count);
            if (begin >= end)
                continue;
            parts.push_back(
                {source.file_index,
                 source.file_offset +
                     static_cast<std::uint64_t>(begin - source.offset) * stored_bytes,
                 static_cast<std::uint64_t>(end - begin) * stored_bytes,
                 piece.data + static_cast<std::uint64_t>(begin - piece.offset) * wanted_bytes,
                 stored.type, wanted.type, wanted.replicated});
        }
    }
}

}  // namespace

ReadPlan plan_loading(const Manifest& manifest, const fsdp::State& state, const ReadRules& rules) {
    return plan_loading(TensorIndex(manifest), state, rules);
}

ReadPlan plan_loading(const TensorIndex& tensors, const fsdp::State& state,
                      const ReadRules& rules) {
    ReadPlan plan;
    for (const auto& wanted : state) {
        const Manifest::Tensor* const stored = tensors.find(wanted.name);
        if (stored == nullptr) {
            if (!rules.allow_missing)
                throw_missing(tensors, wanted.name);
            plan.missing.push_back(wanted.name);
            continue;
        }
        require_same(*stored, wanted, rules.cast);
        plan_tensor(*stored, wanted, plan.parts);
    }
    std::sort(plan.parts.begin(), plan.parts.end(), [](const ReadPart& a, const ReadPart& b) {
        return std::pair(a.file_index, a.file_offset) < std::pair(b.file_index, b.file_offset);
    });
    return plan;
}

std::vector<BlockNeed> blocks_needed(std::span<const ReadPart> parts) {
    std::map<std::pair<std::size_t, std::size_t>, BlockNeed> needs;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const ReadPart& part = parts[i];
        const std::uint64_t last = (part.file_offset + part.bytes - 1) / Manifest::kBlockBytes;
        for (std::size_t block = part.file_offset / Manifest::kBlockBytes; block <= last; ++block) {
            BlockNeed& need = needs[{part.file_index, block}];
            need.file_index = part.file_index;
            need.block = block;
            need.shared = need.shared || part.shared;
            need.parts.push_back(i);
        }
    }
    std::vector<BlockNeed> ordered;
    for (auto& [place, need] : needs)
        ordered.push_back(std::move(need));
    return ordered;
}

ShareOfBlocks share_of_blocks(std::size_t count, int member, int members) {
    const auto shares = static_cast<std::size_t>(members);
    const std::size_t rounds = (count + shares - 1) / shares;
    const std::size_t first = std::min(count, rounds * static_cast<std::size_t>(member));
    return {first, std::min(count, first + rounds), rounds};
}

void copy_part(const ReadPart& part, std::uint64_t block_begin, std::span<const std::byte> block) {
    const std::uint64_t begin = std::max(part.file_offset, block_begin);
    const std::uint64_t end = std::min(part.file_offset + part.bytes, block_begin + block.size());
    if (begin >= end)
        return;
    // Pieces start on a multiple of their element's size, and so do blocks: no element is cut.
    const std::uint64_t element_bytes = size_of(part.stored);
    const std::uint64_t skipped = (begin - part.file_offset) / element_bytes;
    cast_elements(part.stored, block.data() + (begin - block_begin), part.wanted,
                  part.to + skipped * size_of(part.wanted), (end - begin) / element_bytes);
}

std::string content_at(const Manifest& manifest, std::size_t file_index, std::uint64_t begin,
                       std::uint64_t end) {
    std::string text;
    std::uint64_t first_byte = UINT64_MAX;  // of the first tensor in the file
    std::uint64_t lowest = UINT64_MAX;      // the first byte of the range that is a tensor's
    std::size_t tensors = 0;
    for (const auto& tensor : manifest.tensors) {
        bool counted = false;
        for (const auto& piece : tensor.pieces) {
            if (piece.file_index != file_index)
                continue;
            const std::uint64_t bytes =
                static_cast<std::uint64_t>(piece.count) * size_of(tensor.type);
            first_byte = std::min(first_byte, piece.file_offset);
            if (piece.file_offset >= end || piece.file_offset + bytes <= begin)
                continue;
            if (!counted)
                ++tensors;
            counted = true;
            const std::uint64_t from = std::max(begin, piece.file_offset);
            if (from >= lowest)
                continue;
            lowest = from;
            const auto element =
                piece.offset +
                static_cast<std::int64_t>((from - piece.file_offset) / size_of(tensor.type));
            text = "tensor " + tensor.name + " from element " + std::to_string(element);
        }
    }
    if (tensors > 1)
        text += ", and " + std::to_string(tensors - 1) + " more";
    if (begin < first_byte)
        text = text.empty() ? "the header" : "the header, " + text;
    return text;
}

}  // namespace autolaunch
