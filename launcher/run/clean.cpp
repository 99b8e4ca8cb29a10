#include "run/clean.hpp"

#include "base/hostname.hpp"
#include "exit_codes/exit_codes.hpp"
#include "rank_services/socket_directory.hpp"
#include "remains/abandoned_jobs.hpp"
#include "remains/other_users.hpp"
#include "remains/processes_of_jobs.hpp"
#include "report/screen.hpp"
#include "run/exit_proof.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

// The keeper passes no signal on meanwhile.
constexpr auto kPatienceAtStart = std::chrono::milliseconds(1000);
constexpr auto kPatienceForAUser = std::chrono::milliseconds(5000);  // besides that for processes

SweepOptions sweep_here() {
    return {.places = SocketDirectory::places(), .prefix = SocketDirectory::name_prefix()};
}

struct Swept {
    std::vector<AbandonedJob> jobs;
    std::vector<std::string> unknown;  ///< of which users nothing could be said, and why
};

// Root cleans after everybody; each user's as that user.
Swept sweep_all(const SweepOptions& options) {
    Swept swept{sweep_abandoned_jobs(options), {}};
    if (::geteuid() != 0)
        return swept;
    for (const OtherUser& user : find_other_users(options.places)) {
        const auto sweep = [&options] {
            SweepOptions his = options;
            his.places = SocketDirectory::places();
            his.prefix = SocketDirectory::name_prefix();
            return sweep_abandoned_jobs(his);
        };
        try {
            for (AbandonedJob& job : sweep_as(user, sweep, options.patience + kPatienceForAUser))
                swept.jobs.push_back(std::move(job));
        } catch (const Error& error) {
            swept.unknown.push_back(error.hint().empty()
                                        ? error.what()
                                        : std::string(error.what()) + "; " + error.hint());
        }
    }
    return swept;
}

}  // namespace

int clean_node(const CleanRequest& request, const EnvironmentMap& environment) {
    SweepOptions options = sweep_here();
    options.run_id = request.run_id;
    options.look_only = request.look_only;
    const Swept swept = sweep_all(options);
    const std::vector<AbandonedJob>& jobs = swept.jobs;
    std::vector<Remnant> stuck;  // which the node is to be drained for
    std::string of_jobs;
    bool clean = swept.unknown.empty();
    for (const AbandonedJob& job : jobs) {
        clean = clean && job.left.empty();
        for (const Remnant& left : job.left)
            if (left.why != kRunsBelow)
                stuck.push_back(left);
        if (!job.left.empty())
            of_jobs += (of_jobs.empty() ? "" : ", ") + job.run_id;
    }
    std::optional<DrainWord> drain;
    if (!stuck.empty())
        drain = drain_for(stuck, of_jobs, request.drain, environment, hostname());
    const Screen screen(environment);
    for (const std::string& why : swept.unknown)
        screen.complain("autolaunch: " + why + "\n");
    if (request.json)
        screen.print_json(sweep_json(jobs, request.look_only, drain));
    else
        screen.print(sweep_text(jobs, request.look_only) +
                     (drain ? describe_drain(*drain) + "\n" : ""));
    return clean ? exit_code::kSuccess : exit_code::kUnfit;
}

void clean_before_start() noexcept try {
    SweepOptions options = sweep_here();
    options.by = "the next start";
    options.patience = kPatienceAtStart;
    for (const AbandonedJob& job : sweep_abandoned_jobs(options)) {
        std::size_t processes = 0;
        for (const Remnant& ended : job.ended)
            processes += ended.kind == "process" ? 1 : 0;
        if (processes > 0)
            std::fprintf(stderr,
                         "autolaunch: %zu process%s of job %s, whose autolaunch was killed, %s "
                         "ended\n",
                         processes, processes == 1 ? "" : "es", job.run_id.c_str(),
                         processes == 1 ? "was" : "were");
        if (!job.left.empty())
            std::fprintf(stderr, "autolaunch: job %s: %s; `autolaunch clean` says more\n",
                         job.run_id.c_str(), describe_left(job.left).c_str());
    }
} catch (const std::exception&) {  // the job that starts has no need of it
}

}  // namespace autolaunch::launcher
