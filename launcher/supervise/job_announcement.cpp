#include "supervise/job_announcement.hpp"

#include "causes/stop_cause.hpp"
#include "plan/granted_otherwise.hpp"
#include "report/units.hpp"
#include "restart_policy/hang_limit.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace autolaunch::launcher {

namespace {

// "2 set, 3 kept from your environment, 1 warning"; empty when there is nothing to say.
std::string describe_nccl(const NcclEnvironment& nccl) {
    std::string text;
    const auto add = [&](std::size_t count, const std::string& what) {
        if (count > 0)
            text += (text.empty() ? "" : ", ") + std::to_string(count) + what;
    };
    add(nccl.set.size(), " set");
    add(nccl.kept.size(), " kept as you set them");
    add(nccl.warnings.size(), nccl.warnings.size() == 1 ? " warning" : " warnings");
    return text;
}

std::string describe_join(const Joined& joined) {
    const std::string count = std::to_string(joined.roster.nodes.size());
    if (joined.roster.nodes.size() == 1)
        return {};
    return count + "/" + count + " nodes in " +
           format_duration(
               std::chrono::duration_cast<std::chrono::milliseconds>(joined.summary.took)) +
           " · head " + joined.roster.nodes[0].name + " · key from " + joined.summary.key_source +
           " · TLS 1.3";
}

std::optional<int> ranks_of_each(const std::vector<int>& ranks_per_node) {
    const int first = ranks_per_node.front();
    const auto alike = [first](int ranks) { return ranks == first; };
    return std::all_of(ranks_per_node.begin(), ranks_per_node.end(), alike) ? std::optional(first)
                                                                            : std::nullopt;
}

}  // namespace

JobStarted announce_job(const LaunchPlan& plan, const Joined& joined) {
    JobStarted started;
    started.job_name = plan.job_name;
    started.run_id = plan.run_id;
    started.run_dir = plan.run_dir;
    started.hostname = plan.hostname;
    started.node_count = plan.node_count;
    started.spares = plan.spare_nodes;
    started.ranks_per_node = ranks_of_each(plan.ranks_per_node);
    started.world_size = plan.world_size;
    started.max_restarts = plan.spec.restart.max_restarts;
    started.joined = describe_join(joined);
    started.binding = binding_mode_name(plan.binding_mode);
    started.nccl = describe_nccl(plan.nccl);
    started.warnings = plan.warnings;
    const auto& more = joined.summary.warnings;
    started.warnings.insert(started.warnings.end(), more.begin(), more.end());
    return started;
}

NodeLost announce_lost(const Roster& roster, int node, const std::string& why,
                       std::chrono::milliseconds ran) {
    NodeLost lost;
    lost.node = roster.nodes.at(static_cast<std::size_t>(node)).name;
    lost.why = why;
    lost.ran = ran;
    const int first = roster.first_rank(node);
    for (int i = 0; i < roster.nodes[static_cast<std::size_t>(node)].ranks; ++i)
        lost.ranks.push_back(first + i);
    return lost;
}

JobHung announce_hang(const StandstillNoticed& found, const Roster& roster, const JobSpec& spec) {
    HangFacts facts{.rank = -1,
                    .node = {},
                    .what = "every rank waits for the others",
                    .evidence = {found.headline},
                    .sure = found.sure,
                    .limit = {}};
    if (!found.ranks.empty()) {
        const int node = std::max(0, roster.node_of(found.ranks.front()));
        facts.rank = found.ranks.front();
        facts.node = roster.nodes.at(static_cast<std::size_t>(node)).name;
        facts.what = found.lines.front();
    }
    facts.evidence.insert(facts.evidence.end(), found.flight.begin(), found.flight.end());
    if (const auto limit = hang_limit(spec))
        facts.limit = format_duration(limit->after) + " without a step (restart.hang_after" +
                      (limit->told ? ")" : ": auto)");
    return {.found = found, .record = judge_hang(facts), .stacks = {}};
}

Happening announce_change(const std::optional<std::chrono::system_clock::time_point>& ends_at,
                          std::chrono::minutes over_time) {
    if (!ends_at)
        return WarningRaised{"the job has no time limit any more"};
    const auto left =
        std::chrono::round<std::chrono::seconds>(*ends_at - std::chrono::system_clock::now());
    return TimeLimitKnown{.ends_at = *ends_at,
                          .left = std::max(left, std::chrono::seconds(0)),
                          .changed = true,
                          .over_time = over_time};
}

std::vector<Happening> announce_times(const LaunchPlan& plan, const JobTimes& times) {
    std::vector<Happening> known;
    if (times.ends_at) {
        const auto left = std::chrono::round<std::chrono::seconds>(
            *times.ends_at - std::chrono::system_clock::now());
        known.push_back(TimeLimitKnown{.ends_at = *times.ends_at,
                                       .left = std::max(left, std::chrono::seconds(0))});
    }
    if (plan.uncompared_time_limit) {
        auto note = limit_granted_otherwise(*plan.uncompared_time_limit, times.limit);
        if (!note.empty())
            known.push_back(WarningRaised{std::move(note)});
    }
    return known;
}

}  // namespace autolaunch::launcher
