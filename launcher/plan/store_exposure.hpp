#pragma once
#include "plan/launch_plan.hpp"

#include <string>

namespace autolaunch::launcher {

// Private to this folder.

/// Who can reach the job's key-value store, one sentence each (docs/store-protocol.md).
struct StoreExposure {
    std::string listens;  ///< where
    std::string admits;   ///< who may connect
    std::string open;     ///< what nothing guards
};

/// Pure.
StoreExposure store_exposure(const LaunchPlan& plan);

}  // namespace autolaunch::launcher
