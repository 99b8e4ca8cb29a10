#include "accounting/read_accounts.hpp"

#include "allocation/slurm_command.hpp"
#include "base/file_system.hpp"
#include "base/text.hpp"
#include "exit_codes/exit_error.hpp"
#include "report/parse_event.hpp"
#include "run_report/run_reader.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>
#include <system_error>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kSacctTime = 60s;
constexpr long long kMostDays = 36'500;
constexpr std::size_t kMostNamed = 3;

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
    throw UsageError(what, hint);
}

double rate_of(const std::string& text) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number) ||
        number < 0)
        refuse("--rate: \"" + text + "\" is no price",
               "such as --rate gpu=2.10: of an hour of a GPU");
    return number;
}

bool is_run(const fs::path& folder) { return is_file(folder / "events.jsonl"); }

/// The run directories among what was named: each itself, or those that lie in it.
std::vector<fs::path> runs_in(const std::vector<std::string>& folders) {
    std::vector<fs::path> runs;
    for (const std::string& folder : folders) {
        if (is_run(folder)) {
            runs.emplace_back(folder);
            continue;
        }
        const std::size_t before = runs.size();
        for (const fs::path& inner : list_folder(folder))
            if (inner.filename() != "latest" && is_run(inner))
                runs.push_back(inner);
        if (runs.size() == before)
            throw SystemError(ENOENT, "find a run in " + folder,
                              "name run directories, or a folder that has such");
    }
    return runs;
}

class RunsOfJobs {
public:
    RunsOfJobs(const std::vector<std::string>& secrets) : secrets_(secrets) {}

    void read(const fs::path& folder, const std::string& name) try {
        RunRecord record = read_run(folder, {.secrets = secrets_});
        const std::string id =
            name.empty() ? record.run_id.substr(0, record.run_id.find('.')) : name;
        runs_.try_emplace(id, std::move(record));
    } catch (const Error& error) {
        if (unread_.size() < kMostNamed)
            unread_.emplace_back(error.what());
    }

    // Where a job of submit, or of a batch script beside its spec, has it.
    void look_for(const SacctJob& job) {
        if (job.workdir.empty() || runs_.contains(job.id) || runs_.contains(job.raw_id))
            return;
        for (const std::string& id : std::set<std::string>{job.id, job.raw_id}) {
            std::error_code none;
            const fs::path folder = fs::path(job.workdir) / "runs" / id;
            if (!id.empty() && fs::is_regular_file(folder / "events.jsonl", none))
                return read(folder, job.id);
        }
    }

    std::map<std::string, RunRecord> runs_;
    std::vector<std::string> unread_;

private:
    const std::vector<std::string>& secrets_;
};

}  // namespace

AccountTime parse_since(const std::string& text, AccountTime now) {
    long long count = 0;
    const std::string digits = text.substr(0, text.empty() ? 0 : text.size() - 1);
    const char unit = text.empty() ? ' ' : text.back();
    const long long hours = unit == 'h' ? 1 : unit == 'd' ? 24 : unit == 'w' ? 24 * 7 : 0;
    if (hours > 0 && parse_integer(digits, count) && count > 0 && count <= kMostDays)
        return now - std::chrono::hours(hours * count);
    if (const auto day = parse_event_time(text + "T00:00:00.000Z");
        day && text.size() == 10 && std::chrono::floor<std::chrono::seconds>(*day) < now)
        return std::chrono::floor<std::chrono::seconds>(*day);
    refuse("--since: \"" + text + "\" is no time before now",
           "such as 30d, 12h, 2w, or a day as 2026-11-01 (UTC)");
}

UsageRequest usage_request(const AccountsRequest& typed, AccountTime now) {
    UsageRequest request{.since = parse_since(typed.since, now), .now = now};
    if (typed.by == "account")
        request.by = UsageBy::account;
    else if (typed.by != "user")
        refuse("--by: \"" + typed.by + "\" is nothing to sum by", "user or account");
    for (const std::string& rate : split(typed.rates, ',')) {
        if (rate.empty())
            continue;
        const std::size_t equals = std::min(rate.find('='), rate.size());
        const std::string of = rate.substr(0, equals);
        if (of != "gpu" && of != "cpu" && of != "node")
            refuse("--rate: \"" + rate + "\" names nothing with a price",
                   "gpu=, cpu= or node=, of an hour of one");
        auto& price = of == "gpu"   ? request.rates.gpu
                      : of == "cpu" ? request.rates.cpu
                                    : request.rates.node;
        price = rate_of(rate.substr(std::min(equals + 1, rate.size())));
    }
    return request;
}

Usage read_accounts(const UsageRequest& request, const std::vector<std::string>& folders,
                    const std::vector<std::string>& secrets) {
    const std::vector<fs::path> named = runs_in(folders);
    SlurmCommand sacct(sacct_command(request.since), SlurmCommand::Errors::apart);
    const std::string text = sacct.wait(Deadline::after(kSacctTime));
    if (sacct.exit_code() != 0) {
        const std::string why = sacct.errors().substr(0, sacct.errors().find('\n'));
        throw SystemError(ENOENT, "ask sacct: " + (why.empty() ? "no answer" : why),
                          "it needs Slurm's accounting (slurmdbd); autolaunch report RUN_DIR needs "
                          "nothing but the folder");
    }
    std::size_t damaged = 0;
    const std::vector<SacctJob> jobs = parse_sacct(text, damaged);
    RunsOfJobs runs(secrets);
    for (const fs::path& run : named)
        runs.read(run, {});
    for (const SacctJob& job : jobs)
        runs.look_for(job);
    Usage usage = usage_of(request, jobs, runs.runs_);
    if (damaged > 0)
        usage.notes.push_back(
            fmt::format("{} lines of sacct cannot be understood: they are left out", damaged));
    for (const std::string& why : runs.unread_)
        usage.notes.push_back("a run directory that is not read: " + why);
    return usage;
}

}  // namespace autolaunch::launcher
