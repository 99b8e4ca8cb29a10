#include "supervise/generation.hpp"

#include "allocation/slurm_command.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "causes/root_cause.hpp"
#include "flight_view/last_call.hpp"
#include "logs/line_prefix.hpp"
#include "report/units.hpp"
#include "session/environment.hpp"
#include "spawn/process_tree.hpp"
#include "supervise/leftovers.hpp"
#include "supervise/process_condition.hpp"
#include "supervise/stop_signals.hpp"

#include <fcntl.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>
#include <variant>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostTracedPorts = 64;
constexpr std::size_t kMostPhaseBytes = 200;  // of its name, on the screen
constexpr auto kShortestWatch = std::chrono::milliseconds(100);
constexpr auto kShortestGpuWatch =
    std::chrono::milliseconds(1000);  // a process that loads NVIDIA's library each time

// Each of the steps that block; together they must not make the other nodes believe that this one
// is lost.
Deadline patience(const JobSpec& spec) {
    return Deadline::after(
        std::min(std::chrono::milliseconds(5000), spec.rendezvous.lost_after / 4));
}

// Local rank 0 runs in the agent's own task.
bool has_stand_in(const StandIns* stand_ins, int local_rank) {
    return stand_ins != nullptr && local_rank > 0;
}

// The shell makes way for the command, so that the rank's pid stays the one that was started.
std::vector<std::string> wrapped(const RankPlan& rank) {
    if (rank.wrap.empty())
        return rank.argv;
    const bool sets_variables =
        rank.wrap.substr(0, rank.wrap.find(' ')).find('=') != rank.wrap.npos;
    std::vector<std::string> argv{
        "/bin/sh", "-c", (sets_variables ? "exec env " : "exec ") + rank.wrap + " \"$@\"", "sh"};
    argv.insert(argv.end(), rank.argv.begin(), rank.argv.end());
    return argv;
}

// Of torchrun's template, where there is one.
std::string prefix_of(const LaunchPlan& plan, const RankPlan& rank) {
    return expand_prefix(plan.spec.logging.prefix_template,
                         {{"role_name", rank.role},
                          {"rank", std::to_string(rank.rank)},
                          {"local_rank", std::to_string(rank.local_rank)},
                          {"hostname", plan.hostname}});
}

}  // namespace

Generation::Generation(const NodeContext& node, const control::StartGeneration& start,
                       Callbacks callbacks, KeptRanks& kept)
    : node_(node),
      plan_(node.plan),
      stand_ins_(node.stand_ins),
      number_(start.generation),
      secret_(start.secret),
      callbacks_(std::move(callbacks)),
      sockets_(node.coordinator.open(
          node.io, node.member, start,
          [this](const SessionPeer& peer, const session::RankMessage& message) {
              on_message(peer, message);
          })),
      follower_(plan_.spec.logging, plan_.hostname, charset_of_environment()),
      failures_(plan_, number_, stand_ins_),
      grace_(plan_.spec.restart.grace_period) {
    if (!sockets_.warning.empty())
        callbacks_.report(WarningRaised{sockets_.warning});
    sockets_.facts.trainer_config_path = node.trainer_config;
    if (plan_.spec.logging.stdio == "pty")
        terminals_.emplace(node.io);
    for (const auto& rank : plan_.ranks) {
        const auto stayed = std::find_if(
            kept.processes.begin(), kept.processes.end(), [&](const RankProcess& process) {
                return process.plan().rank == rank.rank && process.state() == RankState::left;
            });
        if (stayed != kept.processes.end()) {
            ranks_.splice(ranks_.end(), kept.processes, stayed);
            continue;
        }
        ranks_.emplace_back(
            node.io, rank,
            has_stand_in(stand_ins_, rank.local_rank) ? &stand_ins_->host(rank.local_rank)
                                                      : nullptr,
            node_.python == nullptr
                ? ChildMaker(spawn_child)
                : [python = node_.python](const ChildSpec& spec) { return python->start(spec); });
    }
    if (node_.input != nullptr)
        node_.input->begin(number_);
    leave_trace();
    adopt(kept);
}

