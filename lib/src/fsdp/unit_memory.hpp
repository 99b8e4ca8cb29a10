#pragma once
#include "fsdp/bucket_plan.hpp"

#include <autolaunch/fsdp/memory_plan.hpp>

#include <span>

namespace autolaunch::fsdp {

/// plan_memory() of units that have names, and some of which are not resharded.
MemoryPlan plan_memory_of(std::span<const UnitToPlan> units, const MemoryPlanOptions& options);

}  // namespace autolaunch::fsdp
