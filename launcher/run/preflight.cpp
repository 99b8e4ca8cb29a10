#include "run/preflight.hpp"

#include "base/file_io.hpp"
#include "doctor/meeting.hpp"
#include "exit_codes/exit_codes.hpp"
#include "report/console.hpp"
#include "report/screen.hpp"
#include "run/run_doctor.hpp"
#include "supervise/stay_out.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace autolaunch::launcher {

namespace {

// Failures and warnings: what else there is, `autolaunch doctor` shows.
void show_failures(const Verdict& verdict, const Screen& screen) {
    Verdict shown;
    for (const NodesFinding& entry : verdict.findings)
        if (entry.finding.severity >= Severity::warn)
            shown.findings.push_back(entry);
    const ConsoleOptions console = ConsoleOptions::from_environment();
    const TextStyle style = {.colours = console.colours && ::isatty(STDERR_FILENO) != 0};
    const std::string text =
        finding_lines(shown.findings, verdict.reports.size() > 1, style) +
        "not started: rendezvous.preflight found failures · all results: autolaunch doctor · "
        "start anyway: rendezvous.preflight=warn";
    screen.complain(text);
}

// Worst first, as they are in the verdict.
void warn_of(const Verdict& verdict, std::vector<std::string>& warnings) {
    for (const NodesFinding& entry : verdict.findings)
        if (entry.finding.severity >= Severity::warn)
            warnings.push_back(fmt::format("{}: {} {} · fix: {}", name_nodes(entry.nodes),
                                           entry.finding.check, entry.finding.what,
                                           entry.finding.fix));
}

}  // namespace

NodeSources sources_of_job(const JobSpec& spec, const Joined& joined, const NodeTasks& tasks,
                           const EnvironmentMap& environment) {
    NodeSources sources = local_sources(environment);
    sources.roots.allowed_cpus = tasks.cpus;
    sources.folders = folders_of(spec, environment);
    std::vector<std::string> names;
    for (const RosterNode& node : joined.roster.nodes)
        names.push_back(node.name);
    // Where nobody named the nodes, there is nothing to look up.
    if (std::none_of(names.begin(), names.end(),
                     [](const std::string& n) { return n.starts_with("node-rank-"); }))
        sources.peers = peers_to_resolve(names, joined.roster.self);
    if (tasks.stand_ins)
        for (const LocalTask& task : tasks.stand_ins->tasks())
            sources.tasks.push_back(task.pid);
    return sources;
}

std::optional<int> preflight(asio::io_context& io, Joined& joined, const JobSpec& spec,
                             const NodeTasks& tasks, const EnvironmentMap& environment,
                             int cancel_fd) {
    if (spec.rendezvous.preflight == Preflight::off)
        return std::nullopt;
    const NodeSources sources = sources_of_job(spec, joined, tasks, environment);
    MeetingOptions options;
    options.cancel_fd = cancel_fd;
    const MeetingOutcome outcome = hold_meeting(io, joined, sources, {}, options);
    const bool stop = outcome.has_failures && spec.rendezvous.preflight == Preflight::stop;
    if (outcome.verdict && stop)
        show_failures(*outcome.verdict, Screen(environment));
    if (outcome.verdict && !stop)
        warn_of(*outcome.verdict, joined.summary.warnings);
    if (!stop)
        return std::nullopt;
    stay_out(io, joined, {exit_code::kUnfit, "a node is not fit for the job", ""});
    return exit_code::kUnfit;
}

}  // namespace autolaunch::launcher