// What must be gone at the job's end. The store, with its port, is the head's.
void Generation::leave_trace() {
    if (node_.traces == nullptr)
        return;
    JobTraces& traces = *node_.traces;
    if (traces.last_generation < 0)
        traces.first_generation = number_;
    traces.last_generation = number_;
    if (plan_.node_rank != 0)
        return;
    if (traces.ports.size() == kMostTracedPorts)
        traces.ports.erase(traces.ports.begin());
    traces.ports.push_back(sockets_.facts.master_port);
}

bool Generation::can_start(const Inheritance& inherited, std::function<void()> then) {
    if (node_.python == nullptr || ranks_.empty())
        return true;
    const bool settled = node_.python->is_settled(
        [this, &inherited] { return interpreter_spec(inherited); }, std::move(then));
    report_python();
    return settled;
}

// As the first rank's, without what belongs to a rank alone; the interpreter compares the rest.
ChildSpec Generation::interpreter_spec(const Inheritance& inherited) {
    ChildSpec spec = child_of(ranks_.front(), {}, {}, inherited);
    spec.stdin_fd = spec.stdout_fd = spec.stderr_fd = -1;
    if (!plan_.output.preload.empty())
        spec.environment.push_back(std::string(env::kStdout) + '=');
    if (plan_.mpi.mode != MpiMode::none && mpi_ == nullptr)
        start_mpi(inherited);
    if (mpi_)  // libraries read who has started them
        mpi_->prepare(ranks_.front().plan().local_rank, spec);
    return spec;
}

void Generation::report_python() {
    if (node_.python == nullptr)
        return;
    if (const auto ready = node_.python->take_ready())
        callbacks_.report(PythonPreloaded{
            .pid = node_.python->pid(),
            .modules = ready->modules,
            .took = ready->took,
            .late = ready->late,
            .as_before = plan_.spec.trainer.preload.how == PreloadSpec::How::unset});
    for (std::string& note : node_.python->take_notes())
        callbacks_.report(WarningRaised{std::move(note)});
}

// For the next run, and for `plan`.
void Generation::record_python() {
    const auto walk = node_.python == nullptr ? std::nullopt : node_.python->take_walk();
    if (!walk)
        return;
    try {
        keep_preload_record(plan_, *walk);
    } catch (const Error& error) {
        callbacks_.report(
            WarningRaised{"trainer.preload: what was imported could not be recorded: " +
                          std::string(error.what())});
    }
}

bool Generation::start_next(const Inheritance& inherited) {
    const auto planned = [](const RankProcess& rank) { return rank.state() == RankState::planned; };
    const auto next = std::find_if(ranks_.begin(), ranks_.end(), planned);
    if (next == ranks_.end()) {
        report_python();
        record_python();
        return false;
    }
    starting_rank_ = next->plan().rank;
    if (plan_.mpi.mode != MpiMode::none && mpi_ == nullptr)
        start_mpi(inherited);
    start_rank(*next, inherited);
    return true;
}

void Generation::start_mpi(const Inheritance& inherited) {
    const auto kill = [this](int rank) {
        if (RankProcess* const found = find(rank))
            found->send(SIGKILL);
    };
    const MpiRanks::Context context{
        .io = node_.io,
        .plan = plan_,
        .roster = node_.roster,
        .member = node_.member,
        .socket_directory = node_.coordinator.socket_directory(),
        .generation = number_,
        .secret = secret_,
        .environment =
            rank_environment(plan_, plan_.ranks.front(), sockets_.facts, inherited.environment)};
    mpi_ = std::make_unique<MpiRanks>(
        context, patience(plan_.spec),
        MpiRanks::Callbacks{
            .warn = [this](const std::string& text) { callbacks_.report(WarningRaised{text}); },
            .kill = kill,
            .kill_all =
                [this, kill] {
                    for (const auto& rank : plan_.ranks)
                        kill(rank.rank);
                }});
}

