#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/borrowed.hpp>
#include <autolaunch/comm/types.hpp>
#include <autolaunch/export.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace autolaunch::fsdp {

/// An integer, or a named one.
template <class T>
concept WholeNumber = std::integral<T> || std::is_enum_v<T>;

/// How long a tensor is in each dimension, slowest first: a std::vector<std::int64_t> that is also
/// written in integers of any type, such as {rows, columns} of std::size_t, without narrowing.
class Extents : public std::vector<std::int64_t> {
public:
    /// What does not fit becomes negative, which no tensor's extent is: who is given it says so.
    struct Extent {
        template <WholeNumber Integer>
        constexpr Extent(Integer given) noexcept : value(static_cast<std::int64_t>(given)) {}
        std::int64_t value;
    };

    Extents() = default;
    Extents(std::initializer_list<Extent> extents) {
        reserve(extents.size());
        for (const Extent& extent : extents)
            push_back(extent.value);
    }
    Extents(std::vector<std::int64_t> extents) : vector(std::move(extents)) {}
    template <class Iterator>
    Extents(Iterator first, Iterator last) : vector(first, last) {}
};

/// One parameter tensor, row-major.
struct AUTOLAUNCH_API ParameterSpec {
    std::string name;
    Extents shape = {};
    bool trainable = true;  ///< false: frozen, without gradient, optimizer state and f32 master

    std::int64_t element_count() const;
};

/// How parameters lie in an arena and how the arena is cut into shards. Pure: a function of its
/// arguments alone, so every rank computes the same.
///
/// The arena is one contiguous buffer: the parameters in the order given, each starting on a
/// multiple of `alignment_elements`, then padding up to world_size * shard_elements. Rank r owns [r
/// * shard, (r+1) * shard). The shards are equal and the cuts fall anywhere in a parameter, on
/// multiples of `quantum_elements`; so the all-gathered arena *is* the parameters, with no copy in
/// or out.
class AUTOLAUNCH_API ShardLayout {
public:
    /// Elements. Parameters start on multiples of it and shards are cut on them, so that a block of
    /// so many elements is of one parameter and on one rank, and copies are of whole cache lines.
    static constexpr std::int64_t kQuantum = 128;

    struct Placement {
        ParameterSpec parameter;
        std::int64_t offset = 0;  ///< of its first element in the arena
    };
    /// A run of one parameter's elements in one rank's shard.
    struct Interval {
        std::size_t parameter_index = 0;
        std::int64_t parameter_offset = 0;  ///< first element, in the row-major flattened parameter
        std::int64_t shard_offset = 0;      ///< where it lies in the shard
        std::int64_t count = 0;
    };

    /// alignment and quantum in elements. Throws Error{invalid_argument} for duplicate names or
    /// non-positive extents.
    ShardLayout(std::span<const ParameterSpec> parameters, int world_size,
                std::int64_t alignment_elements = kQuantum,
                std::int64_t quantum_elements = kQuantum);

    int world_size() const noexcept { return world_size_; }
    std::int64_t arena_elements() const noexcept { return shard_elements_ * world_size_; }
    std::int64_t shard_elements() const noexcept { return shard_elements_; }
    const std::vector<Placement>& placements() const& noexcept { return placements_; }
    const std::vector<Placement>& placements() const&& AUTOLAUNCH_NOT_FROM_A_TEMPORARY;
    /// Throws Error{invalid_argument} naming the nearest name when there is none.
    const Placement& placement(std::string_view name) const&;
    const Placement& placement(std::string_view name) const&& AUTOLAUNCH_NOT_FROM_A_TEMPORARY;
    /// What rank's shard holds, in shard order. Padding belongs to no interval.
    std::vector<Interval> intervals(int rank) const;

private:
    int world_size_;
    std::int64_t shard_elements_ = 0;
    std::vector<Placement> placements_;
};

/// Bytes of a GPU that are on their way to the CPU's memory.
class AUTOLAUNCH_API StateArrival {
public:
    virtual ~StateArrival() = default;
    /// Returns when they are there. Any thread. Throws TimeoutError.
    virtual void wait() const = 0;
};

/// One rank's part of one named tensor of training state (a parameter, or an optimizer moment):
/// what a checkpoint stores. The memory belongs to the model or the optimizer.
struct StateTensor {
    struct Piece {
        std::int64_t offset = 0;  ///< first element in the row-major flattened tensor
        std::int64_t count = 0;
        std::byte* data = nullptr;
    };
    std::string name;  ///< unique in the checkpoint, e.g. "h.0.attn.w" or "h.0.attn.w.exp_avg"
    DataType type = DataType::f32;
    Extents shape;              ///< of the whole tensor
    std::vector<Piece> pieces;  ///< this rank's; empty when it holds none of the tensor
    bool replicated = false;    ///< every rank holds all of it (no_shard)
    int replica =
        0;  ///< others hold the same pieces (hybrid_shard): a checkpoint stores replica 0's
    /// Not expected to change from save to save: stored in files of its own, which a checkpoint
    /// links from the one before where every byte is the same. Where it does change that costs
    /// time, never data.
    bool frozen = false;
    std::shared_ptr<const StateArrival> arrival =
        {};  ///< of the pieces' bytes; null: they are there
};

/// Everything one rank saves and restores: every rank names the same tensors, in the same order.
using State = std::vector<StateTensor>;

/// How the ranks of a model share it, for people who look at its checkpoints; loading needs none of
/// it.
struct Arrangement {
    /// A dimension of the ranks: "replica" (copies of the model) or "shard" (parts of a copy).
    struct Dimension {
        std::string name;
        int size = 1;

        bool operator==(const Dimension&) const = default;
    };
    std::string strategy = {};         ///< "full_shard", …; empty when nobody says
    std::vector<Dimension> mesh = {};  ///< slowest first; empty when ranks lie in no such order
};

}  // namespace autolaunch::fsdp
