#include "supervise/stop_grace.hpp"

#include <algorithm>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;

// For the end after SIGKILL: reaping, the last lines of output, the screen, the other nodes.
constexpr std::chrono::milliseconds kLeastMargin = 1s, kMostMargin = 3s;

}  // namespace

std::chrono::milliseconds grace_after(const LaunchPlan& plan, const std::string& reason) {
    const std::chrono::milliseconds asked = plan.spec.restart.grace_period;
    if (!plan.kill_wait || reason != "SIGTERM")
        return asked;
    const std::chrono::milliseconds given = *plan.kill_wait;
    const auto margin = std::clamp(given / 5, kLeastMargin, kMostMargin);
    return std::min(asked, std::max(given - margin, std::chrono::milliseconds(0)));
}

}  // namespace autolaunch::launcher
