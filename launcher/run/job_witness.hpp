#pragma once
#include "plan/launch_plan.hpp"
#include "report/event.hpp"

#include <functional>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// Who is told what a launch does, besides its report: an audit trail. The launch knows nothing of
/// it but this. Empty functions: nobody.
struct JobWitness {
    /// This node's part has its plan and its folder, and no rank is started yet. Throws Error where
    /// none may be. `key_source`: where the job's key is from; `requeue`: how often the scheduler
    /// has requeued it.
    std::function<void(const LaunchPlan& plan, const std::string& key_source,
                       std::optional<int> requeue)>
        begins;
    std::function<void(const Event& event)> happens;
    /// All is over. The exit code that counts; `why`: a line for the console where it is another.
    std::function<int(const LaunchPlan& plan, int exit_code, std::string& why)> ends;
};

}  // namespace autolaunch::launcher
