// The end of a generation that some ranks outlive, and the beginning of the next one with them.
#include "generation/generation.hpp"
#include "session/descriptor_message.hpp"

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

namespace autolaunch::launcher {

// Empty: it can.
std::string Generation::why_not_kept(const RankProcess& rank) const {
    if (terminals_)
        return "logging.stdio is pty, and its terminal is its generation's";
    if (with_input_.contains(rank.plan().rank))
        return "it has the job's stdin, which begins anew";
    if (stand_ins_ != nullptr && rank.plan().local_rank > 0)
        return "it was started in another task of the scheduler";
    return {};
}

void Generation::ask_to_leave(const std::string& reason, std::chrono::milliseconds grace,
                              bool renumbers) {
    grace_ = grace;
    leave_reason_ = reason;
    std::string not_kept;
    for (auto& rank : ranks_) {
        const bool can = renumbers ? rank.renumbers() : rank.rejoins();
        std::string why = rank.alive() && can ? why_not_kept(rank) : std::string();
        const bool stays = can && why.empty();
        if (!why.empty() && not_kept.empty())
            not_kept = "rank " + std::to_string(rank.plan().rank) +
                       " is started anew, although it could go on: " + std::move(why);
        act(rank, rank.apply(stays ? RankEvent::leave : RankEvent::peer_failed));
    }
    if (!not_kept.empty())
        callbacks_.report(WarningRaised{not_kept});
}

void Generation::insist_on_leaving() {
    for (auto& rank : ranks_)
        if (rank.state() == RankState::leaving)
            act(rank, rank.apply(RankEvent::insist));
}

void Generation::send_leave(RankProcess& rank) {
    rank.wake();
    const session::LeaveGeneration leave{.generation = number_, .reason = leave_reason_};
    if (!sockets_.session->send_leave(rank.plan().rank, leave))
        act(rank, rank.apply(RankEvent::insist));
}

// What gives no descriptor cannot be told where to go on.
void Generation::on_left(RankProcess& rank, const session::HasLeft& left) {
    if (rank.state() != RankState::leaving || left.generation != number_ || !left.file)
        return;
    rank.set_word(std::move(*left.file));
    act(rank, rank.apply(RankEvent::has_left));
    callbacks_.rank_left();
}

KeptRanks Generation::give_left() {
    KeptRanks kept;
    for (auto at = ranks_.begin(); at != ranks_.end();) {
        const auto rank = at++;
        if (rank->state() != RankState::left)
            continue;
        const int number = rank->plan().rank;
        RankFiles& files = kept.files[rank->local_rank()];
        files.directory = failures_.folder_of(number);
        files.stdout_path = files.directory / "stdout";
        files.stderr_path = files.directory / "stderr";
        files.stdout_start = follower_.read_to(number, OutputStream::out).value_or(0);
        files.stderr_start = follower_.read_to(number, OutputStream::err).value_or(0);
        kept.log_room->take_over(log_room_, files.directory);
        rank->hand_over([](RankProcess&) {});
        kept.processes.splice(kept.processes.end(), ranks_, rank);
    }
    return kept;
}

// Before any rank is started: those that stay have most to do.
void Generation::adopt(KeptRanks& kept) {
    for (auto& rank : ranks_) {
        if (rank.state() != RankState::left)
            continue;
        const int number = rank.plan().rank;
        const RankFiles& files = kept.files.at(rank.local_rank());
        rank.hand_over([this](RankProcess& ended) { on_end(ended); });
        rank.apply(RankEvent::rejoined);
        failures_.logs_are_in(number, files.directory);
        log_room_.take_over(*kept.log_room, files.directory);
        follow_rank(rank, files);
        callbacks_.report(RankStarted{.rank = number,
                                      .local_rank = rank.plan().local_rank,
                                      .pid = rank.pid(),
                                      .gpu = rank.plan().binding.gpu,
                                      .stayed = true});
        if (!send_next(rank))
            rank.send(SIGKILL);  // its end is this generation's first
    }
}

bool Generation::send_next(RankProcess& rank) {
    const GenerationFacts& facts = sockets_.facts;
    const std::string line = session::format(
        session::AgentMessage(session::NextGeneration{.generation = number_,
                                                      .socket = facts.socket_path,
                                                      .store = facts.store_address,
                                                      .store_token = facts.store_token,
                                                      .master_address = facts.master_addr,
                                                      .master_port = facts.master_port,
                                                      .rank = rank.plan().rank,
                                                      .world_size = plan_.world_size,
                                                      .node_rank = plan_.group_rank,
                                                      .node_count = plan_.node_count,
                                                      .role_rank = rank.plan().role_rank,
                                                      .role_size = rank.plan().role_size}));
    const UniqueFd word = rank.take_word();
    return send_with_descriptor(word.get(), line, -1) == static_cast<long>(line.size());
}

}  // namespace autolaunch::launcher
