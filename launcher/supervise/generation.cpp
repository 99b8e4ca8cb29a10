#include "supervise/generation.hpp"

#include "base/file_io.hpp"
#include "base/room_on_disk.hpp"
#include "report/failure_evidence.hpp"
#include "spawn/process_tree.hpp"
#include "supervise/evidence_message.hpp"
#include "supervise/oom_kills.hpp"

#include <fcntl.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>
#include <variant>

namespace autolaunch::launcher {

namespace {

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

// One that has the cgroup of that task's rank.
std::string process_of_task(const StandIns* stand_ins, int task) {
    return task == 0 ? "self" : std::to_string(stand_ins->task(task).pid);
}

}  // namespace

Generation::Generation(const NodeContext& node, const control::StartGeneration& start,
                       Callbacks callbacks)
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
      follower_(plan_.spec.logging, plan_.hostname),
      grace_(plan_.spec.restart.grace_period) {
    if (!sockets_.warning.empty())
        callbacks_.report(WarningRaised{sockets_.warning});
    sockets_.facts.trainer_config_path = node.trainer_config;
    for (const auto& rank : plan_.ranks)
        ranks_.emplace_back(node.io, rank,
                            has_stand_in(stand_ins_, rank.local_rank)
                                ? &stand_ins_->host(rank.local_rank)
                                : nullptr);
    for (std::size_t task = 0; task <= (stand_ins_ ? stand_ins_->tasks().size() : 0); ++task)
        oom_kills_before_.push_back(
            read_oom_kills(process_of_task(stand_ins_, static_cast<int>(task))));
}

bool Generation::start_next(const Inheritance& inherited) {
    const auto planned = [](const RankProcess& rank) { return rank.state() == RankState::planned; };
    const auto next = std::find_if(ranks_.begin(), ranks_.end(), planned);
    if (next == ranks_.end())
        return false;
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

void Generation::start_rank(RankProcess& rank, const Inheritance& inherited) {
    const RankFiles files = open_rank_files(plan_.run_dir, number_, rank.plan().rank);
    const UniqueFd no_input = open_file("/dev/null", O_RDONLY);
    const int local_rank = rank.plan().local_rank;
    const EnvironmentMap& environment = has_stand_in(stand_ins_, local_rank)
                                            ? stand_ins_->task(local_rank).environment
                                            : inherited.environment;
    ChildSpec spec{.argv = rank.plan().argv,
                   .environment = rank_environment(plan_, rank.plan(), sockets_.facts, environment),
                   .workdir = plan_.workdir,
                   .cpus = rank.plan().binding.cpus,
                   .memory_nodes = rank.plan().binding.memory_nodes,
                   .file_limit = inherited.file_limit,
                   .stdin_fd = no_input.get(),
                   .stdout_fd = files.out.get(),
                   .stderr_fd = files.err.get()};
    if (mpi_)
        mpi_->prepare(rank.plan().local_rank, spec);
    Child child;
    try {
        child = rank.start(spec, [this](RankProcess& ended) { on_end(ended); });
    } catch (...) {
        rank.apply(RankEvent::start_failed);
        throw;
    }
    rank.apply(RankEvent::started);
    if (mpi_)
        mpi_->was_started(rank.plan().local_rank);
    follower_.add_rank(rank.plan().rank, rank.plan().local_rank, files);
    log_room_.add_rank(files);
    callbacks_.report(RankStarted{.rank = rank.plan().rank,
                                  .local_rank = rank.plan().local_rank,
                                  .pid = rank.pid(),
                                  .gpu = rank.plan().binding.gpu});
    warn_about_placement(rank, child);
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

void Generation::apply_to_all(RankEvent event, std::chrono::milliseconds grace) {
    grace_ = grace;
    for (auto& rank : ranks_)
        act(rank, rank.apply(event));
}

void Generation::act(RankProcess& rank, RankAction action) {
    switch (action) {
        case RankAction::none:
            return;
        case RankAction::send_stop_message:
            return ask_to_stop(rank);
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

// A rank that hung up its session after it promised to listen to it gets the signal after all.
void Generation::ask_to_stop(RankProcess& rank) {
    const std::chrono::duration<double> grace = grace_;
    const std::chrono::duration<double> until =
        std::chrono::steady_clock::now().time_since_epoch() + grace;
    const session::Stop stop{
        .reason = "the job is to stop", .grace_seconds = grace.count(), .until = until.count()};
    if (!sockets_.session->send_stop(rank.plan().rank, stop))
        act(rank, rank.apply(RankEvent::peer_failed));
}

void Generation::request_checkpoint(int number) {
    for (auto& rank : ranks_) {
        if (!rank.alive())
            continue;
        const bool told = sockets_.session->send_checkpoint(rank.plan().rank);
        if (!told && rank.catches(number))
            rank.send(number);
    }
}

void Generation::forward(int number) {
    for (auto& rank : ranks_)
        if (rank.alive() && rank.catches(number))
            rank.send(number);
}

void Generation::on_end(RankProcess& rank) {
    RankExited end = rank.exited();
    if (mpi_)
        mpi_->correct(end);
    if (is_failure(end) && !first_failure())
        failed_at_ = std::chrono::steady_clock::now();
    exits_.push_back(end);
    follower_.rank_ended(rank.plan().rank);
    if (gpu_watch_)
        gpu_watch_->rank_ended(rank.plan().rank);
    callbacks_.report(end);
    callbacks_.rank_ended();
}

bool Generation::all_ended() const {
    return std::none_of(ranks_.begin(), ranks_.end(),
                        [](const RankProcess& rank) { return rank.alive(); });
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
    return pids;
}

std::vector<LiveRank> Generation::live_ranks() const {
    std::vector<LiveRank> live;
    for (const auto& rank : ranks_)
        if (rank.alive())
            live.push_back({rank.plan().rank, rank.pid()});
    return live;
}

std::optional<RankExited> Generation::first_failure() const {
    const auto found = std::find_if(exits_.begin(), exits_.end(), is_failure);
    return found == exits_.end() ? std::nullopt : std::optional(*found);
}

control::RankFailed Generation::describe_failure() const {
    const RankExited first = first_failure().value();
    control::RankFailed failed;
    failed.generation = number_;
    failed.end = first;
    failed.age_us =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                       std::chrono::steady_clock::now() - failed_at_)
                                       .count());
    failed.hostname = plan_.hostname;
    for (const auto& rank : plan_.ranks)
        if (rank.rank == first.rank)
            failed.gpu = rank.binding.gpu;
    const auto directory = rank_directory(plan_.run_dir, number_, first.rank);
    failed.stderr_path = directory / "stderr";
    failed.stdout_path = directory / "stdout";
    std::error_code unknown;  // one that cannot be looked at may be there
    if (std::filesystem::exists(directory / "error.json", unknown) || unknown)
        failed.error_file_path = directory / "error.json";
    put_evidence(collect_evidence(failed.stderr_path, failed.stdout_path, failed.error_file_path),
                 failed);
    failed.no_room = why_no_room(directory);
    const int task = has_stand_in(stand_ins_, first.local_rank) ? first.local_rank : 0;
    const auto before = oom_kills_before_.at(static_cast<std::size_t>(task));
    const auto oom_kills = read_oom_kills(process_of_task(stand_ins_, task));
    if (oom_kills && before)
        failed.oom_kills = *oom_kills - *before;
    return failed;
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
    if (const std::string full = log_room_.keep(); !full.empty())
        callbacks_.report(WarningRaised{full});
}

void Generation::finish(LineSink& console) {
    watch_.reset();
    gpu_watch_.reset();
    const auto not_ours = node_.gpu_inquiry ? node_.gpu_inquiry->dying() : std::vector<pid_t>{};
    bool all_ended = end_children(not_ours, patience(plan_.spec));
    if (stand_ins_ != nullptr)
        all_ended = stand_ins_->end_offspring(patience(plan_.spec)) && all_ended;
    if (!all_ended)
        callbacks_.report(WarningRaised{
            "some processes that the ranks started do not end; they hang in the kernel"});
    follower_.drain(console, patience(plan_.spec));
    if (const std::string missing = log_room_.given_up(); !missing.empty())
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
        rank->set_last_step(step->step);
        callbacks_.report(StepReported{.rank = peer.rank,
                                       .step = step->step,
                                       .total_steps = step->total_steps,
                                       .tokens = step->tokens,
                                       .loss = step->loss,
                                       .seconds = step->seconds});
    } else if (const auto* saved = std::get_if<session::Checkpoint>(&message)) {
        checkpoint_step_ = std::max(saved->step, checkpoint_step_.value_or(saved->step));
        callbacks_.report(CheckpointPublished{.rank = peer.rank,
                                              .step = saved->step,
                                              .path = saved->path,
                                              .stall_seconds = saved->stall_seconds});
    } else if (const auto* text = std::get_if<session::Message>(&message)) {
        callbacks_.report(MessageReported{.rank = peer.rank, .text = text->text});
    } else if (const auto* recorder = std::get_if<session::Recorder>(&message)) {
        recorders_.take(peer.rank, recorder->file);
    } else if (const auto* asked = std::get_if<session::MemoryAsked>(&message)) {
        if (node_.memory != nullptr)
            node_.memory->answer(peer.rank, number_, *asked);
    } else if (std::holds_alternative<session::HandlesStop>(message)) {
        act(*rank, rank->apply(RankEvent::declared_cooperative));
    }
}

}  // namespace autolaunch::launcher