ChildSpec Generation::child_of(const RankProcess& rank, const RankFiles& files,
                               const RankTerminals::Ends& terminals, const Inheritance& inherited) {
    const RankPlan& planned = rank.plan();
    const EnvironmentMap& environment = has_stand_in(stand_ins_, planned.local_rank)
                                            ? stand_ins_->task(planned.local_rank).environment
                                            : inherited.environment;
    ChildSpec spec{.argv = wrapped(planned),
                   .environment = rank_environment(plan_, planned, sockets_.facts, environment),
                   .workdir = plan_.workdir,
                   .cpus = planned.binding.cpus,
                   .memory_nodes = planned.binding.memory_nodes,
                   .file_limit = inherited.file_limit,
                   .stdin_fd = no_input_.get(),
                   .stdout_fd = (terminals.out ? terminals.out : files.out).get(),
                   .stderr_fd = (terminals.err ? terminals.err : files.err).get()};
    spec.ignores_hangup = inherited.ignores_hangup;
    if (node_.input == nullptr)
        return spec;
    if (const int input = node_.input->descriptor_for(planned.rank); input >= 0)
        spec.stdin_fd = input;
    if (const int terminal = node_.input->terminal_for(planned.rank); terminal >= 0)
        spec.stdin_fd = spec.stdout_fd = spec.stderr_fd = terminal;
    return spec;
}

void Generation::start_rank(RankProcess& rank, const Inheritance& inherited) {
    if (!folder_)
        folder_ = open_generation_folder(plan_.run_dir, number_);
    const RankFiles files = open_rank_files(*folder_, rank.plan().rank);
    const auto terminals = terminals_ ? terminals_->add_rank(files) : RankTerminals::Ends{};
    if (!no_input_)
        no_input_ = open_file("/dev/null", O_RDONLY);
    ChildSpec spec = child_of(rank, files, terminals, inherited);
    if (spec.stdin_fd != no_input_.get())
        with_input_.insert(rank.plan().rank);
    if (!plan_.output.preload.empty())
        spec.environment.push_back(std::string(env::kStdout) + '=' + file_identity(files.out));
    if (mpi_)
        mpi_->prepare(rank.plan().local_rank, spec);
    log_room_.add_rank(files);
    Child child;
    try {
        child = rank.start(spec, [this](RankProcess& ended) { on_end(ended); });
    } catch (...) {
        rank.apply(RankEvent::start_failed);
        throw;
    }
    rank.apply(RankEvent::started);
    if (node_.traces != nullptr)
        ++node_.traces->processes;
    if (mpi_)
        mpi_->was_started(rank.plan().rank, rank.plan().local_rank, rank.pid());
    if (node_.input != nullptr)
        node_.input->was_started(rank.plan().rank, rank.pid());
    follow_rank(rank, files);
    callbacks_.report(RankStarted{.rank = rank.plan().rank,
                                  .local_rank = rank.plan().local_rank,
                                  .pid = rank.pid(),
                                  .gpu = rank.plan().binding.gpu});
    warn_about_placement(rank, child);
}

void Generation::follow_rank(const RankProcess& rank, const RankFiles& files) {
    follower_.add_rank(rank.plan().rank, rank.plan().local_rank, files,
                       prefix_of(plan_, rank.plan()));
}

void Generation::warn_about_placement(const RankProcess& rank, const Child& child) {
    const auto warn = [&](int error, const std::string& what) {
        if (error == 0)
            return;
        callbacks_.report(WarningRaised{"rank " + std::to_string(rank.plan().rank) + " " + what +
                                        ": " + std::strerror(error)});
    };
    warn(child.affinity_error, "could not be bound to its CPUs, and runs where the system puts it");
    warn(child.memory_policy_error, "could not be given its memory policy");
}

int Generation::watch_placement() {
    std::vector<PlacementWatch::Watched> watched;
    for (const auto& rank : ranks_)
        if (rank.alive())
            watched.push_back({rank.plan().rank,
                               rank.plan().local_rank,
                               rank.pid(),
                               {rank.plan().binding.cpus, rank.plan().binding.memory_nodes}});
    const auto ended = static_cast<int>(ranks_.size() - watched.size());
    PlacementWatch::Times times;
    if (const auto seconds = plan_.spec.monitoring.interval_seconds)
        times.between = std::max(kShortestWatch, std::chrono::round<std::chrono::milliseconds>(
                                                     std::chrono::duration<double>(*seconds)));
    times.first = std::min(times.first, times.between);
    watch_.emplace(
        node_.io, std::move(watched), times,
        [this](const std::vector<PlacementWatch::Drift>& drifts) { report_drift(drifts); });
    watch_gpus(times);
    return ended + watch_->count_bound();
}

