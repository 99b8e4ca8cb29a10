#pragma once
// The calls that the suite makes: not every combination of their properties, but every pair of
// them.
#include "comm/call.hpp"

#include <string>
#include <vector>

namespace autolaunch::conformance {

/// How a call reaches the backend.
enum class Way { call, queue, group };
enum class RootChoice { first, last, middle };

/// One call, as all ranks make it. A `send` shape is a ring: every rank sends to the next, in a
/// group.
struct Shape {
    CollectiveKind kind = CollectiveKind::all_reduce;
    bool ragged = false;
    DataType type = DataType::f32;
    ReduceOp::Kind op = ReduceOp::Kind::sum;
    std::size_t count =
        0;  ///< elements, or elements a block; what ragged blocks are about as long as
    RootChoice root = RootChoice::first;
    bool in_place = false;
    bool shifted = false;    ///< buffers start one element behind an aligned address
    bool allocated = false;  ///< buffers from Communicator::allocate()
    Way way = Way::call;
};
std::string describe(const Shape& shape);

/// For a group of so many ranks: every pair of two properties' values is in some shape, once for
/// the kinds that reduce and once for those that move (so that no pair is met only where one of the
/// two does not matter). Always the same shapes in the same order. The largest count shrinks as the
/// group grows.
std::vector<Shape> paired_shapes(int ranks);
/// Every type with every operation in every reducing kind.
std::vector<Shape> reducing_shapes();

}  // namespace autolaunch::conformance
