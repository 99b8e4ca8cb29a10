#include "retention/collect.hpp"

#include "base/file_system.hpp"
#include "base/text.hpp"
#include "exit_codes/exit_error.hpp"
#include "report/units.hpp"
#include "retention/staged_data.hpp"
#include "stage_out/finish_left.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <utility>

namespace autolaunch::launcher {

namespace {

using OrderedJson = nlohmann::ordered_json;

std::string amount(std::uint64_t bytes, std::uint64_t files) {
    return fmt::format("{} in {} file{}", format_bytes(bytes), files, files == 1 ? "" : "s");
}

/// Lines and JSON of all that was looked at.
class Account {
public:
    explicit Account(bool applied) : applied_(applied) {}

    /// Does it, where it is to be done; what cannot be removed stays, and keeps no other.
    template <class Removal>
    void apply(RetentionVerdict& verdict, const char* held, Removal remove) {
        if (!verdict.goes || !applied_)
            return;
        try {
            if (!remove())
                verdict = {false, held};
        } catch (const Error& error) {
            verdict = {false, std::string("it cannot be removed: ") + error.what()};
            fail(error);
        }
    }
    /// The first of them decides what gc exits with.
    void fail(const Error& error) {
        exit_code_ = exit_code_ == exit_code::kSuccess ? exit_code_of(error) : exit_code_;
    }
    int exit_code() const { return exit_code_; }

    /// `what` is one of them, in words; `facts` the same for programs.
    void add(const char* kind, const std::string& what, std::uint64_t bytes,
             const RetentionVerdict& verdict, OrderedJson facts) {
        const char* const fate = !verdict.goes ? "stays" : applied_ ? "removed" : "would go";
        ++all_;
        gone_ += verdict.goes ? 1 : 0;
        bytes_ += verdict.goes ? bytes : 0;
        text_ += fmt::format("{:<13} {} ({})\n", fate, what, verdict.why);
        facts["bytes"] = bytes;
        facts["what"] = fate;
        facts["why"] = verdict.why;
        lists_[kind].push_back(std::move(facts));
    }