// An event a rank, and one warning for all: where a library is the reason, all ranks of all nodes
// have it.
void Generation::report_drift(const std::vector<PlacementWatch::Drift>& drifts) {
    for (const auto& drift : drifts)
        callbacks_.report(PlacementDrifted{.rank = drift.rank, .what = drift.what});
    callbacks_.report(WarningRaised{
        std::to_string(drifts.size()) + " of " + std::to_string(ranks_.size()) +
        " ranks left the place that was planned: local rank " +
        std::to_string(drifts.front().local_rank) + " " + drifts.front().what +
        ". Does the program set it, or numactl, taskset, KMP_AFFINITY or GOMP_CPU_AFFINITY?"});
}

void Generation::watch_gpus(PlacementWatch::Times times) {
    std::vector<GpuWatch::Watched> watched;
    for (const auto& rank : ranks_) {
        const auto& gpu = rank.plan().gpu;
        if (!rank.alive() || !rank.plan().binding.gpu || !gpu || gpu->vendor != "nvidia")
            continue;
        watched.push_back({rank.plan().rank,
                           rank.plan().local_rank,
                           rank.pid(),
                           {*rank.plan().binding.gpu, gpu->bdf, gpu->uuid,
                            /*is_part=*/!gpu->partition_of.empty()}});
    }
    if (watched.empty() || node_.gpu_inquiry == nullptr)
        return;
    std::vector<std::string> bdfs;
    for (const auto& each : watched)
        bdfs.push_back(each.gpu.bdf);
    gpu_events_.emplace(std::move(bdfs));
    times.between = std::max(times.between, kShortestGpuWatch);
    gpu_watch_.emplace(
        node_.io, *node_.gpu_inquiry, std::move(watched), times,
        GpuWatch::Callbacks{.on_drift =
                                [this](const std::vector<PlacementWatch::Drift>& drifts) {
                                    report_gpu_drift(drifts);
                                },
                            .on_outcome =
                                [this](const GpuWatch::Outcome& outcome) {
                                    callbacks_.report(
                                        GpuPlacementKnown{.as_planned = outcome.as_planned,
                                                          .elsewhere = outcome.elsewhere,
                                                          .cannot_tell = outcome.cannot_tell});
                                }});
}

// By local ranks where there are several nodes: the same mistake is made on all of them, and one
// line tells it.
void Generation::report_gpu_drift(const std::vector<PlacementWatch::Drift>& drifts) {
    for (const auto& drift : drifts)
        callbacks_.report(PlacementDrifted{.rank = drift.rank, .what = drift.what});
    const PlacementWatch::Drift& first = drifts.front();
    std::string text = plan_.node_count > 1 ? "local rank " + std::to_string(first.local_rank)
                                            : "rank " + std::to_string(first.rank);
    text += " " + first.what;
    if (drifts.size() > 1)
        text += "; " + std::to_string(drifts.size() - 1) + " more are not on theirs";
    callbacks_.report(
        WarningRaised{text + ". Does the program take the device of its LOCAL_RANK?"});
}

void Generation::apply_to_all(RankEvent event, std::chrono::milliseconds grace, int stop_signal) {
    grace_ = grace;
    stop_signal_ = stop_signal;
    for (auto& rank : ranks_)
        act(rank, rank.apply(event));
}

void Generation::act(RankProcess& rank, RankAction action) {
    switch (action) {
        case RankAction::none:
            return;
        case RankAction::send_stop_message:
            return ask_to_stop(rank);
        case RankAction::send_stop_signal:
            return send_stop_signal(rank);
        case RankAction::send_leave_message:
            return send_leave(rank);
        case RankAction::send_term:
            return signal(rank, SIGTERM);
        case RankAction::send_kill:
            return signal(rank, SIGKILL);
    }
}

void Generation::signal(RankProcess& rank, int number) {
    rank.send(number);
    callbacks_.report(RankSignalled{.rank = rank.plan().rank, .signal = number});
}

// SIGUSR1 and SIGUSR2 mean something to a program that has a handler for them, and kill any other
// as SIGTERM does.
void Generation::send_stop_signal(RankProcess& rank) {
    const bool is_spoken = stop_signal_ == SIGUSR1 || stop_signal_ == SIGUSR2;
    signal(rank, is_spoken && !rank.catches(stop_signal_) ? SIGTERM : stop_signal_);
}

