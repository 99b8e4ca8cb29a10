#include "run/clean.hpp"

#include "base/hostname.hpp"
#include "exit_codes/exit_codes.hpp"
#include "rank_services/socket_directory.hpp"
#include "remains/abandoned_jobs.hpp"
#include "remains/processes_of_jobs.hpp"
#include "report/screen.hpp"
#include "run/exit_proof.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

namespace {

// The keeper passes no signal on meanwhile.
constexpr auto kPatienceAtStart = std::chrono::milliseconds(1000);

SweepOptions sweep_here() {
    return {.places = SocketDirectory::places(), .prefix = SocketDirectory::name_prefix()};
}

}  // namespace

int clean_node(const CleanRequest& request, const EnvironmentMap& environment) {
    SweepOptions options = sweep_here();
    options.run_id = request.run_id;
    options.look_only = request.look_only;
    const std::vector<AbandonedJob> jobs = sweep_abandoned_jobs(options);
    std::vector<Remnant> stuck;  // which the node is to be drained for
    std::string of_jobs;
    bool clean = true;
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
