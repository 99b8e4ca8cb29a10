#include "generation/generation.hpp"

#include "session/environment.hpp"
#include "spawn/process_condition.hpp"
#include "spawn/process_tree.hpp"
#include "stopping/stop_signals.hpp"

#include <algorithm>
#include <csignal>
#include <utility>
#include <variant>

namespace autolaunch::launcher {

namespace {

constexpr int kMostWarnings = 8;              // of ranks, on the screen
constexpr std::size_t kMostPhaseBytes = 200;  // of its name, on the screen

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
        const auto stayed = std::find_if(kept.processes.begin(), kept.processes.end(),
                                         [&](const RankProcess& process) {
                                             return process.local_rank() == rank.local_rank &&
                                                    process.state() == RankState::left;
                                         });
        if (stayed != kept.processes.end()) {
            stayed->take_plan(rank);
            ranks_.splice(ranks_.end(), kept.processes, stayed);
            continue;
        }
        ranks_.emplace_back(
            node.io, rank,
            has_stand_in(rank.local_rank) ? &stand_ins_->host(rank.local_rank) : nullptr,
            maker_for(rank.local_rank));
    }
    if (node_.input != nullptr)
        node_.input->begin(number_);
    leave_trace();
    adopt(kept);
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
    if (node_.sampler != nullptr && node_.sampler->pid() > 0)
        pids.push_back(node_.sampler->pid());
    if (gpu_gauges_ && gpu_gauges_->pid() > 0)
        pids.push_back(gpu_gauges_->pid());
    if (node_.python != nullptr && node_.python->pid() > 0)
        pids.push_back(node_.python->pid());
    if (node_.packages != nullptr && node_.packages->pid() > 0)
        pids.push_back(node_.packages->pid());
    if (node_.secrets != nullptr && node_.secrets->asking() > 0)
        pids.push_back(node_.secrets->asking());
    if (node_.stage_in != nullptr)
        for (const pid_t pid : node_.stage_in->pids())
            pids.push_back(pid);
    if (node_.stage_out != nullptr && node_.stage_out->pid() > 0)
        pids.push_back(node_.stage_out->pid());
    if (node_.warm != nullptr)
        for (const pid_t spare : node_.warm->pids())
            pids.push_back(spare);
    return pids;
}

std::vector<LiveRank> Generation::live_ranks() const {
    std::vector<LiveRank> live;
    for (const auto& rank : ranks_)
        if (rank.in_generation())
            live.push_back(
                {rank.plan().rank, rank.program_pid(), process_condition(rank.program_pid())});
    return live;
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
    see_spares();
    if (const std::string full = log_room_.keep(live_pids()); !full.empty())
        callbacks_.report(WarningRaised{full});
    report_packages();
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
    if (const auto* hello = std::get_if<session::Hello>(&message)) {
        if (node_.warm != nullptr)
            node_.warm->rank_said_hello(rank->plan().local_rank, peer.kernel_pid, hello->spares);
    } else if (const auto* step = std::get_if<session::Step>(&message)) {
        if (node_.warm != nullptr)
            node_.warm->rank_trains(rank->plan().local_rank);
        cannot_resume_.clear();
        rank->set_last_step(step->step);
        callbacks_.report(StepReported{.rank = peer.rank,
                                       .step = step->step,
                                       .total_steps = step->total_steps,
                                       .tokens = step->tokens,
                                       .loss = step->loss,
                                       .seconds = step->seconds,
                                       .input_seconds = step->input_seconds});
    } else if (const auto* saved = std::get_if<session::Checkpoint>(&message)) {
        cannot_resume_.clear();
        checkpoint_step_ = std::max(saved->step, checkpoint_step_.value_or(saved->step));
        callbacks_.report(CheckpointPublished{.rank = peer.rank,
                                              .step = saved->step,
                                              .path = saved->path,
                                              .stall_seconds = saved->stall_seconds,
                                              .save_seconds = saved->save_seconds,
                                              .bytes = saved->bytes});
    } else if (const auto* drained = std::get_if<session::CheckpointDrained>(&message)) {
        callbacks_.report(CheckpointDrained{.rank = peer.rank,
                                            .step = drained->step,
                                            .path = drained->path,
                                            .bytes = drained->bytes,
                                            .copied = drained->copied,
                                            .seconds = drained->seconds});
    } else if (const auto* loaded = std::get_if<session::CheckpointLoaded>(&message)) {
        callbacks_.report(
            CheckpointLoaded{.rank = peer.rank, .step = loaded->step, .path = loaded->path});
    } else if (const auto* deleted = std::get_if<session::CheckpointDeleted>(&message)) {
        callbacks_.report(CheckpointDeleted{.rank = peer.rank, .path = deleted->path});
    } else if (const auto* text = std::get_if<session::Message>(&message)) {
        callbacks_.report(MessageReported{.rank = peer.rank, .text = text->text});
        if (text->text.starts_with(session::kWarning) && warnings_shown_++ < kMostWarnings)
            callbacks_.report(WarningRaised{"rank " + std::to_string(peer.rank) + ": " +
                                            text->text.substr(session::kWarning.size())});
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
        rank->set_rejoins(rejoins->cannot.empty(), rejoins->renumbers);
    } else if (const auto* left = std::get_if<session::HasLeft>(&message)) {
        on_left(*rank, *left);
    } else if (std::holds_alternative<session::HandlesStop>(message)) {
        act(*rank, rank->apply(RankEvent::declared_cooperative));
    } else if (std::holds_alternative<session::HeardStop>(message)) {
        act(*rank, rank->apply(RankEvent::heard_stop));
    }
}

}  // namespace autolaunch::launcher
