#include "run/run.hpp"

#include "alerts/alert_watch.hpp"
#include "allocation/allocation.hpp"
#include "allocation/roster.hpp"
#include "allocation/slurm_command.hpp"
#include "base/file_limit.hpp"
#include "base/file_system.hpp"
#include "base/hostname.hpp"
#include "base/workspace.hpp"
#include "containers/image_digest.hpp"
#include "containers/left_containers.hpp"
#include "containers/plan_container.hpp"
#include "control/control_message.hpp"
#include "exit_codes/exit_error.hpp"
#include "input/job_input.hpp"
#include "job_secrets/job_secrets.hpp"
#include "placement_watch/gpu_claims.hpp"
#include "plan/job_shape.hpp"
#include "plan/node_loss.hpp"
#include "plan/plan_checkpoint.hpp"
#include "pmi/mpi_linkage.hpp"
#include "python_module/plan_python_module.hpp"
#include "python_start/plan_preload.hpp"
#include "quota/quota_inquiry.hpp"
#include "rank_services/coordinator.hpp"
#include "rank_services/socket_directory.hpp"
#include "remains/job_record.hpp"
#include "rendezvous/join.hpp"
#include "report/console.hpp"
#include "report/reporter.hpp"
#include "restart_policy/node_limits.hpp"
#include "run/alert_task.hpp"
#include "run/clean.hpp"
#include "run/exit_proof.hpp"
#include "run/head_record.hpp"
#include "run/job_end.hpp"
#include "run/job_receipt.hpp"
#include "run/join_inputs.hpp"
#include "run/nccl_site.hpp"
#include "run/node_tasks.hpp"
#include "run/preflight.hpp"
#include "run/quick_check.hpp"
#include "run/run_doctor.hpp"
#include "run/ticket_care.hpp"
#include "run/time_limit_inquiry.hpp"
#include "spawn/keeper.hpp"
#include "spawn/spawn.hpp"
#include "stage_out/out_place.hpp"
#include "staging/plan_staging.hpp"
#include "stdio/line_buffering.hpp"
#include "stopping/stranded.hpp"
#include "stopping/unseen_step.hpp"
#include "supervise/run_directory.hpp"
#include "supervise/stay_out.hpp"
#include "supervise/supervise.hpp"
#include "topology/load_capture.hpp"
#include "topology/read_topology.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

