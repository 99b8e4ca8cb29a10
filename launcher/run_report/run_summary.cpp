#include "run_report/report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

namespace autolaunch::launcher {

RunSummary summarise(const std::vector<RunRecord>& records) {
    RunSummary summary;
    Ledger all;
    for (const RunRecord& record : records) {
        const Ledger& ledger = record.ledger;
        ++summary.runs;
        summary.ended += ledger.completed.has_value() ? 1 : 0;
        const bool completed = ledger.completed.value_or(false);
        summary.completed += completed ? 1 : 0;
        summary.completed_without_person += completed && ledger.without_person ? 1 : 0;
        for (std::size_t kind = 0; kind < kLedgerKinds; ++kind)
            all.unit_ms.at(kind) += ledger.unit_ms.at(kind);
        all.failures += ledger.failures;
        all.running_ms += ledger.running_ms;
    }
    summary.share_used = share_used(all);
    summary.goodput = goodput(all);
    summary.mean_time_to_failure = mean_time_to_failure(all);
    return summary;
}

std::vector<RankGroup> fold_ranks(const std::vector<RecordRank>& ranks) {
    std::vector<RankGroup> groups;
    for (const RecordRank& rank : ranks) {
        if (groups.empty() || groups.back().node != rank.node ||
            groups.back().last + 1 != rank.rank) {
            groups.push_back({.node = rank.node, .first = rank.rank, .cpus = rank.cpus});
        } else if (groups.back().cpus != rank.cpus) {
            groups.back().cpus.clear();
        }
        RankGroup& group = groups.back();
        group.last = rank.rank;
        ++group.count;
        group.failed += rank.failed ? 1 : 0;
        if (rank.gpu)
            group.gpus.push_back(*rank.gpu);
    }
    for (RankGroup& group : groups) {
        std::sort(group.gpus.begin(), group.gpus.end());
        group.gpus.erase(std::unique(group.gpus.begin(), group.gpus.end()), group.gpus.end());
    }
    return groups;
}

std::string format_moment(RecordTime at) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(at);
    return fmt::format("{:%Y-%m-%d %H:%M:%S}",
                       fmt::gmtime(static_cast<std::time_t>(seconds.time_since_epoch().count())));
}

std::string outcome_words(const RunRecord& record) {
    if (record.outcome.empty())
        return record.started ? "goes on, or was killed" : "nothing recorded";
    if (record.exit_code == 0)  // or a rule of its sweep has stopped it
        return record.outcome == "succeeded" ? "done" : record.outcome;
    return fmt::format("{} (exit code {})", record.outcome, record.exit_code.value_or(0));
}

std::chrono::milliseconds length_of(const RunRecord& record) {
    if (!record.started || !record.last_seen)
        return std::chrono::milliseconds(0);
    return std::max(*record.last_seen - *record.started, std::chrono::milliseconds(0));
}

}  // namespace autolaunch::launcher
