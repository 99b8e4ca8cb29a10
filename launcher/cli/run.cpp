#include "cli/run.hpp"

#include "allocation/allocation.hpp"
#include "plan/job_shape.hpp"
#include "plan/roster.hpp"
#include "rendezvous/coordinator.hpp"
#include "rendezvous/socket_directory.hpp"
#include "report/console.hpp"
#include "report/reporter.hpp"
#include "spawn/keeper.hpp"
#include "supervise/run_directory.hpp"
#include "supervise/supervisor.hpp"
#include "topology/read_topology.hpp"

#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr auto kFlushTimeout = std::chrono::seconds(5);

std::string hostname() {
    char name[256] = {};
    ::gethostname(name, sizeof name - 1);
    return name;
}

std::string now_text() {
    const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::tm local{};
    ::localtime_r(&now, &local);
    char text[32];
    std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
    return text + ("-" + std::to_string(::getpid()));
}

ReporterOptions reporter_options(const LaunchPlan& plan, const RunDirectory& run_dir, const std::string& version) {
    return {.version = version,
            .events_path = run_dir.events_path(),
            .quiet = plan.spec.logging.quiet,
            .progress = plan.spec.logging.progress};
}

}  // namespace

LaunchPlan plan_here(const JobSpec& spec, const EnvironmentMap& environment) {
    Allocation allocation = read_allocation(environment, hostname());
    const NodeTopology topology = read_local_topology();
    const JobShape shape = decide_shape(spec, allocation, topology);
    allocation.node_rank = shape.node_rank;
    const Roster roster = assume_alike(allocation, shape.nodes, shape.ranks_here, now_text());
    return make_plan(spec, allocation, topology, roster, environment, std::filesystem::current_path());
}

int run_job(const JobSpec& spec, const EnvironmentMap& environment, const std::string& version) {
    const SocketDirectory sockets;
    UniqueFd keeper_gone = start_keeper(sockets.path());
    const LaunchPlan plan = plan_here(spec, environment);
    check_runnable(plan);
    const RunDirectory run_dir(plan);
    Console console(ConsoleOptions::from_environment());
    Reporter reporter(reporter_options(plan, run_dir, version), console);
    Coordinator coordinator(plan, sockets.path());
    Supervisor agent(plan, run_dir, coordinator, {reporter, console}, std::move(keeper_gone));
    const int exit_code = agent.run(environment);
    console.flush(Deadline::after(kFlushTimeout));
    return exit_code;
}

}  // namespace autolaunch::launcher
