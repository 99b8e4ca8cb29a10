#include "run/alert_task.hpp"

#include "base/user_database.hpp"

#include <chrono>

namespace autolaunch::launcher {

alerts::AlertTask alert_task(const LaunchPlan& plan, const Allocation& allocation,
                             const EnvironmentMap& environment) {
    alerts::AlertTask task{.spec = plan.spec.alerts,
                           .run_dir = plan.run_dir,
                           .job = {.name = plan.job_name,
                                   .job_id = allocation.job_id,
                                   .run_id = plan.run_id,
                                   .run_dir = plan.run_dir,
                                   .user = {},
                                   .host = plan.hostname,
                                   .cause = {}},
                           .environment = environment};
    if (task.spec.rules.empty())
        return task;
    task.job.user = own_user_record().name;
    if (const auto& interval = plan.spec.monitoring.interval_seconds)
        task.interval = std::chrono::milliseconds(static_cast<std::int64_t>(*interval * 1000));
    return task;
}

}  // namespace autolaunch::launcher
