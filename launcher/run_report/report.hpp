#pragma once
#include "report/text_style.hpp"
#include "run_report/run_record.hpp"

#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// What `autolaunch report` makes of records. All of it is pure. What ranks and files said is
// hostile: the terminal's text goes through Screen, JSON's too, HTML's is escaped here.

/// Over several runs.
struct RunSummary {
    int runs = 0;
    int completed = 0, completed_without_person = 0;
    int ended = 0;                       ///< of whose end something is recorded
    double share_used = 0, goodput = 0;  ///< of the time of all units
    std::optional<std::chrono::milliseconds> mean_time_to_failure;
};
RunSummary summarise(const std::vector<RunRecord>& records);

/// Ranks that are next to each other on one node, for tables of thousands.
struct RankGroup {
    std::string node;
    int first = 0, last = 0, count = 0, failed = 0;
    std::vector<int> gpus = {};  ///< ascending
    std::string cpus = {};       ///< of all, or empty where they differ too much to say
};
std::vector<RankGroup> fold_ranks(const std::vector<RecordRank>& ranks);

/// Parts of a job's time that the picture of its GPUs has.
inline constexpr std::size_t kGpuCourseParts = 96;

/// Ranks up to which each has a line of its own.
inline constexpr std::size_t kUnfoldedRanks = 64;

std::string report_text(const std::vector<RunRecord>& records, const TextStyle& style);
std::string report_json(const std::vector<RunRecord>& records);
std::string report_html(const std::vector<RunRecord>& records, const std::string& version);

/// "2026-01-31 12:00:00", UTC.
std::string format_moment(RecordTime at);
/// "goes on" or "done"; "failed (exit code 1)".
std::string outcome_words(const RunRecord& record);
/// From its first start to its end, or to what was seen last.
std::chrono::milliseconds length_of(const RunRecord& record);

}  // namespace autolaunch::launcher
