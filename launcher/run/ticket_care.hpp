#pragma once
#include "allocation/allocation.hpp"
#include "allocation/time_left_query.hpp"
#include "kerberos/ticket_watch.hpp"
#include "plan/launch_plan.hpp"
#include "spec/job_spec.hpp"

#include <asio/io_context.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Whether the user's Kerberos ticket lasts as long as the job, where a ticket matters: the
/// administrator's file or the job says kerberos, or a path of the job lies on a mount with
/// sec=krb5. Asked while the nodes meet; then the ticket is renewed while the job runs.
///
/// Owner: the launch. Threads: the agent's one. Blocks: add_warning() 5 s at most, where klist or
/// squeue does not answer.
class TicketCare {
public:
    TicketCare(const JobSpec& spec, const Allocation& allocation,
               const EnvironmentMap& environment);

    /// What the user should do, to the plan's warnings.
    void add_warning(LaunchPlan& plan);
    /// From now on; `say` gets a line for each thing that goes wrong, and must outlive it.
    void keep_renewing(asio::io_context& io, std::function<void(const std::string&)> say);

private:
    std::vector<std::string> mounts_;  ///< with sec=krb5, that the job uses
    std::optional<SystemTime> ends_at_;
    std::optional<TicketInquiry> inquiry_;  ///< nothing: no ticket matters
    std::optional<TimeLeftQuery> time_left_;
    TicketFinding finding_;
    bool plan_is_shown_;  ///< on the first node: the warnings of other nodes' plans nobody sees
    std::string unsaid_;  ///< this node's warning, until somebody can be told
    std::optional<TicketWatch> watch_;
};

}  // namespace autolaunch::launcher
