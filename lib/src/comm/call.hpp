#pragma once
// One call of a collective as data: what Communicator has checked, and what queues, groups, the
// flight recorder and backends hand on.
#include <autolaunch/comm/types.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch {

enum class CollectiveKind : std::uint8_t {
    all_reduce,
    reduce,
    broadcast,
    all_gather,
    reduce_scatter,
    all_to_all,
    gather,
    scatter,
    send,
    recv
};

/// "all_reduce", …
std::string_view name_of(CollectiveKind kind) noexcept;
constexpr bool reduces(CollectiveKind kind) noexcept {
    return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce ||
           kind == CollectiveKind::reduce_scatter;
}

/// How many elements each rank's block has, where a buffer holds a block of every rank in rank
/// order.
class AUTOLAUNCH_API BlockCounts {
public:
    BlockCounts() noexcept {}  // not constexpr: see call_of() in communicator.cpp
    static BlockCounts uniform(std::size_t each, int ranks) noexcept;
    static BlockCounts ragged(std::span<const std::size_t> counts);

    /// All blocks are `each()` elements long. Ragged counts that happen to be equal are uniform
    /// too.
    bool is_uniform() const noexcept { return offsets_.empty(); }
    std::size_t each() const noexcept { return each_; }
    std::size_t count(int rank) const noexcept;
    std::size_t offset(int rank) const noexcept;           ///< elements before the rank's block
    std::size_t total() const noexcept { return total_; }  ///< SIZE_MAX when it does not fit
    std::size_t longest() const noexcept;
    bool operator==(const BlockCounts&) const = default;

private:
    std::size_t each_ = 0;
    std::size_t total_ = 0;
    std::vector<std::size_t> offsets_;  // size + 1 of them when ragged
};

struct CollectiveCall {
    CollectiveKind kind = CollectiveKind::all_reduce;
    const void* send = nullptr;  ///< null for broadcast and recv
    void* recv = nullptr;        ///< broadcast's buffer; null for send
    std::size_t count = 0;       ///< all_reduce, reduce, broadcast, send, recv
    BlockCounts blocks =
        {};  ///< all_gather, reduce_scatter, gather, scatter; what all_to_all sends
    BlockCounts recv_blocks = {};  ///< what all_to_all receives
    DataType type = DataType::u8;
    ReduceOp op = ReduceOp::sum;
    int root = -1;  ///< root of reduce, broadcast, gather and scatter; peer of send and recv
    const char* step_of =
        nullptr;  ///< what the user called, where this is a step of it: for errors

    std::size_t element_bytes() const noexcept { return size_of(type); }
    const std::byte* send_bytes() const noexcept { return static_cast<const std::byte*>(send); }
    std::byte* recv_bytes() const noexcept { return static_cast<std::byte*>(recv); }
    bool is_message() const noexcept {
        return kind == CollectiveKind::send || kind == CollectiveKind::recv;
    }
};

/// What one rank's buffers hold in a call, in elements.
struct BufferExtents {
    std::size_t send = 0;
    std::size_t recv = 0;
    bool in_place = false;  ///< send and recv meet in the one way that the function allows
};
BufferExtents extents_of(const CollectiveCall& call, int rank);

/// The bytes that nccl-tests calls the size of a call: the whole vector, of all ranks where it is
/// cut in blocks.
std::size_t bytes_of(const CollectiveCall& call) noexcept;
/// "all_reduce (sum) of 1024 elements of f32", for error messages.
std::string describe(const CollectiveCall& call);

}  // namespace autolaunch