// A rank that hung up its session after it promised to listen to it gets the signal after all.
void Generation::ask_to_stop(RankProcess& rank) {
    rank.wake();
    if (!sockets_.session->send_stop(rank.plan().rank, stop_message()))
        act(rank, rank.apply(RankEvent::peer_failed));
}

void Generation::tell_grace(std::chrono::milliseconds grace) {
    grace_ = grace;
    for (auto& rank : ranks_)
        if (rank.state() == RankState::finishing || rank.state() == RankState::saving)
            sockets_.session->send_stop(rank.plan().rank, stop_message());
}

session::Stop Generation::stop_message() const {
    const std::chrono::duration<double> grace = grace_;
    const std::chrono::duration<double> until =
        std::chrono::steady_clock::now().time_since_epoch() + grace;
    return {.reason = "the job is to stop", .grace_seconds = grace.count(), .until = until.count()};
}

void Generation::hold() {
    for (auto& rank : ranks_)
        rank.send(SIGSTOP);
}

void Generation::go_on() {
    for (auto& rank : ranks_)
        rank.wake();
}

bool Generation::can_stop() const {
    if (own_stop_signal(plan_.spec) != 0)
        return true;
    return std::none_of(ranks_.begin(), ranks_.end(), [](const RankProcess& rank) {
        return rank.alive() && rank.state() != RankState::cooperative;
    });
}

void Generation::request_checkpoint(int number) {
    for (auto& rank : ranks_) {
        if (!rank.alive())
            continue;
        const bool told = sockets_.session->send_checkpoint(rank.plan().rank);
        if (!told)
            rank.forward(number);
    }
}

void Generation::request_checkpoint_by_session() {
    for (auto& rank : ranks_)
        if (rank.alive())
            sockets_.session->send_checkpoint(rank.plan().rank);
}

void Generation::forward(int number) {
    for (const auto& rank : ranks_)
        rank.forward(number);
}

void Generation::on_end(RankProcess& rank) {
    if (terminals_)
        terminals_->copy_all();  // its last words, before anybody quotes them
    RankExited end = rank.exited();
    if (mpi_)
        mpi_->correct(end);
    exits_.push_back(end);
    exit_times_.push_back(std::chrono::steady_clock::now());
    if (node_.input != nullptr)
        node_.input->rank_ended(rank.plan().rank);
    follower_.rank_ended(rank.plan().rank);
    if (gpu_watch_)
        gpu_watch_->rank_ended(rank.plan().rank);
    callbacks_.report(end);
    callbacks_.rank_ended();
}

bool Generation::all_ended() const {
    return std::none_of(ranks_.begin(), ranks_.end(),
                        [](const RankProcess& rank) { return rank.in_generation(); });
}

std::vector<pid_t> Generation::live_pids() const {
    std::vector<pid_t> pids;
    for (const auto& rank : ranks_)
        if (rank.alive())
            pids.push_back(rank.pid());
    return pids;
}

std::vector<pid_t> Generation::own_processes() const {
    std::vector<pid_t> pids = live_pids();
    if (mpi_ && mpi_->helper() > 0)
        pids.push_back(mpi_->helper());
    if (gpu_events_ && gpu_events_->pid() > 0)
        pids.push_back(gpu_events_->pid());
    if (node_.python != nullptr && node_.python->pid() > 0)
        pids.push_back(node_.python->pid());
    return pids;
}

std::vector<LiveRank> Generation::live_ranks() const {
    std::vector<LiveRank> live;
    for (const auto& rank : ranks_)
        if (rank.in_generation())
            live.push_back({rank.plan().rank, rank.pid(), process_condition(rank.pid())});
    return live;
}

std::optional<RankExited> Generation::first_failure() const {
    const auto found = std::find_if(exits_.begin(), exits_.end(), is_failure);
    return found == exits_.end() ? std::nullopt : std::optional(*found);
}

