#include "run/run.hpp"

#include "allocation/allocation.hpp"
#include "allocation/roster.hpp"
#include "base/file_limit.hpp"
#include "base/file_system.hpp"
#include "base/hostname.hpp"
#include "exit_codes/exit_error.hpp"
#include "plan/job_shape.hpp"
#include "pmi/mpi_linkage.hpp"
#include "rank_services/coordinator.hpp"
#include "rank_services/socket_directory.hpp"
#include "rendezvous/join.hpp"
#include "report/console.hpp"
#include "report/reporter.hpp"
#include "run/join_inputs.hpp"
#include "run/nccl_site.hpp"
#include "run/node_tasks.hpp"
#include "run/preflight.hpp"
#include "spawn/keeper.hpp"
#include "spawn/spawn.hpp"
#include "supervise/run_directory.hpp"
#include "supervise/stay_out.hpp"
#include "supervise/supervise.hpp"
#include "topology/load_capture.hpp"
#include "topology/read_topology.hpp"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <optional>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr auto kFlushTimeout = std::chrono::seconds(5);

ReporterOptions reporter_options(const LaunchPlan& plan, const RunDirectory& run_dir,
                                 const std::string& version) {
    return {.version = version,
            .events_path = run_dir.events_path(),
            .quiet = plan.spec.logging.quiet,
            .progress = plan.spec.logging.progress,
            .secrets = plan.spec.secrets,
            .only_records = plan.node_rank > 0};
}

// Of a launch without network, and of each rank: two log files and a pidfd at least, and its
// connections to the store, to the agent and to MPI's server as well.
constexpr std::size_t kFewestFiles = 17, kFewestOfRank = 3, kNeededFiles = 24, kNeededOfRank = 6;

void require_files(const JobShape& shape) {
    const auto ranks = static_cast<std::size_t>(shape.ranks_here);
    const auto nodes = static_cast<std::size_t>(shape.nodes);
    require_file_limit(kFewestFiles + kFewestOfRank * ranks,
                       kNeededFiles + kNeededOfRank * ranks + nodes);
}

struct Prepared {
    LaunchPlan plan;
    RunDirectory run_dir;
};

// What can fail here fails on one node, while the others wait for it.
Prepared prepare(asio::io_context& io, Joined& joined, const JobSpec& spec,
                 const Allocation& allocation, const NodeTopology& topology,
                 const EnvironmentMap& environment) {
    try {
        const NcclSite nccl =
            read_nccl_site(spec, environment, topology, joined.summary.local_address);
        LaunchPlan plan = make_plan(spec, allocation, topology, joined.roster, environment,
                                    current_folder(), nccl);
        plan.mpi = choose_mpi(plan, environment);
        RunDirectory run_dir(plan);
        return {std::move(plan), std::move(run_dir)};
    } catch (const Error& error) {
        stay_out(io, joined, {exit_code_of(error), error.what(), error.hint()});
        throw;
    }
}

}  // namespace

LaunchPlan plan_here(const JobSpec& spec, const EnvironmentMap& environment) {
    const Allocation allocation = read_allocation(environment, hostname(), node_options(spec));
    const NodeTopology topology = read_local_topology();
    const JobShape shape = decide_shape(spec, allocation, topology);
    const Roster roster = assume_alike(allocation, shape.ranks_here, now_text());
    LaunchPlan plan = make_plan(spec, allocation, topology, roster, environment, current_folder(),
                                read_nccl_site(spec, environment, topology));
    plan.mpi = choose_mpi(plan, environment);
    return plan;
}

LaunchPlan plan_elsewhere(const JobSpec& spec, const EnvironmentMap& environment,
                          const std::string& file) {
    const NodeTopology topology = load_capture(file);
    const SavedSite nccl = read_saved_nccl_site(spec, environment, topology, file);
    LaunchPlan plan =
        plan_saved_machine(spec, topology, file, environment, current_folder(), nccl.site);
    plan.notes.insert(plan.notes.end(), nccl.notes.begin(), nccl.notes.end());
    if (spec.trainer.mpi == "auto")
        plan.mpi.reason = "not decided: the program that counts is on the saved machine";
    else
        plan.mpi = choose_mpi(plan, environment);
    return plan;
}

int run_job(const JobSpec& spec, const EnvironmentMap& environment, const std::string& version) {
    const Allocation own = read_allocation(environment, hostname(), node_options(spec));
    check_runs_on_every_node(own);
    if (is_stand_in(own))
        return serve_as_stand_in(own, environment);
    const auto file_limit = raise_file_limit();  // the head has a connection a node
    const std::string task_address = task_address_of(own);
    SocketDirectory sockets;
    AgentPulse pulse;
    UniqueFd keeper_gone = start_keeper({.scratch = sockets.path(),
                                         .lock = sockets.lock(),
                                         .end_with_parent = own.tasks_on_node.has_value(),
                                         .guardian = true,
                                         .meanwhile = SocketDirectory::remove_abandoned,
                                         .pulse = &pulse});
    ::signal(SIGXFSZ,
             SIG_IGN);  // past ulimit -f a write fails with its reason; ranks start without
    asio::io_context io{1};
    const NodeTasks tasks = gather_tasks(own, environment, task_address, keeper_gone.get());
    const Allocation& allocation = tasks.allocation;
    const NodeTopology topology = read_local_topology({.allowed_cpus = tasks.cpus});
    const JobShape shape = decide_shape(spec, allocation, topology);
    require_files(shape);
    Joined joined = join_job(io, spec.rendezvous, allocation, environment,
                             join_request(spec, shape, version, keeper_gone.get()));
    if (const auto unfit = preflight(io, joined, spec, tasks, environment, keeper_gone.get()))
        return *unfit;
    const auto [plan, run_dir] = prepare(io, joined, spec, allocation, topology, environment);
    ConsoleOptions console_options = ConsoleOptions::from_environment();
    console_options.secrets = plan.spec.secrets;
    Console console(std::move(console_options));
    Reporter reporter(reporter_options(plan, run_dir, version), console);
    Coordinator coordinator(plan, sockets, joined.summary.head_address);
    const int exit_code = supervise(
        io,
        {plan, run_dir, coordinator, joined, {reporter, console}, tasks.stand_ins.get(), &pulse},
        std::move(keeper_gone), {environment, file_limit});
    console.flush(Deadline::after(kFlushTimeout));
    if (tasks.stand_ins)
        tasks.stand_ins->finish(exit_code);
    return exit_code;
}

}  // namespace autolaunch::launcher
