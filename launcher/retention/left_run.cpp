#include "retention/left_run.hpp"

#include "allocation/slurm_command.hpp"
#include "base/file_system.hpp"
#include "base/hash.hpp"
#include "base/hostname.hpp"
#include "base/json_nesting.hpp"
#include "base/owned_folder.hpp"
#include "base/read_at_most.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "control/head_record_text.hpp"
#include "report/run_files.hpp"
#include "run_report/record_builder.hpp"
#include "stage_cache/beneath.hpp"
#include "stopping/slurm_job_record.hpp"

#include <autolaunch/error.hpp>

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr char kEvents[] = "events.jsonl", kHead[] = "head.json", kPlan[] = "plan.json",
               kSubmission[] = "submission.json";
constexpr std::size_t kEndBytes = std::size_t{256} << 10, kStartBytes = std::size_t{64} << 10;
constexpr std::size_t kLargestPlan = std::size_t{64} << 20, kLargestHead = std::size_t{64} << 10;
constexpr auto kSlurmTime = 15s;
constexpr int kRequeued = 75, kDeepest = 32;

bool is_number(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

// "4711" of "4711.0", as an allocation of Slurm's names a run; empty: it is none of Slurm's.
std::string slurm_job_of(const std::string& run_id) {
    const std::string job = run_id.substr(0, run_id.find_first_of("._"));
    return is_number(job) ? job : std::string();
}

// What was said first and last; between them are steps.
void take_lines(RecordBuilder& builder, std::string_view bytes, bool begins_within) {
    if (begins_within)
        bytes.remove_prefix(std::min(bytes.find('\n'), bytes.size() - 1) + 1);
    for (std::size_t end; (end = bytes.find('\n')) != bytes.npos; bytes.remove_prefix(end + 1))
        builder.line(bytes.substr(0, end));
}

void read_end(LeftRun& run) {
    const RunFolder folder(run.folder);
    RecordBuilder builder(run.folder, {});
    const RunFilePart first = folder.read(kEvents, 0, kStartBytes);
    if (!first.wrong.empty())
        throw SystemError(EIO, "read " + run.folder + "/" + kEvents, first.wrong);
    take_lines(builder, first.bytes, false);
    if (first.file_bytes > first.covered) {
        const std::uint64_t from = std::max(
            first.covered, first.file_bytes - std::min<std::uint64_t>(first.file_bytes, kEndBytes));
        take_lines(builder, folder.read(kEvents, from, kEndBytes).bytes, true);
    }
    const RunRecord record = builder.take();
    run.run_id = record.run_id;
    run.exit_code = record.exit_code;
    run.outcome = record.outcome;
    if (record.last_seen)
        run.last_s =
            std::chrono::duration_cast<std::chrono::seconds>(record.last_seen->time_since_epoch())
                .count();
}

// How much is in it, when it was changed last, and what of it is not ours. Links are not followed.
void look_through(LeftRun& run, const fs::path& folder, bool is_top) {
    for (const fs::path& path : list_folder(folder)) {
        struct stat facts {};
        if (::lstat(path.c_str(), &facts) != 0) {
            if (errno == ENOENT)
                continue;
            throw SystemError(errno, "look at " + path.string());
        }
        if (is_top && run.foreign.empty() && !is_name_of_run(path.filename().native()))
            run.foreign = path.filename();
        run.last_s = std::max<std::int64_t>(run.last_s, facts.st_mtim.tv_sec);
        if (S_ISDIR(facts.st_mode)) {
            look_through(run, path, false);
            continue;
        }
        ++run.files;
        run.bytes += static_cast<std::uint64_t>(facts.st_size);
    }
}

UniqueFd open_run(const std::string& folder) {
    return UniqueFd(::open(folder.c_str(), kOpenFolder));
}

constexpr char kGone[] = ".autolaunch-gone";

// A head holds the folder as long as it lives. File systems that have no locks answer neither.
void try_lock(LeftRun& run) {
    const UniqueFd folder = open_run(run.folder);
    if (!folder)
        throw SystemError(errno, "open " + run.folder);
    if (::flock(folder.get(), LOCK_EX | LOCK_NB) == 0)
        return;
    if (errno == EWOULDBLOCK)
        run.is_running = true;
    else
        run.doubt = std::string("its file system has no locks (") + std::strerror(errno) + ")";
}

std::string word_of_slurm(const std::string& job, const AskSlurm& ask) {
    const auto state = ask(job);
    return !state             ? "Slurm does not answer whether job " + job + " is over"
           : *state == "over" ? std::string()
                              : "job " + job + " is " + *state;
}

// The job that `autolaunch submit` put it there for, which may still wait. Empty: nobody's.
std::string submitted_job(const std::string& folder) {
    const fs::path file = fs::path(folder) / kSubmission;
    if (!is_file(file))
        return {};
    const std::string text = read_regular_file(file, kLargestPlan);
    if (nests_at_most(text, kDeepest)) {
        const auto json = nlohmann::json::parse(text, nullptr, false);
        if (const auto job = json.find("job_id"); json.is_object() && job != json.end()) {
            if (job->is_null())
                return {};  // it was refused
            if (job->is_string())
                return job->get<std::string>();
        }
    }
    throw Error(ErrorCode::corrupt, file.string() + " does not say which job it is of");
}

// An end that is recorded is one, but where the scheduler starts the job again. Without one the
// lock tells on the machine where the head was, and Slurm of its jobs.
void look_for_job(LeftRun& run, const AskSlurm& ask) {
    if (run.is_running)
        return;
    const std::string submitted = submitted_job(run.folder);
    if (!submitted.empty())
        run.doubt = word_of_slurm(submitted, ask);
    if (!run.doubt.empty() || (run.exit_code && *run.exit_code != kRequeued))
        return;
    if (const std::string job = slurm_job_of(run.run_id); !job.empty()) {
        if (job != submitted)
            run.doubt = word_of_slurm(job, ask);
        return;
    }
    if (run.exit_code)
        return;
    try {
        const std::string file = run.folder + "/" + kHead;
        const HeadRecord record = parse_head_record(read_regular_file(file, kLargestHead), file);
        if (record.hostname != hostname())
            run.doubt =
                "no end is recorded, and its head was on " + record.hostname + ": look from there";
    } catch (const Error& error) {
        run.doubt = std::string("no end is recorded, and where its head was cannot be read: ") +
                    error.what();
    }
}

LeftRun look_at_run(const fs::path& folder, const AskSlurm& ask) {
    LeftRun run{.folder = folder};
    struct stat facts {};
    if (::stat(folder.c_str(), &facts) == 0 && facts.st_uid != ::geteuid()) {
        run.of = "user " + std::to_string(facts.st_uid);
        return run;
    }
    try {
        read_end(run);
        look_through(run, folder, true);
        try_lock(run);
        look_for_job(run, ask);
    } catch (const Error& error) {
        run.why_unreadable = error.what();
    }
    return run;
}

// A job that has not ended, or whose end is not known, may go on from what another one has.
bool may_go_on(const LeftRun& run) {
    return run.is_running || !run.doubt.empty() || !run.exit_code || *run.exit_code != 0;
}

void note_needs(std::vector<LeftRun>& runs) {
    for (const LeftRun& asking : runs) {
        const std::string plan = plan_to_go_on(asking);
        for (LeftRun& run : runs)
            if (&run != &asking &&
                names(plan, absolute_path(run.folder).lexically_normal().string()))
                run.needed_by = asking.folder;
    }
}

bool is_run(const fs::path& folder) { return is_file(folder / kEvents); }

// What was moved away there by a removal that did not come to its end.
std::vector<fs::path> half_removed(const fs::path& folder) {
    struct stat facts {};
    const fs::path gone = folder / kGone;
    const bool is_ours = ::lstat(gone.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
                         facts.st_uid == ::geteuid() && (facts.st_mode & 077) == 0;
    return is_ours ? list_folder(gone) : std::vector<fs::path>();
}

}  // namespace

std::string plan_to_go_on(const LeftRun& run) {
    if (run.is_half || !run.of.empty() || !may_go_on(run))
        return {};
    try {
        return read_regular_file(fs::path(run.folder) / kPlan, kLargestPlan);
    } catch (const Error&) {
        return {};  // without a plan nothing is asked for
    }
}

bool names(std::string_view plan, const std::string& path) {
    constexpr std::string_view kBehindPath = "/\"\\";  // variables have JSON within the plan's
    for (auto at = plan.find(path); at != plan.npos; at = plan.find(path, at + 1)) {
        const auto end = at + path.size();
        if (end < plan.size() && kBehindPath.find(plan[end]) != kBehindPath.npos)
            return true;
    }
    return false;
}

RetentionVerdict judge_run(const LeftRun& run, std::int64_t now_s, const RunRules& rules) {
    if (run.is_half)
        return {true, "its removal was interrupted"};
    if (!run.of.empty())
        return {false, "it is of " + run.of};
    if (!run.why_unreadable.empty())
        return {false, "it cannot be read: " + run.why_unreadable};
    if (run.is_running)
        return {false, "a job runs in it"};
    if (!run.doubt.empty())
        return {false, run.doubt};
    if (!run.foreign.empty())
        return {false, "it has what autolaunch did not write: " + run.foreign};
    if (!run.needed_by.empty())
        return {false, "the job of " + run.needed_by + " names it"};
    const bool succeeded = run.exit_code == 0;
    if ((rules.which == RunsThatGo::succeeded && !succeeded) ||
        (rules.which == RunsThatGo::failed && succeeded))
        return {false, run.outcome.empty() ? "its end is not recorded" : "it " + run.outcome};
    RetentionVerdict verdict =
        judge_age(run.exit_code ? "ended" : "was heard of last",
                  std::chrono::seconds(now_s - run.last_s), rules.older_than);
    if (!run.outcome.empty())
        verdict.why = run.outcome + "; " + verdict.why;
    return verdict;
}

bool is_name_of_run(std::string_view name) {
    static constexpr std::array<std::string_view, 15> kStarts = {
        "alerts.",   "audit.",      "events.",         "exit.",   "generation-",
        "gpu-time.", "head.",       "ledger.",         "plan.",   "preload.",
        "restarts.", "save-times.", "trainer_config.", ".voter-", ".witness-"};
    static const std::set<std::string_view> kNames = {
        "samples", ".key", "spec.yaml", "stage-out", "job.sh", "code.diff", "submission.json"};
    return kNames.contains(name) ||
           std::any_of(kStarts.begin(), kStarts.end(),
                       [name](std::string_view start) { return name.starts_with(start); });
}

std::optional<std::string> ask_slurm(const std::string& job_id) {
    SlurmCommand command(slurm_job_question(job_id), SlurmCommand::Errors::apart);
    const std::string answer = command.wait(Deadline::after(kSlurmTime));
    if (command.errors().find("Invalid job id") != std::string::npos)
        return "over";
    const auto record = parse_slurm_job(answer, job_id);
    if (!record)
        return std::nullopt;
    static const std::set<std::string> kOver = {
        "COMPLETED", "FAILED",    "CANCELLED",     "TIMEOUT",  "NODE_FAIL",
        "PREEMPTED", "BOOT_FAIL", "OUT_OF_MEMORY", "DEADLINE", "REVOKED"};
    return kOver.contains(record->state) ? "over" : record->state;
}

std::vector<LeftRun> find_runs(const std::vector<std::string>& folders, const AskSlurm& ask) {
    std::vector<LeftRun> runs;
    std::set<fs::path> seen;
    bool answers = true;  // where it does not, it is not waited for again
    const AskSlurm ask_while_it_answers = [&](const std::string& job) {
        const auto state = answers ? ask(job) : std::nullopt;
        answers = state.has_value();
        return state;
    };
    const auto take = [&](const fs::path& folder) {
        if (seen.insert(absolute_path(folder).lexically_normal()).second)
            runs.push_back(look_at_run(folder, ask_while_it_answers));
    };
    for (const std::string& folder : folders) {
        if (is_run(folder)) {
            take(folder);
            continue;
        }
        for (const fs::path& half : half_removed(folder))
            runs.push_back({.folder = half, .is_half = true});
        for (const fs::path& inner : list_folder(folder)) {
            struct stat facts {};
            if (::lstat(inner.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode))
                continue;
            try {
                if (is_run(inner))
                    take(inner);
            } catch (const SystemError& error) {  // another user's, beside ours
                runs.push_back({.folder = inner, .why_unreadable = error.what()});
            }
        }
    }
    note_needs(runs);
    return runs;
}

bool remove_run(const LeftRun& run) {
    if (run.is_half) {
        const fs::path path = run.folder, all = path.parent_path();
        const OwnedFolder beside = OwnedFolder::open(all.parent_path());
        remove_beneath(beside.private_folder(kGone).fd(), path.filename());
        ::unlinkat(beside.fd(), kGone, AT_REMOVEDIR);
        return true;
    }
    const UniqueFd folder = open_run(run.folder);
    if (!folder)
        throw SystemError(errno, "open " + run.folder);
    if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0)
        return false;
    const fs::path path = absolute_path(run.folder).lexically_normal();
    const fs::path tidy = path.has_filename() ? path : path.parent_path();
    const OwnedFolder beside = OwnedFolder::open(tidy.parent_path());
    const OwnedFolder gone = beside.private_folder(kGone);
    const std::string name = tidy.filename().string() + "-" + random_hex(8);
    if (::renameat(beside.fd(), tidy.filename().c_str(), gone.fd(), name.c_str()) != 0)
        throw SystemError(errno, "remove " + tidy.string());
    remove_beneath(gone.fd(), name);
    ::unlinkat(beside.fd(), kGone, AT_REMOVEDIR);  // unless another one is in it
    return true;
}

}  // namespace autolaunch::launcher