// Of one that could not say it itself.
std::string Generation::last_moment_of(std::size_t exit) const {
    using std::chrono::duration_cast, std::chrono::milliseconds, std::chrono::microseconds;
    const int number = exits_[exit].rank;
    const auto ended_at = exit_times_[exit];
    const auto rank = std::find_if(ranks_.begin(), ranks_.end(), [number](const RankProcess& each) {
        return each.plan().rank == number;
    });
    const auto before = [ended_at](std::chrono::steady_clock::time_point then) {
        const auto time = duration_cast<milliseconds>(ended_at - then);
        return format_duration(std::max(milliseconds(0), time)) + " before";
    };
    std::vector<std::string> parts;
    if (rank != ranks_.end() && rank->last_step_at())
        parts.push_back("reported step " + std::to_string(exits_[exit].last_step.value_or(0)) +
                        " " + before(*rank->last_step_at()));
    if (rank != ranks_.end() && rank->phase())
        parts.push_back("began its phase \"" + rank->phase()->name + "\" " +
                        before(rank->phase()->since));
    if (auto call =
            last_call(recorders_.read(number, true),
                      duration_cast<microseconds>(std::chrono::steady_clock::now() - ended_at));
        !call.empty())
        parts.push_back("was " + std::move(call));
    return parts.empty() ? "" : "last seen: it " + join(parts, ", and ");
}

std::vector<NvmlEvent> Generation::gpu_events_of(int rank) {
    const RankProcess* const found = find(rank);
    if (!gpu_events_ || found == nullptr || !found->plan().gpu)
        return {};
    return gpu_events_->of(found->plan().gpu->bdf);
}

RankCircumstances Generation::circumstances_of(std::size_t exit) {
    const int rank = exits_[exit].rank;
    return {.may_miss_words = log_room_.cannot_keep(failures_.folder_of(rank)),
            .cannot_resume = cannot_resume_,
            .mpi_fault = mpi_ ? mpi_->fault_of(rank) : std::string(),
            .last_moment = last_moment_of(exit),
            .gpu_events = gpu_events_of(rank)};
}

control::RankFailed Generation::describe_failure() {
    const auto found = std::find_if(exits_.begin(), exits_.end(), is_failure);
    const auto exit = static_cast<std::size_t>(found - exits_.begin());
    return failures_.describe(*found, exit_times_[exit], circumstances_of(exit));
}

std::vector<control::RankFailed> Generation::describe_others() {
    const auto first = first_failure();
    std::vector<control::RankFailed> others;
    for (std::size_t at = 0; at < exits_.size(); ++at) {
        const RankExited& end = exits_[at];
        if (first && end.rank == first->rank)
            continue;
        if (is_failure(end))
            others.push_back(failures_.describe(end, exit_times_[at], circumstances_of(at)));
        else if (end.asked_to_stop)
            if (auto stopped = failures_.describe_stopped(end, exit_times_[at]))
                others.push_back(std::move(*stopped));
    }
    others = fold_alike(std::move(others), control::kMaxFailures,
                        [](control::RankFailed& failed) -> EndRecord& { return failed.record; });
    for (auto& failed : others)
        shorten(failed);
    return others;
}

std::vector<flight::RecordedRank> Generation::read_flight() const {
    std::vector<flight::RecordedRank> read;
    for (const auto& rank : ranks_)
        if (rank.state() != RankState::planned)
            read.push_back(recorders_.read(rank.plan().rank, !rank.alive()));
    return read;
}

void Generation::follow_logs(LineSink& console) {
    follower_.follow(console);
    if (const std::string full = log_room_.keep(live_pids()); !full.empty())
        callbacks_.report(WarningRaised{full});
}

// What a rank leaves is ended with it. Where all went well nothing else would say that something
// was cut short: a program that was started with setsid or "&" may not have begun.
void Generation::tell_of_leftovers(const std::vector<pid_t>& not_ours) {
    if (std::any_of(exits_.begin(), exits_.end(),
                    [](const RankExited& end) { return end.exit_code != 0 || end.asked_to_stop; }))
        return;
    std::vector<std::string> names;
    for (const auto& rank : ranks_)
        names.insert(names.end(), rank.left_running().begin(), rank.left_running().end());
    std::vector<pid_t> known = own_processes();
    known.insert(known.end(), not_ours.begin(), not_ours.end());
    for (std::string& detached : lasting_children(known, plan_.run_dir))
        names.push_back(std::move(detached));
    if (!names.empty())
        callbacks_.report(WarningRaised{leftovers_text(names)});
}

