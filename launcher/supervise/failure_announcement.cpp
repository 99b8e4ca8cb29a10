#include "supervise/failure_announcement.hpp"

#include "causes/root_cause.hpp"
#include "exit_codes/exit_codes.hpp"
#include "post_mortem/evidence_message.hpp"

#include <chrono>
#include <utility>

namespace autolaunch::launcher {

namespace {

std::vector<Failure> failures_of(const GenerationTally& tally) {
    std::vector<Failure> failures;
    for (const auto& failed : tally.failures()) {
        const auto latest =
            std::chrono::duration_cast<std::chrono::microseconds>(failed.at - tally.begun());
        failures.push_back({.record = failed.what.record,
                            .asked_to_stop = failed.what.end.asked_to_stop,
                            .earliest = latest - failed.link,
                            .latest = latest});
    }
    return failures;
}

template <class Predicate>
std::vector<Bystander> bystanders(const GenerationTally& tally, const Roster& roster,
                                  Predicate is_one) {
    std::vector<Bystander> found;
    for (const RankExited& end : tally.ends_but(std::nullopt)) {
        if (!is_one(end))
            continue;
        const int node = std::max(0, roster.node_of(end.rank));
        found.push_back({.rank = end.rank,
                         .node = roster.nodes[static_cast<std::size_t>(node)].name,
                         .ran = end.ran});
    }
    return found;
}

// Of all ranks that ended with 0 before the first failure; also a moment after one that lost its
// peer, for a program closes its connections before it ends.
std::vector<Bystander> finishers_of(const GenerationTally& tally, const Roster& roster) {
    const auto& first = tally.first_failure()->what;
    return bystanders(tally, roster, [&](const RankExited& end) {
        return end.exit_code == 0 && !end.asked_to_stop &&
               (end.ran <= first.end.ran || first.record.follows);
    });
}

std::vector<Bystander> survivors_of(const GenerationTally& tally, const Roster& roster) {
    return bystanders(tally, roster, [](const RankExited& end) { return end.asked_to_stop; });
}

}  // namespace

GenerationVerdict judge_generation(const GenerationTally& tally, const Roster& roster,
                                   FlightInquiry& flight, int world_size) {
    const std::vector<Failure> failures = failures_of(tally);
    Waiting waiting{.world_size = world_size,
                    .culprit = {},
                    .missing = {},
                    .finishers = finishers_of(tally, roster),
                    .survivors = survivors_of(tally, roster)};
    const auto& heard = tally.failures();
    const auto who_gave_up = [&] {
        return heard[find_root_cause(failures, waiting).index].what.end.rank;
    };
    GenerationVerdict verdict;
    const int rank = who_gave_up();
    verdict.flight = flight.take_failure("rank " + std::to_string(rank) + " failed", rank);
    waiting.culprit = verdict.flight.culprit.text;
    waiting.missing = verdict.flight.culprit.ranks;
    RootCause root = find_root_cause(failures, waiting);
    verdict.first = &heard[root.index].what;
    verdict.record = std::move(root.record);
    verdict.absent = std::move(root.absent);
    verdict.end_that_counts =
        verdict.first->end.asked_to_stop ? tally.first_failure()->what.end : verdict.first->end;
    const bool same_checkpoints = verdict.first->record.vain == kSameCheckpoints;
    verdict.record.exit_code =
        same_checkpoints ? exit_code::kCannotResume : exit_code_of(verdict.end_that_counts);
    verdict.record.outcome =
        same_checkpoints ? "failed: cannot go on from its checkpoints" : "failed";
    return verdict;
}

GenerationFailed announce_failure(const GenerationTally& tally, GenerationVerdict verdict) {
    const control::RankFailed& first = *verdict.first;
    GenerationFailed failed;
    failed.generation = tally.generation();
    failed.first = first.end;
    failed.hostname = first.hostname;
    failed.gpu = first.gpu;
    failed.evidence = evidence_of(first);
    failed.others = tally.ends_but(first.end.rank);
    failed.stderr_path = first.stderr_path;
    failed.stdout_path = first.stdout_path;
    failed.error_file_path = first.error_file_path;
    failed.oom_kills = first.oom_kills;
    failed.no_room = first.no_room;
    failed.cannot_resume = first.cannot_resume;
    if (failed.cannot_resume.empty() && first.record.vain == kSameCheckpoints)
        failed.cannot_resume = first.record.what;  // by its exit code
    failed.core = first.core;
    failed.record = std::move(verdict.record);
    failed.culprit = std::move(verdict.absent);
    failed.flight = std::move(verdict.flight.lines);
    failed.flight_path = std::move(verdict.flight.path);
    return failed;
}

}  // namespace autolaunch::launcher
