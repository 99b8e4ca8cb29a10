#include "comm/call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace autolaunch {

std::string_view name_of(CollectiveKind kind) noexcept {
    constexpr std::array<std::string_view, 10> kNames = {
        "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter",
        "all_to_all", "gather", "scatter",   "send",       "recv"};
    const auto index = static_cast<std::size_t>(kind);
    return index < kNames.size() ? kNames[index] : "unknown collective";
}

BlockCounts BlockCounts::uniform(std::size_t each, int ranks) noexcept {
    BlockCounts blocks;
    blocks.each_ = each;
    const auto count = static_cast<std::size_t>(ranks);
    blocks.total_ = count != 0 && each > SIZE_MAX / count ? SIZE_MAX : each * count;
    return blocks;
}

BlockCounts BlockCounts::ragged(std::span<const std::size_t> counts) {
    const bool equal =
        std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
    if (equal)
        return uniform(counts.empty() ? 0 : counts.front(), static_cast<int>(counts.size()));
    BlockCounts blocks;
    blocks.offsets_.reserve(counts.size() + 1);
    for (const std::size_t count : counts) {
        blocks.offsets_.push_back(blocks.total_);
        blocks.total_ = count > SIZE_MAX - blocks.total_ ? SIZE_MAX : blocks.total_ + count;
    }
    blocks.offsets_.push_back(blocks.total_);
    return blocks;
}

std::size_t BlockCounts::count(int rank) const noexcept {
    if (is_uniform())
        return each_;
    const auto index = static_cast<std::size_t>(rank);
    return offsets_[index + 1] - offsets_[index];
}

std::size_t BlockCounts::offset(int rank) const noexcept {
    const auto index = static_cast<std::size_t>(rank);
    return is_uniform() ? index * each_ : offsets_[index];
}

std::size_t BlockCounts::longest() const noexcept {
    if (is_uniform())
        return each_;
    std::size_t longest = 0;
    for (std::size_t rank = 0; rank + 1 < offsets_.size(); ++rank)
        longest = std::max(longest, offsets_[rank + 1] - offsets_[rank]);
    return longest;
}

BufferExtents extents_of(const CollectiveCall& call, int rank) {
    const auto send = reinterpret_cast<std::uintptr_t>(call.send);
    const auto recv = reinterpret_cast<std::uintptr_t>(call.recv);
    const bool is_root = rank == call.root;
    // Where this rank's block lies in a buffer of all blocks. As numbers: the counts are not
    // checked yet.
    const auto own = [&](std::uintptr_t whole) {
        return whole + call.blocks.offset(rank) * call.element_bytes();
    };
    switch (call.kind) {
        case CollectiveKind::all_reduce:
            return {call.count, call.count, send == recv};
        case CollectiveKind::reduce:
            return {call.count, is_root ? call.count : 0, send == recv};
        case CollectiveKind::broadcast:
        case CollectiveKind::recv:
            return {0, call.count, false};
        case CollectiveKind::send:
            return {call.count, 0, false};
        case CollectiveKind::all_gather:
            return {call.blocks.count(rank), call.blocks.total(), send == own(recv)};
        case CollectiveKind::reduce_scatter:
            return {call.blocks.total(), call.blocks.count(rank), recv == own(send)};
        case CollectiveKind::all_to_all:
            return {call.blocks.total(), call.recv_blocks.total(),
                    send == recv && call.blocks.is_uniform() && call.blocks == call.recv_blocks};
        case CollectiveKind::gather:
            return {call.blocks.count(rank), is_root ? call.blocks.total() : 0,
                    is_root && send == own(recv)};
        case CollectiveKind::scatter:
            return {is_root ? call.blocks.total() : 0, call.blocks.count(rank),
                    is_root && recv == own(send)};
    }
    return {};
}

std::size_t bytes_of(const CollectiveCall& call) noexcept {
    switch (call.kind) {
        case CollectiveKind::all_gather:
        case CollectiveKind::reduce_scatter:
        case CollectiveKind::all_to_all:
        case CollectiveKind::gather:
        case CollectiveKind::scatter:
            return call.blocks.total() * call.element_bytes();
        default:
            return call.count * call.element_bytes();
    }
}

std::string describe(const CollectiveCall& call) {
    const std::string_view name = name_of(call.kind);
    const auto elements = [&](std::size_t count) {
        return fmt::format("{} elements of {}", count, name_of(call.type));
    };
    const auto blocks = [&] {
        return call.blocks.is_uniform()
                   ? elements(call.blocks.each())
                   : fmt::format("ragged blocks, together {}", elements(call.blocks.total()));
    };
    switch (call.kind) {
        case CollectiveKind::all_reduce:
            return fmt::format("{} ({}) of {}", name, name_of(call.op), elements(call.count));
        case CollectiveKind::reduce:
            return fmt::format("{} ({}) to rank {} of {}", name, name_of(call.op), call.root,
                               elements(call.count));
        case CollectiveKind::broadcast:
            return fmt::format("{} from rank {} of {}", name, call.root, elements(call.count));
        case CollectiveKind::send:
            return fmt::format("{} to rank {} of {}", name, call.root, elements(call.count));
        case CollectiveKind::recv:
            return fmt::format("{} from rank {} of {}", name, call.root, elements(call.count));
        case CollectiveKind::reduce_scatter:
            return fmt::format("{} ({}) of {}", name, name_of(call.op), blocks());
        case CollectiveKind::all_gather:
        case CollectiveKind::all_to_all:
            return fmt::format("{} of {}", name, blocks());
        case CollectiveKind::gather:
            return fmt::format("{} to rank {} of {}", name, call.root, blocks());
        case CollectiveKind::scatter:
            return fmt::format("{} from rank {} of {}", name, call.root, blocks());
    }
    return std::string(name);
}

}  // namespace autolaunch