void Generation::end_leftovers() {
    watch_.reset();
    gpu_watch_.reset();
    gpu_events_.reset();
    auto not_ours = node_.gpu_inquiry ? node_.gpu_inquiry->dying() : std::vector<pid_t>{};
    for (const pid_t asked : SlurmCommand::under_way())  // why the ranks were to stop
        not_ours.push_back(asked);
    if (node_.python != nullptr && node_.python->pid() > 0)
        not_ours.push_back(node_.python->pid());  // for the next generation
    tell_of_leftovers(not_ours);
    for (const auto& rank : ranks_)
        if (rank.state() == RankState::left)
            not_ours.push_back(rank.pid());
    bool all_ended = end_children(not_ours, patience(plan_.spec));
    if (stand_ins_ != nullptr)
        all_ended = stand_ins_->end_offspring(patience(plan_.spec)) && all_ended;
    if (!all_ended)
        callbacks_.report(WarningRaised{
            "some processes that the ranks started do not end; they hang in the kernel"});
    if (terminals_)
        terminals_->copy_all();
}

void Generation::finish(LineSink& console) {
    follower_.drain(console, patience(plan_.spec));
    for (const std::string& missing :
         {log_room_.given_up(), terminals_ ? terminals_->lost() : std::string()})
        if (!missing.empty())
            callbacks_.report(WarningRaised{missing});
}

RankProcess* Generation::find(int rank) {
    for (auto& candidate : ranks_)
        if (candidate.plan().rank == rank)
            return &candidate;
    return nullptr;
}

void Generation::on_message(const SessionPeer& peer, const session::RankMessage& message) {
    RankProcess* rank = find(peer.rank);
    if (rank == nullptr || peer.generation != number_)
        return;
    if (const auto* step = std::get_if<session::Step>(&message)) {
        cannot_resume_.clear();
        rank->set_last_step(step->step);
        callbacks_.report(StepReported{.rank = peer.rank,
                                       .step = step->step,
                                       .total_steps = step->total_steps,
                                       .tokens = step->tokens,
                                       .loss = step->loss,
                                       .seconds = step->seconds});
    } else if (const auto* saved = std::get_if<session::Checkpoint>(&message)) {
        cannot_resume_.clear();
        checkpoint_step_ = std::max(saved->step, checkpoint_step_.value_or(saved->step));
        callbacks_.report(CheckpointPublished{.rank = peer.rank,
                                              .step = saved->step,
                                              .path = saved->path,
                                              .stall_seconds = saved->stall_seconds,
                                              .save_seconds = saved->save_seconds});
    } else if (const auto* text = std::get_if<session::Message>(&message)) {
        callbacks_.report(MessageReported{.rank = peer.rank, .text = text->text});
    } else if (const auto* resume = std::get_if<session::CannotResume>(&message)) {
        cannot_resume_ = resume->reason.substr(0, control::kEvidenceLimit);
    } else if (const auto* phase = std::get_if<session::Phase>(&message)) {
        rank->set_phase(phase->name.substr(0, kMostPhaseBytes));
        callbacks_.phase(peer.rank, !phase->name.empty());
    } else if (const auto* stacks = std::get_if<session::PythonStacks>(&message)) {
        callbacks_.stacks(peer, *stacks);
    } else if (const auto* recorder = std::get_if<session::Recorder>(&message)) {
        recorders_.take(peer.rank, recorder->file);
    } else if (const auto* asked = std::get_if<session::MemoryAsked>(&message)) {
        if (node_.memory != nullptr)
            node_.memory->answer(peer.rank, number_, *asked);
    } else if (const auto* rejoins = std::get_if<session::Rejoins>(&message)) {
        rank->set_rejoins(rejoins->cannot.empty());
    } else if (const auto* left = std::get_if<session::HasLeft>(&message)) {
        on_left(*rank, *left);
    } else if (std::holds_alternative<session::HandlesStop>(message)) {
        act(*rank, rank->apply(RankEvent::declared_cooperative));
    } else if (std::holds_alternative<session::HeardStop>(message)) {
        act(*rank, rank->apply(RankEvent::heard_stop));
    }
}

}  // namespace autolaunch::launcher
