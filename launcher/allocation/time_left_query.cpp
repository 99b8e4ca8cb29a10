#include "allocation/time_left_query.hpp"

#include "allocation/slurm_time.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {
namespace {

// Slurm's backfill scheduler takes a job without limit for one of 365 days, and says so for a
// while.
constexpr auto kNoLimit = std::chrono::hours(24 * 364);

bool is_job_id(const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

/// What stands behind the job's id. An array has the job id of its last element: asked for that
/// one, squeue answers with a line for each.
std::string line_of(const std::string& job, std::string_view answer) {
    const std::string start = job + ' ';
    std::string found;
    int lines = 0;
    while (!answer.empty()) {
        const std::string_view line = answer.substr(0, answer.find('\n'));
        answer.remove_prefix(std::min(line.size() + 1, answer.size()));
        if (!line.starts_with(start))
            continue;
        found = line.substr(start.size());
        ++lines;
    }
    return lines == 1 ? found : std::string();
}

std::vector<std::string> question(const std::string& job) {
    if (!is_job_id(job))
        return {};
    return {"squeue", "-h", "-j", job, "-o%A %L %l"};
}

}  // namespace

TimeLeftQuery::TimeLeftQuery(const std::string& slurm_job_id)
    : job_(slurm_job_id), squeue_(question(slurm_job_id)) {}

std::optional<std::chrono::seconds> TimeLeftQuery::wait(const Deadline& deadline) {
    squeue_.wait(deadline);
    return time_left();
}

std::string TimeLeftQuery::answer_for_job() const { return line_of(job_, squeue_.answer()); }

std::optional<std::chrono::seconds> TimeLeftQuery::time_left() const {
    const std::string answer = answer_for_job();
    const auto left = parse_slurm_time(answer.substr(0, answer.find(' ')));
    if (!left &&
        parse_slurm_time(time_limit()))  // "INVALID": the limit is over, the job is not yet
        return std::chrono::seconds(0);
    return left && *left > kNoLimit ? std::nullopt : left;
}

std::string TimeLeftQuery::time_limit() const {
    const std::string answer = answer_for_job();
    const std::size_t blank = answer.find(' ');
    return blank == std::string::npos ? std::string() : answer.substr(blank + 1);
}

}  // namespace autolaunch::launcher
