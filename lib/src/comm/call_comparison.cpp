#include "comm/call_comparison.hpp"

#include "base/hash.hpp"
#include "base/text.hpp"
#include "comm/kept_memory.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

namespace autolaunch {
namespace {

static_assert(std::is_trivially_copyable_v<CallDescriptor>);

void write_text(CallDescriptor& descriptor, std::string_view text) {
    std::memcpy(descriptor.text.data(), text.data(),
                std::min(text.size(), descriptor.text.size() - 1));
}

std::string counts_text(const BlockCounts& blocks, int ranks) {
    std::string text = " (";
    for (int rank = 0; rank < ranks; ++rank)
        text += (rank == 0 ? "" : " ") + std::to_string(blocks.count(rank));
    return text + ")";
}

/// "rank 3", "ranks 0-2,5"
std::string ranks_text(const std::vector<int>& ranks) {
    return (ranks.size() == 1 ? "rank " : "ranks ") + format_list(ranks);
}

bool same(const CallDescriptor& left, const CallDescriptor& right) {
    return left.digest == right.digest && left.sequence == right.sequence;
}

std::string_view text_of(const CallDescriptor& descriptor) { return descriptor.text.data(); }

constexpr char kHint[] =
    "all ranks must call the same collectives in the same order, with the same counts and types";

}  // namespace

CallDescriptor CallDescriptor::of(const CollectiveCall& call, int size) {
    CallDescriptor descriptor;
    const bool reduces = call.kind == CollectiveKind::all_reduce ||
                         call.kind == CollectiveKind::reduce ||
                         call.kind == CollectiveKind::reduce_scatter;
    std::vector<std::uint64_t> facts = {static_cast<std::uint64_t>(call.kind),
                                        static_cast<std::uint64_t>(call.type),
                                        reduces ? static_cast<std::uint64_t>(call.op.kind()) : 0,
                                        static_cast<std::uint64_t>(call.root)};
    std::string text = describe(call);
    if (call.kind != CollectiveKind::all_to_all) {
        facts.insert(facts.end(), {call.count, call.blocks.each(), call.blocks.total()});
        for (int rank = 0; !call.blocks.is_uniform() && rank < size; ++rank)
            facts.push_back(call.blocks.offset(rank));
        if (!call.blocks.is_uniform())
            text += counts_text(call.blocks, size);
    }
    descriptor.digest = hash64(facts.data(), facts.size() * sizeof facts[0]);
    write_text(descriptor, text);
    return descriptor;
}

CallDescriptor CallDescriptor::of(std::string_view action) {
    CallDescriptor descriptor;
    descriptor.digest = hash64(action.data(), action.size());
    write_text(descriptor, action);
    return descriptor;
}

CallDescriptor CallDescriptor::of_message(const CollectiveCall& call) {
    CallDescriptor descriptor;
    const std::array<std::uint64_t, 2> facts = {call.count, static_cast<std::uint64_t>(call.type)};
    descriptor.digest = hash64(facts.data(), sizeof facts);
    write_text(descriptor, describe(call));
    return descriptor;
}

std::string difference_between(std::span<const CallDescriptor> by_rank) {
    // The ranks of each different call, in the order of their first ranks.
    std::vector<std::pair<const CallDescriptor*, std::vector<int>>> calls;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
        const auto known = std::find_if(calls.begin(), calls.end(), [&](const auto& call) {
            return same(*call.first, by_rank[rank]);
        });
        auto& call =
            known == calls.end() ? calls.emplace_back(&by_rank[rank], std::vector<int>()) : *known;
        call.second.push_back(static_cast<int>(rank));
    }
    if (calls.size() < 2)
        return {};
    const auto& [first, first_ranks] = calls[0];
    const auto& [second, second_ranks] = calls[1];
    std::string text = fmt::format("{} call{} {}, {} {}", ranks_text(first_ranks),
                                   first_ranks.size() == 1 ? "s" : "", text_of(*first),
                                   ranks_text(second_ranks), text_of(*second));
    if (first->sequence != second->sequence)
        text += fmt::format(", which are call {} and call {}", first->sequence, second->sequence);
    if (calls.size() > 2)
        text += fmt::format(", and {} more differ", calls.size() - 2);
    return text;
}

void CallComparison::compare(const CollectiveCall& call) {
    compare(CallDescriptor::of(call, size_));
    if (call.kind == CollectiveKind::all_to_all)
        compare_counts(call);
}

void CallComparison::compare(std::string_view action) { compare(CallDescriptor::of(action)); }

void CallComparison::compare(CallDescriptor mine) {
    mine.sequence = sequence_++;
    const auto all = exchange(std::as_bytes(std::span(&mine, 1)));
    std::vector<CallDescriptor> by_rank(static_cast<std::size_t>(size_));
    std::memcpy(by_rank.data(), all->data(), all->size());
    const std::string difference = difference_between(by_rank);
    if (!difference.empty())
        throw Error(ErrorCode::mismatch, difference, kHint);
}

std::shared_ptr<std::vector<std::byte>> CallComparison::exchange(std::span<const std::byte> mine) {
    auto all =
        std::make_shared<std::vector<std::byte>>(mine.size() * static_cast<std::size_t>(size_));
    try {
        exchange_(mine, *all);
    } catch (...) {
        keep_until_exit(all);
        throw;
    }
    return all;
}

// What rank a sends to rank b must be what b expects from a.
void CallComparison::compare_counts(const CollectiveCall& call) {
    const auto ranks = static_cast<std::size_t>(size_);
    std::vector<std::uint64_t> mine;
    for (int peer = 0; peer < size_; ++peer)
        mine.push_back(call.blocks.count(peer));
    for (int peer = 0; peer < size_; ++peer)
        mine.push_back(call.recv_blocks.count(peer));
    const auto bytes = exchange(std::as_bytes(std::span(mine)));
    std::vector<std::uint64_t> all(ranks * mine.size());
    std::memcpy(all.data(), bytes->data(), bytes->size());
    for (std::size_t from = 0; from < ranks; ++from) {
        for (std::size_t to = 0; to < ranks; ++to) {
            const std::uint64_t sent = all[from * mine.size() + to];
            const std::uint64_t expected = all[to * mine.size() + ranks + from];
            if (sent == expected)
                continue;
            throw Error(ErrorCode::mismatch,
                        fmt::format("in {} rank {} sends {} elements to rank {}, which expects {}",
                                    name_of(call.kind), from, sent, to, expected),
                        "rank a's send_counts[b] must be rank b's recv_counts[a]");
        }
    }
}

}  // namespace autolaunch
