#include "run/ticket_care.hpp"

#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/text.hpp"
#include "kerberos/kerberos_mounts.hpp"

#include <autolaunch/error.hpp>

#include <chrono>
#include <filesystem>

namespace autolaunch::launcher {

namespace {

constexpr auto kPatience = std::chrono::seconds(5);

std::vector<std::string> paths_of(const JobSpec& spec) {
    const CheckpointSpec& checkpoint = spec.checkpoint;
    std::vector<std::string> named = {".",
                                      spec.run_dir,
                                      spec.monitoring.log_path,
                                      spec.trainer.workdir,
                                      checkpoint.checkpoint_dir,
                                      checkpoint.drain,
                                      checkpoint.restore_from};
    for (const TierSpec& tier : checkpoint.tiers)
        named.push_back(tier.place);
    std::vector<std::string> paths;
    for (const std::string& path : named)
        if (!path.empty() && path.find("://") == std::string::npos)
            paths.push_back(absolute_path(path).lexically_normal().string());
    return paths;
}

// Where it cannot be read nothing is known of mounts: the administrator's word is left.
std::vector<std::string> mounts_of(const JobSpec& spec) {
    try {
        return kerberos_mounts(read_file("/proc/self/mountinfo"), paths_of(spec));
    } catch (const Error&) {
        return {};
    }
}

}  // namespace

TicketCare::TicketCare(const JobSpec& spec, const Allocation& allocation,
                       const EnvironmentMap& environment)
    : mounts_(mounts_of(spec)),
      ends_at_(allocation.ends_at),
      plan_is_shown_(allocation.node_rank == 0) {
    if (!spec.uses_kerberos && mounts_.empty())
        return;
    inquiry_.emplace();
    const auto job = environment.find("SLURM_JOB_ID");
    if (!ends_at_ && allocation.source == "slurm" && allocation.node_rank == 0 &&
        job != environment.end())
        time_left_.emplace(job->second);
}

void TicketCare::add_warning(LaunchPlan& plan) {
    if (!inquiry_)
        return;
    const Deadline deadline = Deadline::after(kPatience);
    finding_ = inquiry_->finding(deadline);
    const auto now = std::chrono::system_clock::now();
    if (time_left_)
        if (const auto left = time_left_->wait(deadline))
            ends_at_ = now + *left;
    inquiry_.reset();
    time_left_.reset();
    std::string warning = ticket_warning(finding_, ends_at_, now);
    if (!warning.empty() && !mounts_.empty())
        warning += "  (on sec=krb5: " + join(mounts_, ", ") + ")";
    if (warning.empty())
        return;
    if (!plan_is_shown_)
        unsaid_ = warning;
    plan.warnings.push_back(std::move(warning));
}

void TicketCare::keep_renewing(asio::io_context& io, std::function<void(const std::string&)> say) {
    if (!unsaid_.empty())
        say(unsaid_);
    if (!finding_.ticket)
        return;
    watch_.emplace(io, ends_at_, std::move(say));
    watch_->begin(*finding_.ticket);
}

}  // namespace autolaunch::launcher