namespace autolaunch::launcher {

namespace {

ReporterOptions reporter_options(const LaunchPlan& plan, const RunDirectory& run_dir,
                                 const std::string& version) {
    WorkerContext workers{
        .run_id = plan.run_id, .hostname = plan.hostname, .group_rank = plan.group_rank};
    for (const RankPlan& rank : plan.ranks)
        workers.roles.emplace(rank.rank, rank.role);
    return {.version = version,
            .events_path = run_dir.events_path(),
            .quiet = plan.spec.logging.quiet,
            .progress = plan.spec.logging.progress,
            .secrets = plan.spec.secrets,
            .workers = std::move(workers),
            .only_records = plan.node_rank > 0};
}

// Of a launch without network, and of each rank: two log files and a pidfd at least, and its
// connections to the store, to the agent and to MPI's server as well.
constexpr std::size_t kFewestFiles = 18, kFewestOfRank = 3, kNeededFiles = 26, kNeededOfRank = 6;
constexpr std::size_t kTerminalsOfRank = 4;  // two, and what is copied from them goes to two files

void require_files(const JobShape& shape, const LoggingSpec& logging) {
    const auto ranks = static_cast<std::size_t>(shape.ranks_here);
    const auto nodes = static_cast<std::size_t>(shape.nodes);
    const std::size_t more = logging.stdio == "pty" ? kTerminalsOfRank : 0;
    require_file_limit(kFewestFiles + (kFewestOfRank + more) * ranks,
                       kNeededFiles + (kNeededOfRank + more) * ranks + nodes);
}

// nohup: also what it starts is to outlive the terminal.
bool ignores_hangup() {
    struct sigaction current {};
    return ::sigaction(SIGHUP, nullptr, &current) == 0 && current.sa_handler == SIG_IGN;
}

// A driver that hangs does not hold a start up for long: it is named, and the ranks will find out.
constexpr auto kClaimsOfStart = std::chrono::seconds(1), kClaimsOfPlan = std::chrono::seconds(10),
               kStagingOfPlan = std::chrono::seconds(20);

void add_gpu_claims(GpuClaimsInquiry& inquiry, std::chrono::milliseconds wait, LaunchPlan& plan) {
    std::vector<GpuOfRank> planned;
    for (const RankPlan& rank : plan.ranks)
        if (rank.gpu)
            planned.push_back({rank.rank, rank.binding.gpu.value_or(rank.gpu->index), *rank.gpu});
    for (std::string& warning : inquiry.warnings(planned, wait))
        plan.warnings.push_back(std::move(warning));
}

std::vector<QuotaFolder> written_folders(const JobSpec& spec, const EnvironmentMap& environment) {
    std::vector<QuotaFolder> folders;
    for (const StorageFolder& one : folders_of(spec, environment))
        folders.push_back({one.path, one.purpose});
    const std::string workdir = absolute_path(spec.trainer.workdir).lexically_normal();
    for (const TierSettings& tier : tiers_of(checkpoint_settings(spec.checkpoint, workdir)))
        if (tier.place.find("://") == tier.place.npos)
            folders.push_back({tier.place, "a further place of checkpoints"});
    return folders;
}

void add_quotas(QuotaInquiry& inquiry, std::chrono::milliseconds wait, LaunchPlan& plan) {
    for (std::string& warning : inquiry.warnings(Deadline::after(wait)))
        plan.warnings.push_back(std::move(warning));
}

// Whether a job that may lose nodes is let to: asked while the nodes meet, of the head alone.
class NodeLossInquiry {
public:
    NodeLossInquiry(const JobSpec& spec, const EnvironmentMap& environment)
        : environment_(environment) {
        if (fewest_nodes(spec))
            question_.emplace(batch_script_question(environment));
    }
    void add(LaunchPlan& plan, const Allocation& allocation) {
        if (!question_)
            return;
        StepStart step = look_at_step(environment_);
        if (std::string script = question_->wait(Deadline::after(kScriptTime)); !script.empty())
            step.batch_script = std::move(script);
        const int nodes = plan.node_count + static_cast<int>(plan.spare_nodes.size());
        NodeLossWords words = node_loss_words(plan.spec, nodes, allocation, environment_, step);
        std::move(words.warnings.begin(), words.warnings.end(), std::back_inserter(plan.warnings));
        std::move(words.notes.begin(), words.notes.end(), std::back_inserter(plan.notes));
    }

private:
    static constexpr auto kScriptTime = std::chrono::seconds(1);

