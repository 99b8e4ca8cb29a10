#include "run/run_doctor.hpp"

#include "base/file_io.hpp"
#include "base/hostname.hpp"
#include "base/text.hpp"
#include "doctor/check_runner.hpp"
#include "doctor/meeting.hpp"
#include "doctor/verdict.hpp"
#include "exit_codes/exit_codes.hpp"
#include "exit_codes/exit_error.hpp"
#include "report/screen.hpp"
#include "run/drain.hpp"
#include "run/join_inputs.hpp"
#include "run/preflight.hpp"
#include "spawn/keeper.hpp"
#include "supervise/stay_out.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace autolaunch::launcher {

namespace {

CheckChoice choice_of(const DoctorOptions& options) {
    try {
        return {check_names_from(options.only), check_names_from(options.skip)};
    } catch (const Error& error) {
        throw UsageError(error.what(), error.hint());
    }
}

Severity worst_allowed(const DoctorOptions& options) {
    if (options.fail_on == "fail")
        return Severity::fail;
    if (options.fail_on == "warn")
        return Severity::warn;
    throw UsageError("--fail-on " + options.fail_on + ": expected fail or warn");
}

std::string scratch_folder(const EnvironmentMap& environment) {
    const auto named = environment.find("TMPDIR");
    return named == environment.end() || named->second.empty() ? "/tmp" : named->second;
}

int exit_code_of(bool has_failures, bool has_what_counts) {
    if (has_failures)
        return exit_code::kUnfit;
    return has_what_counts ? exit_code::kWarnings : exit_code::kSuccess;
}

void add_folders(const DoctorOptions& options, NodeSources& sources) {
    for (const std::string& path : split(options.folders, ','))
        if (!trim(path).empty())
            sources.folders.push_back({std::string(trim(path)), "named folder"});
}

void show(const DoctorRequest& request, const Verdict& verdict, const Screen& screen) {
    if (request.json)
        screen.print_json(verdict_json(verdict));
    else
        screen.print(verdict_screen(verdict, style_of_stdout()));
}

// What Slurm's programs want: nothing, or one line.
int check_health(const DoctorRequest& request, const NodeSources& sources,
                 const CheckChoice& choice, Severity at_least) {
    const Verdict verdict = judge({examine_node(sources, choice)});
    const std::string line = health_line(verdict, at_least);
    if (line.empty())
        return exit_code::kSuccess;
    const Screen screen(sources.environment);
    screen.print(line + '\n');
    if (!request.options.drain)
        return exit_code_of(verdict.has(Severity::fail), true);
    const std::string wrong = drain_this_node(line, sources.environment, sources.hostname);
    if (!wrong.empty())
        screen.complain("autolaunch: " + wrong);
    return exit_code_of(verdict.has(Severity::fail), true);
}

// As a job's start: the first task of each node becomes its agent, the agents meet, and the head
// speaks for all.
int check_together(const DoctorRequest& request, const Allocation& own, const CheckChoice& choice,
                   Severity at_least, const EnvironmentMap& environment) {
    if (is_stand_in(own))
        return serve_as_stand_in(own, environment);
    const std::string task_address = task_address_of(own);
    const UniqueFd keeper_gone =
        start_keeper({.scratch = {}, .end_with_parent = own.tasks_on_node.has_value()});
    asio::io_context io{1};
    const NodeTasks tasks = gather_tasks(own, environment, task_address, keeper_gone.get());
    const JobShape shape = {.nodes = std::max(1, static_cast<int>(own.node_names.size())),
                            .ranks_here = 1};
    Joined joined = join_job(io, request.spec.rendezvous, tasks.allocation, environment,
                             join_request(request.spec, shape, request.version, keeper_gone.get()));
    NodeSources sources = sources_of_job(request.spec, joined, tasks, environment);
    add_folders(request.options, sources);
    MeetingOptions options;
    options.cancel_fd = keeper_gone.get();
    const MeetingOutcome outcome = hold_meeting(io, joined, sources, choice, options);
    if (outcome.verdict)
        show(request, *outcome.verdict, Screen(environment));
    const int code =
        exit_code_of(outcome.has_failures, outcome.has_warnings && at_least <= Severity::warn);
    stay_out(io, joined, {code, "the checks are over", ""});
    if (tasks.stand_ins)
        tasks.stand_ins->finish(code);
    return code;
}

}  // namespace

std::vector<StorageFolder> folders_of(const JobSpec& spec, const EnvironmentMap& environment) {
    std::vector<StorageFolder> folders;
    if (!spec.checkpoint.checkpoint_dir.empty())
        folders.push_back({spec.checkpoint.checkpoint_dir, "checkpoints"});
    if (!spec.run_dir.empty())
        folders.push_back({spec.run_dir, "run directory"});
    else if (!spec.monitoring.log_path.empty())
        folders.push_back({spec.monitoring.log_path, "run directory"});
    folders.push_back({scratch_folder(environment), "scratch"});
    return folders;
}

int run_doctor(const DoctorRequest& request, const EnvironmentMap& environment) {
    const CheckChoice choice = choice_of(request.options);
    const Severity at_least = worst_allowed(request.options);
    if (request.options.drain && !request.options.health_check)
        throw UsageError("--drain goes with --health-check",
                         "autolaunch doctor --health-check --drain");
    NodeSources sources = local_sources(environment);
    sources.folders = folders_of(request.spec, environment);
    add_folders(request.options, sources);
    if (request.options.health_check)
        return check_health(request, sources, choice, at_least);
    const Allocation own = read_allocation(environment, hostname(), node_options(request.spec));
    if (!request.options.standalone && own.on_every_node &&
        (own.node_names.size() > 1 || own.tasks_on_node.value_or(1) > 1))
        return check_together(request, own, choice, at_least, environment);
    const Verdict verdict = judge({examine_node(sources, choice)});
    const Screen screen(environment);
    show(request, verdict, screen);
    if (own.node_names.size() > 1 && !request.options.standalone)
        std::fprintf(stderr, "this node alone: srun autolaunch doctor checks all %zu\n",
                     own.node_names.size());
    return exit_code_of(verdict.has(Severity::fail), verdict.has(at_least));
}

}  // namespace autolaunch::launcher
