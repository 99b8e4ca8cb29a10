#include "generation/rank_memory.hpp"

#include "base/memory_file.hpp"
#include "report/units.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostFiles = 4096;
constexpr std::size_t kLongestGroup = 64;
constexpr int kSlots = 2;

}  // namespace

MemoryDecision MemoryTable::ask(const MemorySlot& slot, int generation, std::int64_t bytes) {
    if (slot.slot < 0 || slot.slot >= kSlots || slot.shard < 0 ||
        slot.group.size() > kLongestGroup || bytes < 0)
        return MemoryDecision::not_a_slot;
    const auto found = files_.find(slot);
    if (bytes == 0)
        return found == files_.end() ? MemoryDecision::nothing : MemoryDecision::what_is;
    const auto wanted = static_cast<std::uint64_t>(bytes);
    std::uint64_t had = 0;
    if (found != files_.end()) {
        if (found->second.generation == generation && found->second.bytes >= wanted)
            return MemoryDecision::what_is;
        had = found->second.bytes;
    } else if (files_.size() >= kMostFiles) {
        return MemoryDecision::too_much;
    }
    const std::uint64_t others = held_bytes_ - had;
    if (wanted > limit_bytes_ || others > limit_bytes_ - wanted)
        return MemoryDecision::too_much;
    held_bytes_ = others + wanted;
    files_[slot] = {generation, wanted};
    return MemoryDecision::fresh;
}

void MemoryTable::forget(const MemorySlot& slot) {
    const auto found = files_.find(slot);
    if (found == files_.end())
        return;
    held_bytes_ -= found->second.bytes;
    files_.erase(found);
}

RankMemory::RankMemory(std::uint64_t limit_bytes, std::string limit_of, std::string hostname)
    : table_(limit_bytes), limit_of_(std::move(limit_of)), hostname_(std::move(hostname)) {}

RankMemory make_rank_memory(const LaunchPlan& plan) {
    if (const auto given = plan.spec.checkpoint.memory_limit_bytes)
        return {static_cast<std::uint64_t>(*given), "checkpoint.memory_limit", plan.hostname};
    std::uint64_t bytes = plan.node_memory_bytes;
    if (bytes == 0)
        bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGE_SIZE);
    return {bytes / 2, "half of the memory that its ranks may use", plan.hostname};
}

void RankMemory::answer(int rank, int generation, const session::MemoryAsked& asked) {
    if (!asked.answer)
        return;
    const MemorySlot slot{asked.group, asked.shard, asked.slot};
    switch (table_.ask(slot, generation, asked.bytes)) {
        case MemoryDecision::nothing:
            return asked.answer({}, -1);
        case MemoryDecision::not_a_slot:
            return asked.answer(
                {.bytes = 0, .refused = "there is no such slot of memory", .hint = {}}, -1);
        case MemoryDecision::too_much:
            return asked.answer(refuse_too_much(rank, static_cast<std::uint64_t>(asked.bytes)), -1);
        case MemoryDecision::fresh: {
            files_.erase(slot);  // first: its pages are free before others are taken
            UniqueFd file =
                create_memory_file("autolaunch-memory", static_cast<std::uint64_t>(asked.bytes));
            if (!file) {
                table_.forget(slot);
                return asked.answer(
                    {.bytes = 0,
                     .refused = hostname_ + " gives no memory file: " + std::strerror(errno),
                     .hint = "save to the disk instead"},
                    -1);
            }
            ++made_;
            files_[slot] = {std::move(file), static_cast<std::uint64_t>(asked.bytes)};
            break;
        }
        case MemoryDecision::what_is:
            break;
    }
    const Held& held = files_.at(slot);
    asked.answer({.bytes = static_cast<std::int64_t>(held.bytes), .refused = {}, .hint = {}},
                 held.file.get());
}

session::MemoryAnswer RankMemory::refuse_too_much(int rank, std::uint64_t bytes) const {
    return {.bytes = 0,
            .refused = "rank " + std::to_string(rank) + " asked for " + format_bytes(bytes) +
                       " for copies of its state, but " + hostname_ + " holds " +
                       format_bytes(table_.held_bytes()) + " already, and " + limit_of_ +
                       " allows " + format_bytes(table_.limit_bytes()),
            .hint =
                "set checkpoint.memory_limit higher, save to the disk, or keep no copies for other "
                "nodes "
                "(CheckpointOptions::memory_peers)"};
}

}  // namespace autolaunch::launcher
