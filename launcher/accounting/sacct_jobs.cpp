#include "accounting/sacct_jobs.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace autolaunch::launcher {

namespace {

constexpr char kBetween = '\x1f';  // no name of a job, a user or a folder has it
constexpr std::size_t kFields = 9;

std::optional<AccountTime> time_of(const std::string& text) {
    long long seconds = 0;
    if (!parse_integer(text, seconds) || seconds <= 0)
        return std::nullopt;  // Unknown, None
    return AccountTime(std::chrono::seconds(seconds));
}

// "billing=4,cpu=4,gres/gpu=2,gres/gpu:h100=2,mem=1G,node=1"
std::optional<std::int64_t> trackable(const std::string& list, std::string_view name) {
    for (const std::string& part : split(list, ',')) {
        long long number = 0;
        if (part.starts_with(name) && part.size() > name.size() && part[name.size()] == '=' &&
            parse_integer(part.substr(name.size() + 1), number))
            return number;
    }
    return std::nullopt;
}

}  // namespace

bool SacctJob::is_over() const {
    for (const std::string_view still :
         {"PENDING", "RUNNING", "SUSPENDED", "RESIZING", "REQUEUED", "COMPLETING"})
        if (state == still)
            return false;
    return true;
}

std::vector<std::string> sacct_command(AccountTime since) {
    return {
        "env",
        "SLURM_TIME_FORMAT=%s",
        "sacct",
        "--allusers",
        "--allocations",
        "--duplicates",
        "--noheader",
        "--parsable2",
        fmt::format("--delimiter={}", kBetween),
        fmt::format(
            "--starttime=now-{}seconds",
            std::max<std::int64_t>(
                (std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()) - since)
                    .count(),
                1)),
        "--format=JobID,JobIDRaw,User,Account,State,Eligible,Start,End,AllocTRES,WorkDir"};
}

std::vector<SacctJob> parse_sacct(std::string_view text, std::size_t& damaged) {
    std::vector<SacctJob> jobs;
    for (const std::string& line : split(std::string(text), '\n')) {
        if (line.empty())
            continue;
        const std::vector<std::string> fields = split(line, kBetween);
        if (fields.size() < kFields || fields[0].empty()) {
            ++damaged;
            continue;
        }
        SacctJob job{.id = fields[0], .raw_id = fields[1], .user = fields[2], .account = fields[3]};
        job.state = fields[4].substr(0, fields[4].find(' '));  // "CANCELLED by 2001"
        job.eligible = time_of(fields[5]);
        job.start = time_of(fields[6]);
        job.end = time_of(fields[7]);
        job.gpus = trackable(fields[8], "gres/gpu");
        job.cpus = trackable(fields[8], "cpu").value_or(0);
        job.nodes = trackable(fields[8], "node").value_or(0);
        if (fields.size() > kFields)
            job.workdir = fields[9];
        jobs.push_back(std::move(job));
    }
    return jobs;
}

}  // namespace autolaunch::launcher
