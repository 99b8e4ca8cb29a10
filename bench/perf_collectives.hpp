#pragma once
// What each bench measures: one table, a row a collective. Sizes, buffers, bandwidths and what is
// right are nccl-tests' (src/NAME.cu there), so that figures can be read side by side.
#include "comm/call.hpp"

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace autolaunch::bench {

/// How much of the message one rank's buffer holds.
enum class Extent {
    whole,  ///< all of it, on every rank
    block,  ///< one rank's part
    blocks  ///< a part for every rank
};

/// One row of the table, as one rank sees it.
struct PerfCase {
    int rank = 0;
    int size = 1;
    int root = -1;
    std::size_t each = 0;  ///< elements: nccl-tests' `count` column, what the call takes
    DataType type = DataType::f32;
    ReduceOp op = ReduceOp::sum;
    bool in_place = false;
};

/// Where a stretch of a result comes from.
struct Origin {
    enum class From { input, reduction } from = From::input;
    int rank = 0;           ///< whose input
    std::size_t first = 0;  ///< its first element there
    std::size_t count = 0;
};

struct CallBuffers {
    std::byte* send = nullptr;
    std::byte* recv = nullptr;
};

/// Calls that are one operation, or a copy within the rank.
struct Step {
    std::vector<CollectiveCall> calls;
    std::byte* copy_to = nullptr;
    const std::byte* copy_from = nullptr;
    std::size_t copy_bytes = 0;
};

struct CollectiveSpec {
    std::string_view name;  ///< NAME_perf is the program
    Extent send;
    Extent recv;
    bool reduces;           ///< -o has a meaning
    bool has_root;          ///< -r has a meaning
    bool root_sends;        ///< only the root has an input
    bool in_place_defined;  ///< else the in-place columns are timed, but not checked
    bool power_of_two;      ///< ranks
    std::string_view bus_formula;
    double (*bus_factor)(double ranks);   ///< busbw / algbw
    double (*moved_share)(double ranks);  ///< algbw's bytes / size
    std::vector<Origin> (*expected)(const PerfCase&);
    std::vector<Step> (*steps)(const PerfCase&, const CallBuffers&);
};

std::span<const CollectiveSpec> all_collectives();
/// By name, "all_reduce" or "alltoall"; throws std::invalid_argument naming those there are.
const CollectiveSpec& collective_named(std::string_view name);

/// What the call takes for a message of `count` elements, a multiple of `quantum` where ranks have
/// a part each.
std::size_t each_of(const CollectiveSpec& spec, std::size_t count, int ranks, std::size_t quantum);
std::size_t elements_of(Extent extent, std::size_t each, int ranks);
/// The larger of the two buffers: nccl-tests' `size` column, in elements.
std::size_t message_elements(const CollectiveSpec& spec, const PerfCase& one);
/// Where send and recv begin. In place both are parts of `recv_memory`, as nccl-tests has it.
CallBuffers place(const CollectiveSpec& spec, const PerfCase& one, std::byte* send_memory,
                  std::byte* recv_memory);

}  // namespace autolaunch::bench