    const EnvironmentMap& environment_;
    std::optional<SlurmCommand> question_;
};

// Where a run would end at once.
void warn_of_secrets(LaunchPlan& plan, const EnvironmentMap& environment) {
    try {
        check_secret_files(plan, environment);
    } catch (const Error& error) {
        plan.warnings.push_back(error.what() + (error.hint().empty() ? "" : "; " + error.hint()));
    }
}

struct Prepared {
    LaunchPlan plan;
    RunDirectory run_dir;
};

LaunchPlan plan_generation(const JobSpec& spec, const Allocation& allocation,
                           const NodeTopology& topology, const Roster& roster,
                           const EnvironmentMap& environment, const NcclSite& nccl) {
    LaunchPlan plan =
        make_plan(spec, allocation, topology, roster, environment, current_folder(), nccl);
    plan_mpi(plan, environment);
    plan_output(plan, environment);
    plan_python_module(plan, environment);
    plan_preload(plan, environment);
    plan_staging(plan);
    plan_stage_out(plan);
    plan_container(plan, environment);
    return plan;
}

Prepared plan_and_make_folder(const Joined& joined, const JobSpec& spec,
                              const Allocation& allocation, const NodeTopology& topology,
                              const EnvironmentMap& environment, const NcclSite& nccl) {
    LaunchPlan plan = plan_generation(spec, allocation, topology, joined.roster, environment, nccl);
    check_input(plan, allocation.tasks_on_node.value_or(1) > 1);
    check_secret_files(plan, environment);
    check_image_file(plan.container);
    RunDirectory run_dir(plan);
    if (const std::string note = run_dir.note(); !note.empty())
        plan.warnings.push_back(note);
    return {std::move(plan), std::move(run_dir)};
}

// torchrun's --log-dir is for many jobs: where one runs in it, the next has a folder of its own
// there. Several nodes agree on the folder before the head can know.
Prepared make_folder_of_own(const Joined& joined, JobSpec spec, const Allocation& allocation,
                            const NodeTopology& topology, const EnvironmentMap& environment,
                            const NcclSite& nccl) {
    const std::string shared = spec.run_dir;
    spec.run_dir += "/" + joined.roster.run_name;
    Prepared prepared = plan_and_make_folder(joined, spec, allocation, topology, environment, nccl);
    prepared.plan.warnings.push_back("another autolaunch is running in " + shared +
                                     ": this one has the folder " + spec.run_dir);
    return prepared;
}

// What can fail here fails on one node, while the others wait for it.
Prepared prepare(asio::io_context& io, Joined& joined, const JobSpec& spec,
                 const Allocation& allocation, const NodeTopology& topology,
                 const EnvironmentMap& environment) {
    try {
        const NcclSite nccl =
            read_nccl_site(spec, environment, topology, joined.summary.local_address);
        try {
            return plan_and_make_folder(joined, spec, allocation, topology, environment, nccl);
        } catch (const RunDirectoryInUse&) {
            if (spec.run_dir.empty() || joined.roster.nodes.size() > 1)
                throw;
            return make_folder_of_own(joined, spec, allocation, topology, environment, nccl);
        }
    } catch (const Error& error) {
        stay_out(io, joined, {exit_code_of(error), error.what(), error.hint()});
        throw;
    }
}

// Before a rank is started, while the others can still be told.
void tell_witness(asio::io_context& io, const JobWitness& witness, Joined& joined,
                  const LaunchPlan& plan, std::optional<int> requeue) {
    if (!witness.begins)
        return;
    try {
        witness.begins(plan, joined.summary.key_source, requeue);
    } catch (const Error& error) {
        stay_out(io, joined, {exit_code_of(error), error.what(), error.hint()});
        throw;
    }
}

// The scheduler ends a job that is requeued at once: less time is left for the last words.
void tell_of_end(alerts::AlertWatch& watch, Console& console, int exit_code) {
    constexpr auto kLastWords = alerts::kAlertsLastWords + std::chrono::seconds(5);
    constexpr auto kOfRequeue = std::chrono::seconds(5);
    if (!watch.is_running())
        return;
    const bool told =
        watch.finish(Deadline::after(exit_code == exit_code::kRequeue ? kOfRequeue : kLastWords));
    for (const std::string& line : watch.last_words())
        console.write_message(line);
    if (!told)
        console.write_message("alerting: its process did not end in its time: not all was told");
}

}  // namespace

LaunchPlan plan_here(const JobSpec& spec, const EnvironmentMap& environment) {
    const Allocation allocation = read_allocation(environment, hostname(), node_options(spec));
    const NodeTopology topology = read_local_topology();
    GpuClaimsInquiry claims(topology);
    NodeLossInquiry node_loss(spec, environment);
    TicketCare ticket(spec, allocation, environment);
    QuotaInquiry quotas(written_folders(spec, environment));
    const JobShape shape = decide_shape(spec, allocation, topology);
    Roster roster = assume_alike(allocation, shape.ranks_here, now_text());
    roster.hold_back_all_but(nodes_at_start(spec, static_cast<int>(roster.nodes.size())));
    LaunchPlan plan = make_plan(spec, allocation, topology, roster, environment, current_folder(),
                                read_nccl_site(spec, environment, topology));
    plan_mpi(plan, environment);
    plan_output(plan, environment);
    plan_python_module(plan, environment);
    plan_preload(plan, environment);
    plan_staging(plan);
    plan_stage_out(plan);
    look_at_staging(plan, kStagingOfPlan);
    look_at_targets(plan, kStagingOfPlan);
    plan_container(plan, environment);
    add_gpu_claims(claims, kClaimsOfPlan, plan);
    ticket.add_warning(plan);
    add_quotas(quotas, kClaimsOfPlan, plan);
    node_loss.add(plan, allocation);
    warn_of_secrets(plan, environment);
    if (plan.uncompared_time_limit)
        plan.warnings.push_back(
            "slurm_config.time_limit is not compared with this job's, which Slurm says in the "
            "environment from 23.02 on: a run asks squeue");
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
        plan_mpi(plan, environment);
    plan.output.reason = "not decided: the program that counts is on the saved machine";
    if (spec.trainer.preload.how == PreloadSpec::How::automatic ||
        spec.trainer.preload.how == PreloadSpec::How::listed)
        plan.preload.reason = plan.output.reason;
    if (!spec.container.image.empty())
        plan.notes.push_back("container: not decided what ranks see of the node in " +
                             spec.container.image +
                             ": runtimes and devices that count are on the saved machine");
    return plan;
}

int run_job(const JobSpec& spec, const EnvironmentMap& environment, const std::string& version,
            bool drain, const StartGate& gate, const JobWitness& witness, const SweepSpec& sweep) {
    JobOrigin origin;
    const auto began = std::chrono::system_clock::now();
    fill_standard_streams();
    set_workspace(workspace_of(spec.workspace));
    const Allocation own = read_allocation(environment, hostname(), node_options(spec));
    check_runs_on_every_node(own);
    if (is_stand_in(own))
        return serve_as_stand_in(own, environment);
    const auto file_limit = raise_file_limit();  // the head has a connection a node
    const std::string task_address = task_address_of(own);
    std::optional<SocketDirectory> sockets(std::in_place);
    AgentPulse pulse;
    const ShellJob shell{.keeper = ::getpid(), .group = ::getpgrp()};  // before the process splits
    UniqueFd keeper_gone =
        start_keeper({.scratch = sockets->path(),
                      .lock = sockets->lock(),
                      .end_with_parent = own.tasks_on_node.has_value(),
                      .guardian = true,
                      .meanwhile = clean_before_start,
                      .parting = [&] { end_unseen_step(own, environment); },
                      .bereaved = [&] { remove_left_containers(sockets->path()); },
                      .pulse = &pulse});
    ::signal(SIGXFSZ,
             SIG_IGN);  // past ulimit -f a write fails with its reason; ranks start without
    asio::io_context io{1};
    const NodeTasks tasks = gather_tasks(own, environment, task_address, keeper_gone.get());
    const Allocation& allocation = tasks.allocation;
    if (!allocation.job_id.empty())
        origin.requeue = allocation.restart_count;
    const NodeTopology topology = read_local_topology({.allowed_cpus = tasks.cpus});
    GpuClaimsInquiry claims(topology);  // answered while the nodes meet
    std::optional<NodeLossInquiry> node_loss(std::in_place, spec, environment);
    TicketCare ticket(spec, allocation, environment);
    std::optional<QuotaInquiry> quotas;
    if (allocation.node_rank == 0)  // of other nodes' plans nobody sees the warnings
        quotas.emplace(written_folders(spec, environment));
    const JobShape shape = decide_shape(spec, allocation, topology);
    require_files(shape, spec.logging);
    if (gate.size)
        gate.size(shape.nodes, gpus_of_node(spec, allocation, topology));
    std::optional<TimeLimitInquiry> time_limit(std::in_place, gate, allocation, environment);
    JoinRequest request = join_request(spec, shape, version, keeper_gone.get());
    request.moved_head = [&spec](const std::string& identity) {
        return hosts_of_head(spec, identity);
    };
    Joined joined = join_job(io, spec.rendezvous, allocation, environment, request);
    if (!joined.late)
        joined.roster.hold_back_all_but(
            nodes_at_start(spec, static_cast<int>(joined.roster.nodes.size())));
    time_limit->judge(io, joined);
    time_limit.reset();
    PreflightOutcome fitness = preflight(io, joined, spec, tasks, environment, keeper_gone.get());
    if (fitness.exit_code)
        return *fitness.exit_code;
    origin.unfit = std::move(fitness.unfit);
    auto [plan, run_dir] = prepare(io, joined, spec, allocation, topology, environment);
    tell_witness(io, witness, joined, plan, origin.requeue);
    add_gpu_claims(claims, kClaimsOfStart, plan);
    ticket.add_warning(plan);
    if (quotas)
        add_quotas(*quotas, kClaimsOfStart, plan);
    quotas.reset();
    if (joined.head)
        node_loss->add(plan, allocation);
    node_loss.reset();  // a spare waits for no child, and would be told that this one is left
    const auto replan = [&joined, &plan = plan, &run_dir = run_dir, &allocation, &topology,
                         &environment](const std::vector<int>& ranks_per_node,
                                       const std::vector<int>& order) {
        Roster roster = joined.roster;
        roster.order = order;
        for (std::size_t node = 0; node < ranks_per_node.size() && node < roster.nodes.size();
             ++node) {
            RosterNode& known = roster.nodes[node];
            known.ranks = ranks_per_node[node];
            known.held_back = known.ranks > 0 ? 0 : known.held_back;
        }
        const NcclSite nccl =
            read_nccl_site(plan.spec, environment, topology, joined.summary.local_address);
        plan = plan_generation(plan.spec, allocation, topology, roster, environment, nccl);
        joined.roster = std::move(roster);
        run_dir.keep_plan(plan);
    };
    const auto add_node = [&joined](const std::string& name, int ranks) {
        joined.roster.nodes.push_back({name, 0, ranks});
    };
    QuickCheck quick_check(io, sources_of_job(spec, joined, tasks, environment),
                           joined.summary.local_address);
    const auto check = [&quick_check](const NodeCheckAsk& ask, QuickCheck::Done done) {
        quick_check.start(ask, std::move(done));
    };
    ConsoleOptions console_options = ConsoleOptions::from_environment();
    console_options.secrets = plan.spec.secrets;
    console_options.ranks_write_bytes = !plan.spec.logging.prefix;
    Console console(std::move(console_options));
    Reporter reporter(reporter_options(plan, run_dir, version), console);
    reporter.set_tap(witness.happens);
    const auto warn = [&joined](const std::string& line) {
        if (joined.member)
            joined.member->report(control::NodeWarning{line});
    };
    alerts::AlertWatch alert_watch(io, alert_task(plan, allocation, environment), warn);
    const auto keep_head = [&, &plan = plan, &run_dir = run_dir] {
        run_dir.keep_head(head_record(joined, spec, plan, sockets->path()));
        alert_watch.begin();
    };
    if (joined.head)
        keep_head();
    JobTraces traces;
    traces.scratch = sockets->path();
    if (plan.container.runtime == kPodman)
        pulse.leave_more_than_processes();
    write_job_record(sockets->path(), {plan.run_id, plan.run_dir, plan.hostname, plan.node_rank});
    std::optional<Coordinator> coordinator(std::in_place, plan, *sockets,
                                           joined.summary.head_address);
    std::optional<Stranded> stranded;
    ticket.keep_renewing(io, warn);
    const int exit_code =
        supervise(io,
                  {plan,
                   run_dir,
                   *coordinator,
                   joined,
                   {reporter, console},
                   tasks.stand_ins.get(),
                   &pulse,
                   shell,
                   origin,
                   &traces,
                   replan,
                   add_node,
                   check,
                   joined.head || joined.peers ? door_of(sockets->path()) : std::string(),
                   keep_head,
                   &stranded,
                   &sweep},
                  std::move(keeper_gone), {environment, file_limit, ignores_hangup()});
    coordinator.reset();
    sockets.reset();
    joined.peers.reset();  // its closed door says to others that this agent is gone
    tell_of_end(alert_watch, console, exit_code);
    if (joined.head && exit_code != exit_code::kRequeue)  // else it goes on, and time is short
        tell_receipt(plan, run_dir, console);
    prove_exit({plan, run_dir, traces, environment, console, drain}, exit_code);
    const int told = end_job({.spec = spec,
                              .allocation = allocation,
                              .environment = environment,
                              .plan = plan,
                              .witness = witness,
                              .reporter = reporter,
                              .console = console,
                              .is_head = joined.head != nullptr,
                              .stranded = stranded,
                              .began = began},
                             exit_code);
    if (tasks.stand_ins)
        tasks.stand_ins->finish(told);
    return told;
}

}  // namespace autolaunch::launcher
