#pragma once
// The one suite that every communicator backend passes. Inputs are small integers, so that every
// result is exact in every type; outputs are poisoned before each call.
#include <autolaunch/comm/communicator.hpp>

#include <chrono>
#include <span>
#include <string_view>

namespace autolaunch::conformance {

/// What a case asks of the backend beyond collectives that work.
enum class Needs {
    nothing,
    cpu_queues,          ///< calls may be put on a CpuQueue
    fixed_order,         ///< reductions are pairwise over the ranks
    mismatch_detection,  ///< ranks that call different collectives are told so
    loss_detection,      ///< a killed rank is noticed; the case kills the last rank
};

struct Case {
    std::string_view name;
    int min_ranks;
    bool ends_group;  ///< the communicator is aborted afterwards
    Needs needs;
    std::chrono::milliseconds timeout;  ///< to make the communicator with
    void (*run)(Communicator&);         ///< throws on failure
    int max_ranks = 0;                  ///< 0: any; larger groups show nothing new
};

std::span<const Case> cases();

}  // namespace autolaunch::conformance
