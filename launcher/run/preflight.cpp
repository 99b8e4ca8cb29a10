#include "run/preflight.hpp"

#include "base/file_io.hpp"
#include "doctor/check_runner.hpp"
#include "doctor/meeting.hpp"
#include "exit_codes/exit_codes.hpp"
#include "report/console.hpp"
#include "report/screen.hpp"
#include "restart_policy/node_limits.hpp"
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

// The others work: a node that has come checks itself.
std::optional<int> examine_alone(const NodeSources& sources, const JobSpec& spec,
                                 const EnvironmentMap& environment) {
    const Verdict verdict = judge({examine_node(sources, {})});
    if (!verdict.has(Severity::fail) || spec.rendezvous.preflight != Preflight::stop)
        return std::nullopt;
    show_failures(verdict, Screen(environment));
    return exit_code::kUnfit;
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

std::map<std::string, std::string> nodes_to_leave_out(const Verdict& verdict, const JobSpec& spec,
                                                      const Roster& roster) {
    const auto fewest = fewest_nodes(spec);
    std::map<std::string, std::string> unfit;
    if (!fewest)
        return unfit;
    for (const NodesFinding& entry : verdict.findings)
        if (entry.finding.severity == Severity::fail)
            for (const std::string& node : entry.nodes)
                unfit.emplace(node, entry.finding.check + ": " + entry.finding.what);
    const int left = static_cast<int>(roster.nodes.size() - unfit.size());
    const bool enough = left - left % spec.resources.node_group >= *fewest;
    if (!enough || unfit.contains(roster.nodes.front().name))
        unfit.clear();
    return unfit;
}

PreflightOutcome preflight(asio::io_context& io, Joined& joined, const JobSpec& spec,
                           const NodeTasks& tasks, const EnvironmentMap& environment,
                           int cancel_fd) {
    if (spec.rendezvous.preflight == Preflight::off)
        return {};
    const NodeSources sources = sources_of_job(spec, joined, tasks, environment);
    if (joined.late)
        return {examine_alone(sources, spec, environment)};
    MeetingOptions options;
    options.cancel_fd = cancel_fd;
    if (spec.rendezvous.preflight == Preflight::stop)
        options.leave_out = [&](const Verdict& verdict) {
            return nodes_to_leave_out(verdict, spec, joined.roster);
        };
    const MeetingOutcome outcome = hold_meeting(io, joined, sources, {}, options);
    const bool stop = outcome.has_failures && spec.rendezvous.preflight == Preflight::stop;
    if (outcome.verdict && stop)
        show_failures(*outcome.verdict, Screen(environment));
    if (outcome.verdict && !stop)
        warn_of(*outcome.verdict, joined.summary.warnings);
    if (!stop)
        return {{}, outcome.left_out};
    stay_out(io, joined, {exit_code::kUnfit, "a node is not fit for the job", ""});
    return {exit_code::kUnfit};
}

}  // namespace autolaunch::launcher
