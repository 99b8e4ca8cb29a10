#pragma once
// Whether all ranks make the same call: for CommunicatorOptions::check_calls, on any backend.
#include "comm/call.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autolaunch {

/// Gives every rank the same number of bytes of all ranks: `all` has mine.size() bytes for each
/// rank, in rank order. Blocks until all ranks have called it; throws what the transport throws.
using ExchangeBytes =
    std::function<void(std::span<const std::byte> mine, std::span<std::byte> all)>;

/// What a rank is about to do, as other ranks can compare it. Trivially copyable, of one size: it
/// travels as bytes.
struct CallDescriptor {
    std::uint64_t sequence = 0;       ///< how many calls this rank compared before
    std::uint64_t digest = 0;         ///< of all that must be equal on all ranks
    std::array<char, 240> text = {};  ///< describe(call)

    /// Of a collective in a group of `size` ranks. Counts of all_to_all and pre_multiplied_sum's
    /// factors may differ between ranks.
    static CallDescriptor of(const CollectiveCall& call, int size);
    /// Of what is no CollectiveCall: "barrier", "split", "allocate of 4096 bytes".
    static CallDescriptor of(std::string_view action);
    /// Of a message, from either end: what sender and receiver must agree on.
    static CallDescriptor of_message(const CollectiveCall& call);
};

/// One rank's side of the comparison.
///
/// Owner: whoever starts the calls. Threads: one at a time. Blocks: as `exchange`.
class CallComparison {
public:
    CallComparison(int size, ExchangeBytes exchange)
        : size_(size), exchange_(std::move(exchange)) {}

    /// Throws Error{mismatch} on every rank, with the same text, which names ranks and both calls,
    /// unless all ranks are about to do the same. The caller then aborts the group. Collective; not
    /// for send and recv.
    void compare(const CollectiveCall& call);
    void compare(std::string_view action);

private:
    void compare(CallDescriptor mine);
    std::shared_ptr<std::vector<std::byte>> exchange(std::span<const std::byte> mine);
    void compare_counts(const CollectiveCall& call);

    int size_;
    ExchangeBytes exchange_;
    std::uint64_t sequence_ = 0;
};

/// The text for descriptors by rank that are not all equal; empty when they are. Pure.
std::string difference_between(std::span<const CallDescriptor> by_rank);

}  // namespace autolaunch
