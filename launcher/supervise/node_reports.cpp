#include "supervise/node_reports.hpp"

#include "exit_codes/exit_error.hpp"
#include "spawn/spawn.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace autolaunch::launcher {

namespace {

int exit_code_of(const SpawnError& error) {
    switch (error.error_number()) {
        case ENOENT:
        case ENOTDIR:
            return error.stage() == SpawnStage::workdir ? exit_code::kNoInput
                                                        : exit_code::kNotFound;
        case EACCES:
        case ENOEXEC:
        case EPERM:
            return exit_code::kCannotExecute;
        default:
            return exit_code::kSystem;
    }
}

}  // namespace

control::GenerationRunning running_report(const LaunchPlan& plan, Generation& generation) {
    const auto gpus = std::count_if(plan.ranks.begin(), plan.ranks.end(), [](const RankPlan& rank) {
        return rank.binding.gpu.has_value();
    });
    control::GenerationRunning running;
    running.ranks_bound = generation.watch_placement();
    running.numa_nodes = plan.numa_node_count;
    running.gpus = static_cast<int>(gpus);
    return running;
}

control::StartFailed start_failed_report(const LaunchPlan& plan, const Generation* generation,
                                         const Error& error) {
    control::StartFailed failed;
    failed.rank = generation ? generation->starting_rank() : plan.ranks.front().rank;
    failed.what = error.what();
    failed.hint = error.hint();
    if (const auto* spawn = dynamic_cast<const SpawnError*>(&error)) {
        failed.exit_code = exit_code_of(*spawn);
        failed.restart_helps =
            failed.exit_code == exit_code::kSystem && spawn->stage() != SpawnStage::stand_in;
    } else if (const auto* knows = dynamic_cast<const ExitError*>(&error)) {
        failed.exit_code = knows->exit_code();  // a secret is not to be had
    } else {
        const bool is_file = generation && error.code() != ErrorCode::unsupported;
        failed.exit_code = is_file ? exit_code::kCannotCreate : exit_code::kUnavailable;
    }
    return failed;
}

control::RanksEnded ranks_ended_report(const LaunchPlan& plan, Generation& generation,
                                       bool with_ends) {
    const auto& exits = generation.exits();
    control::RanksEnded ended;
    ended.every_rank_exited_zero =
        exits.size() == plan.ranks.size() &&
        std::all_of(exits.begin(), exits.end(),
                    [](const RankExited& exited) { return exited.exit_code == 0; });
    if (with_ends) {
        ended.ends = exits;
        ended.failures = generation.describe_others();
    }
    ended.checkpoint_step = generation.checkpoint_step();
    return ended;
}

std::vector<control::FlightRead> flight_reports(std::vector<flight::RecordedRank> ranks) {
    std::vector<control::FlightRead> reports(1);
    for (auto& rank : ranks) {
        if (reports.back().ranks.size() == control::kFlightRanks) {
            reports.back().more = true;
            reports.emplace_back();
        }
        reports.back().ranks.push_back(std::move(rank));
    }
    return reports;
}

}  // namespace autolaunch::launcher