    void note(const std::string& line) { text_ += line + '\n'; }
    std::string text() const {
        const std::string sum = fmt::format("{} of {}, {}", gone_, all_, format_bytes(bytes_));
        return text_ + (applied_ ? "removed " + sum + "\n"
                                 : "would remove " + sum +
                                       (gone_ > 0 ? "; autolaunch gc --apply does it\n" : "\n"));
    }
    std::string json(const std::string& scratch) const {
        OrderedJson all{{"scratch", scratch}, {"applied", applied_}, {"bytes", bytes_}};
        for (const auto& [kind, list] : lists_)
            all[kind] = list;
        return all.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
    }

private:
    bool applied_;
    int exit_code_ = exit_code::kSuccess;
    int all_ = 0, gone_ = 0;
    std::uint64_t bytes_ = 0;
    std::string text_;
    std::map<std::string, OrderedJson> lists_ = {{"checkpoints", OrderedJson::array()},
                                                 {"results", OrderedJson::array()},
                                                 {"runs", OrderedJson::array()},
                                                 {"trees", OrderedJson::array()}};
};

void add_staged(Account& account, const CollectRequest& request, std::int64_t now) {
    const auto left = request.shared
                          ? collect_staged(*request.shared, now, request.older_than, request.apply)
                          : collect_staged(request.scratch, now, request.older_than, request.apply);
    for (const auto& [found, verdict] : left) {
        const std::string of = found.is_part      ? "unfinished"
                               : found.of.empty() ? "of no source that is known"
                                                  : join(found.of, ", ");
        const auto bytes = static_cast<std::uint64_t>(found.bytes);
        account.add("trees",
                    fmt::format("{}  {}: {}", found.name, of,
                                amount(bytes, static_cast<std::uint64_t>(found.files))),
                    bytes, verdict,
                    {{"name", found.name},
                     {"of", found.of},
                     {"unfinished", found.is_part},
                     {"files", found.files},
                     {"used", found.used_s}});
    }
}

/// What ranks have written, and was not copied out, stays: whatever its age.
void add_results(Account& account, const CollectRequest& request, std::int64_t now) {
    for (const LeftOut& left : list_left_out(request.scratch)) {
        const OutVerdict judged = judge_left_out(left, now, request.older_than.count());
        RetentionVerdict verdict{judged.goes, judged.why};
        account.apply(verdict, "a job uses it", [&] { return remove_all_of(left.path); });
        const auto bytes = static_cast<std::uint64_t>(left.bytes());
        account.add("results",
                    fmt::format("{}: {}", left.path.string(),
                                amount(bytes, static_cast<std::uint64_t>(left.files()))),
                    bytes, verdict,
                    {{"job", left.job()}, {"files", left.files()}, {"end", name_of(left.end)}});
    }
}

void add_runs(Account& account, const CollectRequest& request, std::int64_t now,
              const std::vector<LeftRun>& runs) {
    for (const LeftRun& run : runs) {
        RetentionVerdict verdict = judge_run(run, now, {request.older_than, request.which});
        account.apply(verdict, "a job has come to it", [&] { return remove_run(run); });
        // Of another's, and of one that cannot be read, nothing was counted.
        const bool is_counted = run.files > 0 && run.why_unreadable.empty();
        account.add("runs",
                    run.folder + (is_counted ? ": " + amount(run.bytes, run.files) : std::string()),
                    run.bytes, verdict,
                    {{"folder", run.folder},
                     {"run_id", run.run_id},
                     {"outcome", run.outcome},
                     {"files", run.files},
                     {"last", run.last_s}});
    }
}

void add_checkpoints(Account& account, const CollectRequest& request,
                     const CheckpointSurroundings& around) {
    for (const CheckpointPlace& place : request.checkpoints)
        try {
            for (const LeftCheckpoint& one : collect_checkpoints(place, around, request.apply).all)
                account.add(
                    "checkpoints",
                    fmt::format("{}/{}: {}", place.place, one.name, format_bytes(one.bytes)),
                    one.bytes, one.verdict,
                    {{"place", place.place}, {"name", one.name}, {"step", one.step}});
        } catch (const Error& error) {  // of a server that is away: the other places are there
            account.fail(error);
            account.add("checkpoints", place.place, 0, {false, error.what()},
                        {{"place", place.place}, {"name", nullptr}, {"step", nullptr}});
        }
}

}  // namespace

Collected collect(const CollectRequest& request, const AskSlurm& ask) {
    const std::int64_t now = std::time(nullptr);
    Account account(request.apply);
    add_staged(account, request, now);
    if (request.shared)
        return {request.json ? account.json(request.shared->folder) : account.text()};
    if (!is_folder(request.scratch))
        account.note("nothing is staged here: there is no folder " + request.scratch);
    add_results(account, request, now);
    const CheckpointSurroundings around{find_runs(request.runs, ask), request.named, ask, now,
                                        request.older_than};
    add_checkpoints(account, request, around);  // while the plans are there that name them
    add_runs(account, request, now, around.runs);
    return {request.json ? account.json(request.scratch) : account.text(), account.exit_code()};
}

void become_user_of_job(const std::map<std::string, std::string>& environment) {
    const auto found = environment.find("SLURM_JOB_UID");
    long long uid = 0;
    if (::geteuid() != 0 || found == environment.end() || !parse_integer(found->second, uid) ||
        uid <= 0 || uid > 0xFFFFFFFELL)
        throw UsageError(
            "gc --epilog is for root in Slurm's Epilog, where SLURM_JOB_UID says whose "
            "job it was",
            "without --epilog it looks at what is yours");
    passwd record{}, *known = nullptr;
    std::vector<char> room(std::size_t{1} << 16);
    const auto user = static_cast<uid_t>(uid);
    ::getpwuid_r(user, &record, room.data(), room.size(), &known);
    // Whom no database knows has nothing but his own number to be shown by.
    const gid_t group = known != nullptr ? record.pw_gid : static_cast<gid_t>(uid);
    if (::setgroups(0, nullptr) != 0 || ::setresgid(group, group, group) != 0 ||
        ::setresuid(user, user, user) != 0)
        throw SystemError(errno, "become user " + std::to_string(uid));
}

}  // namespace autolaunch::launcher
