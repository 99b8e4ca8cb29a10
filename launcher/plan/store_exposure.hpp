#pragma once
#include "plan/launch_plan.hpp"

#include <string>

namespace autolaunch::launcher {

/// Who can reach the job's key-value store, one sentence each (docs/store-protocol.md).
struct StoreExposure {
    std::string listens;  ///< where
    std::string admits;   ///< who may connect
    std::string open;     ///< what nothing guards
};

/// What goes from node to node in the clear, and what to do about it; empty: one node, or nothing.
/// Pure.
std::string sent_in_the_clear(int node_count, const RendezvousSpec& rendezvous);

/// Pure.
StoreExposure store_exposure(const LaunchPlan& plan);

}  // namespace autolaunch::launcher
